import re

from hypothesis import given, strategies

from hermes.mcp.names import LONGEST, Origin, tool_names


def test_names_that_would_be_the_same_are_told_apart_always_in_the_same_way() -> None:
    origins = [Origin("a", "b_c"), Origin("a_b", "c"), Origin("a", "b.c"), Origin("a", "b_c", True)]
    names = tool_names(origins)
    assert names[origins[0]] == "mcp_a_b_c"
    assert len(set(names.values())) == 4
    assert all(name.startswith("mcp_a_b_c") for name in names.values())
    assert tool_names(origins) == names


def test_a_long_name_is_cut_and_still_its_own() -> None:
    one, other = Origin("server", "x" * 100), Origin("server", "x" * 99 + "y")
    names = tool_names([one, other])
    assert names[one] != names[other]
    assert {len(name) for name in names.values()} == {LONGEST}


@given(
    strategies.lists(strategies.builds(Origin, strategies.text(), strategies.text()), unique=True)
)
def test_every_name_is_one_that_providers_take(origins: list[Origin]) -> None:
    names = tool_names(origins)
    assert len(set(names.values())) == len(origins)
    for name in names.values():
        assert re.fullmatch(r"[a-zA-Z0-9_]{1,64}", name)

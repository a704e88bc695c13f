import re

from hypothesis import given, strategies

from hermes.mcp.tools import MAX_NAME_CHARS, ToolOrigin, assign_names


def test_equal_names_get_stable_suffixes() -> None:
    origins = [
        ToolOrigin("a", "b_c"),
        ToolOrigin("a_b", "c"),
        ToolOrigin("a", "b.c"),
        ToolOrigin("a", "b_c", True),
    ]
    names = assign_names(origins)
    assert names[origins[0]] == "mcp_a_b_c"
    assert len(set(names.values())) == 4
    assert all(name.startswith("mcp_a_b_c") for name in names.values())
    assert assign_names(origins) == names


def test_a_long_name_is_cut_and_still_its_own() -> None:
    one, other = ToolOrigin("server", "x" * 100), ToolOrigin("server", "x" * 99 + "y")
    names = assign_names([one, other])
    assert names[one] != names[other]
    assert {len(name) for name in names.values()} == {MAX_NAME_CHARS}


@given(
    strategies.lists(
        strategies.builds(ToolOrigin, strategies.text(), strategies.text()), unique=True
    )
)
def test_every_name_is_one_that_providers_take(origins: list[ToolOrigin]) -> None:
    names = assign_names(origins)
    assert len(set(names.values())) == len(origins)
    for name in names.values():
        assert re.fullmatch(r"[a-zA-Z0-9_]{1,64}", name)

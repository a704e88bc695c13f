"""Which command lines only look, so that no checkpoint is taken before them."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.security.read_only import is_read_only


def cases(name: str) -> list[str]:
    """One a line; a here-document goes up to its end."""
    found: list[str] = []
    lines = iter(Path(__file__).with_name(name).read_text("utf-8").splitlines()[1:])
    for line in lines:
        while "EOF" in line and not line.endswith("\nEOF"):
            line += "\n" + next(lines)
        found.append(line)
    return found


LOOKS, CHANGES = cases("read-only.txt"), cases("changing.txt")


# One test for each list: a failure names every line that is wrong.


def test_reading_commands_are_read_only() -> None:
    assert [command for command in LOOKS if not is_read_only(command)] == []


def test_other_commands_are_not_read_only() -> None:
    assert [command for command in ["", "#", *CHANGES] if is_read_only(command)] == []


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(LOOKS), st.sampled_from(CHANGES[:100]))
def test_one_program_that_changes_something_is_enough(look: str, change: str) -> None:
    assert not is_read_only(f"{look}\n{change}")
    assert not is_read_only(f"{change}\n{look}")


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=100))
def test_any_text_gets_an_answer(command: str) -> None:
    assert is_read_only(command) in (True, False)


@pytest.mark.parametrize(
    "command", ["(" * 3_000, "ls;" * 3_000, "x" * 300_000, "uniq " + "-" * 15_000]
)
def test_commands_built_to_exhaust_the_parser_get_an_answer(command: str) -> None:
    assert not is_read_only(command + " >x")

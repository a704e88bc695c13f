"""What a number means."""

import pytest

from hermes.tools.builtin.terminal import exit_note


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("grep x file", 1, "nothing matched"),
        ("cat f | /usr/bin/grep -c x", 1, "nothing matched"),
        ("cd src && LC_ALL=C rg x .", 1, "nothing matched"),
        ("sudo git grep x", 1, "nothing matched"),
        ("! diff a b", 1, "differ"),
        ("git diff --exit-code", 1, "differ"),
        ("[ -e x ]", 1, "condition"),
        ("timeout 5 sleep 10", 124, "`timeout` ended it"),
        ("frobnicate", 127, "not found"),
        ("(echo a; grep b c)", 1, "nothing matched"),
        ("make", 137, "memory"),
        ("pytest -k nothing", 5, "no test"),
        ("grep x file", 2, ""),
        ("grep x file | wc -l", 1, ""),
        ("make", 1, ""),
        ("", 1, ""),
        ("&& |", 2, ""),
    ],
)
def test_codes_of_programs(command: str, code: int, words: str) -> None:
    note = exit_note(command, code)
    assert words in note
    assert bool(note) == bool(words)

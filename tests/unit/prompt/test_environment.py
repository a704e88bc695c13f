"""Which kind of machine this is."""

import pytest

from hermes.prompt.assembly import (
    CONTAINER_HINT,
    Environment,
    detect,
    environment_hints,
    this_machine,
)

WSL2 = "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@941d701f84f1)"
WSL1 = "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com)"
DEBIAN = "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)"


@pytest.mark.parametrize(
    ("version", "paths", "expected"),
    [
        (WSL2, set(), Environment(wsl=True)),
        (WSL1, set(), Environment(wsl=True)),
        (DEBIAN, set(), Environment()),
        ("", set(), Environment()),
        (DEBIAN, {"/.dockerenv"}, Environment(container=True)),
        (DEBIAN, {"/run/.containerenv"}, Environment(container=True)),
        (WSL2, {"/.dockerenv"}, Environment(wsl=True, container=True)),
        (DEBIAN, {"/data/data/com.termux/files/usr"}, Environment(termux=True)),
    ],
)
def test_the_machine_is_known_by_its_marks(version: str, paths: set[str], expected: Environment):
    assert detect(version, paths.__contains__) == expected


def test_an_ordinary_machine_needs_no_hint():
    assert environment_hints(Environment()) == ""
    assert environment_hints(Environment(container=True)) == CONTAINER_HINT


def test_looking_at_this_machine_works_wherever_the_tests_run():
    assert isinstance(this_machine(), Environment)

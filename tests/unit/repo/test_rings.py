"""The two rings of tests and the list of skipped tests."""

import ast
from pathlib import Path
from types import SimpleNamespace

from tests.cases import cases
from tests.rings import RINGS, Rings, find_program, missing_library, skip_counts

CASES = cases(__file__)

REPO = Path(__file__).parents[3]
LISTS = """
b = ["tests/slow", "tests/fast/test_one.py::test_storm"]
a = ["tests/slow/test_small.py"]
unit_tests_with_programs = ["tests/unit/test_editor.py"]

[twins]
"tests/fast" = "postgresql"

[needs]
"tests/slow" = ["tmux"]
"""


def test_longest_entry_decides_the_ring() -> None:
    expected = dict(CASES["rings"])
    assert {nodeid: Rings(LISTS).ring(nodeid) for nodeid in expected} == expected


def test_folders_without_a_test_of_the_ring_are_not_collected() -> None:
    rings = Rings(LISTS)
    assert rings.has("tests/slow", "a")
    assert not rings.has("tests/slow/test_big.py", "a")
    assert rings.has("tests/fast/test_one.py", "b")
    assert rings.has("tests/fast/test_two.py", "b")
    assert not rings.has("tests/other", "b")
    assert rings.has("tests", "a")
    assert rings.has("tests", "b")


def test_needs_are_listed_by_folder() -> None:
    assert Rings(LISTS).programs("tests/slow/test_big.py::test_x") == ["tmux"]
    assert Rings(LISTS).programs("tests/fast/test_one.py::test_x") == []


def test_unit_tests_start_no_programs_unless_they_are_listed() -> None:
    rings = Rings(LISTS)
    assert rings.may_start_programs("tests/unit/test_editor.py::test_x[1]")
    assert not rings.may_start_programs("tests/unit/test_parser.py::test_x")
    assert rings.may_start_programs("tests/slow/test_big.py::test_x")


def test_every_entry_matches_something() -> None:
    entries = (*RINGS.entries, *RINGS.needs, *RINGS.twins, *RINGS.programs_allowed)
    assert [entry for entry in entries if not _is_there(entry)] == []


def _is_there(entry: str) -> bool:
    path, _, test = entry.partition("::")
    file = REPO / path
    if not test or not file.is_file():
        return file.exists() and not test
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return any(isinstance(node, kinds) and node.name == test for node in ast.walk(tree))


def test_skips_are_counted_by_program() -> None:
    reports = [
        SimpleNamespace(longrepr=("test_a.py", 3, "Skipped: needs tmux, bwrap")),
        SimpleNamespace(longrepr=("test_b.py", 4, "Skipped: needs tmux")),
        SimpleNamespace(longrepr=("test_c.py", 5, "Skipped: no IPv6 here")),
    ]
    assert sorted(skip_counts(reports)) == [
        ("needs bwrap", 1),
        ("needs tmux", 2),
        ("no IPv6 here", 1),
    ]


def test_only_missing_foreign_libraries_are_excused() -> None:
    error = "E   ModuleNotFoundError: No module named '{}'"
    assert missing_library(error.format("telegram.ext")) == "telegram"
    assert missing_library(error.format("hermes.store.gone")) is None
    assert missing_library(error.format("tests.gone")) is None
    assert missing_library("E   ImportError: cannot import name 'x' from 'telegram'") is None


def test_program_lookup() -> None:
    assert find_program("sh")
    assert find_program("no-such-program-anywhere") is None

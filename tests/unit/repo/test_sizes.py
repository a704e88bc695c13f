"""The size gate finds planted violations and accepts the repository's own rules."""

from pathlib import Path
from textwrap import dedent

import pytest

from scripts import sizes
from tests.cases import cases

CASES = cases(__file__)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "src" / "hermes"
    folder.mkdir(parents=True)
    (folder / "fine.py").write_text('"""Fine."""\n\n\ndef fine() -> int:\n    return 1\n')
    return folder


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    folder = tmp_path / "tests"
    folder.mkdir()
    return folder


def failing(package: Path, tests: Path, **options: object) -> dict[str, list[str]]:
    """Row name -> places over the limit."""
    rows = sizes.measure(package, tests, **{"exemptions": {}, **options})
    return {row.name: [case.place for case in row.failures] for row in rows if row.failures}


def plant(package: Path, name: str, text: str) -> None:
    path = package / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))


def test_small_clean_code_passes(package: Path, tests: Path) -> None:
    assert failing(package, tests) == {}


PLANTED = CASES["planted"]


@pytest.mark.parametrize("row", PLANTED)
def test_planted_violation_fails_its_row(package: Path, tests: Path, row: str) -> None:
    name, head, *repeated = PLANTED[row]
    plant(package, name, head + (repeated[0] * repeated[1] if repeated else ""))
    assert row in failing(package, tests)


def test_every_row_has_a_planted_violation(package: Path, tests: Path) -> None:
    rows = {row.name for row in sizes.measure(package, tests)}
    assert rows == {*PLANTED, "patches per test"}


@pytest.mark.parametrize(("name", "text", "found"), CASES["exceptions"])
def test_the_environment_and_exceptions(package, tests, name, text, found) -> None:
    plant(package, name, text)
    assert failing(package, tests) == found


def test_core_testing_is_not_counted_as_core(package: Path, tests: Path) -> None:
    for number in range(7):
        plant(package, f"core/testing/k{number}.py", "x = 1\n" * 140)
        plant(package, f"agent/k{number}.py", "x = 1\n" * 140)
        plant(package, f"core/k{number}.py", "x = 1\n" * 140)
    rows = {row.name: row.worst.value for row in sizes.measure(package, tests, {})}
    assert rows["lines of core and agent"] == 14 * 140


def test_too_many_patches_fail_and_setting_variables_is_not_a_patch(package, tests) -> None:
    (tests / "test_a.py").write_text("def test_a(monkeypatch):\n    monkeypatch.setenv('A', 'b')\n")
    assert failing(package, tests) == {}
    patch = "def test_a(monkeypatch):\n    monkeypatch.setattr('os.name', 'x')\n"
    (tests / "test_a.py").write_text(patch)
    assert failing(package, tests) == {"patches per test": ["tests/test_a.py:2"]}


def test_exemption_with_a_reason_is_shown_and_accepted(package: Path, tests: Path) -> None:
    plant(package, "big.py", "x = 1\n" * 801)
    plant(package, "tiny.py", "x = 1\n")
    exemptions = {("lines of the largest file", "hermes/big.py"): "a table of data"}
    assert failing(package, tests, exemptions=exemptions) == {}
    table = sizes.render(sizes.measure(package, tests, exemptions))
    assert "exempt  lines of the largest file: hermes/big.py: a table of data" in table


def test_exemption_that_is_not_needed_fails(package: Path, tests: Path) -> None:
    exemptions = {("lines of the largest file", "hermes/fine.py"): "was big once"}
    rows = sizes.measure(package, tests, exemptions)
    assert "exemption not needed: hermes/fine.py" in sizes.render(rows)
    assert any(row.unused for row in rows)

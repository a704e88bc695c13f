"""A pytest plugin: the two rings of tests, tests that need a program, the slowest tests of a run.

- `--ring a` runs what `make test` runs, `--ring b` the rest. `tests/rings.toml` says which folders,
  files and tests belong to ring B; everything else is ring A.
- A test that needs a program which is not installed is skipped with the reason `needs PROGRAM`:
  with the marker `requires("tmux")`, with `need("tmux")` in a fixture, or by an entry under
  `[needs]` in `tests/rings.toml`. A test file or conftest that imports a missing library is
  skipped test by test. The end of the run has one line for each missing program.
- A run of a ring prints its 50 slowest tests and writes all durations to `.cache/durations.json`.
"""

import ast
import collections
import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

SLOWEST = 50
OURS = frozenset({"hermes", "hermes_plugins", "tests", "bench", "scripts"})
"""Packages of this repository: a test that cannot import one of these fails."""

LISTS = Path(__file__).with_name("rings.toml")


class Rings:
    """The lists of `rings.toml`: an entry is a folder, a file or `file::test`; the longest wins."""

    def __init__(self, text: str) -> None:
        lists = tomllib.loads(text)
        self.entries = {entry: ring for ring in ("a", "b") for entry in lists.get(ring, [])}
        self.twins: dict[str, str] = lists.get("twins", {})
        self.needs: dict[str, list[str]] = lists.get("needs", {})
        self.programs_allowed = frozenset(lists.get("unit_tests_with_programs", ()))

    def ring(self, nodeid: str) -> str:
        """The ring of a test, a file or a folder."""
        parameters = nodeid.partition("[")[2].rstrip("]").split("-")
        if any(_is_within(nodeid, e) and twin in parameters for e, twin in self.twins.items()):
            return "b"
        return next((self.entries[p] for p in _places(nodeid) if p in self.entries), "a")

    def has(self, path: str, ring: str) -> bool:
        """Whether a file or folder may hold a test of `ring`."""
        inside = (self.entries[entry] for entry in self.entries if _is_within(entry, path))
        if self.ring(path) == ring or ring in inside:
            return True
        twins = any(_is_within(path, entry) or _is_within(entry, path) for entry in self.twins)
        return ring == "b" and twins

    def programs(self, nodeid: str) -> list[str]:
        """The programs that `[needs]` lists for a test."""
        return [program for place in _places(nodeid) for program in self.needs.get(place, ())]

    def may_start_programs(self, nodeid: str) -> bool:
        """Whether a test may start programs: unit tests may not, except the listed ones."""
        if not nodeid.startswith("tests/unit/"):
            return True
        return not self.programs_allowed.isdisjoint(_places(nodeid))


def _places(nodeid: str) -> Iterator[str]:
    """A test, its function, its file and the folders around it."""
    yield nodeid
    for mark in "[", "::", "/":
        while mark in nodeid:
            nodeid = nodeid.rpartition(mark)[0]
            yield nodeid


def _is_within(nodeid: str, entry: str) -> bool:
    return nodeid == entry or nodeid.startswith((f"{entry}/", f"{entry}::", f"{entry}["))


RINGS = Rings(LISTS.read_text(encoding="utf-8"))


def find_program(name: str) -> str | None:
    """The path of a program; servers are looked up in the folders of the administrator too."""
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin")


def need(*programs: str) -> None:
    """Skip the running test unless every program is installed."""
    missing = [name for name in programs if find_program(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ring", choices=("a", "b"), help="run only the tests of this ring")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "requires(*programs): skipped where one of the programs is not installed"
    )
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunReport(config), "hermes-run-report")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    ring = config.getoption("--ring")
    if ring is None or not collection_path.is_relative_to(config.rootpath / "tests"):
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    return None if RINGS.has(name, ring) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ring = config.getoption("--ring")
    if ring is None:
        return
    found: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        found[RINGS.ring(item.nodeid) == ring].append(item)
    config.hook.pytest_deselected(items=found[False])
    items[:] = found[True]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    need(*RINGS.programs(item.nodeid))
    for marker in item.iter_markers("requires"):
        need(*marker.args)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test in a worker of pytest-xdist and send one report of it, not five messages.

    A report of a setup or teardown that passed says only how long it took; the report of the call
    takes that over.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    call = next((report for report in reports if report.when == "call"), None)
    for report in reports:
        if report is call:
            call.duration = sum(each.duration for each in reports)
        if report is call or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


class MissingLibraryItem(pytest.Item):
    """Stands for a test whose file could not be imported because a library is missing."""

    library = ""

    def setup(self) -> None:
        pytest.skip(f"needs the Python package {self.library}")

    def runtest(self) -> None:
        raise AssertionError("setup() skips")

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Iterator[None]:
    """Replace the failed import of a library by one skipped test for each test of the file.

    A skip of the whole file would not be counted: pytest-xdist drops it.
    """
    report: pytest.CollectReport = yield  # type: ignore[misc, assignment]
    if report.failed and (library := missing_library(report.longreprtext)):
        report.outcome, report.longrepr = "passed", None
        report.result = list(_stand_ins(collector, library))
    return report  # type: ignore[return-value]


def missing_library(text: str) -> str | None:
    """The foreign package that an import error names last, if it is really not installed."""
    names = re.findall(r"ModuleNotFoundError: No module named '([\w.]+)'", text)
    package = names[-1].partition(".")[0] if names else ""
    return None if not package or package in OURS | sys.stdlib_module_names else package


def _stand_ins(collector: pytest.Collector, library: str) -> Iterator[MissingLibraryItem]:
    path = collector.path
    for file in sorted(path.rglob("test_*.py")) if path.is_dir() else [path]:
        for name in _test_names(file):
            where = f"{file.relative_to(path).as_posix()}::{name}" if path.is_dir() else name
            item = MissingLibraryItem.from_parent(collector, name=where)
            item.library = library
            yield item


def _test_names(file: Path) -> list[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [n.name for n in ast.walk(tree) if isinstance(n, kinds) and n.name.startswith("test_")]


class RunReport:
    """Collects durations and skips of a run, and prints them at its end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._durations: collections.Counter[str] = collections.Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._durations[report.nodeid] += report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._config.getoption("--ring") is not None:
            self._write(self._config.rootpath / ".cache" / "durations.json")
            terminalreporter.section(f"{SLOWEST} slowest tests")
            for nodeid, seconds in self._durations.most_common(SLOWEST):
                terminalreporter.line(f"{seconds:7.2f}s {nodeid}")
        for reason, count in skip_counts(terminalreporter.stats.get("skipped", [])):
            tests = "test" if count == 1 else "tests"
            terminalreporter.line(f"skipped {count} {tests}: {reason}")

    def _write(self, file: Path) -> None:
        """Merge this run into the file; tests of files that are gone are dropped."""
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            known = {}
        known.update({nodeid: round(seconds, 3) for nodeid, seconds in self._durations.items()})
        root = self._config.rootpath
        there = {name: (root / name).exists() for name in {n.partition("::")[0] for n in known}}
        kept = {n: known[n] for n in sorted(known) if there[n.partition("::")[0]]}
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(kept, indent=0), encoding="utf-8")


def skip_counts(reports: Iterable[Any]) -> list[tuple[str, int]]:
    """How many tests were skipped for each reason; a missing program is a reason of its own."""
    counts: collections.Counter[str] = collections.Counter()
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if reason.startswith("needs "):
            counts.update(f"needs {name}" for name in reason.removeprefix("needs ").split(", "))
        else:
            counts[reason] += 1
    return counts.most_common()

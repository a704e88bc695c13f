"""Searching local folders with ripgrep and with our own walk gives the same results."""

import asyncio
import os
import random
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted
from hermes.terminal import GrepQuery, GrepResult, LocalFiles
from hermes.terminal.local import search
from hermes.terminal.local.search import (
    NameGlob,
    SearchStopped,
    find_files,
    grep_files,
    is_ignored,
    parse_gitignore,
)
from tests.cases import cases

CASES = cases(__file__)


@pytest.fixture(params=["walk", "ripgrep"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> LocalFiles:
    program = "" if request.param == "walk" else shutil.which("rg")
    if program is None:
        pytest.skip("needs rg")
    return LocalFiles(lambda: str(tmp_path), tmp_path, ripgrep=program)


async def grep(files: LocalFiles, tree: Path, pattern: str, **options: object) -> GrepResult:
    return await files.grep(GrepQuery(pattern, str(tree), **options), CancelToken())  # type: ignore[arg-type]


def relative(paths: Iterable[str], tree: Path) -> list[str]:
    return [os.path.relpath(path, tree) for path in paths]


def test_walk_checks_its_stop_flag(tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_text("x\n" * 10_000)
    stop = threading.Event()
    stop.set()
    with pytest.raises(SearchStopped):
        find_files("*", str(tmp_path), stop)
    with pytest.raises(SearchStopped):
        grep_files(GrepQuery("y", str(tmp_path / "many.txt")), stop)


@pytest.mark.parametrize(("rule", "path", "is_folder", "expected"), CASES["gitignore rules"])
def test_gitignore_rules(rule: str, path: str, is_folder: bool, expected: bool) -> None:
    assert bool(is_ignored(parse_gitignore(rule, ""), path, is_folder=is_folder)) is expected


def test_a_bare_word_matches_anywhere_in_a_name() -> None:
    assert NameGlob("conf").matches("src/myconfig.toml")
    assert not NameGlob("conf").matches("conf/other")


NAMES = ["a", "b.py", "c.log", "build", "src", "x y", "d.txt", ".h", "node", "é"]
RULES = [
    "*.log", "build/", "/src", "src/*", "!b.py", "!src/b.py", "**/a", "a/**", "*", "!*/", "node",
    "d.?xt", "[a-c].py", r"\!x", "# c", r"x\ y", "x y ", "/a/", "src/**/b.py", "!/src/a",
    "*.t[!a]t", "é", "build/*", "!build/keep", "a/", "**/build/", "b*", "!.h",
]  # fmt: skip


def grow(folder: Path, choose: random.Random, depth: int = 0) -> None:
    """A tree with rules and repositories strewn in."""
    for name in choose.sample(NAMES, choose.randint(2, 5)):
        path = folder / name
        if depth < 3 and choose.random() < 0.5:
            path.mkdir()
            grow(path, choose, depth + 1)
        else:
            path.write_text("needle\n")
    if choose.random() < 0.5:
        rules = choose.sample(RULES, choose.randint(1, 5))
        (folder / ".gitignore").write_text("\n".join(rules) + "\n")
    if choose.random() < (0.6 if depth == 0 else 0.1):
        (folder / ".git/info").mkdir(parents=True)
        (folder / ".git/info/exclude").write_text(choose.choice(RULES) + "\n")


@pytest.mark.parametrize("seed", range(40))
async def test_both_ways_leave_out_the_same(tmp_path: Path, seed: int) -> None:
    program = shutil.which("rg")
    if program is None:
        pytest.skip("needs rg")
    choose = random.Random(seed)
    grow(tmp_path, choose)
    folders = [path for path in tmp_path.rglob("*") if path.is_dir() and ".git" not in path.parts]
    for start in (tmp_path, *choose.sample(folders, min(3, len(folders)))):
        found = [
            await grep(LocalFiles(lambda: "/", tmp_path, ripgrep=way), start, "needle", limit=999)
            for way in ("", program)
        ]
        assert relative(found[0].counts, tmp_path) == relative(found[1].counts, tmp_path)


async def test_rules_of_other_programs_do_not_hide_files(files: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / ".ignore").write_text("*\n")
    (tmp_path / "a.txt").write_text("needle\n")
    assert len((await grep(files, tmp_path, "needle")).counts) == 1


async def test_much_output_can_be_stopped(files: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n" * 2_000_000)
    cancel = CancelToken()
    searching = asyncio.ensure_future(files.grep(GrepQuery("x", str(tmp_path)), cancel))
    await asyncio.sleep(0.05)
    assert not searching.done()
    cancel.cancel("enough")
    with pytest.raises(Interrupted):
        await searching


async def test_a_line_too_long_for_memory_is_left_out(tmp_path, monkeypatch):
    program = shutil.which("rg")
    if program is None:
        pytest.skip("needs rg")
    monkeypatch.setattr(search, "MAX_JSON_LINE", 100_000)
    (tmp_path / "a.txt").write_text("needle\n")
    (tmp_path / "b.txt").write_text("needle" + "x" * 500_000 + "\n")
    (tmp_path / "c.txt").write_text("needle\n")
    files = LocalFiles(lambda: str(tmp_path), tmp_path, ripgrep=program)
    assert relative((await grep(files, tmp_path, "needle")).counts, tmp_path) == ["a.txt", "c.txt"]

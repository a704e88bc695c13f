"""Searching a folder: with ripgrep where it is installed, and with our own walk. Same answers."""

import asyncio
import os
import random
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolArgumentsInvalid
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


@pytest.fixture(params=["walk", "ripgrep"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> LocalFiles:
    program = "" if request.param == "walk" else shutil.which("rg")
    if program is None:
        pytest.skip("needs rg")
    return LocalFiles(lambda: str(tmp_path), tmp_path, ripgrep=program)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    contents = {
        "a.py": "import os\nvalue = 1\nprint(value)\n",
        "b.txt": "value here\n",
        "src/c.py": "x\nvalue = 2\ny\nz\nvalue = 3\nw\n",
        "src/deep/d.py": "nothing\r\nvalue\r\n",
        "build/out.py": "value\n",
        "src/skip.log": "value\n",
        "src/keep.log": "value\n",
        ".hidden/e.py": "value\n",
        ".github/f.yml": "value\n",
        ".git/config": "value\n",
        ".gitignore": "build/\n*.log\n# comment\n",
        "src/.gitignore": "!keep.log\n",
    }
    for name, text in contents.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    (tmp_path / "binary.py").write_bytes(b"\0\1value\n")
    return tmp_path


async def grep(files: LocalFiles, tree: Path, pattern: str, **options: object) -> GrepResult:
    return await files.grep(GrepQuery(pattern, str(tree), **options), CancelToken())  # type: ignore[arg-type]


def relative(paths: Iterable[str], tree: Path) -> list[str]:
    return [os.path.relpath(path, tree) for path in paths]


def write_raw(path: bytes, data: bytes) -> None:
    Path(os.fsdecode(path)).write_bytes(data)


def short(grepped: GrepResult, tree: Path) -> list[str]:
    return [
        f"{os.path.relpath(hit.path, tree)}{':' if hit.match else '-'}{hit.line} {hit.text}"
        for hit in grepped.hits
    ]


async def test_lines_are_found_where_git_would_look(files: LocalFiles, tree: Path) -> None:
    found = await grep(files, tree, r"^value")
    counts = dict(zip(relative(found.counts, tree), found.counts.values(), strict=True))
    assert counts == {"a.py": 1, "b.txt": 1, "src/c.py": 2, "src/deep/d.py": 1, "src/keep.log": 1}
    assert short(found, tree)[:2] == ["a.py:2 value = 1", "b.txt:1 value here"]
    assert "src/deep/d.py:2 value" in short(found, tree)


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.py", ["a.py", "src/c.py", "src/deep/d.py"]),
        (".py", ["a.py", "src/c.py", "src/deep/d.py"]),
        ("src/**/*.py", ["src/c.py", "src/deep/d.py"]),
        ("src/*.py", ["src/c.py"]),
        ("*.{txt,log}", ["b.txt", "src/keep.log"]),
        ("[ab].*", ["a.py", "b.txt"]),
        (".github/*", [".github/f.yml"]),
        ("*.zig", []),
    ],
)
async def test_only_files_with_such_names(
    files: LocalFiles, tree: Path, glob: str, expected: list[str]
) -> None:
    found = await grep(files, tree, "value", file_glob=glob)
    assert relative(found.counts, tree) == expected


async def test_context_and_pages(files: LocalFiles, tree: Path) -> None:
    around = await grep(files, tree, "value =", file_glob="c.py", context=1)
    assert short(around, tree) == [
        "src/c.py-1 x", "src/c.py:2 value = 2", "src/c.py-3 y",
        "src/c.py-4 z", "src/c.py:5 value = 3", "src/c.py-6 w",
    ]  # fmt: skip
    second = await grep(files, tree, "^value", offset=1, limit=2)
    assert short(second, tree) == ["b.txt:1 value here", "src/c.py:2 value = 2"]
    assert sum(second.counts.values()) == 6


async def test_one_file_can_be_searched(files: LocalFiles, tree: Path) -> None:
    found = await grep(files, tree / "build/out.py", "value")
    assert list(found.counts.values()) == [1]


async def test_a_long_line_is_cut(files: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "long.js").write_text("var a='" + "x" * 500_000 + "needle'\n")
    found = await grep(files, tmp_path, "needle", longest=10)
    assert short(found, tmp_path) == ["long.js:1 var a='xxx [… line cut]"]


async def test_names_and_bytes_that_are_not_utf_8(files: LocalFiles, tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    write_raw(raw, b"caf\xe9 needle\n")
    found = await grep(files, tmp_path, "needle")
    assert [(os.fsencode(hit.path), hit.text) for hit in found.hits] == [(raw, "caf� needle")]


@pytest.mark.parametrize("pattern", ["(", "[a-", "*x", "a{2,1}"])
async def test_a_wrong_expression_is_explained(files: LocalFiles, tree: Path, pattern: str) -> None:
    with pytest.raises(ToolArgumentsInvalid, match="not a valid regular expression"):
        await grep(files, tree, pattern)


async def test_a_set_token_stops_the_search(files: LocalFiles, tree: Path) -> None:
    cancel = CancelToken()
    searching = asyncio.ensure_future(files.grep(GrepQuery("value", str(tree)), cancel))
    await asyncio.sleep(0)
    cancel.cancel("enough")
    with pytest.raises(Interrupted):
        await searching


def test_the_walk_looks_at_its_stop_flag(tree: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(SearchStopped):
        find_files("*", str(tree), stop)
    (tree / "many.txt").write_text("x\n" * 10_000)
    with pytest.raises(SearchStopped):
        grep_files(GrepQuery("y", str(tree / "many.txt")), stop)


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.py", ["a.py", "binary.py", "src/c.py", "src/deep/d.py"]),
        (".py", ["a.py", "binary.py", "src/c.py", "src/deep/d.py"]),
        ("py", ["a.py", "binary.py", "src/c.py", "src/deep/d.py"]),
        ("./src/*.py", ["src/c.py"]),
        ("**/deep/*", ["src/deep/d.py"]),
        ("?.txt", ["b.txt"]),
        (".gitignore", [".gitignore", "src/.gitignore"]),
        ("{a,b}.*", ["a.py", "b.txt"]),
        ("{a", []),
    ],
)
async def test_files_by_name(tree: Path, glob: str, expected: list[str]) -> None:
    files = LocalFiles(lambda: str(tree), tree)
    found = await files.find(glob, str(tree), CancelToken())
    assert relative(found, tree) == expected


async def test_rules_of_the_repository_hold_below_it(tree: Path) -> None:
    files = LocalFiles(lambda: str(tree), tree, ripgrep="")
    found = await files.find("*.log", str(tree / "src"), CancelToken())
    assert [Path(path).name for path in found] == ["keep.log"]
    found = await files.find("*", str(tree / "build"), CancelToken())
    assert [Path(path).name for path in found] == ["out.py"]


async def test_links_do_not_make_the_walk_endless(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a.py").touch()
    files = LocalFiles(lambda: str(tmp_path), tmp_path, ripgrep="")
    assert await files.find("*", str(tmp_path), CancelToken()) == [str(tmp_path / "a.py")]


@pytest.mark.parametrize(
    ("rule", "path", "is_folder", "expected"),
    [
        ("*.log", "a/b.log", False, True),
        ("/a", "a", False, True),
        ("/a", "b/a", False, False),
        ("a/b", "a/b", False, True),
        ("a/b", "x/a/b", False, False),
        ("build/", "build", True, True),
        ("build/", "build", False, False),
        ("**/x", "a/b/x", False, True),
        ("a/**", "a/b/c", False, True),
        ("a/**/z", "a/z", False, True),
        ("[!a].c", "b.c", False, True),
        ("[!a].c", "a.c", False, False),
        (r"\#x", "#x", False, True),
        ("{a}", "{a}", False, True),
        ("a?c", "abc", False, True),
        ("a?c", "a/c", False, False),
    ],
)
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


async def test_a_line_too_long_for_memory_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = shutil.which("rg")
    if program is None:
        pytest.skip("needs rg")
    monkeypatch.setattr(search, "MAX_JSON_LINE", 100_000)
    (tmp_path / "a.txt").write_text("needle\n")
    (tmp_path / "b.txt").write_text("needle" + "x" * 500_000 + "\n")
    (tmp_path / "c.txt").write_text("needle\n")
    files = LocalFiles(lambda: str(tmp_path), tmp_path, ripgrep=program)
    assert relative((await grep(files, tmp_path, "needle")).counts, tmp_path) == ["a.txt", "c.txt"]

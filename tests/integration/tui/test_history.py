"""The history of the input, also after a restart and with two processes, and its search."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory

from hermes.tui import history as module
from hermes.tui.history import MAX_ENTRIES, TRIM_SLACK, HistorySearch, InputHistory

APPENDING = """
import sys
from pathlib import Path
from hermes.tui.history import InputHistory as EntryHistory
history = EntryHistory(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    history.append_string(f"{sys.argv[2]} {number}\\nsecond line of {sys.argv[2]} {number}")
"""


async def loaded(file: Path) -> list[str]:
    """The oldest first."""
    return [entry async for entry in InputHistory(file).load()][::-1]


async def test_entries_survive_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "history"
    history = InputHistory(file)
    texts = ["first", "two\n\nlines\n", "+ begins like the format\n# and this too", "日本 👨‍👩‍👧"]
    for text in texts:
        history.append_string(text)
    assert history.newest_first()[0] == texts[-1]
    assert await loaded(file) == texts


async def test_the_file_is_that_of_prompt_toolkit(tmp_path: Path) -> None:
    file = tmp_path / "history"
    FileHistory(file).store_string("written\nbefore")
    InputHistory(file).append_string("written\nnow")
    assert await loaded(file) == ["written\nbefore", "written\nnow"]
    assert list(FileHistory(file).load_history_strings()) == ["written\nnow", "written\nbefore"]


async def test_the_file_is_private(tmp_path: Path) -> None:
    file = tmp_path / "history"
    InputHistory(file).append_string("x")
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    InputHistory(file).append_string("y")
    assert file.stat().st_mode & 0o777 == 0o600


async def test_the_same_twice_in_a_row_is_kept_once(tmp_path: Path) -> None:
    file = tmp_path / "history"
    history = InputHistory(file)
    for text in ("a", "a", "b", "a"):
        history.append_string(text)
    FileHistory(file).store_string("a")
    assert await loaded(file) == ["a", "b", "a"]


async def test_secrets_do_not_reach_the_file(tmp_path: Path) -> None:
    file = tmp_path / "history"
    history = InputHistory(file, lambda text: text.replace("hunter2", "…"))
    history.append_string("my password is hunter2")
    assert history.newest_first() == ["my password is hunter2"]
    assert b"hunter2" not in file.read_bytes()
    assert await loaded(file) == ["my password is …"]


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00garbage\n+ok\n",
        b"no entry at all\n+ok",
        b"+cut\xc3\n\n# 2026\n+ok\n",
        b"\n# 2026\n+\n\n# 2026\n+ok\n",
    ],
)
async def test_a_corrupt_file_gives_what_can_be_read(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "history"
    file.write_bytes(content)
    assert (await loaded(file))[-1] == "ok"
    InputHistory(file).append_string("next")
    assert (await loaded(file))[-1] == "next"


async def test_a_file_that_cannot_be_used_costs_only_the_history(tmp_path, caplog):
    history = InputHistory(tmp_path)  # a folder
    history.append_string("typed")
    assert history.newest_first() == ["typed"]
    assert await loaded(tmp_path) == []
    assert "cannot be written" in caplog.text and "cannot be read" in caplog.text


async def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_text(
        "".join(f"\n# time {n}\n+entry {n}\n" for n in range(MAX_ENTRIES + TRIM_SLACK + 1))
    )
    assert len(await loaded(file)) == MAX_ENTRIES
    kept = file.read_text()
    assert kept.startswith(f"\n# time {TRIM_SLACK + 1}\n+entry {TRIM_SLACK + 1}\n")
    assert kept.endswith(f"+entry {MAX_ENTRIES + TRIM_SLACK}\n")
    assert (await loaded(file))[-1] == f"entry {MAX_ENTRIES + TRIM_SLACK}"
    assert file.stat().st_mode & 0o777 == 0o600


async def test_of_a_huge_file_the_end_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_READ_BYTES", 200)
    file = tmp_path / "history"
    file.write_text("".join(f"\n# time\n+entry {n}\n" for n in range(50)))
    entries = await loaded(file)
    assert entries[-1] == "entry 49"
    assert 5 < len(entries) < 20
    assert all(entry.startswith("entry ") for entry in entries)
    assert file.stat().st_size <= 200


async def test_input_during_loading_is_neither_lost_nor_duplicated(tmp_path: Path) -> None:
    file = tmp_path / "history"
    InputHistory(file).append_string("old")
    history = InputHistory(file)
    history.append_string("new")
    assert [entry async for entry in history.load()] == ["new", "old"]
    loading = history.load()
    assert await anext(loading) == "new"
    history.append_string("newer")
    await loading.aclose()
    assert [entry async for entry in history.load()] == ["newer", "new", "old"]


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """While the file is cut to its size again and again."""
    file = tmp_path / "history"
    file.write_text("".join(f"\n# time\n+entry {n}\n" for n in range(MAX_ENTRIES + TRIM_SLACK + 1)))
    names, count = ("a", "b", "c"), 150
    running = [
        subprocess.Popen([sys.executable, "-c", APPENDING, file, name, str(count)])
        for name in names
    ]
    rounds = 0
    while any(process.poll() is None for process in running):
        rounds += 1
        if rounds <= 8:  # enough that it is too long once more
            more = "".join(f"\n# time\n+filler {rounds} {n}\n" for n in range(TRIM_SLACK + 100))
            with file.open("ab", buffering=0) as opened:
                opened.write(more.encode())
        asyncio.run(loaded(file))
    assert rounds > 2
    assert [process.returncode for process in running] == [0, 0, 0]
    entries = asyncio.run(loaded(file))
    for name in names:
        mine = [entry for entry in entries if entry.startswith(f"{name} ")]
        assert mine == [f"{name} {n}\nsecond line of {name} {n}" for n in range(count)]


@pytest.fixture
def buffer() -> Buffer:
    return Buffer(document=Document("a draft", 3))


@pytest.fixture
def search(tmp_path: Path, buffer: Buffer) -> HistorySearch:
    history = InputHistory(tmp_path / "history")
    for text in ("fix the parser", "write tests", "Fix the docs", "write tests"):
        history.append_string(text)
    search = HistorySearch(history)
    search.begin(buffer)
    return search


def test_the_newest_entry_is_found_first(search: HistorySearch, buffer: Buffer) -> None:
    assert buffer.text == "a draft"
    search.type("fi")
    search.type("x")
    assert (buffer.text, buffer.cursor_position) == ("Fix the docs", 0)
    assert search.prompt == "search: fix ❯"
    search.older()
    assert buffer.text == "fix the parser"
    search.older()
    assert buffer.text == "fix the parser"
    search.newer()
    assert buffer.text == "Fix the docs"
    search.take()
    assert not search.active
    assert buffer.text == "Fix the docs"


def test_entries_that_came_twice_are_found_once(search: HistorySearch, buffer: Buffer) -> None:
    search.type("te")
    assert (buffer.text, buffer.cursor_position) == ("write tests", 3)
    search.older()
    assert (buffer.text, buffer.cursor_position) == ("write tests", 3)


def test_no_match_says_so_and_can_be_shortened(search: HistorySearch, buffer: Buffer) -> None:
    search.type("pars")
    search.type("x")
    assert search.prompt == "no match: parsx ❯"
    assert buffer.text == "fix the parser"
    search.shorten()
    assert search.prompt == "search: pars ❯"
    for _ in range(9):
        search.shorten()
    assert (buffer.text, search.prompt) == ("a draft", "search:  ❯")


def test_any_other_action_ends_the_search(search: HistorySearch, buffer: Buffer) -> None:
    search.type("parser")
    buffer.cursor_position += 1
    assert not search.active
    assert buffer.text == "fix the parser"
    search.begin(buffer)
    search.type("docs")
    buffer.reset()
    assert not search.active

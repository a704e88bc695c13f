"""Ctrl-R shows what is found in the input itself, and gives back what was there."""

from pathlib import Path

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from hermes.tui.history import HistorySearch, InputHistory


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


def test_cancelling_brings_back_what_was_typed(search: HistorySearch, buffer: Buffer) -> None:
    search.type("parser")
    search.cancel()
    assert (buffer.text, buffer.cursor_position) == ("a draft", 3)
    assert not search.active


def test_whatever_else_is_done_ends_the_search(search: HistorySearch, buffer: Buffer) -> None:
    search.type("parser")
    buffer.cursor_position += 1
    assert not search.active
    assert buffer.text == "fix the parser"
    search.begin(buffer)
    search.type("docs")
    buffer.reset()
    assert not search.active

"""The terminal application: start-up, error handler and recap."""

import asyncio
import logging
from types import SimpleNamespace

from hermes.core.messages import Assistant, Text, ToolCall, ToolResult, User
from hermes.tui.plain import recap
from hermes.tui.terminal_ui import LoopErrorHandler, TerminalUI
from hermes.tui.text import Paint


def test_note_before_the_conversation_is_wrapped_between_words() -> None:
    printed: list[str] = []
    loop = SimpleNamespace(call_soon_threadsafe=lambda work, text: work(text))
    area = SimpleNamespace(loop=loop, is_running=True, print_above=printed.append)
    ui = SimpleNamespace(
        area=area,
        conversation=None,
        display=SimpleNamespace(paint=lambda _role, text: text),
        columns=lambda: 20,
    )
    assert TerminalUI.note(ui, "the plugin weather could not be loaded: no file plugin.py")
    assert printed == ["the plugin weather\ncould not be loaded:\nno file plugin.py\n"]


async def test_loop_error_is_shown_once_and_logged_each_time(caplog):
    told: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopErrorHandler(told.append))
    for wrong in ("paint", "paint", "key"):
        loop.call_soon({}.__getitem__, wrong)
    loop.call_exception_handler({"message": "without an exception"})
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told == [
        "hermes: unexpected error: without an exception; for details: hermes logs errors",
        "hermes: unexpected error: KeyError('paint'); for details: hermes logs errors",
        "hermes: unexpected error: KeyError('key'); for details: hermes logs errors",
    ]
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len(errors) == 4
    assert errors[1].exc_info is not None


def test_the_last_exchanges_are_shown_in_short() -> None:
    history = []
    for number in range(12):
        history += [User.say(f"question {number}"), Assistant((Text(f"answer {number}"),))]
    lines = recap(history, Paint(), 80, "❯")
    assert lines[0] == "… 2 earlier questions"
    assert lines[1:3] == ["❯ question 2", "  answer 2"]
    assert lines[-1] == "  answer 11"


def test_long_texts_are_cut_and_calls_are_counted() -> None:
    call = ToolCall("c1", "terminal", "{}")
    history = [
        User.say("x" * 400 + "\nmore").with_aside("an aside"),
        Assistant((Text("I look"), call)),
        ToolResult("c1", "terminal", "seen"),
        Assistant((Text("one\ntwo\nthree\nfour\x1b[2J"),)),
    ]
    *asked, calls, one, two, three = recap(history, Paint(), 80, ">")
    assert sum(len(row) - 2 for row in asked) == 300
    assert asked[1] == "  " + "x" * 78
    assert calls == "  ● 1 tool call"
    assert [one, two, three] == ["  one", "  two", "  three …"]


def test_recap_of_an_empty_conversation_is_empty() -> None:
    assert recap([], Paint(), 80, ">") == []

"""Terminals without colours, without a cursor that moves, and screen readers."""

import re
import signal

import pytest

from hermes.core.messages import Text
from hermes.core.testing import ModelServer, Stall, Step
from tests.integration.chat.conftest import at
from tests.integration.tui.conftest import call, run
from tests.screens.chat import Chat

STYLES = re.compile(rb"\x1b\[([0-9;]*)m")
NO_COLOURS = {b"", b"0", b"1", b"2", b"3", b"4", b"7"}
"""Styles that are none: plain, bold, faint, italic, underlined, reversed."""
MARKDOWN = "A **bold** word.\n\n```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd."


def test_no_color(chat) -> None:
    with ModelServer([run("echo hi"), MARKDOWN]) as server:
        it = chat(server, NO_COLOR="1")
        it.type("/re").sees_last("/retry").press("down", "ctrl-u").gone("/retry")
        it.ask("show", "End.")
        assert it.leave() == 0
    used = {style for found in STYLES.findall(it.raw) for style in found.split(b";")}
    assert used <= NO_COLOURS


def prompts(it: Chat) -> None:
    it.wait(lambda it: it.shown[-1] == ">", "the prompt")


@pytest.mark.parametrize(
    ("flags", "variables"), [([], {"TERM": "dumb"}), (["--plain"], {})], ids=["dumb", "plain"]
)
def test_lines_only(screen, flags: list[str], variables: dict[str, str]) -> None:
    stalled = Step((Text("one two three four five"),), faults=(Stall(2),))
    question = call("clarify", question="Which colour?", choices=["red", "blue"])
    with ModelServer([MARKDOWN, stalled, question, "Blue it is.", "Last."]) as server:
        it = screen("chat", *at(server), *flags, **variables)
        prompts(it)
        it.say("show").sees("End.")
        prompts(it)
        it.say("count").sees("one two three fo").press("ctrl-c").sees("stopped by Ctrl-C")
        prompts(it)
        it.say("paint").sees("your number or words:").say("2").sees("Blue it is.")
        prompts(it)
        it.say("/status").sees("Approvals: ask")
        prompts(it)
        it.press("ctrl-c")
        it.wait(lambda it: it.shown[-2:] == ["> ^C", ">"], "another prompt")
        it.say("one more").sees("Last.").press("ctrl-d")
        assert it.ended() == 0
    assert b"\x1b" not in STYLES.sub(b"", it.raw)
    assert not re.search(rb"\r(?!\n)|\x08", it.raw), "nothing is written over"


def test_a_signal_ends_it_where_there_are_only_lines(screen) -> None:
    with ModelServer([]) as server:
        it = screen("chat", "--plain", *at(server))
        prompts(it)
        it.signal(signal.SIGTERM)
        assert it.ended() == 143

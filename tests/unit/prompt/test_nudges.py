"""Reminders come exactly when they are due."""

from collections.abc import Sequence

import pytest

from hermes.core.messages import Assistant, Message, Text, ToolCall, ToolResult, User
from hermes.prompt.assembly import MEMORY_NUDGE, SKILL_NUDGE, NudgeOptions, nudge

BOTH = frozenset({"memory", "skill_manage", "terminal"})


def turn(*calls: str) -> list[Message]:
    """A user message, tool calls one by one, and an answer."""
    messages: list[Message] = [User.say("go on")]
    for number, name in enumerate(calls):
        messages.append(Assistant((ToolCall(f"c{number}", name, "{}"),)))
        messages.append(ToolResult(f"c{number}", name, "done"))
    return [*messages, Assistant((Text("done"),))]


def due_turns(turns: Sequence[list[Message]], text: str, **options: int) -> list[int]:
    """Numbers (from 1) of the user messages that get `text`."""
    history: list[Message] = []
    found = []
    for number, messages in enumerate(turns, 1):
        if text in nudge([*history, messages[0]], BOTH, NudgeOptions(**options)):
            found.append(number)
        history += messages
    return found


def test_memory_nudge_is_due_every_tenth_message():
    assert due_turns([turn()] * 35, MEMORY_NUDGE) == [10, 20, 30]


def test_memory_call_restarts_the_count():
    turns = [turn()] * 6 + [turn("memory")] + [turn()] * 24
    assert due_turns(turns, MEMORY_NUDGE) == [17, 27]


def test_skill_nudge_is_due_after_every_fifteen_calls():
    assert due_turns([turn("terminal", "terminal")] * 24, SKILL_NUDGE) == [9, 16, 24]


def test_many_calls_in_one_turn_give_one_reminder():
    turns = [turn(*["terminal"] * 50), turn(), turn()]
    assert due_turns(turns, SKILL_NUDGE) == [2]


def test_skill_manage_call_restarts_the_count():
    calls = ["terminal"] * 14
    assert due_turns([turn(*calls, "skill_manage", *calls), turn()], SKILL_NUDGE) == []
    turns = [turn(*calls, "skill_manage", *calls), turn("terminal"), turn()]
    assert due_turns(turns, SKILL_NUDGE) == [3]


def test_intervals_are_options():
    assert due_turns([turn()] * 9, MEMORY_NUDGE, memory_interval=4) == [4, 8]
    assert due_turns([turn("terminal")] * 5, SKILL_NUDGE, skill_interval=2) == [3, 5]
    assert due_turns([turn()] * 3, MEMORY_NUDGE, memory_interval=1) == [1, 2, 3]


@pytest.mark.parametrize("off", [0, -1])
def test_zero_is_off(off: int):
    options = {"memory_interval": off, "skill_interval": off}
    turns = [turn(*["terminal"] * 20)] * 30
    assert due_turns(turns, MEMORY_NUDGE, **options) == []
    assert due_turns(turns, SKILL_NUDGE, **options) == []


def test_both_nudges_can_be_due_together_and_each_requires_its_tool():
    history = [message for _ in range(9) for message in turn()]
    history += [*turn(*["terminal"] * 15)[1:], User.say("and now")]
    assert nudge(history, BOTH) == f"{MEMORY_NUDGE}\n{SKILL_NUDGE}"
    assert nudge(history, frozenset({"memory"})) == MEMORY_NUDGE
    assert nudge(history, frozenset({"skill_manage"})) == SKILL_NUDGE
    assert nudge(history, frozenset({"terminal"})) == ""


def test_nudge_is_stable_within_a_turn():
    history: list[Message] = [message for _ in range(9) for message in turn()]
    last = turn("terminal", "memory", "skill_manage")
    for length in range(1, len(last) + 1):
        assert nudge([*history, *last[:length]], BOTH) == MEMORY_NUDGE


def test_empty_history_has_no_nudge():
    assert nudge([], BOTH) == ""
    assert nudge([Assistant((Text("hello"),))], BOTH) == ""


def test_reminders_are_one_short_line():
    assert all(len(text) <= 100 and "\n" not in text for text in (MEMORY_NUDGE, SKILL_NUDGE))

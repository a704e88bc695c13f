"""Reminders to save what was learnt, counted from the conversation itself."""

from collections.abc import Sequence

import msgspec

from hermes.core.messages import Message, ToolResult, User

MEMORY_TOOL, SKILL_TOOL = "memory", "skill_manage"

MEMORY_NUDGE = "[Reminder: if a lasting fact or preference came up, save it with memory.]"
SKILL_NUDGE = "[Reminder: if this work taught a method worth repeating, save it with skill_manage.]"


class NudgeOptions(msgspec.Struct, frozen=True):
    memory_interval: int = 10
    """`memory.nudge_interval`: user messages without a call of memory; 0 is never."""
    skill_interval: int = 15
    """`skills.creation_nudge_interval`: tool calls without one of skill_manage; 0 is never."""


USUAL = NudgeOptions()


def nudge(history: Sequence[Message], tools: frozenset[str], options: NudgeOptions = USUAL) -> str:
    """What to add to the last user message; "" nearly always.

    It goes by the history up to that message, so it is the same throughout a turn.
    """
    end = _last_user(history, len(history))
    if end < 0:
        return ""
    due = []
    if MEMORY_TOOL in tools and _memory_due(history, end, options.memory_interval):
        due.append(MEMORY_NUDGE)
    if SKILL_TOOL in tools and _skill_due(history, end, options.skill_interval):
        due.append(SKILL_NUDGE)
    return "\n".join(due)


def _memory_due(history: Sequence[Message], end: int, interval: int) -> bool:
    if interval <= 0 or end + 1 < interval:
        return False
    said = 0
    for message in reversed(history[: end + 1]):
        if isinstance(message, User):
            said += 1
        elif isinstance(message, ToolResult) and message.name == MEMORY_TOOL:
            break
    return said > 0 and said % interval == 0


def _skill_due(history: Sequence[Message], end: int, interval: int) -> bool:
    """Whether the turn before `end` took the number of calls to a multiple of `interval`."""
    if interval <= 0:
        return False
    start = max(0, _last_user(history, end))
    turn, met = _calls_since_skill(history[start:end])
    if not turn:
        return False
    before = 0 if met else _calls_since_skill(history[:start])[0]
    return (before + turn) // interval > before // interval


def _calls_since_skill(history: Sequence[Message]) -> tuple[int, bool]:
    """How many calls ended after the last one of `SKILL_TOOL`, and whether there was one."""
    count = 0
    for message in reversed(history):
        if isinstance(message, ToolResult):
            if message.name == SKILL_TOOL:
                return count, True
            count += 1
    return count, False


def _last_user(history: Sequence[Message], end: int) -> int:
    """Where the last user message before `end` is; -1 when there is none."""
    return next((at for at in range(end - 1, -1, -1) if isinstance(history[at], User)), -1)

"""Reminders to save memories and skills, computed from the conversation alone."""

from collections.abc import Sequence

import msgspec

from hermes.core.messages import Message, ToolResult, User

MEMORY_TOOL, SKILL_TOOL = "memory", "skill_manage"

MEMORY_NUDGE = "[Reminder: if a lasting fact or preference came up, save it with memory.]"
SKILL_NUDGE = "[Reminder: if this work taught a method worth repeating, save it with skill_manage.]"


class NudgeOptions(msgspec.Struct, frozen=True):
    memory_interval: int = 10
    """`memory.nudge_interval`: user messages without a call of memory; 0 disables it."""
    skill_interval: int = 15
    """`skills.creation_nudge_interval`: tool calls without one of skill_manage; 0 disables it."""


DEFAULT_OPTIONS = NudgeOptions()


def nudge(
    history: Sequence[Message], tools: frozenset[str], options: NudgeOptions = DEFAULT_OPTIONS
) -> str:
    """Return the reminders to add to the last user message; mostly "".

    They depend only on the history up to that message, so they are the same throughout a turn.
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
    count = 0
    for message in reversed(history[: end + 1]):
        if isinstance(message, User):
            count += 1
        elif isinstance(message, ToolResult) and message.name == MEMORY_TOOL:
            break
    return count > 0 and count % interval == 0


def _skill_due(history: Sequence[Message], end: int, interval: int) -> bool:
    """Return whether the turn before `end` took the count past a multiple of `interval`."""
    if interval <= 0:
        return False
    start = max(0, _last_user(history, end))
    turn, used_skill_tool = _calls_since_skill(history[start:end])
    if not turn:
        return False
    before = 0 if used_skill_tool else _calls_since_skill(history[:start])[0]
    return (before + turn) // interval > before // interval


def _calls_since_skill(history: Sequence[Message]) -> tuple[int, bool]:
    """Return the number of results after the last one of `SKILL_TOOL`, and whether there is one."""
    count = 0
    for message in reversed(history):
        if isinstance(message, ToolResult):
            if message.name == SKILL_TOOL:
                return count, True
            count += 1
    return count, False


def _last_user(history: Sequence[Message], end: int) -> int:
    """Return the index of the last user message before `end`, or -1."""
    return next((at for at in range(end - 1, -1, -1) if isinstance(history[at], User)), -1)

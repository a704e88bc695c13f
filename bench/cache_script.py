"""The scripted model of `bench.cache`, the same for every contender."""

import json
import re
from collections import Counter
from typing import Any

from hermes.core.messages import ToolCall
from hermes.core.testing import RecordedRequest, StepLike

CALLS = 3
"""Tool calls in a turn."""
LINES = 10
"""Lines of the file that a call reads, about 900 characters."""
FILE = "notes.txt"
SMALL = 6_000
"""Bytes of a request without tools above which it asks for a summary and not for a title."""
SUMMARY = """\
## Active Task
Read the next three pieces of notes.txt and tell the user in one sentence what is new in them.

## Goal
The user goes through a long file of notes, three pieces a turn, and wants a sentence on each turn.

## Constraints & Preferences
- Keep to the order of the file.
- One sentence a turn, nothing more.

## Completed Actions
- The pieces before the one that was read last are done; each was answered with a sentence.
- All of them were read with read_file, 22 lines at a time, without an error.

## Progress
### Done
Everything up to the last answer.
### In Progress
The piece that follows.
### Blocked
Nothing.

## Key Decisions
- Pieces have 22 lines, so that three of them fit an answer.

## Relevant Files
- notes.txt: the notes, one item a line, each with a number and the number of its neighbour.

## Next Steps
Read on where the last call stopped, then answer.

## Critical Context
- Items are numbered from 1 without gaps; neighbours follow no order that was noticed so far.
"""
_TURN = re.compile(r"\[turn (\d+)\]")


def notes(lines: int) -> str:
    """Return the content of the file; all lines differ."""
    return "".join(
        f"item {number} was seen at {number * 7919 % 10007} metres, next to item "
        f"{number * 104729 % 99991}, by observer {number * 31 % 17}\n"
        for number in range(1, lines + 1)
    )


class Session:
    """Answers each turn with tool calls and then a sentence."""

    def __init__(self) -> None:
        self.compactions = 0
        self.other_calls = 0
        """Calls for titles, reviews and similar tasks."""
        self._calls: Counter[int] = Counter()
        self._number = 0

    def answer(self, request: RecordedRequest) -> StepLike:
        body = request.body
        if not body.get("tools"):
            large = len(request.raw) > SMALL
            self.compactions += large
            self.other_calls += not large
            return SUMMARY if large else "Notes read in order"
        turns = _TURN.findall(_last_words(body["messages"]))
        if not turns and not _is_result(body["messages"][-1]):
            self.other_calls += 1
            return "Nothing to do."
        turn = int(turns[-1]) if turns else max(self._calls)
        self._calls[turn] += 1
        if self._calls[turn] > CALLS:
            return f"In turn {turn} the observers changed and the distances grew a little."
        self._number += 1
        place = {"path": FILE, "offset": 1 + self._number * LINES, "limit": LINES}
        return ToolCall(f"toolu_{self._number:04}", "read_file", json.dumps(place))


def _last_words(messages: list[dict[str, Any]]) -> str:
    """Return the last text of the user, ignoring messages that contain only tool results."""
    said = (_words(each) for each in reversed(messages) if each["role"] == "user")
    return next((text for text in said if text), "")


def _words(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


def _is_result(message: dict[str, Any]) -> bool:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return message["role"] == "tool" or any(b.get("type") == "tool_result" for b in blocks)

"""Conversations as dicts, scripted summarisers, and what makes a conversation valid."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes.context.compressor import CompressionOptions, ContextCompressor
from hermes.context.engine import SummaryAnswer, SummaryModel
from hermes.sdk.testing.context import conversation_faults

Dict = dict[str, Any]
Dicts = list[Dict]
SYSTEM = {"role": "system", "content": "You are Hermes."}


def user(text: Any) -> Dict:
    return {"role": "user", "content": text}


def says(text: str, **more: Any) -> Dict:
    return {"role": "assistant", "content": text, **more}


def call(number: int | str, name: str, **arguments: Any) -> Dict:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{number}", "type": "function", "function": function}


def asks(*calls: Dict, say: str = "") -> Dict:
    return {"role": "assistant", "content": say, "tool_calls": list(calls)}


def result(number: int | str, name: str, text: str) -> Dict:
    return {"role": "tool", "tool_call_id": f"call_{number}", "name": name, "content": text}


def reads(number: int, path: str, text: str = "") -> Dicts:
    """A call of read_file with its result."""
    shown = text or "\n".join(f"{n}|line {n} of {path}" for n in range(1, 80))
    return [asks(call(number, "read_file", path=path)), result(number, "read_file", shown)]


def work(steps: int, start: int = 0, folder: str = "src") -> Dicts:
    """A stretch of a turn: so many files read."""
    numbers = range(start, start + steps)
    return [message for n in numbers for message in reads(n, f"{folder}/part_{n}.py")]


GOOD = Path(__file__).with_name("good_summary.md").read_text()


class Script:
    """A summariser that gives one reply after the other; the last one again and again."""

    def __init__(self, *replies: str | Exception, window: int = 100_000, name: str = "small-1"):
        self.replies, self.name = list(replies), name
        self.asked: list[Dicts] = []
        self.most: list[int] = []
        self.summariser = SummaryModel(self.ask, window)

    def ask(self, messages: Dicts, most: int) -> SummaryAnswer:
        self.asked.append(messages)
        self.most.append(most)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return SummaryAnswer(reply, self.name)

    @property
    def questions(self) -> list[str]:
        return [str(messages[-1]["content"]) for messages in self.asked]


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def compressor(
    *scripts: Script, window: int = 20_000, clock: Callable[[], float] | None = None, **options: Any
) -> ContextCompressor:
    made = ContextCompressor(window, CompressionOptions(**options), clock or Clock())
    made.on_session_start("s", summarisers=[script.summariser for script in scripts])
    return made


def long_talk(steps: int = 40) -> Dicts:
    """A finished exchange, then a long turn that is still going on."""
    begin = [SYSTEM, user("Hello, this is the parser project."), says("Hello.")]
    task = user("Port the parser to the new grammar. Never touch src/generated.py.")
    return [*begin, task, *work(steps)]


def text_of(messages: Dicts) -> str:
    return "\n".join(
        "\n".join(block.get("text", "") for block in content)
        if isinstance(content, list)
        else content
        for content in (message.get("content") or "" for message in messages)
    )


def faults(messages: Dicts) -> list[str]:
    """Why an endpoint would refuse these; users may follow each other."""
    return [fault for fault in conversation_faults(messages) if "both by user" not in fault]

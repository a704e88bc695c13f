"""The transcripts by name, built once in a process.

A transcript is a file of `transcripts` with one event a line, after a line with the words of its
trade. It ends with an unfinished task; each `part` is more work on it. An event is

- `user`: the user says something; `rules` are the phrases in it that stay in force;
- `task`: the user asks for something new, maybe at `{task}` in the longer message `within`. What
  came before is finished, and so are its paths;
- `needs`: paths that the task needs until it is done;
- `at`: paths that are worked on at the moment; those before are finished;
- `says`: the assistant answers, and its turn is over; `values` in it are needed later;
- `do`: the assistant calls tools, side by side when there are several, and may `say` and `think`.

A text may be an object with one key, a function of `generators`, and its arguments.
"""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.compaction import generators, steps
from tests.compaction.steps import Dict

Dicts = list[Dict]
TRANSCRIPTS = Path(__file__).parent / "transcripts"
NAMES = tuple(sorted(path.stem for path in TRANSCRIPTS.glob("*.jsonl")))
PARTS = (1, 2, 3)
"""Number of continuations after the beginning of a story."""
SYSTEM = {
    "role": "system",
    "content": "You are Hermes, an agent that works with tools. Do what the user asks, step by "
    "step, and say when it is done.\n\nSession 20260314-1. The working folder is the project's.",
}


class Facts(NamedTuple):
    """What the context must still say after a compaction."""

    task: str
    """The unfinished task, in the user's words."""
    constraints: tuple[str, ...]
    """Key phrases of what the user laid down, early and late."""
    paths: tuple[str, ...]
    """Every path the next step needs."""
    facts: tuple[str, ...]
    """Values that were worked out on the way, said by the assistant; a good summary has them."""


class Stretch(NamedTuple):
    """New messages, and what must be known once they were said."""

    messages: Dicts
    facts: Facts


@cache
def story(name: str) -> tuple[Stretch, ...]:
    """Return a conversation and its three continuations. The result is cached: do not change it."""
    lines = (TRANSCRIPTS / f"{name}.jsonl").read_text().splitlines()
    words, *events = map(json.loads, lines)
    talk = Talk(name, words)
    stretches, talk.messages = [], [SYSTEM]
    for event in [*events, {"part": "end"}]:
        if "part" in event:
            stretches.append(Stretch(talk.messages, talk.facts))
            talk.messages = []
        else:
            talk.add(event)
    return tuple(stretches)


class Talk:
    """A conversation as it grows."""

    def __init__(self, name: str, words: dict[str, str]) -> None:
        self._name = name
        self._words = words
        self._random = random.Random(name)  # the same in every process
        self.messages: Dicts = []
        self._calls = 0
        self._task = ""
        self._rules: list[str] = []
        self._paths: list[str] = []
        self._at: list[str] = []
        self._values: list[str] = []

    @property
    def facts(self) -> Facts:
        paths = dict.fromkeys((*self._paths, *self._at))
        return Facts(self._task, tuple(self._rules), tuple(paths), tuple(self._values))

    def add(self, event: Dict) -> None:
        said = self._made(event.get("within") or event.get("user") or event.get("task"))
        if "task" in event:
            self._task, self._paths, self._at, self._values = event["task"], [], [], []
            said = said.replace("{task}", self._task)
        self._paths += event.get("needs", ())
        self._at = event.get("at", self._at)
        self._rules += event.get("rules", ())
        self._values += event.get("values", ())
        if said:
            self.messages.append({"role": "user", "content": said})
        if "says" in event:
            answer = {"role": "assistant", "content": self._made(event["says"])}
            self.messages.append({**answer, "finish_reason": "stop"})
        if "do" in event:
            self._do(
                [getattr(steps, kind)(*self._made(given)) for kind, *given in event["do"]], event
            )

    def _do(self, done: list[steps.Step], event: Dict) -> None:
        results: Dicts = []
        calls: Dicts = []
        for step in done:
            name = f"call_{self._name[:6]}{self._calls:05}"
            self._calls += 1
            arguments = json.dumps(step.arguments, ensure_ascii=False)
            function = {"name": step.tool, "arguments": arguments}
            calls.append({"id": name, "call_id": name, "type": "function", "function": function})
            result = {"role": "tool", "tool_call_id": name, "name": step.tool}
            results.append({**result, "content": step.result})
        message = {"role": "assistant", "content": event.get("say", ""), "tool_calls": calls}
        if "think" in event:
            message["reasoning"] = event["think"]
        self.messages += [{**message, "finish_reason": "tool_calls"}, *results]

    def _made(self, value: Any) -> Any:
        """The value with its material in it."""
        if isinstance(value, list):
            return [self._made(inner) for inner in value]
        if isinstance(value, str):
            return self._words[value[1:]] if value.startswith("$") else value
        if not isinstance(value, dict) or len(value) != 1:
            return value
        ((kind, given),) = value.items()
        given = self._made(given)
        if kind == "join":
            return "".join(given)
        maker = getattr(generators, kind, None)
        return maker(self._random, *given) if maker else value

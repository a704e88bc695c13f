"""The contract of context engines, as tests: subclass `ContextEngineContract` in a test module.

    class TestMine(ContextEngineContract):
        def make(self, context_length):
            return MyEngine(context_length)

The tests compact a long conversation with good summary models, bad ones and none.
"""

import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes.context import ContextEngine, SummaryAnswer, SummaryModel
from hermes.context import estimate_messages_tokens_rough as estimate_tokens
from hermes.core.errors import Interrupted, Unreachable

Dict = dict[str, Any]
Dicts = list[Dict]

SYSTEM = {"role": "system", "content": "You are Hermes."}


def conversation(turns: int, first: int = 0) -> Dicts:
    """Return turns with a request, a tool call, its result and an answer, without the prompt."""
    messages: Dicts = []
    for number in range(first, first + turns):
        call = {"name": "read_file", "arguments": json.dumps({"path": f"src/part{number}.py"})}
        calls = [{"id": f"call_{number}", "type": "function", "function": call}]
        messages += [
            {"role": "user", "content": f"Please explain part {number} of the program."},
            {"role": "assistant", "content": "", "tool_calls": calls},
            {
                "role": "tool",
                "tool_call_id": f"call_{number}",
                "name": "read_file",
                "content": f"part {number}\n" + "x = compute(y)\n" * 40,
            },
            {"role": "assistant", "content": f"Part {number} computes x from y."},
        ]
    return messages


def conversation_faults(messages: Dicts) -> list[str]:
    """Return why a model endpoint would refuse a conversation; empty if it is valid."""
    found: list[str] = []
    if not messages or messages[0]["role"] != "system":
        found.append("the system prompt is not first")
    if len(messages) > 1 and messages[1]["role"] != "user":
        found.append(f"after the system prompt comes {messages[1]['role']}")
    open_calls: list[str] = []
    for number, message in enumerate(messages[1:], 1):
        role, before = message["role"], messages[number - 1]["role"]
        if role == "tool":
            if message["tool_call_id"] in open_calls:
                open_calls.remove(message["tool_call_id"])
            else:
                found.append(f"message {number} is the result of no call before it")
            continue
        if open_calls:
            found.append(f"before message {number} calls have no result: {open_calls}")
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        found += [f"message {number}: {fault}" for fault in _message_faults(message)]
        if role == before:
            found.append(f"messages {number - 1} and {number} are both by {role}")
    if open_calls:
        found.append(f"at the end calls have no result: {open_calls}")
    return found


def _message_faults(message: Dict) -> Iterator[str]:
    if message["role"] not in ("user", "assistant"):
        yield f"role {message['role']}"
    if not message.get("content") and not message.get("tool_calls"):
        yield "it is empty"
    for call in message.get("tool_calls") or ():
        try:
            json.loads(call["function"]["arguments"])
        except ValueError:
            yield f"arguments of {call['id']} are not JSON"


def summary_model(reply: str | Exception) -> SummaryModel:
    """Return a summary model that always gives `reply`, or raises it."""

    def ask(_messages: Dicts, _max_tokens: int) -> SummaryAnswer:
        if isinstance(reply, Exception):
            raise reply
        return SummaryAnswer(reply, "scripted")

    return SummaryModel(ask, 100_000)


class ContextEngineContract:
    """What every engine keeps to, with good summary models, bad ones and none."""

    context_length = 32_000
    turns = 60  #: Enough to exceed the threshold of most engines.

    def make(self, context_length: int) -> ContextEngine:
        raise NotImplementedError("return a new engine")

    @pytest.fixture
    def engine(self) -> ContextEngine:
        return self.make(self.context_length)

    def start(self, engine: ContextEngine, home: Path, models: Sequence[SummaryModel]) -> Dicts:
        """Start a session; return the list that is its log."""
        log: Dicts = []
        engine.on_session_start(
            "s1",
            hermes_home=str(home),
            platform="cli",
            model="lab-model",
            context_length=engine.context_length,
            summarisers=list(models),
            history=lambda: list(log),
        )
        return log

    def check(self, before: Dicts, after: Dicts) -> None:
        assert after[0] == before[0], "the system prompt changed"
        assert conversation_faults(after) == []
        newest = next(each for each in reversed(before) if each["role"] == "user")
        assert newest["content"] in str([each.get("content") for each in after])
        assert estimate_tokens(after) < estimate_tokens(before)

    def test_it_has_a_name_and_knows_its_window(self, engine: ContextEngine) -> None:
        assert engine.name
        assert engine.context_length == self.context_length
        assert 0 < engine.threshold_tokens < self.context_length

    def test_it_is_due_above_the_threshold_only(self, engine: ContextEngine) -> None:
        assert not engine.should_compress(engine.threshold_tokens // 10)
        assert engine.should_compress(engine.context_length)

    @pytest.mark.parametrize(
        "models", [(), ("The parts compute x from y.",), (Unreachable("no route"),), ("",)]
    )
    def test_a_long_conversation_becomes_shorter_and_stays_valid(
        self, engine: ContextEngine, tmp_path: Path, models: tuple[str | Exception, ...]
    ) -> None:
        log = self.start(engine, tmp_path, [summary_model(each) for each in models])
        messages: Dicts = [SYSTEM]
        for number in range(3):
            fresh = conversation(self.turns, first=number * self.turns)
            messages, log[len(log) :] = [*messages, *fresh], fresh
            given = copy.deepcopy(messages)
            after = engine.compress(messages, estimate_tokens(messages))
            assert messages == given, "the engine changed the messages it was given"
            self.check(given, after)
            messages = after

    def test_a_stop_changes_nothing(self, engine: ContextEngine, tmp_path: Path) -> None:
        messages = [SYSTEM, *conversation(self.turns)]
        self.start(engine, tmp_path, [summary_model(Interrupted("stopped"))]).extend(messages[1:])
        count = engine.compression_count
        try:
            engine.compress(messages, estimate_tokens(messages))
        except Interrupted:
            assert engine.compression_count == count
        self.start(engine, tmp_path, ()).extend(messages[1:])
        self.check(messages, engine.compress(messages, estimate_tokens(messages)))

    def test_a_reset_forgets_the_counts(self, engine: ContextEngine) -> None:
        usage = {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}
        engine.update_from_response(usage)
        assert (engine.last_prompt_tokens, engine.last_total_tokens) == (900, 1000)
        engine.on_session_reset()
        assert (engine.last_prompt_tokens, engine.compression_count) == (0, 0)

    def test_another_model_changes_the_window(self, engine: ContextEngine) -> None:
        engine.update_model("other-model", self.context_length * 2)
        assert engine.context_length == self.context_length * 2

    def test_unknown_tools_are_answered(self, engine: ContextEngine) -> None:
        for schema in engine.get_tool_schemas():
            assert schema["name"]
            assert schema["parameters"]["type"] == "object"
        assert "no_such_tool" in engine.handle_tool_call("no_such_tool", {})

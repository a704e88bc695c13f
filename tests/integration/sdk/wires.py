"""The official clients: how each asks, and how its replies are read."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import msgspec
import openai
from anthropic.types import Message, ModelInfo, RawMessageStreamEvent
from openai.types import Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from hermes.core.messages import Text, Thinking, ToolCall
from hermes.core.model import Usage
from hermes.core.testing import Interleave, ModelServer, Step, StepLike

SAID = "Grüße, 日本語 🙂 and more"
CALLS = (
    ToolCall("call_1", "read_file", '{"path": "ä.txt", "limit": 3}'),
    ToolCall("call_2", "terminal", '{"command": "ls -l"}'),
)
EXPECTED = [(call.id, call.name, json.loads(call.arguments)) for call in CALLS]
USER: list[Any] = [{"role": "user", "content": "hello"}]
SIGNED = {"type": "thinking", "thinking": "deep thought", "signature": "EqQBs1gn"}
HIDDEN = {"type": "redacted_thinking", "data": "EmwKxyz"}
THOUGHTS = (Thinking("deep thought", details=(SIGNED,)), Thinking(details=(HIDDEN,)))
ITEM = {
    "id": "rs_9",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "I looked"}],
    "encrypted_content": "gAAAA",
}
SCRIPTS: dict[str, StepLike] = {
    "every kind of part": [Thinking("I should look"), Text(SAID), *CALLS],
    "signed": [*THOUGHTS, Text(SAID), *CALLS],
    "nothing": Step(),
    "interleaved": Step(CALLS, faults=(Interleave(),)),
    "cut off": Step((Text("some"),), finish_reason="length"),
    "filtered": Step((Text("some"),), finish_reason="content_filter"),
    "declined": Step((Text("no"),), finish_reason="refusal"),
    "encrypted": [Thinking("I looked", items=(ITEM,)), Text("done")],
    "details": [
        Thinking("deep thought", details=({"type": "reasoning.text", "text": "deep thought"},))
    ],
    "accounted": Step((Text("x"),), usage=Usage(1, 2, 3, 4, 1)),
}


class Wire(msgspec.Struct, frozen=True):
    path: str
    request: dict[str, Any]
    make_client: Callable[[str], Any]
    send: Callable[..., Any]
    """Takes the client, the request and `stream`; a streamed reply is built by the SDK itself."""
    text: Callable[[Any], str | None]
    calls: Callable[[Any], list[tuple[str, str, Any]]]
    errors: Any
    """The module with the exceptions."""
    whole: Any
    event: Any
    model: Any
    extensions: frozenset[str] = frozenset()

    @contextmanager
    def client(self, server: ModelServer) -> Iterator[Any]:
        with self.make_client(server.url) as client:
            yield client

    def ask(self, step: StepLike, *, stream: bool) -> Any:
        with ModelServer([step]) as server, self.client(server) as client:
            return self.send(client, self.request, stream=stream)


def _openai(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="sk-test", max_retries=0)


def _anthropic(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="sk-test", max_retries=0)


def _chat(client: openai.OpenAI, request: Any, *, stream: bool) -> Any:
    if not stream:
        return client.chat.completions.create(**request)
    options = {"include_usage": True}
    with client.chat.completions.stream(**request, stream_options=options) as replies:
        return replies.until_done().current_completion_snapshot


def _respond(client: openai.OpenAI, request: Any, *, stream: bool) -> Any:
    """A streamed response must be the same by its deltas and by its last event."""
    if not stream:
        return client.responses.create(**request)
    with client.responses.stream(**request) as events:
        *_, last = events
    return last.response


def _message(client: anthropic.Anthropic, request: Any, *, stream: bool) -> Any:
    if not stream:
        return client.messages.create(**request)
    with client.messages.stream(**request) as events:
        return events.get_final_message()


CHAT = Wire(
    "/v1/chat/completions",
    {"model": "m", "messages": USER},
    _openai,
    _chat,
    lambda reply: reply.choices[0].message.content,
    lambda reply: [
        (call.id, call.function.name, json.loads(call.function.arguments))
        for call in reply.choices[0].message.tool_calls
    ],
    openai,
    ChatCompletion,
    ChatCompletionChunk,
    Model,
    frozenset({"reasoning_content", "reasoning", "reasoning_details", "extra_content"}),
)
RESPONSES = Wire(
    "/v1/responses",
    {"model": "m", "input": USER, "include": ["reasoning.encrypted_content"]},
    _openai,
    _respond,
    lambda reply: str(reply.output_text),
    lambda reply: [
        (item.call_id, item.name, json.loads(item.arguments))
        for item in reply.output
        if item.type == "function_call"
    ],
    openai,
    Response,
    ResponseStreamEvent,
    Model,
)
MESSAGES = Wire(
    "/v1/messages",
    {"model": "m", "max_tokens": 100, "messages": USER},
    _anthropic,
    _message,
    lambda reply: "".join(block.text for block in reply.content if block.type == "text"),
    lambda reply: [(b.id, b.name, b.input) for b in reply.content if b.type == "tool_use"],
    anthropic,
    Message,
    RawMessageStreamEvent,
    ModelInfo,
)
WIRES = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}

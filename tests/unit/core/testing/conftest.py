"""A raw client for the three wires: it knows the public formats and nothing of ours."""

import http.client
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from hermes.core.testing import ModelServer

CHAT, ANTHROPIC, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
USER = [{"role": "user", "content": "hello"}]
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": USER, "stream_options": {"include_usage": True}},
    ANTHROPIC: {"messages": USER, "max_tokens": 100},
    RESPONSES: {"input": USER},
}


class Answered(NamedTuple):
    status: int
    headers: Any
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def events(self) -> list[Any]:
        """The data of each SSE event; a wrong event name fails."""
        found = []
        for block in self.raw.decode().split("\n\n"):
            lines = [line for line in block.split("\n") if line and not line.startswith(":")]
            if not lines:
                continue
            data = lines[-1].removeprefix("data: ")
            if data == "[DONE]":
                found.append(data)
                continue
            found.append(json.loads(data))
            if len(lines) == 2:
                assert lines[0] == f"event: {found[-1]['type']}"
        return found


class Reply(NamedTuple):
    """What a reply says, whichever wire it came on."""

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[Any, str, str], ...] = ()
    """(id, name, arguments as JSON text without spaces)"""
    finish: Any = None
    usage: Any = None


Post = Callable[..., Answered]


@pytest.fixture
def post() -> Post:
    def send(server: ModelServer, path: str, *, stream: bool = False, **body: Any) -> Answered:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
        try:
            whole = {"model": "m", "stream": stream, **BODIES[path], **body}
            connection.request("POST", path, json.dumps(whole).encode())
            response = connection.getresponse()
            return Answered(response.status, response.headers, response.read())
        finally:
            connection.close()

    return send


def compact(arguments: Any) -> str:
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    return json.dumps(value, separators=(",", ":"))


def read_chat(data: Any) -> Reply:
    choice = data["choices"][0]
    message = choice["message"]
    calls = [
        (c.get("id"), c["function"]["name"], compact(c["function"]["arguments"]))
        for c in message.get("tool_calls", ())
    ]
    thinking = message.get("reasoning_content", "")
    text = message["content"] or ""
    return Reply(text, thinking, tuple(calls), choice["finish_reason"], data["usage"])


def read_chat_stream(events: list[Any]) -> Reply:
    assert events[-1] == "[DONE]"
    *chunks, last = events[:-1]
    assert last["choices"] == []
    assert all(chunk["usage"] is None for chunk in chunks)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0]["role"] == "assistant"
    calls: dict[int, list[Any]] = {}
    for call in (call for delta in deltas for call in delta.get("tool_calls", ())):
        if "type" in call:
            assert call["index"] == len(calls), "calls are numbered from 0"
            calls[call["index"]] = [call.get("id"), call["function"]["name"], ""]
        calls[call["index"]][2] += call["function"]["arguments"]
    return Reply(
        "".join(delta.get("content") or "" for delta in deltas),
        "".join(delta.get("reasoning_content", "") for delta in deltas),
        tuple((id_, name, compact(text)) for id_, name, text in calls.values()),
        chunks[-1]["choices"][0]["finish_reason"],
        last["usage"],
    )


def read_anthropic(data: Any) -> Reply:
    assert (data["type"], data["role"]) == ("message", "assistant")
    blocks = data["content"]
    assert all(b["signature"] for b in blocks if b["type"] == "thinking")
    return Reply(
        "".join(b["text"] for b in blocks if b["type"] == "text"),
        "".join(b["thinking"] for b in blocks if b["type"] == "thinking"),
        tuple(
            (b.get("id"), b["name"], compact(b["input"])) for b in blocks if b["type"] == "tool_use"
        ),
        data["stop_reason"],
        data["usage"],
    )


def read_anthropic_stream(events: list[Any]) -> Reply:
    """Puts the message together as the documentation says, and reads it like a whole one."""
    assert (events[0]["type"], events[1]["type"]) == ("message_start", "ping")
    assert events[-1] == {"type": "message_stop"}
    message = events[0]["message"]
    partial: dict[int, str] = {}
    for event in events[2:-1]:
        match event["type"]:
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                if delta["type"] == "input_json_delta":
                    partial[event["index"]] = (
                        partial.get(event["index"], "") + delta["partial_json"]
                    )
                else:
                    field = delta["type"].removesuffix("_delta")
                    block[field] += delta[field]
            case "content_block_stop":
                if event["index"] in partial:
                    message["content"][event["index"]]["input"] = json.loads(
                        partial[event["index"]]
                    )
            case "message_delta":
                message.update(event["delta"])
                message["usage"].update(event["usage"])
            case unknown:
                raise AssertionError(unknown)
    return read_anthropic(message)


def read_responses(data: Any) -> Reply:
    items = data["output"]
    finish = (data["incomplete_details"] or {}).get("reason") or data["status"]
    return Reply(
        "".join(p["text"] for i in items if i["type"] == "message" for p in i["content"]),
        "".join(p["text"] for i in items if i["type"] == "reasoning" for p in i["summary"]),
        tuple(
            (i.get("call_id"), i["name"], compact(i["arguments"]))
            for i in items
            if i["type"] == "function_call"
        ),
        finish,
        data["usage"],
    )


def read_responses_stream(events: list[Any]) -> Reply:
    """The deltas must add up to what the last event says."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = ["response.created", "response.in_progress"]
    assert [event["type"] for event in events[:2]] == kinds
    texts: dict[tuple[str, int], str] = {}
    for event in events:
        if event["type"].endswith(".delta"):
            key = (event["type"].removesuffix(".delta"), event["output_index"])
            texts[key] = texts.get(key, "") + event["delta"]
        elif event["type"].endswith(("_text.done", "_arguments.done")):
            key = (event["type"].removesuffix(".done"), event["output_index"])
            assert texts[key] == event.get("text", event.get("arguments"))
    final = events[-1]["response"]
    assert events[-1]["type"] == f"response.{final['status']}"
    done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    assert sorted(done, key=lambda item: item["id"]) == sorted(
        final["output"], key=lambda item: item["id"]
    )
    reply = read_responses(final)
    streamed = [t for (kind, _), t in texts.items() if kind == "response.output_text"]
    assert "".join(streamed) == reply.text
    return reply


READERS = {
    CHAT: (read_chat, read_chat_stream),
    ANTHROPIC: (read_anthropic, read_anthropic_stream),
    RESPONSES: (read_responses, read_responses_stream),
}


@pytest.fixture(params=[CHAT, ANTHROPIC, RESPONSES])
def path(request: pytest.FixtureRequest) -> str:
    """Each wire in turn."""
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def ask(post: Post) -> Callable[..., Reply]:
    """One call and what the reply says."""

    def send(server: ModelServer, path: str, *, stream: bool = False, **body: Any) -> Reply:
        answered = post(server, path, stream=stream, **body)
        assert answered.status == 200, answered.raw
        whole, streamed = READERS[path]
        return streamed(answered.events) if stream else whole(answered.json)

    return send

"""The three wires of a model server: how each writes a reply, whole or as a stream."""

from itertools import chain, zip_longest
from typing import Any, Protocol

import msgspec

from hermes.core.messages import Assistant, AssistantPart, Text, Thinking, ToolCall
from hermes.core.model import Usage
from hermes.core.testing.script import Refusal, pieces

Event = dict[str, Any]
Events = list[tuple[Event, bool]]  #: The flag says that the event is a delta; faults count these.


class Answer(msgspec.Struct, frozen=True):
    """A reply as a wire writes it, with what the wire needs of the request."""

    number: int
    created: int
    parts: tuple[AssistantPart, ...]
    finish: str
    usage: Usage
    body: dict[str, Any]  #: The request.


class Wire(Protocol):
    """One API. The methods about a part get its index."""

    path: str
    required: tuple[str, ...]  #: Fields a request must have.
    prompt: tuple[str, ...]  #: Fields that make up the prompt, in the order the model reads them.
    request_id: str = "x-request-id"  #: The response header that names the request.
    automatic_cache: bool = True  #: False: only prefixes marked with `cache_control` are cached.
    numbered: bool = False  #: True: each event has a `sequence_number`.
    done: bytes = b""  #: Sent after the last event.

    def whole(self, answer: Answer) -> Event: ...  # the reply when it is not streamed
    def start(self, answer: Answer) -> list[Event]: ...
    def open_part(self, answer: Answer, index: int) -> list[Event]: ...
    def delta(self, answer: Answer, index: int, piece: str) -> Event: ...
    def close_part(self, answer: Answer, index: int) -> list[Event]: ...
    def end(self, answer: Answer) -> list[Event]: ...

    def error(self, refusal: Refusal) -> Event:
        """Return the body of an HTTP error."""
        return {"error": refusal.openai_error()}

    def error_event(self, answer: Answer, refusal: Refusal) -> Event:  # noqa: ARG002 - some need it
        """Return the error inside a stream."""
        return self.error(refusal)

    def stream(self, answer: Answer, *, interleave: bool = False) -> list[tuple[bytes, bool]]:
        """Return the whole reply as SSE events."""
        parts = [self._part(answer, index) for index in range(len(answer.parts))]
        if interleave:
            parts = _interleaved(answer, parts)
        events = [_plain(self.start(answer)), *chain(*parts), _plain(self.end(answer))]
        numbered = enumerate(chain(*events))
        frames = [(self.sse(event, number), delta) for number, (event, delta) in numbered]
        return [*frames, (self.done, False)] if self.done else frames

    def _part(self, answer: Answer, index: int) -> list[Events]:
        """Return the first events of a part, its deltas and its last events."""
        deltas = [
            (self.delta(answer, index, p), True) for p in pieces(text_of(answer.parts[index]))
        ]
        opened, closed = self.open_part(answer, index), self.close_part(answer, index)
        return [_plain(opened), deltas, _plain(closed)]

    def sse(self, event: Event, number: int) -> bytes:
        if self.numbered:
            event = {**event, "sequence_number": number}
        name = f"event: {event['type']}\n" if "type" in event else ""
        return name.encode() + b"data: " + msgspec.json.encode(event) + b"\n\n"


def _plain(events: list[Event]) -> Events:
    return [(event, False) for event in events]


def _interleaved(answer: Answer, parts: list[list[Events]]) -> list[list[Events]]:
    """Let all calls begin, send their arguments in turns, and end all of them."""
    calls = [p for p, part in zip(parts, answer.parts, strict=True) if isinstance(part, ToolCall)]
    begun, deltas, ended = zip(*calls, strict=True)
    turns = [delta for turn in zip_longest(*deltas) for delta in turn if delta]
    together = [list(chain(*begun)), turns, list(chain(*ended))]
    return [*(part for part in parts if part not in calls), together]


def text_of(part: AssistantPart) -> str:
    """Return the text of a part that is streamed."""
    return part.arguments if isinstance(part, ToolCall) else part.text


def named(key: str, call: ToolCall) -> dict[str, str]:
    """Return the id of a call under `key`; nothing for a call without an id."""
    return {key: call.id} if call.id else {}


_FINISHES = {"refusal": "stop"}
"""A refusal has a field of its own, and the reply stops as usual."""
_PIECEWISE = "reasoning.text"
"""The type of a detail that is streamed piece by piece, as OpenRouter does it."""


class ChatWire(Wire):
    """OpenAI chat completions: `POST /v1/chat/completions`."""

    path = "/v1/chat/completions"
    required = ("model", "messages")
    prompt = ("tools", "messages")
    done = b"data: [DONE]\n\n"

    def _text_field(self, answer: Answer) -> str:
        return "refusal" if answer.finish == "refusal" else "content"

    def _thought_field(self, part: Thinking) -> str:
        """Return the field of a thought: OpenRouter's, which has details, or that of others."""
        return "reasoning" if self._piecewise(part) else "reasoning_content"

    def _piecewise(self, part: Thinking) -> dict[str, Any] | None:
        """Return the detail that is streamed along with the text of the thought."""
        details = part.details if part.text else ()
        return next((detail for detail in details if detail.get("type") == _PIECEWISE), None)

    def _without(self, detail: dict[str, Any], *fields: str) -> dict[str, Any]:
        return {key: value for key, value in detail.items() if key not in fields}

    def _usage(self, usage: Usage) -> dict[str, Any]:
        written = {"cache_write_tokens": usage.cache_write} if usage.cache_write else {}
        return {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.output,
            "total_tokens": usage.total,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read, **written},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        }

    def _call(self, call: ToolCall, arguments: str) -> dict[str, Any]:
        extra = {"extra_content": call.extra} if call.extra else {}
        function = {"name": call.name, "arguments": arguments}
        return {**named("id", call), "type": "function", "function": function, **extra}

    def _envelope(self, answer: Answer, kind: str, *choices: dict[str, Any]) -> Event:
        model, created = answer.body["model"], answer.created
        head = {"id": f"chatcmpl-{answer.number:04}", "object": kind, "created": created}
        return {**head, "model": model, "choices": list(choices)}

    def whole(self, answer: Answer) -> Event:
        reply = Assistant(answer.parts)
        message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        message[self._text_field(answer)] = reply.text or None
        thoughts = [part for part in answer.parts if isinstance(part, Thinking)]
        if reply.thinking:
            message[self._thought_field(thoughts[0])] = reply.thinking
        if details := [detail for thought in thoughts for detail in thought.details]:
            message["reasoning_details"] = details
        if reply.calls:
            message["tool_calls"] = [self._call(call, call.arguments) for call in reply.calls]
        finish = _FINISHES.get(answer.finish, answer.finish)
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        return {
            **self._envelope(answer, "chat.completion", choice),
            "usage": self._usage(answer.usage),
        }

    def _wants_usage(self, answer: Answer) -> bool:
        return bool((answer.body.get("stream_options") or {}).get("include_usage"))

    def _chunk(self, answer: Answer, delta: dict[str, Any], finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = self._envelope(answer, "chat.completion.chunk", choice)
        return {**chunk, "usage": None} if self._wants_usage(answer) else chunk

    def start(self, answer: Answer) -> list[Event]:
        return [self._chunk(answer, {"role": "assistant", "content": "", "refusal": None})]

    def _position(self, answer: Answer, index: int) -> int:
        """Return the number of a tool call among the calls."""
        return sum(isinstance(part, ToolCall) for part in answer.parts[:index])

    def open_part(self, answer: Answer, index: int) -> list[Event]:
        part = answer.parts[index]
        if not isinstance(part, ToolCall):
            return []
        call = {"index": self._position(answer, index), **self._call(part, "")}
        return [self._chunk(answer, {"tool_calls": [call]})]

    def delta(self, answer: Answer, index: int, piece: str) -> Event:
        part = answer.parts[index]
        if isinstance(part, ToolCall):
            call = {"index": self._position(answer, index), "function": {"arguments": piece}}
            return self._chunk(answer, {"tool_calls": [call]})
        if not isinstance(part, Thinking):
            return self._chunk(answer, {self._text_field(answer): piece})
        detail = self._piecewise(part)
        if detail is None:
            return self._chunk(answer, {self._thought_field(part): piece})
        details = [{**self._without(detail, "signature"), "text": piece}]
        return self._chunk(answer, {self._thought_field(part): piece, "reasoning_details": details})

    def close_part(self, answer: Answer, index: int) -> list[Event]:
        part = answer.parts[index]
        if not isinstance(part, Thinking):
            return []
        begun = self._piecewise(part)
        rest = [
            self._without(detail, "text") if detail is begun else detail for detail in part.details
        ]
        return [self._chunk(answer, {"reasoning_details": [detail]}) for detail in rest]

    def end(self, answer: Answer) -> list[Event]:
        last = self._chunk(answer, {}, _FINISHES.get(answer.finish, answer.finish))
        usage = {
            **self._envelope(answer, "chat.completion.chunk"),
            "usage": self._usage(answer.usage),
        }
        return [last, usage] if self._wants_usage(answer) else [last]


_STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_BLANK: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
_DELTAS = {
    Text: ("text_delta", "text"),
    Thinking: ("thinking_delta", "thinking"),
    ToolCall: ("input_json_delta", "partial_json"),
}


class AnthropicWire(Wire):
    """Anthropic messages: `POST /v1/messages`."""

    path = "/v1/messages"
    required = ("model", "max_tokens", "messages")
    prompt = ("tools", "system", "messages")
    request_id = "request-id"
    automatic_cache = False

    def _usage(self, usage: Usage) -> dict[str, Any]:
        thought = {"output_tokens_details": {"thinking_tokens": usage.reasoning}}
        return {
            **(thought if usage.reasoning else {}),
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": usage.output,
        }

    def _message(self, answer: Answer) -> Event:
        """Return the message before anything was generated."""
        head = {"id": f"msg_{answer.number:04}", "type": "message", "role": "assistant"}
        usage = self._usage(msgspec.structs.replace(answer.usage, output=1, reasoning=0))
        stop = {"stop_reason": None, "stop_sequence": None, "stop_details": None}
        return {**head, "model": answer.body["model"], "content": [], **stop, "usage": usage}

    def _stop(self, answer: Answer) -> dict[str, Any]:
        reason = _STOP_REASONS.get(answer.finish, answer.finish)
        details = {"type": "refusal", "category": None, "explanation": None}
        refused = {"stop_details": details if reason == "refusal" else None}
        return {"stop_reason": reason, "stop_sequence": None, **refused}

    def _block(self, part: AssistantPart) -> dict[str, Any]:
        """Return a content block; a thought is its first detail, or gets an invented signature."""
        match part:
            case Text():
                return {"type": "text", "text": part.text, "citations": None}
            case Thinking(details=details) if details:
                return dict(details[0])
            case Thinking():
                return {"type": "thinking", "thinking": part.text, "signature": "c2lnbmF0dXJl"}
            case _:
                use = {"type": "tool_use", **named("id", part), "name": part.name}
                return {**use, "input": self._parsed(part.arguments)}

    def _parsed(self, arguments: str) -> Any:
        try:
            return msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            return arguments

    def end(self, answer: Answer) -> list[Event]:
        last = {
            "type": "message_delta",
            "delta": self._stop(answer),
            "usage": self._usage(answer.usage),
        }
        return [last, {"type": "message_stop"}]

    def whole(self, answer: Answer) -> Event:
        blocks = [self._block(part) for part in answer.parts]
        usage = self._usage(answer.usage)
        return {**self._message(answer), "content": blocks, **self._stop(answer), "usage": usage}

    def start(self, answer: Answer) -> list[Event]:
        return [{"type": "message_start", "message": self._message(answer)}, {"type": "ping"}]

    def open_part(self, answer: Answer, index: int) -> list[Event]:
        block = self._block(answer.parts[index])
        block.update(_BLANK.get(block["type"], {}))
        return [{"type": "content_block_start", "index": index, "content_block": block}]

    def _change(self, index: int, kind: str, field: str, value: str) -> Event:
        change = {"type": kind, field: value}
        return {"type": "content_block_delta", "index": index, "delta": change}

    def delta(self, answer: Answer, index: int, piece: str) -> Event:
        return self._change(index, *_DELTAS[type(answer.parts[index])], piece)

    def close_part(self, answer: Answer, index: int) -> list[Event]:
        stop: Event = {"type": "content_block_stop", "index": index}
        signature = self._block(answer.parts[index]).get("signature")
        signed = (
            [self._change(index, "signature_delta", "signature", signature)] if signature else []
        )
        return [*signed, stop]

    def error(self, refusal: Refusal) -> Event:
        body = {"type": "error", "error": refusal.anthropic_error()}
        return {**body, "request_id": "req_0001"}

    def error_event(self, answer: Answer, refusal: Refusal) -> Event:  # noqa: ARG002 - as `Wire`
        return {"type": "error", "error": refusal.anthropic_error()}


_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_FAILURES = ("server_error", "rate_limit_exceeded")
"""Codes that come as a failed response; anything else is an `error` event."""


class _Kind(msgspec.Struct, frozen=True):
    """How a part of a reply is streamed."""

    event: str  #: Beginning of the names of the events that bring its text.
    field: str  #: Where its whole text stands when it is done.
    blank: dict[str, Any]  #: What its item lacks before anything was generated.
    place: dict[str, int] = {}
    inner: str = ""
    """Beginning of the names of the events around it, where the text is a part of its item."""
    more: dict[str, Any] = {}


_SAID: dict[str, Any] = {"status": "in_progress", "content": []}
_TEXT = _Kind(
    event="response.output_text",
    field="text",
    blank=_SAID,
    place={"content_index": 0},
    inner="response.content_part",
    more={"logprobs": []},
)
_REFUSAL = _Kind(
    event="response.refusal",
    field="refusal",
    blank=_SAID,
    place={"content_index": 0},
    inner="response.content_part",
)
_THOUGHT = _Kind(
    event="response.reasoning_summary_text",
    field="text",
    blank={"summary": []},
    place={"summary_index": 0},
    inner="response.reasoning_summary_part",
)
_CALL = _Kind(
    event="response.function_call_arguments",
    field="arguments",
    blank={"status": "in_progress", "arguments": ""},
)


class ResponsesWire(Wire):
    """OpenAI responses: `POST /v1/responses`."""

    path = "/v1/responses"
    required = ("model", "input")
    prompt = ("tools", "instructions", "input")
    numbered = True

    def _kind(self, answer: Answer, index: int) -> _Kind:
        match answer.parts[index]:
            case Text():
                return _REFUSAL if answer.finish == "refusal" else _TEXT
            case Thinking():
                return _THOUGHT
            case _:
                return _CALL

    def _usage(self, usage: Usage) -> dict[str, Any]:
        cached = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
        return {
            "input_tokens": usage.prompt,
            "input_tokens_details": cached,
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.total,
        }

    def _response(self, answer: Answer) -> Event:
        """Return the response before anything was generated."""
        body = answer.body
        head = {
            "id": f"resp_{answer.number:04}",
            "object": "response",
            "created_at": answer.created,
        }
        asked = {"model": body["model"], "instructions": body.get("instructions"), "metadata": {}}
        tools = {
            "tools": body.get("tools") or [],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
        }
        state = {"status": "in_progress", "error": None, "incomplete_details": None}
        return {**head, **asked, **tools, **state, "output": [], "usage": None}

    def _content(self, kind: _Kind, text: str) -> dict[str, Any]:
        if kind is _TEXT:
            return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
        return {"type": "refusal" if kind is _REFUSAL else "summary_text", kind.field: text}

    def _item(self, answer: Answer, index: int) -> dict[str, Any]:
        """Return an output item; a thought is its first stored item, or one made of its text."""
        part, number, kind = (
            answer.parts[index],
            f"{answer.number:04}_{index}",
            self._kind(answer, index),
        )
        broken = answer.finish in _INCOMPLETE and index == len(answer.parts) - 1
        status = {"status": "incomplete" if broken else "completed"}
        match part:
            case Text():
                item = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
                return {**item, **status, "content": [self._content(kind, part.text)]}
            case Thinking(items=items) if items:
                asked = "reasoning.encrypted_content" in (answer.body.get("include") or ())
                hidden = () if asked else ("encrypted_content",)
                return {key: value for key, value in items[0].items() if key not in hidden}
            case Thinking():
                summary = [self._content(kind, part.text)]
                return {"id": f"rs_{number}", "type": "reasoning", "summary": summary}
            case _:
                item = {"id": f"fc_{number}", "type": "function_call", **status}
                call = {**named("call_id", part), "name": part.name, "arguments": part.arguments}
                return {**item, **call}

    def whole(self, answer: Answer) -> Event:
        reason = _INCOMPLETE.get(answer.finish)
        return {
            **self._response(answer),
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "output": [self._item(answer, index) for index in range(len(answer.parts))],
            "usage": self._usage(answer.usage),
        }

    def start(self, answer: Answer) -> list[Event]:
        kinds = ("response.created", "response.in_progress")
        return [{"type": kind, "response": self._response(answer)} for kind in kinds]

    def _at(self, answer: Answer, index: int) -> dict[str, Any]:
        place = {"item_id": self._item(answer, index).get("id"), "output_index": index}
        return {**place, **self._kind(answer, index).place}

    def _inner(self, answer: Answer, index: int, moment: str, text: str) -> list[Event]:
        """Return the event of a text or summary, which is a part inside its item."""
        kind = self._kind(answer, index)
        if not kind.inner or not text_of(answer.parts[index]):
            return []
        event = {"type": f"{kind.inner}.{moment}", **self._at(answer, index)}
        return [{**event, "part": self._content(kind, text)}]

    def open_part(self, answer: Answer, index: int) -> list[Event]:
        item = {**self._item(answer, index), **self._kind(answer, index).blank}
        added: Event = {"type": "response.output_item.added", "output_index": index, "item": item}
        return [added, *self._inner(answer, index, "added", "")]

    def delta(self, answer: Answer, index: int, piece: str) -> Event:
        kind = self._kind(answer, index)
        return {
            "type": f"{kind.event}.delta",
            **self._at(answer, index),
            "delta": piece,
            **kind.more,
        }

    def close_part(self, answer: Answer, index: int) -> list[Event]:
        kind, item, text = (
            self._kind(answer, index),
            self._item(answer, index),
            text_of(answer.parts[index]),
        )
        done = {
            "type": f"{kind.event}.done",
            **self._at(answer, index),
            kind.field: text,
            **kind.more,
        }
        last: Event = {"type": "response.output_item.done", "output_index": index, "item": item}
        return [*([done] if text else []), *self._inner(answer, index, "done", text), last]

    def end(self, answer: Answer) -> list[Event]:
        final = self.whole(answer)
        return [{"type": f"response.{final['status']}", "response": final}]

    def error_event(self, answer: Answer, refusal: Refusal) -> Event:
        code = refusal.code or refusal.type
        if code not in _FAILURES:
            return {"type": "error", "code": code, "message": refusal.message, "param": None}
        error = {"code": code, "message": refusal.message}
        failed = {**self._response(answer), "status": "failed", "error": error}
        return {"type": "response.failed", "response": failed}


CHAT, ANTHROPIC, RESPONSES = ChatWire(), AnthropicWire(), ResponsesWire()

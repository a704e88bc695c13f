"""Anthropic messages: `POST /v1/messages`."""

from typing import Any

import msgspec

from hermes.core.messages import AssistantPart, Text, Thinking, ToolCall
from hermes.core.model import Usage
from hermes.core.testing.script import Refusal
from hermes.core.testing.wire import Answer, Event, Wire, named

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


def _usage(usage: Usage) -> dict[str, Any]:
    thought = {"output_tokens_details": {"thinking_tokens": usage.reasoning}}
    return {
        **(thought if usage.reasoning else {}),
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }


def _message(answer: Answer) -> Event:
    """Return the message before anything was generated."""
    head = {"id": f"msg_{answer.number:04}", "type": "message", "role": "assistant"}
    usage = _usage(msgspec.structs.replace(answer.usage, output=1, reasoning=0))
    stop = {"stop_reason": None, "stop_sequence": None, "stop_details": None}
    return {**head, "model": answer.body["model"], "content": [], **stop, "usage": usage}


def _stop(answer: Answer) -> dict[str, Any]:
    reason = _STOP_REASONS.get(answer.finish, answer.finish)
    details = {"type": "refusal", "category": None, "explanation": None}
    refused = {"stop_details": details if reason == "refusal" else None}
    return {"stop_reason": reason, "stop_sequence": None, **refused}


def _block(part: AssistantPart) -> dict[str, Any]:
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
            return {**use, "input": _parsed(part.arguments)}


def _parsed(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def _end(answer: Answer) -> list[Event]:
    last = {"type": "message_delta", "delta": _stop(answer), "usage": _usage(answer.usage)}
    return [last, {"type": "message_stop"}]


def _whole(answer: Answer) -> Event:
    blocks = [_block(part) for part in answer.parts]
    usage = _usage(answer.usage)
    return {**_message(answer), "content": blocks, **_stop(answer), "usage": usage}


def _start(answer: Answer) -> list[Event]:
    return [{"type": "message_start", "message": _message(answer)}, {"type": "ping"}]


def _open_part(answer: Answer, index: int) -> list[Event]:
    block = _block(answer.parts[index])
    block.update(_BLANK.get(block["type"], {}))
    return [{"type": "content_block_start", "index": index, "content_block": block}]


def _change(index: int, kind: str, field: str, value: str) -> Event:
    change = {"type": kind, field: value}
    return {"type": "content_block_delta", "index": index, "delta": change}


def _delta(answer: Answer, index: int, piece: str) -> Event:
    return _change(index, *_DELTAS[type(answer.parts[index])], piece)


def _close_part(answer: Answer, index: int) -> list[Event]:
    stop: Event = {"type": "content_block_stop", "index": index}
    signature = _block(answer.parts[index]).get("signature")
    signed = [_change(index, "signature_delta", "signature", signature)] if signature else []
    return [*signed, stop]


def _error(refusal: Refusal) -> Event:
    return {"type": "error", "error": refusal.anthropic_error()}


ANTHROPIC = Wire(
    path="/v1/messages",
    required=("model", "max_tokens", "messages"),
    prompt=("tools", "system", "messages"),
    whole=_whole,
    start=_start,
    open_part=_open_part,
    delta=_delta,
    close_part=_close_part,
    end=_end,
    error=lambda refusal: {**_error(refusal), "request_id": "req_0001"},
    error_event=lambda _answer, refusal: _error(refusal),
    request_id="request-id",
    automatic_cache=False,
)

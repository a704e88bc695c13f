"""OpenAI chat completions: `POST /v1/chat/completions`."""

from typing import Any

from hermes.core.messages import Assistant, Thinking, ToolCall
from hermes.core.model import Usage
from hermes.core.testing.script import Refusal
from hermes.core.testing.wire import Answer, Event, Wire, named

_FINISHES = {"refusal": "stop"}
"""A refusal has a field of its own, and the reply stops as usual."""
_PIECEWISE = "reasoning.text"
"""The type of a detail that is streamed piece by piece, as OpenRouter does it."""


def _text_field(answer: Answer) -> str:
    return "refusal" if answer.finish == "refusal" else "content"


def _thought_field(part: Thinking) -> str:
    """Return the field of a thought: OpenRouter's, which has details, or that of others."""
    return "reasoning" if _piecewise(part) else "reasoning_content"


def _piecewise(part: Thinking) -> dict[str, Any] | None:
    """Return the detail that is streamed along with the text of the thought."""
    details = part.details if part.text else ()
    return next((detail for detail in details if detail.get("type") == _PIECEWISE), None)


def _without(detail: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {key: value for key, value in detail.items() if key not in fields}


def _usage(usage: Usage) -> dict[str, Any]:
    written = {"cache_write_tokens": usage.cache_write} if usage.cache_write else {}
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, **written},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _call(call: ToolCall, arguments: str) -> dict[str, Any]:
    extra = {"extra_content": call.extra} if call.extra else {}
    function = {"name": call.name, "arguments": arguments}
    return {**named("id", call), "type": "function", "function": function, **extra}


def _envelope(answer: Answer, kind: str, *choices: dict[str, Any]) -> Event:
    model, created = answer.body["model"], answer.created
    head = {"id": f"chatcmpl-{answer.number:04}", "object": kind, "created": created}
    return {**head, "model": model, "choices": list(choices)}


def _whole(answer: Answer) -> Event:
    reply = Assistant(answer.parts)
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    message[_text_field(answer)] = reply.text or None
    thoughts = [part for part in answer.parts if isinstance(part, Thinking)]
    if reply.thinking:
        message[_thought_field(thoughts[0])] = reply.thinking
    if details := [detail for thought in thoughts for detail in thought.details]:
        message["reasoning_details"] = details
    if reply.calls:
        message["tool_calls"] = [_call(call, call.arguments) for call in reply.calls]
    finish = _FINISHES.get(answer.finish, answer.finish)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return {**_envelope(answer, "chat.completion", choice), "usage": _usage(answer.usage)}


def _wants_usage(answer: Answer) -> bool:
    return bool((answer.body.get("stream_options") or {}).get("include_usage"))


def _chunk(answer: Answer, delta: dict[str, Any], finish: str | None = None) -> Event:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = _envelope(answer, "chat.completion.chunk", choice)
    return {**chunk, "usage": None} if _wants_usage(answer) else chunk


def _start(answer: Answer) -> list[Event]:
    return [_chunk(answer, {"role": "assistant", "content": "", "refusal": None})]


def _position(answer: Answer, index: int) -> int:
    """Return the number of a tool call among the calls."""
    return sum(isinstance(part, ToolCall) for part in answer.parts[:index])


def _open_part(answer: Answer, index: int) -> list[Event]:
    part = answer.parts[index]
    if not isinstance(part, ToolCall):
        return []
    call = {"index": _position(answer, index), **_call(part, "")}
    return [_chunk(answer, {"tool_calls": [call]})]


def _delta(answer: Answer, index: int, piece: str) -> Event:
    part = answer.parts[index]
    if isinstance(part, ToolCall):
        call = {"index": _position(answer, index), "function": {"arguments": piece}}
        return _chunk(answer, {"tool_calls": [call]})
    if not isinstance(part, Thinking):
        return _chunk(answer, {_text_field(answer): piece})
    detail = _piecewise(part)
    if detail is None:
        return _chunk(answer, {_thought_field(part): piece})
    details = [{**_without(detail, "signature"), "text": piece}]
    return _chunk(answer, {_thought_field(part): piece, "reasoning_details": details})


def _close_part(answer: Answer, index: int) -> list[Event]:
    part = answer.parts[index]
    if not isinstance(part, Thinking):
        return []
    begun = _piecewise(part)
    rest = [_without(detail, "text") if detail is begun else detail for detail in part.details]
    return [_chunk(answer, {"reasoning_details": [detail]}) for detail in rest]


def _end(answer: Answer) -> list[Event]:
    last = _chunk(answer, {}, _FINISHES.get(answer.finish, answer.finish))
    usage = {**_envelope(answer, "chat.completion.chunk"), "usage": _usage(answer.usage)}
    return [last, usage] if _wants_usage(answer) else [last]


def _error(refusal: Refusal) -> Event:
    return {"error": refusal.openai_error()}


CHAT = Wire(
    path="/v1/chat/completions",
    required=("model", "messages"),
    prompt=("tools", "messages"),
    whole=_whole,
    start=_start,
    open_part=_open_part,
    delta=_delta,
    close_part=_close_part,
    end=_end,
    error=_error,
    error_event=lambda _answer, refusal: _error(refusal),
    done=b"data: [DONE]\n\n",
)

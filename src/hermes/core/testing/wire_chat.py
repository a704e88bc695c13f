"""OpenAI chat completions: `POST /v1/chat/completions`."""

from typing import Any

from hermes.core.messages import Assistant, Text, Thinking, ToolCall
from hermes.core.testing.refusals import Refusal
from hermes.core.testing.wire import Answer, Event, Wire, named
from hermes.core.usage import Usage


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
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    thoughts = [part for part in answer.parts if isinstance(part, Thinking)]
    if details := [detail for thought in thoughts for detail in thought.details]:
        message["reasoning_details"] = details
    if reply.calls:
        message["tool_calls"] = [_call(call, call.arguments) for call in reply.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish}
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
    """Tool calls are numbered among themselves."""
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
    return _chunk(answer, {"content" if isinstance(part, Text) else "reasoning_content": piece})


def _close_part(answer: Answer, index: int) -> list[Event]:
    part = answer.parts[index]
    details = part.details if isinstance(part, Thinking) else ()
    return [_chunk(answer, {"reasoning_details": [detail]}) for detail in details]


def _end(answer: Answer) -> list[Event]:
    last = _chunk(answer, {}, answer.finish)
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
    error_event=_error,
    done=b"data: [DONE]\n\n",
)

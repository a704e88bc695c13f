"""OpenAI responses: `POST /v1/responses`."""

from typing import Any

import msgspec

from hermes.core.messages import Text, Thinking
from hermes.core.model import Usage
from hermes.core.testing.script import Refusal
from hermes.core.testing.wire import Answer, Event, Wire, named, text_of

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


def _kind(answer: Answer, index: int) -> _Kind:
    match answer.parts[index]:
        case Text():
            return _REFUSAL if answer.finish == "refusal" else _TEXT
        case Thinking():
            return _THOUGHT
        case _:
            return _CALL


def _usage(usage: Usage) -> dict[str, Any]:
    cached = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": cached,
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def _response(answer: Answer) -> Event:
    """Return the response before anything was generated."""
    body = answer.body
    head = {"id": f"resp_{answer.number:04}", "object": "response", "created_at": answer.created}
    asked = {"model": body["model"], "instructions": body.get("instructions"), "metadata": {}}
    tools = {"tools": body.get("tools") or [], "tool_choice": "auto", "parallel_tool_calls": True}
    state = {"status": "in_progress", "error": None, "incomplete_details": None}
    return {**head, **asked, **tools, **state, "output": [], "usage": None}


def _content(kind: _Kind, text: str) -> dict[str, Any]:
    if kind is _TEXT:
        return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    return {"type": "refusal" if kind is _REFUSAL else "summary_text", kind.field: text}


def _item(answer: Answer, index: int) -> dict[str, Any]:
    """Return an output item; a thought is its first stored item, or one made of its text."""
    part, number, kind = answer.parts[index], f"{answer.number:04}_{index}", _kind(answer, index)
    broken = answer.finish in _INCOMPLETE and index == len(answer.parts) - 1
    status = {"status": "incomplete" if broken else "completed"}
    match part:
        case Text():
            item = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
            return {**item, **status, "content": [_content(kind, part.text)]}
        case Thinking(items=items) if items:
            hidden = () if _asks_for_secrets(answer) else ("encrypted_content",)
            return {key: value for key, value in items[0].items() if key not in hidden}
        case Thinking():
            summary = [_content(kind, part.text)]
            return {"id": f"rs_{number}", "type": "reasoning", "summary": summary}
        case _:
            item = {"id": f"fc_{number}", "type": "function_call", **status}
            call = {**named("call_id", part), "name": part.name, "arguments": part.arguments}
            return {**item, **call}


def _asks_for_secrets(answer: Answer) -> bool:
    return "reasoning.encrypted_content" in (answer.body.get("include") or ())


def _whole(answer: Answer) -> Event:
    reason = _INCOMPLETE.get(answer.finish)
    return {
        **_response(answer),
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": [_item(answer, index) for index in range(len(answer.parts))],
        "usage": _usage(answer.usage),
    }


def _start(answer: Answer) -> list[Event]:
    kinds = ("response.created", "response.in_progress")
    return [{"type": kind, "response": _response(answer)} for kind in kinds]


def _at(answer: Answer, index: int) -> dict[str, Any]:
    place = {"item_id": _item(answer, index).get("id"), "output_index": index}
    return {**place, **_kind(answer, index).place}


def _inner(answer: Answer, index: int, moment: str, text: str) -> list[Event]:
    """Return the event of a text or summary, which is a part inside its item."""
    kind = _kind(answer, index)
    if not kind.inner or not text_of(answer.parts[index]):
        return []
    event = {"type": f"{kind.inner}.{moment}", **_at(answer, index)}
    return [{**event, "part": _content(kind, text)}]


def _open_part(answer: Answer, index: int) -> list[Event]:
    item = {**_item(answer, index), **_kind(answer, index).blank}
    added: Event = {"type": "response.output_item.added", "output_index": index, "item": item}
    return [added, *_inner(answer, index, "added", "")]


def _delta(answer: Answer, index: int, piece: str) -> Event:
    kind = _kind(answer, index)
    return {"type": f"{kind.event}.delta", **_at(answer, index), "delta": piece, **kind.more}


def _close_part(answer: Answer, index: int) -> list[Event]:
    kind, item, text = _kind(answer, index), _item(answer, index), text_of(answer.parts[index])
    done = {"type": f"{kind.event}.done", **_at(answer, index), kind.field: text, **kind.more}
    last: Event = {"type": "response.output_item.done", "output_index": index, "item": item}
    return [*([done] if text else []), *_inner(answer, index, "done", text), last]


def _end(answer: Answer) -> list[Event]:
    final = _whole(answer)
    return [{"type": f"response.{final['status']}", "response": final}]


def _error_event(answer: Answer, refusal: Refusal) -> Event:
    code = refusal.code or refusal.type
    if code not in _FAILURES:
        return {"type": "error", "code": code, "message": refusal.message, "param": None}
    error = {"code": code, "message": refusal.message}
    failed = {**_response(answer), "status": "failed", "error": error}
    return {"type": "response.failed", "response": failed}


RESPONSES = Wire(
    path="/v1/responses",
    required=("model", "input"),
    prompt=("tools", "instructions", "input"),
    whole=_whole,
    start=_start,
    open_part=_open_part,
    delta=_delta,
    close_part=_close_part,
    end=_end,
    error=lambda refusal: {"error": refusal.openai_error()},
    error_event=_error_event,
    numbered=True,
)

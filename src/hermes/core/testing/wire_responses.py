"""OpenAI responses: `POST /v1/responses`."""

from typing import Any

from hermes.core.messages import Text, Thinking, ToolCall
from hermes.core.testing.refusals import Refusal
from hermes.core.testing.wire import Answer, Event, Wire, named, text_of
from hermes.core.usage import Usage

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_BLANK: dict[type, dict[str, Any]] = {
    Text: {"status": "in_progress", "content": []},
    Thinking: {"summary": []},
    ToolCall: {"status": "in_progress", "arguments": ""},
}
_TEXTS = {
    Text: "response.output_text",
    Thinking: "response.reasoning_summary_text",
    ToolCall: "response.function_call_arguments",
}
_INNER: dict[type, str] = {
    Text: "response.content_part",
    Thinking: "response.reasoning_summary_part",
}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def _response(answer: Answer) -> Event:
    """The response before anything was generated."""
    body = answer.body
    head = {"id": f"resp_{answer.number:04}", "object": "response", "created_at": answer.created}
    asked = {"model": body["model"], "instructions": body.get("instructions"), "metadata": {}}
    tools = {"tools": body.get("tools") or [], "tool_choice": "auto", "parallel_tool_calls": True}
    state = {"status": "in_progress", "error": None, "incomplete_details": None}
    return {**head, **asked, **tools, **state, "output": [], "usage": None}


def _content(kind: type, text: str) -> dict[str, Any]:
    if kind is Thinking:
        return {"type": "summary_text", "text": text}
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _item(answer: Answer, index: int) -> dict[str, Any]:
    """An output item; a thought is its first stored item, or one made of its text."""
    part, number = answer.parts[index], f"{answer.number:04}_{index}"
    match part:
        case Text():
            item = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
            return {**item, "status": "completed", "content": [_content(Text, part.text)]}
        case Thinking(items=items) if items:
            return dict(items[0])
        case Thinking():
            summary = [_content(Thinking, part.text)]
            return {"id": f"rs_{number}", "type": "reasoning", "summary": summary}
        case _:
            item = {"id": f"fc_{number}", "type": "function_call", "status": "completed"}
            call = {**named("call_id", part), "name": part.name, "arguments": part.arguments}
            return {**item, **call}


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
    inner = {Text: {"content_index": 0}, Thinking: {"summary_index": 0}, ToolCall: {}}
    place = {"item_id": _item(answer, index).get("id"), "output_index": index}
    return {**place, **inner[type(answer.parts[index])]}


def _inner(answer: Answer, index: int, moment: str, text: str) -> list[Event]:
    """Texts and summaries are a part inside their item."""
    kind = type(answer.parts[index])
    if kind not in _INNER or not text_of(answer.parts[index]):
        return []
    event = {"type": f"{_INNER[kind]}.{moment}", **_at(answer, index)}
    return [{**event, "part": _content(kind, text)}]


def _open_part(answer: Answer, index: int) -> list[Event]:
    item = {**_item(answer, index), **_BLANK[type(answer.parts[index])]}
    added: Event = {"type": "response.output_item.added", "output_index": index, "item": item}
    return [added, *_inner(answer, index, "added", "")]


def _delta(answer: Answer, index: int, piece: str) -> Event:
    event = f"{_TEXTS[type(answer.parts[index])]}.delta"
    return {"type": event, **_at(answer, index), "delta": piece}


def _close_part(answer: Answer, index: int) -> list[Event]:
    part, item = answer.parts[index], _item(answer, index)
    text, field = text_of(part), "arguments" if isinstance(part, ToolCall) else "text"
    done = {"type": f"{_TEXTS[type(part)]}.done", **_at(answer, index), field: text}
    last: Event = {"type": "response.output_item.done", "output_index": index, "item": item}
    return [*([done] if text else []), *_inner(answer, index, "done", text), last]


def _end(answer: Answer) -> list[Event]:
    final = _whole(answer)
    return [{"type": f"response.{final['status']}", "response": final}]


def _error_event(refusal: Refusal) -> Event:
    return {"type": "error", "code": refusal.code, "message": refusal.message, "param": None}


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

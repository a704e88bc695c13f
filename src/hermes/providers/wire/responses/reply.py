"""A reply of the responses API, read from its events or from one body."""

from collections.abc import Sequence
from typing import Any

import msgspec

from hermes.core.messages import Text, Thinking
from hermes.core.model import ModelEvent, ReasoningDelta, Reply, TextDelta
from hermes.core.usage import Usage
from hermes.providers.failures.later import failed_inside
from hermes.providers.target import Target
from hermes.providers.wire.replies import ReplyDraft, count, declined, decoded

Number = float | None


class InputDetails(msgspec.Struct):
    cached_tokens: Number = None
    cache_write_tokens: Number = None


class OutputDetails(msgspec.Struct):
    reasoning_tokens: Number = None


class UsageWire(msgspec.Struct):
    input_tokens: Number = None
    output_tokens: Number = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None
    cost: Any = None


class Incomplete(msgspec.Struct):
    reason: str | None = None


class Response(msgspec.Struct):
    status: str | None = None
    output: list[dict[str, Any]] | None = None
    usage: UsageWire | None = None
    error: Any = None
    incomplete_details: Incomplete | None = None


class Event(msgspec.Struct):
    type: str = ""
    delta: Any = None
    output_index: int | None = None
    item_id: str | None = None
    item: dict[str, Any] | None = None
    arguments: str | None = None
    summary_index: int | None = None
    response: Response | None = None
    error: Any = None
    code: Any = None
    message: str | None = None


class _Item:
    """An output item; its last word is `item`, and until then there are the pieces."""

    def __init__(self, item: dict[str, Any]) -> None:
        self.item = item
        self.pieces: list[str] = []
        self.summaries = 0
        self.done = False

    def finish(self, draft: ReplyDraft) -> str:
        """Adds the item to the reply and gives the refusal in it."""
        grown = "".join(self.pieces)
        kind = self.item.get("type")
        if kind == "message":
            content = self.item.get("content") or ()
            said = "".join([part.get("text") or "" for part in content])
            if text := said or grown:
                draft.add(Text(text))
            return "".join([part.get("refusal") or "" for part in content])
        if kind == "reasoning":
            draft.add(Thinking(_thinking_of(self.item) or grown, items=(self.item,)))
        elif kind == "function_call":
            arguments = self.item.get("arguments") if self.done else None
            call_id, name = self.item.get("call_id") or "", self.item.get("name") or ""
            draft.add_call(call_id, name, arguments or grown)
        return ""


class ResponsesReader:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._items: list[_Item] = []
        self._places: dict[int | str, _Item] = {}
        self._refusal = ""
        self._finish: str | None = None
        self._usage: UsageWire | None = None
        self.ended = False

    def take(self, data: bytes) -> Sequence[ModelEvent] | None:
        if data == b"[DONE]":
            return ()
        event: Event = decoded(_event_decoder, data, self._target.provider)
        kind, delta = event.type, event.delta
        if delta and isinstance(delta, str):
            return self._take_delta(kind, delta, event)
        if event.item is not None:
            return self._take_item(kind, event.item, event)
        if kind == "error":
            told = {"code": event.code, "message": event.message}
            raise failed_inside(self._target.provider, event.error or told)
        if kind in _ENDS and event.response is not None:
            self._end(event.response, kind.removeprefix("response."))
        return None if kind == "keepalive" else ()

    def take_whole(self, data: bytes) -> None:
        response: Response = decoded(_response_decoder, data, self._target.provider)
        unsaid = "" if response.output is None else "completed"
        self._end(response, response.status or unsaid)

    def reply(self) -> Reply:
        draft = ReplyDraft(self._target)
        refusal = "".join([item.finish(draft) for item in self._items]) or self._refusal
        if refusal:
            raise declined(self._target.provider, refusal)
        cost = self._usage.cost if self._usage else None
        cost_usd = float(cost) if isinstance(cost, int | float) else None
        return draft.finished(self._finish, _counted(self._usage), cost_usd)

    def _take_delta(self, kind: str, delta: str, event: Event) -> Sequence[ModelEvent]:
        if kind == "response.output_text.delta":
            self._item_of(event, "message").pieces.append(delta)
            return (TextDelta(delta),)
        if kind == "response.function_call_arguments.delta":
            self._item_of(event, "function_call").pieces.append(delta)
        elif kind in _THOUGHTS:
            return (ReasoningDelta(self._thought(delta, event)),)
        elif kind == "response.refusal.delta":
            self._refusal += delta
        return ()

    def _thought(self, delta: str, event: Event) -> str:
        """Summaries come in parts, which are paragraphs."""
        item = self._item_of(event, "reasoning")
        number = event.summary_index or 0
        if number > item.summaries:
            item.summaries = number
            delta = "\n\n" + delta
        item.pieces.append(delta)
        return delta

    def _take_item(self, kind: str, item: dict[str, Any], event: Event) -> Sequence[ModelEvent]:
        if kind == "response.output_item.added":
            self._begin(item, event)
        elif kind == "response.output_item.done":
            known = self._item_of(event, item.get("type") or "")
            known.item, known.done = item, True
        return ()

    def _item_of(self, event: Event, kind: str) -> _Item:
        """The item an event is about. Some servers never announce it."""
        item = self._places.get(_place(event))
        if item is None or (item.done and item.item.get("type") != kind):
            return self._begin({"type": kind}, event)
        return item

    def _begin(self, item: dict[str, Any], event: Event) -> _Item:
        begun = self._places[_place(event)] = _Item(item)
        self._items.append(begun)
        return begun

    def _end(self, response: Response, status: str) -> None:
        self.ended = True
        self._usage = response.usage or self._usage
        if response.error or status in ("failed", "cancelled"):
            told = response.error or {"message": f"the reply was {status}"}
            raise failed_inside(self._target.provider, told)
        if not self._items:
            for item in response.output or ():
                self._items.append(_Item(item))
                self._items[-1].done = True
        reason = response.incomplete_details.reason if response.incomplete_details else None
        if status == "completed":
            self._finish = "stop"
        elif status == "incomplete":
            self._finish = reason or "length"


def _place(event: Event) -> int | str:
    if event.output_index is not None:
        return event.output_index
    return event.item_id or (event.item or {}).get("id") or 0


def _thinking_of(item: dict[str, Any]) -> str:
    parts = item.get("summary") or item.get("content") or ()
    return "\n\n".join([part.get("text") or "" for part in parts])


def _counted(wire: UsageWire | None) -> Usage | None:
    if wire is None:
        return None
    prompt, details = count(wire.input_tokens), wire.input_tokens_details or InputDetails()
    read = min(count(details.cached_tokens), prompt)
    write = min(count(details.cache_write_tokens), prompt - read)
    thought = wire.output_tokens_details or OutputDetails()
    return Usage(
        input=prompt - read - write,
        output=count(wire.output_tokens),
        cache_read=read,
        cache_write=write,
        reasoning=count(thought.reasoning_tokens),
    )


_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_event_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Event)
_response_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Response)

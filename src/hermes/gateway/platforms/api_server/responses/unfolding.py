"""A response as it comes into being: its items, and the events that tell of them."""

import secrets
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from hermes.core.events import Event, TextFinished, ToolFinished, ToolStarted, TurnFinished
from hermes.gateway.platforms.api_server.refusals import failure_of
from hermes.gateway.platforms.api_server.responses.wire import (
    CallItem,
    Incomplete,
    Item,
    MessageItem,
    OutputText,
    ResponseError,
    ResponseObject,
    ResultItem,
    usage_of,
)
from hermes.gateway.platforms.api_server.speech import Speech

Told = dict[str, Any]


class Unfolding:
    def __init__(self, response: ResponseObject) -> None:
        self.response = response
        self._items: list[Item] = []
        self._speech = Speech()
        self._message: MessageItem | None = None
        """The message whose text comes in."""
        self._number = 0

    def begin(self) -> Iterator[Told]:
        yield self._event("response.created", response=self.response)
        yield self._event("response.in_progress", response=self.response)

    def hear(self, event: Event) -> Iterator[Told]:
        if text := self._speech.hear(event):
            yield from self._said(text)
        match event:
            case TextFinished() | TurnFinished():
                yield from self._finished()
            case ToolStarted():
                call = event.call
                item = CallItem(_id("fc"), call.id, call.name, call.arguments)
                yield from self._called(item)
            case ToolFinished():
                result = ResultItem(_id("fco"), event.call_id, event.result)
                yield self._added(result)
                yield self._done(result)
            case _:
                pass

    def end(self, end: TurnFinished, *, messages: int) -> ResponseObject:
        """The response as it is in the end; `messages` are those of the conversation."""
        failure = failure_of(end)
        cut = end.exit_reason == "truncated"
        self.response = replace(
            self.response,
            status="failed" if failure else "incomplete" if cut else "completed",
            output=list(self._items),
            usage=usage_of(end.usage),
            error=ResponseError(failure.code, str(failure)) if failure else None,
            incomplete_details=Incomplete("max_output_tokens") if cut and not failure else None,
            hermes=replace(self.response.hermes, session_id=end.session_id, messages=messages),
        )
        return self.response

    def fail(self, error: ResponseError) -> None:
        self.response = replace(self.response, status="failed", error=error)

    def last(self) -> Iterator[Told]:
        """After `end`."""
        yield self._event(f"response.{self.response.status}", response=self.response)

    def _said(self, text: str) -> Iterator[Told]:
        if self._message is None:
            self._message = MessageItem(_id("msg"), [], "in_progress")
            yield self._added(self._message)
            yield self._part("response.content_part.added", part=OutputText(""))
        yield self._part("response.output_text.delta", delta=text, logprobs=[])

    def _finished(self) -> Iterator[Told]:
        if self._message is None:
            return
        text = OutputText(self._speech.text)
        yield self._part("response.output_text.done", text=text.text, logprobs=[])
        yield self._part("response.content_part.done", part=text)
        yield self._done(replace(self._message, content=[text], status="completed"))
        self._message, self._speech = None, Speech()

    def _called(self, item: CallItem) -> Iterator[Told]:
        yield self._added(replace(item, arguments="", status="in_progress"))
        place = {"item_id": item.id, "output_index": len(self._items)}
        given = item.arguments
        yield self._event("response.function_call_arguments.delta", **place, delta=given)
        yield self._event("response.function_call_arguments.done", **place, arguments=given)
        yield self._done(item)

    def _added(self, item: Item) -> Told:
        place = len(self._items)
        return self._event("response.output_item.added", output_index=place, item=item)

    def _done(self, item: Item) -> Told:
        self._items.append(item)
        place = len(self._items) - 1
        return self._event("response.output_item.done", output_index=place, item=item)

    def _part(self, kind: str, **more: Any) -> Told:
        """Of the message that comes in."""
        name = self._message.id if self._message else ""
        place = len(self._items)
        return self._event(kind, item_id=name, output_index=place, content_index=0, **more)

    def _event(self, kind: str, **more: Any) -> Told:
        number = self._number
        self._number += 1
        return {"type": kind, "sequence_number": number, **more}


def _id(start: str) -> str:
    return f"{start}_{secrets.token_hex(12)}"

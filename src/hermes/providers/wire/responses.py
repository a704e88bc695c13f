from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, ClassVar, assert_never

import msgspec

from hermes.core.messages import (
    Assistant,
    AssistantPart,
    Message,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from hermes.core.model import ModelEvent, ModelRequest, ReasoningDelta, Reply, TextDelta, ToolSpec
from hermes.core.openai_format import canonical_arguments
from hermes.core.usage import Usage
from hermes.providers.failures import failed_inside
from hermes.providers.target import Target
from hermes.providers.wire.codec import (
    Growing,
    ReplyDraft,
    count,
    declined,
    decoded,
    encoded_tools,
    joined,
    safe_call_id,
)
from hermes.providers.wire.model import address

# Messages and tools as the responses wire writes them: a message becomes a list of items.

Item = dict[str, Any]


class ResponsesForm(msgspec.Struct, frozen=True):
    """A wire form (see `core.messages.WireForm`); an empty list stands for nothing to send."""

    developer_role: bool = False

    def __call__(self, message: Message) -> list[Item]:
        match message:
            case System():
                role = "developer" if self.developer_role else "system"
                return _said(role, "input_text", message.text.strip())
            case User():
                return _user(message)
            case Assistant():
                items = [item for part in message.parts for item in _assistant_part(part)]
                # Thinking must be followed by what came of it.
                return items if any(item.get("type") != "reasoning" for item in items) else []
            case ToolResult():
                call_id = safe_call_id(message.call_id)
                output = {"type": "function_call_output", "call_id": call_id}
                return [{**output, "output": message.text}]
            case _:
                assert_never(message)


def tool_form(spec: ToolSpec) -> Item:
    # Without `strict: false` every argument would become a required one.
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", **function, "strict": False}


def _said(role: str, kind: str, text: str) -> list[Item]:
    return [_message(role, [{"type": kind, "text": text}])] if text else []


def _message(role: str, content: Sequence[Item]) -> Item:
    return {"type": "message", "role": role, "content": content}


def _user(message: User) -> list[Item]:
    content = [
        {"type": "input_text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "input_image", "image_url": part.url}
        for part in message.parts
        if not (isinstance(part, Text) and not part.text)
    ]
    return [_message("user", content)] if content else []


def _assistant_part(part: AssistantPart) -> list[Item]:
    match part:
        case Text():
            return _said("assistant", "output_text", part.text.strip())
        case Thinking():
            return [item for item in part.items if _can_return(item)]
        case ToolCall():
            call = {"type": "function_call", "call_id": safe_call_id(part.id), "name": part.name}
            return [{**call, "arguments": canonical_arguments(part.arguments)}]
        case _:
            assert_never(part)


def _can_return(item: Item) -> bool:
    """An item without its content is only a reference to one that the endpoint did not store."""
    return bool(item.get("encrypted_content") or item.get("content"))


# A reply of the responses API, read from its events or from one body.

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


# Requests of the OpenAI responses API, and of the Codex service that speaks it too.

DEFAULT_INSTRUCTIONS = "You are a helpful assistant."
"""For services that insist on instructions."""


class ResponsesDialect:
    headers: ClassVar[Mapping[str, str]] = {}

    def __init__(self, target: Target) -> None:
        self._target = target
        self._growing = Growing(ResponsesForm(target.profile.developer_role))

    def url(self, base_url: str) -> str:
        return address(base_url, "/responses")

    def reader(self) -> ResponsesReader:
        return ResponsesReader(self._target)

    def body(self, request: ModelRequest, stream: bool) -> bytes:
        """Nothing is stored at the endpoint, so thinking comes and goes in encrypted form."""
        profile, effort = self._target.profile, request.reasoning_effort
        leading = list(takewhile(lambda message: isinstance(message, System), request.messages))
        rest = request.messages[len(leading) :]
        body: dict[str, Any] = {"model": self._target.model, "store": False}
        if profile.reasoning:  # a model that does not think refuses to be asked for thoughts
            body["include"] = ["reasoning.encrypted_content"]
        instructions = "\n\n".join(message.text.strip() for message in leading)
        if instructions or profile.streaming == "always":
            body["instructions"] = instructions or DEFAULT_INSTRUCTIONS
        body["input"] = joined(self._growing.encoded(rest))
        if request.tools and profile.tools:
            body["tools"] = encoded_tools(tool_form, request.tools)
        if request.max_tokens is not None and profile.max_tokens_field:
            body["max_output_tokens"] = request.max_tokens
        if request.temperature is not None and profile.temperature:
            body["temperature"] = request.temperature
        if effort and profile.reasoning:
            body["reasoning"] = {"effort": effort, "summary": "auto"}
        if request.reply_schema is not None:
            schema = {"name": "reply", "strict": True, "schema": request.reply_schema}
            body["text"] = {"format": {"type": "json_schema", **schema}}
        if stream:
            body["stream"] = True
        return msgspec.json.encode(body | profile.extra_body)

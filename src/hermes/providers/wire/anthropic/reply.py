"""An Anthropic reply, read from its events or from one body."""

from collections.abc import Sequence
from typing import Any

import msgspec

from hermes.core.messages import Text, Thinking
from hermes.core.model import ModelEvent, ReasoningDelta, Reply, TextDelta
from hermes.core.usage import Usage
from hermes.providers.failures.later import failed_inside
from hermes.providers.target import Target
from hermes.providers.wire.anthropic.form import THOUGHTS
from hermes.providers.wire.replies import ReplyDraft, count, declined, decoded

Number = float | None


class OutputDetails(msgspec.Struct):
    thinking_tokens: Number = None


class UsageWire(msgspec.Struct):
    """Each count is a total so far; one that is missing or 0 keeps its earlier value."""

    input_tokens: Number = None
    output_tokens: Number = None
    cache_creation_input_tokens: Number = None
    cache_read_input_tokens: Number = None
    output_tokens_details: OutputDetails | None = None


class StopDetails(msgspec.Struct):
    category: str | None = None
    explanation: str | None = None


class Message(msgspec.Struct):
    """The message at its beginning, or the whole reply."""

    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    stop_details: StopDetails | None = None
    usage: UsageWire | None = None
    error: Any = None


class Delta(msgspec.Struct):
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    stop_details: StopDetails | None = None


class Event(msgspec.Struct):
    type: str = ""
    index: int | None = None
    message: Message | str | None = None
    """Text only in an error that is not quite in order."""
    content_block: dict[str, Any] | None = None
    delta: Delta | None = None
    usage: UsageWire | None = None
    error: Any = None


class _Block:
    """A content block whose deltas are still coming."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.kind = start.get("type", "")
        self.start = start
        self.pieces: list[str] = []
        self.signature = ""

    def add(self, delta: Delta) -> ModelEvent | None:
        if text := delta.text:
            self.pieces.append(text)
            return TextDelta(text)
        if thought := delta.thinking:
            self.pieces.append(thought)
            return ReasoningDelta(thought)
        if delta.partial_json:
            self.pieces.append(delta.partial_json)
        elif delta.signature:
            self.signature += delta.signature
        return None

    @property
    def text(self) -> str:
        return (self.start.get("text") or "") + "".join(self.pieces) if self.kind == "text" else ""

    def finish(self, draft: ReplyDraft) -> None:
        grown = "".join(self.pieces)
        if text := self.text:
            draft.add(Text(text))
        elif self.kind in THOUGHTS:
            draft.add(self._thought(grown))
        elif self.kind == "tool_use":
            given = self.start.get("input")
            arguments = grown or (_json(given) if given else "")
            draft.add_call(self.start.get("id") or "", self.start.get("name") or "", arguments)

    def _thought(self, grown: str) -> Thinking:
        """The block exactly as it would have come in one piece."""
        block = dict(self.start)
        if grown:
            block["thinking"] = (block.get("thinking") or "") + grown
        if self.signature:
            block["signature"] = (block.get("signature") or "") + self.signature
        return Thinking(block.get("thinking") or "", (block,))


class AnthropicReader:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._blocks: list[_Block] = []
        self._open: dict[int, _Block] = {}
        """The latest block of each index, for servers that use one twice."""
        self._finish: str | None = None
        self._stop = StopDetails()
        self._usage: UsageWire | None = None
        self.ended = False

    def take(self, data: bytes) -> Sequence[ModelEvent] | None:
        event: Event = decoded(_event_decoder, data, self._target.provider)
        if event.type == "content_block_delta":
            return self._take_delta(event)
        if event.type == "ping":
            return None
        if event.type == "content_block_start" and event.content_block is not None:
            return self._begin(event.content_block, event.index)
        if event.error or event.type == "error":
            raise failed_inside(self._target.provider, event.error or event.message)
        self.ended = event.type == "message_stop"
        self._count(event.usage)
        if isinstance(event.message, Message):
            self._count(event.message.usage)
        if event.delta is not None:
            self._finish = event.delta.stop_reason or self._finish
            self._stop = event.delta.stop_details or self._stop
        return ()

    def take_whole(self, data: bytes) -> None:
        reply: Message = decoded(_message_decoder, data, self._target.provider)
        if reply.error:
            raise failed_inside(self._target.provider, reply.error)
        self.ended = True
        self._blocks = [_Block(block) for block in reply.content or ()]
        self._usage = reply.usage
        if reply.content is not None:
            self._finish = reply.stop_reason or "end_turn"
            self._stop = reply.stop_details or self._stop

    def reply(self) -> Reply:
        draft = ReplyDraft(self._target)
        for block in self._blocks:
            block.finish(draft)
        if self._finish == "refusal":
            raise declined(self._target.provider, self._excuse())
        return draft.finished(self._finish, _counted(self._usage))

    def _begin(self, start: dict[str, Any], index: int | None) -> Sequence[ModelEvent]:
        block = _Block(start)
        self._open[len(self._blocks) if index is None else index] = block
        self._blocks.append(block)
        text, thought = start.get("text"), start.get("thinking")
        if text:
            return (TextDelta(text),)
        return (ReasoningDelta(thought),) if thought else ()

    def _take_delta(self, event: Event) -> Sequence[ModelEvent] | None:
        block = self._open.get(event.index) if event.index is not None else None
        if block is None and self._blocks:
            block = self._blocks[-1]
        if block is None or event.delta is None:
            return None
        shown = block.add(event.delta)
        return () if shown is None else (shown,)

    def _count(self, usage: UsageWire | None) -> None:
        if usage is not None:
            told = {name: n for name, n in msgspec.structs.asdict(usage).items() if n}
            self._usage = msgspec.structs.replace(self._usage or UsageWire(), **told)

    def _excuse(self) -> str:
        said = "".join([block.text for block in self._blocks])
        return self._stop.explanation or said or self._stop.category or ""


def _counted(wire: UsageWire | None) -> Usage | None:
    if wire is None:
        return None
    details = wire.output_tokens_details
    return Usage(
        input=count(wire.input_tokens),
        output=count(wire.output_tokens),
        cache_read=count(wire.cache_read_input_tokens),
        cache_write=count(wire.cache_creation_input_tokens),
        reasoning=count(details.thinking_tokens if details else None),
    )


def _json(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_event_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Event)
_message_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Message)

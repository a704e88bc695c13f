"""A chat-completions reply, put together from its chunks."""

from collections.abc import Iterator
from typing import Any

import msgspec

from hermes.core.errors import ContentRefused, ReplyInvalid, ServerFault, StreamCut
from hermes.core.messages import Assistant, AssistantPart, Text, Thinking, ToolCall
from hermes.core.model import ModelEvent, ReasoningDelta, Reply, TextDelta
from hermes.core.openai_format import made_call_id
from hermes.core.usage import Usage
from hermes.providers.wire.failures import detail_of


class FunctionPiece(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallPiece(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: FunctionPiece | None = None
    extra_content: dict[str, Any] | None = None


class Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[CallPiece] | None = None


class Choice(msgspec.Struct):
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None


class PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class UsageWire(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: OutputDetails | None = None

    def usage(self) -> Usage:
        prompt, details = self.prompt_tokens or 0, self.prompt_tokens_details
        cached = min((details.cached_tokens if details else 0) or 0, prompt)
        thought = self.completion_tokens_details
        return Usage(
            input=prompt - cached,
            output=self.completion_tokens or 0,
            cache_read=cached,
            reasoning=(thought.reasoning_tokens if thought else 0) or 0,
        )


class Chunk(msgspec.Struct):
    choices: list[Choice] = []
    usage: UsageWire | None = None
    model: str | None = None
    error: Any = None


WholeReply = Chunk
"""A reply that was not streamed differs only in `choices[].message`."""


class _PartialCall:
    """A tool call whose pieces are still coming."""

    def __init__(self) -> None:
        self.id, self.name, self.arguments = "", "", ""
        self.extra: dict[str, Any] | None = None

    def add(self, piece: CallPiece) -> None:
        self.id = self.id or piece.id or ""
        self.extra = piece.extra_content or self.extra
        if piece.function is None:
            return
        self.name = self.name or piece.function.name or ""
        arguments = piece.function.arguments
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        self.arguments += arguments or ""


class ReplyBuilder:
    """Takes chunks, gives deltas, and at the end the whole `Reply`."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._calls: dict[int, _PartialCall] = {}
        self._refusal = ""
        self._finish: str | None = None
        self._usage = Usage()
        self._model = ""

    def take(self, chunk: Chunk) -> Iterator[ModelEvent]:
        if chunk.error:
            detail = detail_of(msgspec.json.encode(chunk.error))
            raise ServerFault(f"{self._provider} failed mid reply: {detail}", body=detail)
        self._model = self._model or chunk.model or ""
        if chunk.usage is not None:
            self._usage = chunk.usage.usage()
        for choice in chunk.choices[:1]:
            self._finish = choice.finish_reason or self._finish
            if choice.delta is not None:
                yield from self._take_delta(choice.delta)

    def take_whole(self, reply: Chunk) -> None:
        for choice in reply.choices:
            choice.delta = choice.message
            choice.finish_reason = choice.finish_reason or "stop"
        for _ in self.take(reply):
            continue

    def _take_delta(self, delta: Delta) -> Iterator[ModelEvent]:
        if thought := delta.reasoning_content or delta.reasoning:
            self._thinking.append(thought)
            yield ReasoningDelta(thought)
        self._details.extend(delta.reasoning_details or ())
        if delta.content:
            self._text.append(delta.content)
            yield TextDelta(delta.content)
        self._refusal += delta.refusal or ""
        for position, piece in enumerate(delta.tool_calls or ()):
            self._call_for(piece, position).add(piece)

    def _call_for(self, piece: CallPiece, position: int) -> _PartialCall:
        """The call a piece belongs to. Some servers leave the index out or repeat it."""
        index = position if piece.index is None else piece.index
        known = self._calls.get(index)
        if known is not None and piece.id and known.id and piece.id != known.id:
            index = max(self._calls) + 1
        return self._calls.setdefault(index, _PartialCall())

    def reply(self) -> Reply:
        """The whole reply. Raises when the stream ended before it was complete."""
        if self._refusal and not self._text:
            raise ContentRefused(f"{self._provider} declined: {self._refusal}")
        if self._finish is None:
            if not (self._text or self._calls or self._thinking):
                raise ReplyInvalid(f"{self._provider} sent an empty reply", provider=self._provider)
            raise StreamCut(f"{self._provider} cut the reply short", provider=self._provider)
        message = Assistant(tuple(self._parts()), finish_reason=self._finish)
        return Reply(message, self._usage, self._model)

    def _parts(self) -> Iterator[AssistantPart]:
        if self._thinking or self._details:
            yield Thinking("".join(self._thinking), tuple(self._details))
        if self._text:
            yield Text("".join(self._text))
        seen: set[str] = set()
        for position, index in enumerate(sorted(self._calls)):
            call = self._calls[index]
            call_id = call.id
            if not call_id or call_id in seen:
                call_id = made_call_id(call.name, call.arguments, position)
            seen.add(call_id)
            yield ToolCall(call_id, call.name, call.arguments or "{}", call.extra)

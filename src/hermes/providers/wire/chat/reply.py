"""A chat-completions reply, read from its chunks or from one body."""

from collections.abc import Sequence
from typing import Any

import msgspec

from hermes.core.messages import Text, Thinking, ToolCall
from hermes.core.model import ModelEvent, ReasoningDelta, Reply, TextDelta
from hermes.core.usage import Usage
from hermes.providers.failures.later import failed_inside
from hermes.providers.remote_tool import RemoteTool
from hermes.providers.target import Target
from hermes.providers.wire.chat.calls import CallPiece, CallPieces, FunctionPiece
from hermes.providers.wire.chat.details import Details
from hermes.providers.wire.chat.usage import UsageWire
from hermes.providers.wire.replies import ReplyDraft, declined, decoded
from hermes.providers.wire.think_tags import ThinkTags


class Delta(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[CallPiece] | None = None
    function_call: FunctionPiece | None = None
    """What tool calls were called before there could be several."""


class Choice(msgspec.Struct):
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    usage: UsageWire | None = None
    """Moonshot puts it here."""
    error: Any = None


class GroqExtra(msgspec.Struct):
    usage: UsageWire | None = None


class BaseResp(msgspec.Struct):
    """How MiniMax says that something went wrong."""

    status_code: int = 0
    status_msg: str | None = None


class Chunk(msgspec.Struct):
    """A chunk, or a whole reply, which differs only in `choices[].message`."""

    choices: list[Choice] | None = None
    usage: UsageWire | None = None
    x_groq: GroqExtra | None = None
    error: Any = None
    object: str | None = None
    message: Any = None
    type: Any = None
    code: Any = None
    base_resp: BaseResp | None = None
    tool: Any = None
    """With `call_id`, `status` and `label`: what another Hermes does (`hermes.tool.progress`)."""
    call_id: Any = None
    status: Any = None
    label: Any = None


class ChatReader:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._tags = ThinkTags()
        self._thinking: list[str] = []
        self._details = Details()
        self._calls = CallPieces()
        self._refusal = ""
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._cost: float | None = None
        self.ended = False

    def take(self, data: bytes) -> Sequence[ModelEvent] | None:
        if data == b"[DONE]":
            self.ended = True
            if self._finish is None and (self._tags.said or self._calls):
                self._finish = "stop"  # Some servers never say why.
            return self._last_words()
        chunk: Chunk = decoded(_decoder, data, self._target.provider)
        self._note(chunk)
        if chunk.tool and chunk.call_id:
            return [_progress(chunk)]
        if not chunk.choices:
            return None if chunk.usage is None else ()
        choice = chunk.choices[0]
        deltas = self._take_delta(choice.delta) if choice.delta is not None else None
        if choice.finish_reason:
            self._finish = choice.finish_reason
            deltas = [*(deltas or ()), *self._last_words()]
        return deltas

    def take_whole(self, data: bytes) -> None:
        reply: Chunk = decoded(_decoder, data, self._target.provider)
        self._note(reply)
        self.ended = True
        for choice in (reply.choices or ())[:1]:
            self._finish = choice.finish_reason or "stop"
            if choice.message is not None:
                self._take_delta(choice.message)

    def reply(self) -> Reply:
        if self._refusal:
            raise declined(self._target.provider, self._refusal)
        if self._finish == "error":
            raise failed_inside(self._target.provider, "the reply ended with an error")
        self._last_words()
        draft = ReplyDraft(self._target)
        thinking = "".join(self._thinking) or "\n".join(self._tags.thought).strip()
        details = self._details.whole()
        if thinking or details:
            draft.add(Thinking(thinking, details))
        if text := "".join(self._tags.said):
            draft.add(Text(text))
        self._calls.finish(draft)
        return draft.finished(self._finish, self._usage, self._cost)

    def _note(self, chunk: Chunk) -> None:
        """What a chunk says besides its deltas."""
        choice = chunk.choices[0] if chunk.choices else None
        if error := chunk.error or (choice and choice.error):
            raise failed_inside(self._target.provider, error)
        if chunk.object == "error":
            told = {"message": chunk.message, "type": chunk.type, "code": chunk.code}
            raise failed_inside(self._target.provider, told)
        if chunk.base_resp is not None and chunk.base_resp.status_code:
            told = {"base_resp": msgspec.to_builtins(chunk.base_resp)}
            raise failed_inside(self._target.provider, told)
        usage = chunk.usage or (choice and choice.usage) or (chunk.x_groq and chunk.x_groq.usage)
        if usage:
            self._usage, self._cost = usage.usage(), usage.cost_usd

    def _take_delta(self, delta: Delta) -> list[ModelEvent] | None:
        """The deltas to show; None when there was nothing in it."""
        shown: list[ModelEvent] = []
        self._take_thinking(delta, shown)
        if content := delta.content:
            self._take_content(content, shown)
        if delta.tool_calls:
            self._calls.add(delta.tool_calls)
        elif delta.function_call is not None:
            self._calls.add([CallPiece(index=0, function=delta.function_call)])
        elif delta.refusal:
            self._refusal += delta.refusal
        elif not (shown or content or delta.reasoning_details):
            return None
        return shown

    def _take_thinking(self, delta: Delta, shown: list[ModelEvent]) -> None:
        thought = delta.reasoning_content or delta.reasoning
        if delta.reasoning_details:
            # The same text comes in both fields where there are both.
            text = self._details.add(delta.reasoning_details)
            thought = thought or text
        if thought:
            self._thinking.append(thought)
            shown.append(ReasoningDelta(thought))

    def _take_content(self, content: str | list[dict[str, Any]], shown: list[ModelEvent]) -> None:
        if isinstance(content, list):
            content, thought = _from_blocks(content)
            if thought:
                self._thinking.append(thought)
                shown.append(ReasoningDelta(thought))
        said, thought = self._tags.feed(content)
        if thought and not self._thinking:
            shown.append(ReasoningDelta(thought))
        if said:
            shown.append(TextDelta(said))

    def _last_words(self) -> list[ModelEvent]:
        """What was held back because it looked like the beginning of a tag."""
        said = self._tags.end()
        return [TextDelta(said)] if said else []


def _progress(chunk: Chunk) -> TextDelta:
    """A tool that begins; of its end only that something happened."""
    if chunk.status != "started":
        return TextDelta("")
    given = msgspec.json.encode({"label": str(chunk.label)} if chunk.label else {}).decode()
    return RemoteTool(call=ToolCall(str(chunk.call_id), str(chunk.tool), given))


def _from_blocks(blocks: list[dict[str, Any]]) -> tuple[str, str]:
    """The text and the thinking of content in blocks, as Mistral sends it."""
    said = [block.get("text") or "" for block in blocks if block.get("type") != "thinking"]
    inner = [block.get("thinking") or [] for block in blocks if block.get("type") == "thinking"]
    thoughts = [
        part if isinstance(part, str) else part.get("text") or ""
        for parts in inner
        for part in parts
    ]
    return "".join(said), "".join(thoughts)


_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Chunk)

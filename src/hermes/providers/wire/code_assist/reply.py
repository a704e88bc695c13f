"""A Code Assist reply, read from its events or from one body: each is a whole response of Gemini's
API in an envelope, with the parts that are new."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import msgspec

from hermes.core.errors import ReplyInvalid
from hermes.core.messages import AssistantPart, Text, Thinking, ToolCall
from hermes.core.model import ModelEvent, ReasoningDelta, Reply, TextDelta
from hermes.core.usage import Usage
from hermes.providers.failures.later import failed_inside
from hermes.providers.target import Target
from hermes.providers.wire.code_assist.form import extra_of
from hermes.providers.wire.replies import ReplyDraft, count, declined, decoded

Number = float | None

REFUSALS = {
    "SAFETY",
    "PROHIBITED_CONTENT",
    "BLOCKLIST",
    "SPII",
    "MODEL_ARMOR",
    "LANGUAGE",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
}
"""The reply was withheld; what came of it is not to be used."""
FAILURES = {
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
}
"""The model wrote something that is no reply; asked again it may do better."""
LOST_SIGNATURE = "MISSING_THOUGHT_SIGNATURE"


class FunctionCall(msgspec.Struct):
    name: str | None = None
    args: Any = None
    id: str | None = None
    """Only newer models give one."""


class Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCall | None = None
    thought_signature: str | None = None


class Content(msgspec.Struct):
    parts: list[Part] | None = None


class Candidate(msgspec.Struct, rename="camel"):
    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class PromptFeedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class UsageWire(msgspec.Struct, rename="camel"):
    """Totals so far."""

    prompt_token_count: Number = None
    candidates_token_count: Number = None
    thoughts_token_count: Number = None
    """Not part of the candidates."""
    cached_content_token_count: Number = None
    """Part of the prompt."""
    tool_use_prompt_token_count: Number = None
    """Not part of the prompt."""

    def usage(self) -> Usage:
        prompt, thought = count(self.prompt_token_count), count(self.thoughts_token_count)
        read = min(count(self.cached_content_token_count), prompt)
        return Usage(
            input=prompt - read + count(self.tool_use_prompt_token_count),
            output=count(self.candidates_token_count) + thought,
            cache_read=read,
            reasoning=thought,
        )


class Response(msgspec.Struct, rename="camel"):
    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: UsageWire | None = None


class Envelope(msgspec.Struct):
    response: Response | None = None
    error: Any = None


class CodeAssistReader:
    ended = False
    """No event says that it is the last one; the body ends."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._parts: list[Part] = []
        self._finish: str | None = None
        self._said = ""
        """Why it ended, in words."""
        self._blocked: PromptFeedback | None = None
        self._usage: UsageWire | None = None

    def take(self, data: bytes) -> Sequence[ModelEvent] | None:
        envelope: Envelope = decoded(_decoder, data, self._target.provider)
        if envelope.error:
            raise failed_inside(self._target.provider, envelope.error)
        response = envelope.response
        if response is None:
            return None
        self._usage = response.usage_metadata or self._usage
        if response.prompt_feedback is not None and response.prompt_feedback.block_reason:
            self._blocked = response.prompt_feedback
        if not response.candidates:
            return None
        candidate = response.candidates[0]
        self._finish = candidate.finish_reason or self._finish
        self._said = candidate.finish_message or self._said
        new = (candidate.content.parts if candidate.content else None) or []
        self._parts += new
        return [_delta(part) for part in new if part.text] if new or self._finish else None

    def take_whole(self, data: bytes) -> None:
        self.take(data)

    def reply(self) -> Reply:
        self._check()
        draft = ReplyDraft(self._target)
        for kind, run in groupby(self._parts, _kind):
            if kind is ToolCall:
                for part in run:
                    _add_call(part, draft)
            elif text := "".join([part.text or "" for part in run]):
                draft.add(Thinking(text) if kind is Thinking else Text(text))
        return draft.finished(self._finish, self._usage.usage() if self._usage else None)

    def _check(self) -> None:
        """Raises for a reply that is none."""
        provider = self._target.provider
        if self._blocked is not None:
            said = self._blocked.block_reason_message or self._blocked.block_reason or ""
            raise declined(provider, said)
        if self._finish in REFUSALS:
            raise declined(provider, self._said or self._finish)
        if self._finish == LOST_SIGNATURE:
            raise failed_inside(provider, {"message": self._said, "status": self._finish})
        if self._finish in FAILURES:
            said = self._said or self._finish
            raise ReplyInvalid(f"{provider} broke its reply off: {said}", provider=provider)


def _delta(part: Part) -> ModelEvent:
    return ReasoningDelta(part.text or "") if part.thought else TextDelta(part.text or "")


def _kind(part: Part) -> type[AssistantPart]:
    if part.function_call is not None:
        return ToolCall
    return Thinking if part.thought else Text


def _add_call(part: Part, draft: ReplyDraft) -> None:
    call = part.function_call or FunctionCall()
    arguments = msgspec.json.encode(call.args or {}).decode()
    draft.add_call(call.id or "", call.name or "", arguments, extra_of(part.thought_signature))


_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Envelope)

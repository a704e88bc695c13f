"""What the replies of all wires have in common."""

from typing import Any

import msgspec

from hermes.core.errors import ContentRefused, ReplyInvalid, StreamCut
from hermes.core.messages import Assistant, AssistantPart, ToolCall
from hermes.core.model import Reply
from hermes.core.openai_format import made_call_id
from hermes.core.usage import Usage
from hermes.providers.target import Target

_WORDS = {
    "stop": "stop end_turn stop_sequence eos eos_token end complete",
    "tool_calls": "tool_calls tool_call tool_use function_call",
    # `pause_turn`: the endpoint stopped half-way and would go on if it were asked to.
    "length": "length max_tokens max_output_tokens max_completion_tokens model_length"
    " model_context_window_exceeded pause_turn",
    "content_filter": "content_filter refusal safety sensitive recitation",
}
FINISH = {word: reason for reason, words in _WORDS.items() for word in words.split()}
"""Why a reply ended: what endpoints say, and what it is called here."""


class ReplyDraft:
    """The end of reading: the parts and figures that make a `Reply`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._parts: list[AssistantPart] = []
        self._ids: set[str] = set()

    def add(self, part: AssistantPart) -> None:
        self._parts.append(part)

    def add_call(
        self, call_id: str, name: str, arguments: str, extra: dict[str, Any] | None = None
    ) -> None:
        """A tool call; one without an id of its own gets one, always the same."""
        if not call_id or call_id in self._ids:
            call_id = made_call_id(name, arguments, len(self._ids))
        self._ids.add(call_id)
        self.add(ToolCall(call_id, name, arguments or "{}", extra))

    def finished(
        self, finish: str | None, usage: Usage | None, cost_usd: float | None = None
    ) -> Reply:
        """The whole reply. `finish` is None when the endpoint never said that it was done."""
        provider = self._target.provider
        if finish is None:
            if self._parts:
                raise StreamCut(f"{provider} cut the reply short", provider=provider)
            raise ReplyInvalid(f"{provider} sent an empty reply", provider=provider)
        finish = FINISH.get(finish.lower(), finish)
        if finish in ("stop", "tool_calls"):
            finish = "tool_calls" if self._ids else "stop"
        if not self._parts:
            self._nothing(finish)
        price = self._target.profile.price
        if cost_usd is None and price is not None and usage is not None:
            cost_usd = price.cost(usage)
        message = Assistant(tuple(self._parts), finish)
        return Reply(message, usage or Usage(), self._target.model, provider, cost_usd)

    def _nothing(self, finish: str) -> None:
        """A reply without any part is only in order when its length was the reason."""
        provider = self._target.provider
        if finish == "content_filter":
            raise declined(provider, "the reply was filtered out")
        if finish != "length":
            raise ReplyInvalid(f"{provider} sent an empty reply", provider=provider)


def declined(provider: str, said: str) -> ContentRefused:
    """The model or its endpoint will not answer; `said` is how it put it."""
    said = " ".join(said.split())
    message = f"{provider} declined to answer" + (f": {said}" if said else "")
    return ContentRefused(
        message, provider=provider, body=said, hint="rephrase the request or choose another model"
    )


def decoded(decoder: "msgspec.json.Decoder[Any]", data: bytes, provider: str) -> Any:
    """One event or body. Raises `ReplyInvalid` when it is not what the wire sends."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if not data.strip():
            raise ReplyInvalid(f"{provider} sent an empty reply", provider=provider) from error
        start = data[:80].decode("utf-8", "replace")
        raise ReplyInvalid(
            f"{provider} sent a reply that cannot be read ({error}): {start!r}", provider=provider
        ) from error


def count(number: float | None) -> int:
    """A number of tokens as an endpoint wrote it, or did not."""
    return int(number or 0)

"""From the updates of one prompt to a reply."""

from collections.abc import Sequence
from typing import Any

import msgspec

from hermes.core.errors import ProviderError, ReplyInvalid, StreamCut
from hermes.core.messages import Text, Thinking
from hermes.core.model import ModelEvent, ModelRequest, ReasoningDelta, TextDelta
from hermes.core.openai_format import made_call_id
from hermes.core.usage import Usage
from hermes.providers.acp.calls import CallSplitter, FoundCall
from hermes.providers.acp.notices import notice_in
from hermes.providers.acp.protocol import Content, TokenCounts, TurnEnd, Update
from hermes.providers.target import Target
from hermes.providers.wire.replies import ReplyDraft, count, declined

CHARACTERS_PER_TOKEN = 4
"""For the estimate of what an agent does not count for us."""

_FINISH = {"max_turn_requests": "length"}
"""It ended for its own limit of model calls: what came is a part."""


class AgentReply:
    """Takes updates as they come, and makes the reply once the turn has ended."""

    def __init__(self, target: Target, request: ModelRequest) -> None:
        self._target, self._request = target, request
        self._splitter = CallSplitter() if request.tools else None
        self._said: list[str] = []
        self._thought: list[str] = []
        self._copilot = False
        self._trouble: ProviderError | None = None
        self._prompt_size = 0
        self._reply_size = 0
        self._end: TurnEnd | None = None

    def prompted(self, blocks: Sequence[dict[str, Any]], *, copilot: bool) -> None:
        """What was sent, for the estimate, and to whom."""
        self._copilot = copilot
        self._prompt_size = sum(len(block.get("text", "")) for block in blocks)

    def ended(self, end: TurnEnd) -> None:
        self._end = end

    def take(self, raw: Any) -> list[TextDelta | ReasoningDelta]:
        """The deltas in an update, none when it is about something else.

        An empty delta is news as well: a call is being written.
        """
        try:
            update = msgspec.convert(raw, Update)
            if update.session_update not in ("agent_message_chunk", "agent_thought_chunk"):
                return []
            text = msgspec.convert(update.content, Content).text or ""
        except msgspec.ValidationError:
            return []
        if not text:
            return []
        if self._copilot and (notice := notice_in(text)):
            self._trouble = notice.trouble(self._target.provider)
            return []
        self._trouble = None
        self._reply_size += len(text)
        if update.session_update == "agent_thought_chunk":
            self._thought.append(text)
            return [ReasoningDelta(text)]
        return [self._say(self._splitter.feed(text) if self._splitter else text)]

    def end(self) -> list[ModelEvent]:
        """The last deltas and the `Reply`."""
        end, provider = self._end, self._target.provider
        if end is None or end.stop_reason == "cancelled":
            raise StreamCut(f"{provider} broke the reply off", provider=provider)
        if self._trouble is not None:
            raise self._trouble
        rest, calls = self._splitter.end() if self._splitter else ("", [])
        last = self._say(rest)
        text = "".join(self._said)
        if end.stop_reason == "refusal":
            raise declined(provider, text)
        draft = ReplyDraft(self._target)
        if self._thought:
            draft.add(Thinking("".join(self._thought)))
        if text:
            draft.add(Text(text))
        for position, call in enumerate(calls):
            self._add_call(draft, position, call)
        finish = _FINISH.get(end.stop_reason, end.stop_reason)
        return [*([last] if last.text else []), draft.finished(finish, self._usage(end.usage))]

    def _say(self, text: str) -> TextDelta:
        if text:
            self._said.append(text)
        return TextDelta(text)

    def _add_call(self, draft: ReplyDraft, position: int, call: FoundCall) -> None:
        if not call.name:
            raise ReplyInvalid(
                f"{self._target.provider} wrote a call that names no tool",
                provider=self._target.provider,
                body=call.arguments[:200],
            )
        place = f"{position} {call.name}"
        made = made_call_id(place, call.arguments, len(self._request.messages))
        draft.add_call(made, call.name, call.arguments)

    def _usage(self, told: TokenCounts | None) -> Usage:
        """What the agent counted, else an estimate."""
        if told is None:
            size = CHARACTERS_PER_TOKEN
            return Usage(-(-self._prompt_size // size), -(-self._reply_size // size))
        read, write = count(told.cached_read_tokens), count(told.cached_write_tokens)
        thought = count(told.thought_tokens)
        given, made = count(told.input_tokens), count(told.output_tokens)
        if told.total_tokens == given + made:
            given -= read + write  # the special ones are parts of the two
        else:
            made += thought
        return Usage(max(0, given), made, read, write, thought)

"""When a conversation is compacted, and the way through the engine that does it."""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any, TypeVar

import msgspec

from hermes.context.engine import ContextEngine, Dicts
from hermes.core.errors import HermesError, UsageError
from hermes.core.messages import Message, System
from hermes.core.model import ToolSpec
from hermes.core.openai_format import from_dict, to_dict
from hermes.core.tokens import messages_tokens, tools_tokens
from hermes.core.usage import Usage
from hermes.util.threads import in_thread

# The one estimate of how many tokens a request has.

LEAST, MOST = 0.2, 3.0
"""Bounds of the calibration. A smaller count is none of this request, and is passed over; a larger
one is believed, since compacting too early does less harm than too late."""


class Accountant:
    """Counts the prefix of every request (system prompt, tools) with its messages, and learns from
    the counts the API reports how this model counts.

    What was counted by the API is not estimated again, so an estimate costs what is new.
    """

    def __init__(self, prefix: Sequence[Message] = (), tools: Sequence[ToolSpec] = ()) -> None:
        self._fixed = messages_tokens(prefix) + tools_tokens(tools)
        self._factor = 1.0
        self._counted: tuple[Message | None, int, int] = (None, 0, 0)
        """The last message of a counted request, how many there were, and their tokens."""

    def tokens(self, messages: Sequence[Message]) -> int:
        """Of a request with these messages, the prefix included."""
        last, many, counted = self._counted
        if last is not None and len(messages) >= many and messages[many - 1] is last:
            return counted + round(self._factor * messages_tokens(messages[many:]))
        return round(self._factor * (self._fixed + messages_tokens(messages)))

    def reported(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """The API counted so many tokens in a request with these messages."""
        if prompt_tokens <= 0 or not messages:
            return
        last, many, counted = self._counted
        if last is not None and len(messages) >= many and messages[many - 1] is last:
            guess = counted / self._factor + messages_tokens(messages[many:])
        else:
            guess = self._fixed + messages_tokens(messages)
        factor = prompt_tokens / guess
        if factor < LEAST:
            return
        self._factor = min(factor, MOST)
        self._counted = (messages[-1], len(messages), prompt_tokens)

    def shortened(self, before: Sequence[Message], after: Sequence[Message]) -> int:
        """Tokens of a request with `after`, which was made of `before`."""
        share = (self._fixed + messages_tokens(after)) / (self._fixed + messages_tokens(before))
        return round(self.tokens(before) * share)

    def adopt(self, messages: Sequence[Message], tokens: int) -> None:
        """The conversation is this one from now on, and has so many tokens until the API says."""
        if messages:
            self._counted = (messages[-1], len(messages), tokens)


log = logging.getLogger(__name__)

T = TypeVar("T")
WARNED_AT = 0.85
"""Part of the threshold from which the user is warned, and from which compacting between two turns
pays: the next turn would most likely have to do it while somebody waits."""
LEAST_GAIN = 0.10
"""A compaction that saves a smaller part than this did not help."""
MOST_IN_VAIN = 2
"""Compactions in a row that did not help before none is tried until the next turn."""


class Shortened(msgspec.Struct, frozen=True):
    """What an engine made of the first `replaces` messages of a conversation."""

    messages: tuple[Message, ...]
    """Those that were kept are the very same objects."""
    replaces: int
    tokens_before: int
    tokens_after: int
    seconds: float
    summary_model: str


class ContextKeeper:
    """One engine and what is known of the size of its conversation."""

    def __init__(
        self,
        engine: ContextEngine,
        accountant: Accountant,
        system: System,
        *,
        enabled: bool = True,
        run: Callable[..., Awaitable[Any]] = in_thread,
    ) -> None:
        """`run` has the engine work in a thread. Not `enabled`: only when the user asks for it, or
        the model refuses a request as too long."""
        self.engine, self._accountant, self._system = engine, accountant, system
        self._enabled, self._run = enabled, run
        self._busy = asyncio.Lock()
        self._in_vain = 0
        self._warned = False
        self._complaint = ""
        """What the user is to be told of an engine that failed."""
        self._complained = False

    def new_turn(self) -> None:
        self._in_vain = 0

    def reported(self, messages: Sequence[Message], usage: Usage) -> None:
        """`usage` is that of the request with these messages."""
        self._accountant.reported(messages, usage.prompt)
        counts = {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.output,
            "total_tokens": usage.total,
        }
        self._asked(None, lambda: self.engine.update_from_response(counts))

    def tokens(self, messages: Sequence[Message]) -> int:
        return self._accountant.tokens(messages)

    def due(self, messages: Sequence[Message]) -> bool:
        if not self._enabled or self._in_vain >= MOST_IN_VAIN:
            return False
        tokens = self.tokens(messages)
        return self._asked(False, lambda: bool(self.engine.should_compress(tokens)))

    def due_at_start(self, messages: Sequence[Message]) -> bool:
        """The same before the first call of a turn, where an engine may look for itself."""
        looks = type(self.engine).should_compress_preflight
        looks_itself = looks is not ContextEngine.should_compress_preflight
        may = self._enabled and self._in_vain < MOST_IN_VAIN
        if may and looks_itself:
            given = self._dicts(messages)
            if self._asked(False, lambda: bool(self.engine.should_compress_preflight(given))):
                return True
        return self.due(messages)

    def pays_between_turns(self, messages: Sequence[Message]) -> bool:
        """Whether the next turn would soon have to wait for a compaction."""
        if not self._enabled or self._in_vain:
            return False
        return self.tokens(messages) >= WARNED_AT * self.engine.threshold_tokens > 0

    def warning(self, messages: Sequence[Message]) -> str:
        """Said once when the threshold comes near, again after it was far away; else ""."""
        tokens, threshold = self.tokens(messages), self.engine.threshold_tokens
        near = self._enabled and tokens >= WARNED_AT * threshold > 0
        if not near or self._warned:
            self._warned = near
            return ""
        self._warned = True
        share = f"{tokens / threshold:.0%}"
        return f"⚠️  Context is {share} to compaction threshold ({tokens:,}/{threshold:,} tokens)"

    def overflowed(self, messages: Sequence[Message]) -> None:
        """The model says that these are too many: its window is smaller than was thought."""
        window = min(self.engine.context_length, int(0.9 * self.tokens(messages)))
        self._asked(None, lambda: self.engine.update_model("", context_length=window))

    async def shorten(self, messages: Sequence[Message], focus: str = "") -> Shortened | None:
        """The conversation made shorter; None when that did not make it smaller.

        Raises `HermesError` when the engine fails. Cancelled, nothing has changed.
        """
        async with self._busy:
            began, before = monotonic(), self.tokens(messages)
            given = self._dicts(messages)
            known = _by_content(given, (self._system, *messages))
            made = await self._compressed(given, before, focus)
        shorter = [_known(each, known) or from_dict(each) for each in made]
        _check(shorter)
        after = self._accountant.shortened(messages, shorter[1:])
        seconds = round(monotonic() - began, 3)
        self._in_vain = self._in_vain + 1 if after > (1 - LEAST_GAIN) * before else 0
        model = self.engine.summary_model
        if after >= before:
            return None
        return Shortened(tuple(shorter[1:]), len(messages), before, after, seconds, model)

    def adopt(self, messages: Sequence[Message], tokens: int) -> None:
        """A shortened conversation is the one that goes on."""
        self._accountant.adopt(messages, tokens)

    def _asked(self, otherwise: T, question: Callable[[], T]) -> T:
        """What the engine says; `otherwise` when it raises. The user is told once."""
        try:
            return question()
        except Exception as error:  # an engine may be anybody's code
            log.exception("the context engine failed")
            self.complain(_failed(self.engine, error))
            return otherwise

    def complain(self, error: HermesError) -> None:
        """The user shall hear of it, of the first one only."""
        if not self._complained:
            self._complaint, self._complained = f"{error} ({error.hint})", True

    def complaint(self) -> str:
        """What the user is to be told now; "" as a rule."""
        told, self._complaint = self._complaint, ""
        return told

    def _dicts(self, messages: Sequence[Message]) -> Dicts:
        return [to_dict(message) for message in (self._system, *messages)]

    async def _compressed(self, given: Dicts, tokens: int, focus: str) -> Dicts:
        compress = self.engine.compress
        more: dict[str, Any] = {}
        if focus and "focus_topic" in inspect.signature(compress).parameters:
            more["focus_topic"] = focus
        try:
            made = await self._run(compress, list(given), tokens, **more)
            return msgspec.convert(made, Dicts)
        except HermesError:
            raise
        except Exception as error:  # an engine may be anybody's code
            log.exception("the context engine failed")
            raise _failed(self.engine, error) from error


def _failed(engine: ContextEngine, error: Exception) -> HermesError:
    return HermesError(
        f"the context engine {engine.name} failed: {type(error).__name__}: {error}",
        hint="another one: hermes config set context.engine compressor",
    )


Known = dict[bytes, deque[Message]]


def _by_content(given: Dicts, messages: Sequence[Message]) -> Known:
    """The messages by what was given to the engine. Engines may copy dicts, and some of other
    people's change them, so that only the content tells what was kept."""
    known: Known = {}
    for each, message in zip(given, messages, strict=True):
        known.setdefault(msgspec.json.encode(each), deque()).append(message)
    return known


def _known(returned: dict[str, Any], known: Known) -> Message | None:
    """The very message an engine kept; None for what it wrote."""
    same = known.get(msgspec.json.encode(returned))
    return same.popleft() if same else None


def _check(messages: Sequence[Message]) -> None:
    """What an engine of somebody else returned must be a conversation."""
    roles = [message.role for message in messages]
    if roles[:1] != ["system"] or "user" not in roles:
        raise UsageError("the context engine returned no conversation", hint=f"roles: {roles[:9]}")


# The safety net of services that load long histories, before an agent sees a message.

SHARE = 0.85
"""Of the context length; above the agent's own threshold on purpose."""
LEAST_MESSAGES = 4


def needs_compaction(
    history: Sequence[Message], context_length: int, *, reported: int = 0, enabled: bool = True
) -> bool:
    """Whether `history` would hardly leave room for a turn.

    `reported` is the prompt size the API told last; without it an estimate serves.
    """
    if not enabled or len(history) < LEAST_MESSAGES:
        return False
    return (reported or messages_tokens(history)) >= SHARE * context_length

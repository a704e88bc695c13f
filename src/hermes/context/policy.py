"""When a conversation is compacted, and the calls of the engine that compacts it."""

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
from hermes.core.messages import Assistant, Message, System, ToolResult, from_dict, to_dict
from hermes.core.model import ToolSpec, Usage, messages_tokens, tools_tokens
from hermes.util.concurrency import in_thread

log = logging.getLogger(__name__)

T = TypeVar("T")

MIN_FACTOR, MAX_FACTOR = 0.2, 3.0
"""Bounds of the calibration. A smaller reported count cannot belong to the request and is ignored;
a larger one is capped, since compacting too early does less harm than too late."""
WARNING_SHARE = 0.85
"""Part of the threshold from which the user is warned, and from which a compaction between two
turns is worthwhile, because the next turn would most likely have to wait for one."""
MIN_GROWTH = 0.20
"""Part of the threshold by which a conversation grows between two compactions."""
MIN_GAIN = 0.10  #: A compaction that saves a smaller part than this did not help.
MAX_FUTILE = 2
"""Compactions in a row that did not help, after which none is tried until the next turn."""

HISTORY_SHARE = 0.85  #: Part of the context length; above the agent's own threshold on purpose.
MIN_MESSAGES = 4


class TokenCounter:
    """Estimates the tokens of requests, calibrated by the counts that the API reports.

    The count includes the prefix of every request (system prompt, tools). Messages that the API
    has counted are not estimated again, so an estimate costs only the new ones.
    """

    def __init__(self, prefix: Sequence[Message] = (), tools: Sequence[ToolSpec] = ()) -> None:
        self._prefix_tokens = messages_tokens(prefix) + tools_tokens(tools)
        self._factor = 1.0
        self._counted: tuple[Message | None, int, int] = (None, 0, 0)
        """Last message, number of messages and tokens of the last counted request."""
        self.is_reported = False  #: Whether the API counted the last request of the conversation.

    def tokens(self, messages: Sequence[Message]) -> int:
        """Return the tokens of a request with these messages, including the prefix."""
        return round(self._factor * self._estimate(messages))

    def record(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Calibrate with the count that the API reported for a request with these messages."""
        if prompt_tokens <= 0 or not messages:
            return
        factor = prompt_tokens / self._estimate(messages)
        if factor < MIN_FACTOR:
            return
        self._factor = min(factor, MAX_FACTOR)
        self._counted = (messages[-1], len(messages), prompt_tokens)
        self.is_reported = True

    def _estimate(self, messages: Sequence[Message]) -> float:
        """Return the tokens before calibration; the counted part is divided by the factor."""
        last, count, counted = self._counted
        if last is not None and len(messages) >= count and messages[count - 1] is last:
            return counted / self._factor + messages_tokens(messages[count:])
        return self._prefix_tokens + messages_tokens(messages)

    def compressed(self, before: Sequence[Message], after: Sequence[Message]) -> int:
        """Return the tokens of a request with `after`, which was compacted from `before`."""
        prefix = self._prefix_tokens
        share = (prefix + messages_tokens(after)) / (prefix + messages_tokens(before))
        return round(self.tokens(before) * share)

    def adopt(self, messages: Sequence[Message], tokens: int) -> None:
        """Continue with a compacted conversation, assuming `tokens` until the API reports."""
        self.is_reported = False
        if messages:
            self._counted = (messages[-1], len(messages), tokens)


class Compressed(msgspec.Struct, frozen=True):
    """The result of an engine for the first `replaces` messages of a conversation."""

    messages: tuple[Message, ...]  #: Kept messages are the same objects as before.
    replaces: int
    tokens_before: int
    tokens_after: int
    seconds: float
    summary_model: str

    def only_shortens(self, before: Sequence[Message]) -> bool:
        """Return whether each message of `before` is still there, with at most the content of tool
        results and the arguments of calls cut."""
        return len(self.messages) == self.replaces and all(
            map(_is_shortened, before, self.messages)
        )


def _is_shortened(before: Message, after: Message) -> bool:
    if before is after:
        return True
    same = type(before) is type(after)
    if isinstance(before, ToolResult) and isinstance(after, ToolResult):
        return before.call_id == after.call_id
    return same and isinstance(before, Assistant) and before.text == after.text


class CompactionPolicy:
    """Decides when the conversation of one agent is compacted, and runs its engine.

    An engine may be third-party code: an exception is logged, reported to the user once, and does
    not end the turn.
    """

    def __init__(
        self,
        engine: ContextEngine,
        counter: TokenCounter,
        system: System,
        *,
        enabled: bool = True,
        run: Callable[..., Awaitable[Any]] = in_thread,
    ) -> None:
        """`run` calls the engine in a thread.

        If not `enabled`, the conversation is compacted only at the user's request or when the
        model refuses a request as too long.
        """
        self.engine, self._counter, self._system = engine, counter, system
        self.tokens, self.adopt = counter.tokens, counter.adopt
        self.enabled, self._run = enabled, run
        self._busy = asyncio.Lock()
        self._futile = 0  #: Compactions in a row that did not help.
        self._compacted_to = 0  #: Tokens after the last compaction.
        self._warned = False
        self._problem = ""  #: A failure of the engine that the user has not seen yet.
        self._problem_reported = False

    def reported_tokens(self, messages: Sequence[Message]) -> int:
        """Return the size of a request by what the API reported for the last one; 0 if it reported
        nothing since the conversation was opened or compacted."""
        return self.tokens(messages) if self._counter.is_reported else 0

    def new_turn(self) -> None:
        self._futile = 0

    def record_usage(self, messages: Sequence[Message], usage: Usage) -> None:
        """Record the reported usage of a request with these messages."""
        self._counter.record(messages, usage.prompt)
        counts = {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.output,
            "total_tokens": usage.total,
        }
        self._ask_engine(None, lambda: self.engine.update_from_response(counts))

    def is_due(self, messages: Sequence[Message], *, first_call: bool = False) -> bool:
        """Return whether the engine wants to compact; before the first call it may see the
        messages."""
        if not self.enabled or self._futile >= MAX_FUTILE:
            return False
        engine, tokens = self.engine, self.tokens(messages)
        if self._is_too_soon(tokens):
            return False
        preflight = type(engine).should_compress_preflight
        # Converting the messages is expensive: only for an engine that implements it.
        if first_call and preflight is not ContextEngine.should_compress_preflight:
            dicts = self._dicts(messages)
            if self._ask_engine(False, lambda: bool(engine.should_compress_preflight(dicts))):
                return True
        return self._ask_engine(False, lambda: bool(engine.should_compress(tokens)))

    def pays_between_turns(self, messages: Sequence[Message]) -> bool:
        """Return whether the next turn would soon have to wait for a compaction."""
        tokens = self.tokens(messages)
        if not self.enabled or self._futile or self._is_too_soon(tokens):
            return False
        return tokens >= WARNING_SHARE * self.engine.threshold_tokens > 0

    def _is_too_soon(self, tokens: int) -> bool:
        """Return whether the conversation has hardly grown since the last compaction, which ended
        near the threshold, and still fits the window."""
        growth = MIN_GROWTH * self.engine.threshold_tokens
        return tokens < min(self._compacted_to + growth, HISTORY_SHARE * self.engine.context_length)

    def take_warning(self, messages: Sequence[Message]) -> str:
        """Return a warning once when the threshold comes near, else ""."""
        tokens, threshold = self.tokens(messages), self.engine.threshold_tokens
        near = self.enabled and tokens >= WARNING_SHARE * threshold > 0
        if not near or self._warned:
            self._warned = near
            return ""
        self._warned = True
        share = f"{tokens / threshold:.0%}"
        return f"⚠️  Context is {share} to compaction threshold ({tokens:,}/{threshold:,} tokens)"

    def record_overflow(self, messages: Sequence[Message]) -> None:
        """Lower the assumed context length: the model refused these messages as too long."""
        window = min(self.engine.context_length, int(0.9 * self.tokens(messages)))
        self._ask_engine(None, lambda: self.engine.update_model("", context_length=window))

    async def compress(self, messages: Sequence[Message], focus: str = "") -> Compressed | None:
        """Have the engine compact the conversation; None if the result is not smaller.

        Raises `HermesError` if the engine fails. Cancellation changes nothing.
        """
        async with self._busy:
            began, before = monotonic(), self.tokens(messages)
            dicts = self._dicts(messages)
            # By content, since engines may copy the dicts they keep.
            originals: dict[bytes, deque[Message]] = {}
            for each, message in zip(dicts, (self._system, *messages), strict=True):
                originals.setdefault(msgspec.json.encode(each), deque()).append(message)
            takes_focus = "focus_topic" in inspect.signature(self.engine.compress).parameters
            options = {"focus_topic": focus} if focus and takes_focus else {}
            try:
                made = await self._run(self.engine.compress, list(dicts), before, **options)
                returned = msgspec.convert(made, Dicts)
            except HermesError:
                raise
            except Exception as error:  # third-party code may raise anything
                log.exception("the context engine failed")
                raise self._engine_failure(error) from error
        shorter: list[Message] = []
        for each in returned:
            same = originals.get(msgspec.json.encode(each))
            shorter.append(same.popleft() if same else from_dict(each))
        if lost := _lost_part(messages, shorter):
            raise UsageError(
                f"the context engine {self.engine.name} returned a conversation without {lost}; "
                "the conversation stays as it is and grows",
                hint="another one: hermes config set context.engine compressor",
            )
        after = self._counter.compressed(messages, shorter[1:])
        seconds = round(monotonic() - began, 3)
        self._futile = self._futile + 1 if after > (1 - MIN_GAIN) * before else 0
        model = self.engine.summary_model
        if after >= before:
            return None
        self._compacted_to = after
        return Compressed(tuple(shorter[1:]), len(messages), before, after, seconds, model)

    def _ask_engine(self, default: T, question: Callable[[], T]) -> T:
        """Call the engine; if it raises, report that and return `default`."""
        try:
            return question()
        except Exception as error:  # third-party code may raise anything
            log.exception("the context engine failed")
            self.report_failure(self._engine_failure(error))
            return default

    def _engine_failure(self, error: Exception) -> HermesError:
        return HermesError(
            f"the context engine {self.engine.name} failed: {type(error).__name__}: {error}",
            hint="another one: hermes config set context.engine compressor",
        )

    def report_failure(self, error: HermesError) -> None:
        """Keep the first failure for the user; later ones are only logged."""
        if not self._problem_reported:
            self._problem, self._problem_reported = f"{error} ({error.hint})", True

    def take_problem(self) -> str:
        """Return the failure that the user has not seen yet, or ""."""
        problem, self._problem = self._problem, ""
        return problem

    def _dicts(self, messages: Sequence[Message]) -> Dicts:
        return [to_dict(message) for message in (self._system, *messages)]


def _lost_part(before: Sequence[Message], after: Sequence[Message]) -> str:
    """Return what a compacted conversation must have but lacks, or ""."""
    roles = [message.role for message in after]
    if roles[:1] != ["system"]:
        return "the system prompt"
    if "user" not in roles:
        return "a message of the user"
    newest = before[-1] if before else None
    if isinstance(newest, ToolResult):  # its text may be shortened
        kept = newest.call_id in [each.call_id for each in after if isinstance(each, ToolResult)]
    else:
        kept = newest is None or newest in after
    return "" if kept else "the newest message"


def needs_compaction(
    history: Sequence[Message], context_length: int, *, reported: int = 0, enabled: bool = True
) -> bool:
    """Return whether `history` would hardly leave room for a turn.

    A check for services that load long histories before an agent sees them. `reported` is the
    prompt size that the API reported last; without it the size is estimated.
    """
    if not enabled or len(history) < MIN_MESSAGES:
        return False
    return (reported or messages_tokens(history)) >= HISTORY_SHARE * context_length

"""The vocabulary of scripts: what a scripted model or server answers, and how it goes wrong.

A step is written as briefly as the test allows: a text, a part, a list of parts, a fault alone,
or a whole `Step`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from hermes.core.messages import AssistantPart, Text, Thinking, ToolCall
from hermes.core.testing.refusals import RefusalKind
from hermes.core.usage import Usage

Count = Annotated[int, msgspec.Meta(ge=0)]


class ScriptError(AssertionError):
    """The script and what was asked of it do not fit; the test is wrong or has found a bug."""


class Refuse(msgspec.Struct, frozen=True, tag="refuse"):
    """An HTTP error in place of a reply."""

    kind: RefusalKind
    retry_after: float | None = None
    """Seconds, sent as the `Retry-After` header."""


class Malformed(msgspec.Struct, frozen=True, tag="malformed"):
    """JSON that ends too early: one extra event of a stream, or the whole body."""

    after: Count = 1


class Cut(msgspec.Struct, frozen=True, tag="cut"):
    """The connection closes after so many deltas, or in the middle of the body."""

    after: Count = 1


class Stall(msgspec.Struct, frozen=True, tag="stall"):
    """Nothing comes for a while after so many deltas, or before the body."""

    after: Count = 1
    seconds: float = 3600.0


class ErrorEvent(msgspec.Struct, frozen=True, tag="error_event"):
    """An error inside the stream, after status 200 and so many deltas. Streams only."""

    after: Count = 1
    kind: RefusalKind = "overloaded"


class Slow(msgspec.Struct, frozen=True, tag="slow"):
    """A pause before each event, or before the body."""

    seconds: float


class KeepAlive(msgspec.Struct, frozen=True, tag="keep_alive"):
    """A comment line before each event. Streams only."""


class SplitBytes(msgspec.Struct, frozen=True, tag="split_bytes"):
    """The body leaves in writes of `size` bytes, so characters and events are torn apart."""

    size: Annotated[int, msgspec.Meta(ge=1)] = 1


class CallIds(msgspec.Struct, frozen=True, tag="call_ids"):
    """All tool calls carry the id of the first one, or none at all."""

    mode: Literal["duplicate", "missing"]


class Interleave(msgspec.Struct, frozen=True, tag="interleave"):
    """The arguments of parallel tool calls arrive in turns. Streams only."""


class Gzip(msgspec.Struct, frozen=True, tag="gzip"):
    """The body is compressed, whether the client asked for it or not; a stream event by event."""


class Redirect(msgspec.Struct, frozen=True, tag="redirect"):
    """The client is sent elsewhere in place of a reply."""

    location: str
    status: Annotated[int, msgspec.Meta(ge=300, le=399)] = 307


class Headers(msgspec.Struct, frozen=True, tag="headers"):
    """More response headers (rate limits, say); one that is there already is replaced."""

    values: dict[str, str]


StreamFault = Malformed | Cut | Stall | ErrorEvent | Slow | KeepAlive | SplitBytes
Fault = Refuse | Redirect | Headers | Gzip | CallIds | Interleave | StreamFault
F = TypeVar("F", bound=Fault)


class Step(msgspec.Struct, frozen=True):
    """One reply. Faults count deltas: pieces of text, of thinking and of arguments alike."""

    parts: tuple[AssistantPart, ...] = ()
    finish_reason: str = ""
    """"" means `tool_calls` when there is a call and `stop` otherwise.

    `length`: cut off. `content_filter`: stopped by the provider. `refusal`: the model declines, and
    the text is what it says; on OpenAI's wires that is no text but a refusal. Anthropic tells the
    last two with the stop reason `refusal`.
    """
    usage: Usage | None = None
    """None lets the prefix cache count."""
    faults: tuple[Fault, ...] = ()

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def finish(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")

    def check_reach(self, deltas: int) -> None:
        """Raises `ScriptError` for a fault that is due after more deltas than there are."""
        for fault in self.faults:
            if getattr(fault, "after", 0) > deltas:
                raise ScriptError(f"the reply has {deltas} deltas, too few for {fault!r}")

    def fault(self, kind: type[F]) -> F | None:
        return next((fault for fault in self.faults if isinstance(fault, kind)), None)


StepLike = Step | Fault | AssistantPart | str | Sequence[AssistantPart | str]
ScriptItem = StepLike | BaseException | Callable[[Any], StepLike]


def as_step(item: StepLike) -> Step:
    if isinstance(item, Step):
        return item
    if isinstance(item, Fault):
        return Step(faults=(item,))
    parts = [item] if isinstance(item, str | Text | Thinking | ToolCall) else item
    return Step(tuple(Text(part) if isinstance(part, str) else part for part in parts))


def steps_from_data(data: Any) -> list[Step]:
    """The steps of a script file: a list of texts and of `Step` objects."""
    return [as_step(item) for item in msgspec.convert(data, list[str | Step])]


def pieces(text: str, size: int = 8) -> Iterator[str]:
    """The deltas a text is streamed in."""
    return (text[start : start + size] for start in range(0, len(text), size))


class Script:
    """Hands out steps in order, or asks a function of the request for each."""

    def __init__(self, steps: Sequence[ScriptItem] | Callable[[Any], StepLike]) -> None:
        self._function = steps if callable(steps) else None
        self._steps: list[ScriptItem] = [] if callable(steps) else list(steps)
        self._used = 0

    @property
    def used_up(self) -> bool:
        return self._function is None and self._used == len(self._steps)

    def take(self, request: Any) -> Step:
        """The step for `request`; an exception in the script is raised here."""
        if self.used_up:
            raise ScriptError(f"the script is used up: call {self._used + 1} has no step")
        if self._function is not None:
            return as_step(self._function(request))
        item = self._steps[self._used]
        self._used += 1
        if isinstance(item, BaseException):
            raise item
        return as_step(item(request) if callable(item) else item)

    def verify(self) -> None:
        """Raises `ScriptError` when steps are left over."""
        if left := self._steps[self._used :]:
            first = repr(left[0])[:200]
            raise ScriptError(f"{len(left)} of {len(self._steps)} steps never used; next: {first}")

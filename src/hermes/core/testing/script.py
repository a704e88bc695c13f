"""Scripts: what a scripted model or server answers, and how it fails.

A step is written as briefly as the test allows: a text, a part, a list of parts, a fault alone,
or a whole `Step`.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import msgspec

from hermes.core.messages import Assistant, AssistantPart, Text, Thinking, ToolCall, to_dict
from hermes.core.model import (
    EmitModelEvent,
    ModelEvent,
    ModelRequest,
    Price,
    ReasoningDelta,
    Reply,
    TextDelta,
    Usage,
)

# Refusals, in the form of the real endpoints.


class Refusal(msgspec.Struct, frozen=True):
    """`type`, `code` and `message` as OpenAI says it; the rest as Anthropic says it."""

    status: int
    type: str
    code: str | None
    message: str
    anthropic_type: str
    anthropic_message: str
    param: str | None = None
    raw: bytes | None = None  #: Sent as it is, as HTML, in place of a JSON body.

    def openai_error(self) -> dict[str, Any]:
        return {"message": self.message, "type": self.type, "param": self.param, "code": self.code}

    def anthropic_error(self) -> dict[str, Any]:
        return {"type": self.anthropic_type, "message": self.anthropic_message}


_PAGE = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n"
    b"<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx</center>\r\n</body></html>\r\n"
)

# fmt: off
RefusalKind = Literal[
    "bad_request", "unauthorized", "payment_required", "forbidden", "model_not_found",
    "too_large", "rate_limited", "quota", "server_error", "unavailable", "overloaded",
    "context_length", "content_filter", "bad_signature", "bad_unicode", "html", "empty",
]
# fmt: on
REFUSALS: dict[RefusalKind, Refusal] = {
    **msgspec.json.decode(
        Path(__file__).with_name("refusals.json").read_bytes(), type=dict[RefusalKind, Refusal]
    ),
    "html": Refusal(502, "", None, "502 Bad Gateway", "", "502 Bad Gateway", raw=_PAGE),
    "empty": Refusal(200, "", None, "", "", "", raw=b""),
}


Count = Annotated[int, msgspec.Meta(ge=0)]


class ScriptError(AssertionError):
    """The script and what was asked of it do not fit; the test is wrong or has found a bug."""


class Refuse(msgspec.Struct, frozen=True, tag="refuse"):
    """An HTTP error in place of a reply."""

    kind: RefusalKind
    retry_after: float | None = None  #: Seconds, sent as the `Retry-After` header.


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
    the text is what it says; on OpenAI's wires that is a refusal instead of text. Anthropic reports
    the last two with the stop reason `refusal`.
    """
    usage: Usage | None = None  #: None lets the prefix cache count.
    faults: tuple[Fault, ...] = ()

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def finish(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")

    def check_reach(self, deltas: int) -> None:
        """Raise `ScriptError` for a fault that is due after more deltas than there are."""
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
    """Return the steps of a script file: a list of texts and of `Step` objects."""
    return [as_step(item) for item in msgspec.convert(data, list[str | Step])]


def pieces(text: str, size: int = 8) -> Iterator[str]:
    """Return the deltas in which a text is streamed."""
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
        """Return the step for `request`. Raises an exception that the script contains."""
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
        """Raise `ScriptError` when steps are left over."""
        if left := self._steps[self._used :]:
            first = repr(left[0])[:200]
            raise ScriptError(f"{len(left)} of {len(self._steps)} steps never used; next: {first}")


# A model that answers from a script, in the process and without HTTP.


class ScriptedModel:
    """A `Model` that plays one step for each call and records the requests.

    Used as a context manager it fails on leaving when a step was not used. An exception in the
    script is raised by the call. The faults `Stall` and `Slow` work here; for the others there is
    `ModelServer`.
    """

    def __init__(
        self,
        steps: Sequence[ScriptItem] | Callable[[ModelRequest], StepLike],
        *,
        name: str = "scripted",
        provider: str = "testing",
        price: Price | None = None,
    ) -> None:
        self._script = Script(steps)
        self._name, self._provider, self._price = name, provider, price
        self.requests: list[ModelRequest] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def provider(self) -> str:
        return self._provider

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        self.requests.append(request)
        step = self._script.take(request)
        stall, slow = step.fault(Stall), step.fault(Slow)
        if others := [fault for fault in step.faults if fault not in (stall, slow)]:
            raise ScriptError(f"ScriptedModel cannot play {others[0]!r}; use ModelServer")
        deltas: list[ModelEvent] = [
            (ReasoningDelta if isinstance(part, Thinking) else TextDelta)(piece)
            for part in step.parts
            if not isinstance(part, ToolCall)
            for piece in pieces(part.text)
        ]
        step.check_reach(len(deltas))
        for position, delta in enumerate([None, *deltas]):
            # Even a script without pauses lets a cancellation in between two deltas.
            await asyncio.sleep(slow.seconds if slow and delta else 0)
            if delta is not None:
                emit(delta)
            if stall and stall.after == position:
                await asyncio.sleep(stall.seconds)
        usage = step.usage or estimate(request, step)
        cost = self._price.cost(usage) if self._price else None
        message = Assistant(step.parts, step.finish)
        return Reply(message, usage, self._name, self._provider, cost)

    def verify(self) -> None:
        """Raise `ScriptError` when a step was not used."""
        self._script.verify()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        if kind is None:
            self.verify()


@contextmanager
def scripts() -> Iterator[Callable[..., ScriptedModel]]:
    """Yield a factory of scripted models, whose scripts must be used up at the end of the block.

    Yield it from a pytest fixture, and an unused step fails the test.
    """
    made: list[ScriptedModel] = []

    def make(steps: Sequence[ScriptItem], **options: Any) -> ScriptedModel:
        made.append(ScriptedModel(steps, **options))
        return made[-1]

    yield make
    for model in made:
        model.verify()


def estimate(request: ModelRequest, step: Step) -> Usage:
    """Return the usage at about four characters per token."""
    asked = sum(len(bytes(message.wire(to_dict))) for message in request.messages)
    return Usage(
        input=asked // 4, output=output_tokens(step.parts), reasoning=thought_tokens(step.parts)
    )


def output_tokens(parts: Sequence[AssistantPart]) -> int:
    texts = (p.name + p.arguments if isinstance(p, ToolCall) else p.text for p in parts)
    return sum(-(-len(text) // 4) for text in texts)


def thought_tokens(parts: Sequence[AssistantPart]) -> int:
    return output_tokens([part for part in parts if isinstance(part, Thinking)])

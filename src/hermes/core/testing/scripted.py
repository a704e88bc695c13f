"""A model that answers from a script, in the process and without HTTP."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from hermes.core.messages import Assistant, AssistantPart, Thinking, ToolCall
from hermes.core.model import ModelEvent, ModelRequest, ReasoningDelta, Reply, TextDelta
from hermes.core.openai_format import to_dict
from hermes.core.testing.steps import (
    Script,
    ScriptError,
    ScriptItem,
    Slow,
    Stall,
    Step,
    StepLike,
    pieces,
)
from hermes.core.usage import Price, Usage


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

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        step = self._script.take(request)
        stall, slow = step.fault(Stall), step.fault(Slow)
        if others := [fault for fault in step.faults if fault not in (stall, slow)]:
            raise ScriptError(f"ScriptedModel cannot play {others[0]!r}; use ModelServer")
        deltas = [delta for part in step.parts for delta in _deltas(part)]
        step.check_reach(len(deltas))
        for position, delta in enumerate([None, *deltas]):
            # Even a script without pauses lets a cancellation in between two deltas.
            await asyncio.sleep(slow.seconds if slow and delta else 0)
            if delta is not None:
                yield delta
            if stall and stall.after == position:
                await asyncio.sleep(stall.seconds)
        usage = step.usage or estimate(request, step)
        cost = self._price.cost(usage) if self._price else None
        message = Assistant(step.parts, step.finish)
        yield Reply(message, usage, self._name, self._provider, cost)

    def verify(self) -> None:
        """Raises `ScriptError` when a step was not used."""
        self._script.verify()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.verify()


@contextmanager
def scripts() -> Iterator[Callable[..., ScriptedModel]]:
    """A maker of scripted models whose scripts must all be used up at the end of the block.

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
    """About four characters a token."""
    asked = sum(len(bytes(message.wire(to_dict))) for message in request.messages)
    return Usage(
        input=asked // 4, output=output_tokens(step.parts), reasoning=thought_tokens(step.parts)
    )


def output_tokens(parts: Sequence[AssistantPart]) -> int:
    texts = (p.name + p.arguments if isinstance(p, ToolCall) else p.text for p in parts)
    return sum(-(-len(text) // 4) for text in texts)


def thought_tokens(parts: Sequence[AssistantPart]) -> int:
    return output_tokens([part for part in parts if isinstance(part, Thinking)])


def _deltas(part: AssistantPart) -> Iterator[ModelEvent]:
    if not isinstance(part, ToolCall):
        kind = ReasoningDelta if isinstance(part, Thinking) else TextDelta
        yield from (kind(piece) for piece in pieces(part.text))

"""Another model takes over when one fails for good."""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from hermes.core.errors import (
    ConfigError,
    ContentRefused,
    ContextOverflow,
    HermesError,
    LocalModelError,
    ProviderError,
)
from hermes.core.model import FellBack, Model, ModelEvent, ModelRequest
from hermes.providers.wrapper import unwell

Entry = Callable[[], Model]

HELPED = (ProviderError, LocalModelError)
"""What another model may do better ..."""
NOT_HELPED = (ContextOverflow, ContentRefused)
"""... but for these: compaction is for the first, and nobody shops around for the second."""


class FallbackModel:
    """The first of `entries` that works, for one turn.

    Each entry gets one chance, in order, and an entry that took over stays for the rest of the
    turn. One that cannot be built is passed over; one that is unwell is kept for the end. When all
    failed the error of the first is raised. Making this object builds the first model, so what
    keeps every entry from being built is raised there.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = deque(enumerate(entries))
        self._unwell: deque[tuple[int, Model]] = deque()
        self._errors: dict[int, HermesError] = {}
        self._news: list[FellBack] = []
        self._number, self._model = self._next("")

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def provider(self) -> str:
        return self._model.provider

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        while True:
            while self._news:
                yield self._news.pop(0)
            try:
                async with aclosing(self._model.stream(request)) as events:
                    async for event in events:
                        yield event
                return
            except HELPED as error:
                if isinstance(error, NOT_HELPED):
                    raise
                self._errors[self._number] = error
                self._number, self._model = self._next(str(error))

    def _next(self, error: str) -> tuple[int, Model]:
        """The next one to try, with its number; `error` is why the one in force does not do."""
        reason = error
        while self._entries:
            number, build = self._entries.popleft()
            try:
                model = build()
            except (ConfigError, *HELPED) as failure:
                self._errors[number] = failure
                reason = reason or str(failure)
                continue
            if not (complaint := unwell(model)):
                return self._takes_over(number, model, reason)
            self._unwell.append((number, model))
            reason = reason or complaint
        if not self._unwell:
            raise self._failure()
        number, model = self._unwell.popleft()
        # A first entry that begins although it is unwell, for want of a better one, is no news.
        return self._takes_over(number, model, reason if number else error)

    def _takes_over(self, number: int, model: Model, reason: str) -> tuple[int, Model]:
        if reason:
            self._news.append(FellBack(model.provider, model.name, reason))
        return number, model

    def _failure(self) -> HermesError:
        """The error of the first entry; its hint tells of the others."""
        first = self._errors.pop(0)
        if self._errors:
            count, last = len(self._errors), list(self._errors.values())[-1]
            told = f"{count} fallback{'s' * (count > 1)} failed too, the last with: {last}"
            first.hint = f"{first.hint}; {told}" if first.hint else told
        self._errors[0] = first
        return first

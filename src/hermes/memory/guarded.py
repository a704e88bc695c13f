"""A provider whose methods can be called without fear."""

from collections.abc import Callable
from typing import Any

from hermes.core.errors import ToolError
from hermes.memory.answers import read_answer
from hermes.memory.isolation import Apart, Limits, Tell
from hermes.memory.provider import MemoryProvider
from hermes.memory.signatures import invoke


class Guarded:
    """Calls methods by name, apart, with as many of the arguments as they take. What they return is
    plain data: see `answers`."""

    def __init__(self, provider: MemoryProvider, limits: Limits, tell: Tell) -> None:
        self.provider = provider
        self.name = provider.name
        self._limits = limits
        self._apart = Apart(self.name, limits, tell)

    @property
    def off(self) -> str:
        """Why the provider is not called any more; empty while it is."""
        return self._apart.off

    def start(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """A first call, with more time. Raises `ToolError`; the user is not told of it."""
        work = self._work(method, args, kwargs)
        return self._apart.call(method, work, self._limits.start, quiet=True)

    def wait(self, method: str, seconds: float, *args: Any, **kwargs: Any) -> Any:
        """Raises `ToolError`; the user knows by then."""
        return self._apart.call(method, self._work(method, args, kwargs), seconds)

    def attempt(self, method: str, seconds: float, *args: Any, **kwargs: Any) -> Any:
        """None when it cannot; the user knows by then."""
        if self.off:
            return None
        try:
            return self.wait(method, seconds, *args, **kwargs)
        except ToolError:
            return None

    def later(self, method: str, *args: Any, **kwargs: Any) -> None:
        """Nobody waits for it."""
        self._apart.later(method, self._work(method, args, kwargs))

    def switch_off(self, reason: str) -> None:
        self._apart.switch_off(reason)

    def shut_down(self) -> None:
        """Lets the provider finish what it was given, as far as the time allows. One that was just
        waited for in vain is not waited for again."""
        if self._apart.late:
            self.later("shutdown")
        else:
            self.attempt("shutdown", self._limits.end)
        self._apart.close()

    def _work(self, method: str, args: Any, kwargs: Any) -> Callable[[], Any]:
        return lambda: read_answer(method, invoke(self.provider, method, *args, **kwargs))

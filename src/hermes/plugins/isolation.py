"""Run code of plugins in isolation: its failures become one-line errors, reported once."""

import inspect
import logging
import queue
import threading
import traceback
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hermes.core.errors import HermesError
from hermes.util.threads import in_thread

T = TypeVar("T")

MAX_ERROR_CHARS = 300
"""Characters of an error message that are shown."""


class PluginFailed(HermesError):
    """A plugin's code raised an exception, tried to exit, or has the wrong form."""


class PluginHangs(PluginFailed):
    """A plugin's code did not return in time. Its thread keeps running."""


def run_with_timeout(work: Callable[[], T], seconds: float) -> T:
    """Return the result of `work`, run in a daemon thread. Raises `PluginFailed`.

    Threads that `work` starts inherit the daemon flag, so that the background work of a plugin
    does not keep the program from exiting.
    """
    outcome: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            outcome.put((None, error))

    threading.Thread(target=run, name="hermes-plugin", daemon=True).start()
    try:
        result, failure = outcome.get(timeout=seconds)
    except queue.Empty:
        raise PluginHangs(f"it did not end within {seconds:g} seconds") from None
    if failure is not None:
        raise PluginFailed(describe_error(failure)) from failure
    return result  # type: ignore[return-value]  # without a failure it is the result of work


def describe_error(error: BaseException) -> str:
    """Return a one-line description, also of an error whose `__str__` fails."""
    if isinstance(error, HermesError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"it wanted to end the program (exit code {error.code})"
    if isinstance(error, KeyboardInterrupt):
        return "it wanted to end the program (KeyboardInterrupt)"
    lines, where = traceback.format_exception_only(error), ""
    message = lines[0]  # notes follow it
    if isinstance(error, SyntaxError):
        message = lines[-1]  # the source precedes it
        where = f" ({Path(error.filename).name}, line {error.lineno})" if error.filename else ""
    message = message.removeprefix(f"{type(error).__module__}.")
    return " ".join(message.split())[:MAX_ERROR_CHARS] + where


def display_name(thing: Any) -> str:
    """Return the name of a function or a type for a message."""
    return str(getattr(thing, "__name__", None) or type(thing).__name__)


log = logging.getLogger(__name__)

Tell = Callable[[str], None]


class ProblemReporter:
    """Reports each problem once, as a log line and a notice; repetitions are debug lines.

    Without a log handler only the notice is sent: Python would print the log line as well.
    """

    def __init__(self, tell: Tell = lambda _text: None) -> None:
        self._tell = tell
        self._reported: set[Hashable] = set()

    def report(
        self,
        problem: Hashable,
        text: str,
        cause: BaseException | None = None,
        *,
        series: Hashable = None,
    ) -> None:
        """Report `text`, unless `problem` was reported before; `cause` goes to the log.

        Of all problems of one `series` the user sees only the first, the log has each.
        """
        if problem in self._reported:
            log.debug("again: %s", text)
            return
        self._reported.add(problem)
        if log.hasHandlers():
            log.warning("%s", text)
            log.debug("the cause:", exc_info=cause)
        if series is None:
            self._tell(text)
        elif series not in self._reported:
            self._reported.add(series)
            self._tell(text)


ALIASES = {"params": "args"}
"""Alternative names of hook arguments, used in some documentation."""


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class AcceptedArguments:
    """The keyword arguments a function accepts: its named ones, or all if it has `**kwargs`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # written in C, without a signature
            self._all, self._names = True, frozenset[str]()
            return
        self._all = any(each.kind is each.VAR_KEYWORD for each in parameters)
        self._names = frozenset(each.name for each in parameters if each.kind in _NAMED)

    def select(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of `details` that the function accepts, under the names it uses."""
        names = details.keys() if self._all else details.keys() & self._names
        known = {name: details[name] for name in names}
        for alias, name in ALIASES.items():
            if alias in self._names and alias not in details and name in details:
                known[alias] = details[name]
        return known


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether `function` is async, also for an object with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - its type is needed, not whether it exists
    )


@contextmanager
def _no_exit() -> Iterator[None]:
    try:
        yield
    except (SystemExit, KeyboardInterrupt) as error:
        raise PluginFailed(describe_error(error)) from error


async def call_plugin(function: Callable[..., Any], /, *given: Any, **details: Any) -> Any:
    """Call a function of a plugin: an async one on the event loop, any other in a thread.

    Raises `PluginFailed` for `SystemExit` and `KeyboardInterrupt`; other errors pass through.
    """

    def call() -> Any:
        with _no_exit():
            return function(*given, **details)

    answer = call() if is_async(function) else await in_thread(call)
    with _no_exit():
        return await answer if inspect.isawaitable(answer) else answer

"""Code of a plugin, run so that whatever it does becomes one line for a person."""

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

LONGEST = 300
"""Characters of a failure that are told."""


class PluginFailed(HermesError):
    """A plugin's code raised, wanted to exit, or is not what it should be."""


class PluginHangs(PluginFailed):
    """It did not end in time. Its thread is left behind."""


def run_with_timeout(work: Callable[[], T], seconds: float) -> T:
    """The result of `work`, run in a thread that holds up nobody. Raises `PluginFailed`.

    Threads that `work` starts are daemons too unless it says otherwise, so that a plugin's
    background work does not keep the program from ending.
    """
    outcome: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - it is raised again by whoever waits
            outcome.put((None, error))

    threading.Thread(target=run, name="hermes-plugin", daemon=True).start()
    try:
        result, failure = outcome.get(timeout=seconds)
    except queue.Empty:
        raise PluginHangs(f"it did not end within {seconds:g} seconds") from None
    if failure is not None:
        raise PluginFailed(describe_error(failure)) from failure
    return result  # type: ignore[return-value]  # there is no failure, so it is work's


def describe_error(error: BaseException) -> str:
    """One line. An error that cannot even be printed is described all the same."""
    if isinstance(error, HermesError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"it wanted to end the program (exit code {error.code})"
    if isinstance(error, KeyboardInterrupt):
        return "it wanted to end the program (KeyboardInterrupt)"
    lines, where = traceback.format_exception_only(error), ""
    said = lines[0]  # notes come after it
    if isinstance(error, SyntaxError):
        said = lines[-1]  # the source comes before it
        where = f" ({Path(error.filename).name}, line {error.lineno})" if error.filename else ""
    said = said.removeprefix(f"{type(error).__module__}.")
    return " ".join(said.split())[:LONGEST] + where


def display_name(thing: Any) -> str:
    """What to call a function or a type in a message."""
    return str(getattr(thing, "__name__", None) or type(thing).__name__)


# Telling the user once what is wrong with a plugin.

log = logging.getLogger(__name__)

Tell = Callable[[str], None]


class ProblemReporter:
    """Each problem is a log line and a notice, the first time; later only a debug line.

    Where no log is open the notice is enough: Python would print the line beside it.
    """

    def __init__(self, tell: Tell = lambda _text: None) -> None:
        self._tell = tell
        self._told: set[Hashable] = set()

    def report(
        self,
        problem: Hashable,
        text: str,
        cause: BaseException | None = None,
        *,
        series: Hashable = None,
    ) -> None:
        """`problem` says which problems are the same; `cause` goes to the log. Of the problems of
        one `series` the user hears only of the first, the log of each."""
        if problem in self._told:
            log.debug("again: %s", text)
            return
        self._told.add(problem)
        if log.hasHandlers():
            log.warning("%s", text)
            log.debug("the cause:", exc_info=cause)
        if series is None:
            self._tell(text)
        elif series not in self._told:
            self._told.add(series)
            self._tell(text)


ALIASES = {"params": "args"}
"""Names that some documents use for an argument."""


# Calling functions of plugins with the keyword arguments they know.

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class AcceptedArguments:
    """Which keyword arguments a function takes: those it names, or all with `**kwargs`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # written in C: it does not say
            self._all, self._names = True, frozenset[str]()
            return
        self._all = any(each.kind is each.VAR_KEYWORD for each in parameters)
        self._names = frozenset(each.name for each in parameters if each.kind in _NAMED)

    def select(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """What of `details` the function is given, under the names it uses."""
        names = details.keys() if self._all else details.keys() & self._names
        known = {name: details[name] for name in names}
        for alias, name in ALIASES.items():
            if alias in self._names and alias not in details and name in details:
                known[alias] = details[name]
        return known


def is_async(function: Callable[..., Any]) -> bool:
    """Also for an object whose `__call__` is async."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - not asking whether it can be called
    )


@contextmanager
def _no_exit() -> Iterator[None]:
    try:
        yield
    except (SystemExit, KeyboardInterrupt) as error:
        raise PluginFailed(describe_error(error)) from error


async def call_plugin(function: Callable[..., Any], /, *given: Any, **details: Any) -> Any:
    """The answer of a function of a plugin: async on the event loop, any other in a thread.

    Raises `PluginFailed` for what would end the event loop, and whatever else it raises.
    """

    def call() -> Any:
        with _no_exit():
            return function(*given, **details)

    answer = call() if is_async(function) else await in_thread(call)
    with _no_exit():
        return await answer if inspect.isawaitable(answer) else answer

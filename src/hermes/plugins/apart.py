"""Code of a plugin, run so that whatever it does becomes one line for a person."""

import queue
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from hermes.core.errors import HermesError

T = TypeVar("T")

LONGEST = 300
"""Characters of a failure that are told."""


class PluginFailed(HermesError):
    """A plugin's code raised, wanted to exit, or is not what it should be."""


class PluginHangs(PluginFailed):
    """It did not end in time. Its thread is left behind."""


def run_apart(work: Callable[[], T], seconds: float) -> T:
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
        raise PluginFailed(described(failure)) from failure
    return result  # type: ignore[return-value]  # there is no failure, so it is work's


def described(error: BaseException) -> str:
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


def name_of(thing: Any) -> str:
    """What to call a function or a type in a message."""
    return str(getattr(thing, "__name__", None) or type(thing).__name__)

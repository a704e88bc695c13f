"""Run code of others in isolation: plugins, memory providers and context engines.

Their failures become one-line errors, reported once; a hung call delays neither the conversation
nor the end of the process.
"""

import inspect
import logging
import queue
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.core.errors import ConfigError, HermesError, ToolError, ToolTimedOut
from hermes.util.concurrency import in_thread

T = TypeVar("T")

MAX_ERROR_CHARS = 300  #: Characters of an error message that are shown.


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


def run_foreign_code(
    where: str, failing: str, work: Callable[[], T], *, hint: str, seconds: float = 15.0
) -> T:
    """Like `run_with_timeout`, for what the settings name. Raises `ConfigError`."""
    try:
        return run_with_timeout(work, seconds)
    except PluginFailed as error:
        log.debug("%s %s", where, failing, exc_info=True)
        raise ConfigError(f"{failing}: {error}", where=where, hint=hint) from error


def describe_error(error: BaseException) -> str:
    """Return a one-line description, also of an error whose `__str__` fails; with the hint of a
    `HermesError`."""
    if isinstance(error, HermesError):
        return f"{error} ({error.hint})" if error.hint else str(error)
    if isinstance(error, SystemExit):
        return f"it wanted to end the program (exit code {error.code})"
    if isinstance(error, KeyboardInterrupt):
        return "it wanted to end the program (KeyboardInterrupt)"
    lines, where = traceback.format_exception_only(error), ""
    message = lines[0]  # notes follow it
    if isinstance(error, SyntaxError):
        message = lines[-1]  # the source precedes it
        where = f" ({Path(error.filename).name}, line {error.lineno})" if error.filename else ""
    kind = type(error)
    message = message.replace(f"{kind.__module__}.{kind.__qualname__}", kind.__name__, 1)
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

    def __init__(self, tell: Tell = lambda _text: None, shown_before: Iterable[str] = ()) -> None:
        """`shown_before` are the lasting problems that the user saw at an earlier start."""
        self._tell, self._shown_before = tell, frozenset(shown_before)
        self._reported: set[Hashable] = set()
        self.lasting: list[str] = []  #: The lasting problems of this start.

    def report(
        self,
        problem: Hashable,
        text: str,
        cause: BaseException | None = None,
        *,
        series: Hashable = None,
        lasting: bool = False,
    ) -> None:
        """Report `text`, unless `problem` was reported before; `cause` goes to the log.

        Of all problems of one `series` the user sees only the first, the log has each. A `lasting`
        one recurs at each start: the user sees it when it is new.
        """
        if problem in self._reported:
            log.debug("again: %s", text)
            return
        self._reported.add(problem)
        if log.hasHandlers():
            log.warning("%s", text)
            log.debug("the cause:", exc_info=cause)
        if lasting:
            self.lasting.append(text)
        if lasting and text in self._shown_before:
            return
        if series is None:
            self._tell(text)
        elif series not in self._reported:
            self._reported.add(series)
            self._tell(text)


ALIASES = {"params": "args"}  #: Alternative names of hook arguments, used in some documentation.

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class AcceptedArguments:
    """The arguments a function accepts: its named ones, or all if it has `*args`, `**kwargs`.

    Plugins implement the short forms of the documentation, such as
    `sync_turn(self, user, assistant)`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # written in C, without a signature
            self._any_keyword = self._any_positional = True
            self.order, self._names = list[str](), frozenset[str]()
            return
        kinds = {each.kind for each in parameters}
        self._any_keyword = inspect.Parameter.VAR_KEYWORD in kinds
        self._any_positional = inspect.Parameter.VAR_POSITIONAL in kinds
        self.order = [each.name for each in parameters if each.kind in _POSITIONAL]
        self._names = frozenset(each.name for each in parameters if each.kind in _NAMED)

    def select(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of `details` that the function accepts, under the names it uses."""
        names = details.keys() if self._any_keyword else details.keys() & self._names
        known = {name: details[name] for name in names}
        for alias, name in ALIASES.items():
            if alias in self._names and alias not in details and name in details:
                known[alias] = details[name]
        return known

    def positional(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return as many of `args` as the function accepts."""
        return args if self._any_positional else args[: len(self.order)]


def call_accepted(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call `function` with as many of the arguments as it accepts."""
    accepted = AcceptedArguments(function)
    args = accepted.positional(args)
    rest = {name: each for name, each in kwargs.items() if name not in accepted.order[: len(args)]}
    return function(*args, **accepted.select(rest))


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


class IsolationLimits(msgspec.Struct, frozen=True):
    """How long calls of a provider may take, in seconds unless noted."""

    turn: float = 5  #: `memory.provider_timeout`: how long a turn waits for recalled text.
    start: float = 15  #: How long a session waits for `initialize`.
    tool: float = 30  #: How long the model waits for a tool of the provider.
    end: float = 10  #: How long the end of a session waits, and the end of the process.
    background: float = 60
    """How long a background call may run before the provider counts as hanging."""
    max_queued: int = 50
    """Number of background calls that may be queued; further ones are dropped."""
    max_timeouts: int = 3
    """Number of consecutive timeouts after which the provider is disabled for the session."""


class _Job:
    def __init__(self, label: str, work: Callable[[], Any], timeout: float, quiet: bool) -> None:
        self.label, self.work, self.timeout, self.quiet = label, work, timeout, quiet
        self.context = copy_context()
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self.abandoned = False


class IsolatedThread:
    """Runs the code of one provider in order, in one daemon thread, each call with a timeout.

    `owner` names the provider in messages, such as "the memory provider x"; `tell` shows the user
    each kind of problem once.
    """

    def __init__(self, owner: str, limits: IsolationLimits, tell: Tell) -> None:
        self.owner = owner
        self.disabled_reason = ""  #: Why the provider is no longer called; empty while it is.
        self._limits, self._tell = limits, tell
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._current: _Job | None = None
        self._current_since = 0.0
        self._queued = 0
        self._timeouts = 0  #: Consecutive timeouts.
        self._skip_queued = False  #: True once queued calls must not run any more.
        self._reported: set[str] = set()

    @property
    def last_call_timed_out(self) -> bool:
        with self._lock:
            return self._timeouts > 0

    def call(
        self, label: str, work: Callable[[], Any], timeout: float, *, quiet: bool = False
    ) -> Any:
        """Run `work` and return its result.

        Raises `ToolTimedOut` after `timeout` seconds, and `ToolError` when `work` raises or the
        provider is disabled. A call that times out before its turn is never made. With `quiet` the
        user is not notified of a failure, because the caller reports it.
        """
        if self.disabled_reason:
            raise ToolError(f"{self.owner} is switched off: {self.disabled_reason}")
        if (hanging := self._hanging_job()) is not None:
            raise self._timed_out(f"is still busy with {hanging.label}", quiet)
        job = self._enqueue(_Job(label, work, timeout, quiet))
        if not job.done.wait(timeout):
            job.abandoned = True
            raise self._timed_out(f"did not answer within {timeout:g} s ({label})", quiet)
        if job.error is not None:
            problem = f"{self.owner} failed: {describe_error(job.error)}"
            raise ToolError(problem) from job.error
        with self._lock:
            self._timeouts = 0
        return job.result

    def post(self, label: str, work: Callable[[], Any]) -> bool:
        """Queue `work` without waiting for it. Return False when it was dropped."""
        if self.disabled_reason:
            return False
        with self._lock:
            full = self._queued >= self._limits.max_queued
        if full:
            log.warning("%s: queue is full, dropped %s", self.owner, label)
            self._report_once(
                "full", "cannot keep up; part of this conversation is not stored by it"
            )
            return False
        self._enqueue(_Job(label, work, self._limits.background, quiet=False))
        return True

    def disable(self, reason: str, kind: str = "off") -> None:
        """Never call the provider again and drop its queued calls.

        The user is notified unless a problem of this `kind` was already reported.
        """
        with self._lock:
            if self.disabled_reason:
                return
            self.disabled_reason, self._skip_queued = reason, True
        self._jobs.put(None)
        log.warning("%s is disabled: %s", self.owner, reason)
        self._report_once(kind, f"is disabled for this session: {reason}")

    def close(self) -> None:
        """Accept no more calls. The thread ends after the queued ones; this does not wait."""
        with self._lock:
            self.disabled_reason = self.disabled_reason or "it was shut down"
            queued = self._queued
        self._jobs.put(None)
        if queued:
            log.warning("%s: %d calls still queued at the end", self.owner, queued)

    def _enqueue(self, job: _Job) -> _Job:
        with self._lock:
            self._queued += 1
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run_jobs, name=f"hermes: {self.owner}", daemon=True
                )
                self._thread.start()
        self._jobs.put(job)
        return job

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._lock:
                self._queued -= 1
                skip = job.abandoned or self._skip_queued
                if not skip:
                    self._current, self._current_since = job, time.monotonic()
            if not skip:
                self._run(job)
                with self._lock:
                    self._current = None

    def _run(self, job: _Job) -> None:
        try:
            job.result = job.context.run(job.work)
        # The boundary around foreign code: even SystemExit must not end this thread.
        except BaseException as error:
            job.error = error
            level = logging.DEBUG if job.quiet else logging.WARNING
            text = describe_error(error)
            log.log(level, "%s: %s: %s", self.owner, job.label, text)
            log.debug("%s failed", self.owner, exc_info=True)
            if not job.quiet:
                self._report_once("raised", f"failed ({job.label}): {text}")
        finally:
            job.done.set()

    def _hanging_job(self) -> _Job | None:
        """Return the running call if its caller gave up or it has exceeded its timeout."""
        with self._lock:
            job = self._current
            if job is None:
                return None
            late = job.abandoned or time.monotonic() - self._current_since > job.timeout
            return job if late else None

    def _timed_out(self, problem: str, quiet: bool) -> ToolTimedOut:
        with self._lock:
            self._timeouts += 1
            enough = self._timeouts >= self._limits.max_timeouts
        log.warning("%s %s", self.owner, problem)
        if enough:
            self.disable(f"it {problem}", "late")
        elif not quiet:
            self._report_once("late", f"{problem}; the conversation continues without it")
        return ToolTimedOut(f"{self.owner} {problem}")

    def _report_once(self, kind: str, text: str) -> None:
        with self._lock:
            is_new = kind not in self._reported
            self._reported.add(kind)
        if is_new:
            self._tell(f"{self.owner} {text}")

"""Calls of a memory provider in a thread of its own, each with a timeout.

A provider is foreign code: it may raise or hang. Its calls run in order on one daemon thread, so a
hung call delays neither the conversation nor the end of the process.
"""

import inspect
import logging
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any

import msgspec

from hermes.core.errors import HermesError, ToolError, ToolTimedOut

log = logging.getLogger(__name__)

MAX_ERROR_CHARS = 300
"""Longest text of a foreign error that is reported."""

Notify = Callable[[str], None]
"""Shows the user one line. It is called from any thread and must not raise."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class ProviderLimits(msgspec.Struct, frozen=True):
    """How long calls of a provider may take, in seconds unless noted."""

    turn: float = 5
    """`memory.provider_timeout`: how long a turn waits for recalled text."""
    start: float = 15
    """How long a session waits for `initialize`."""
    tool: float = 30
    """How long the model waits for a tool of the provider."""
    end: float = 10
    """How long the end of a session waits, and the end of the process."""
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
    """Runs the code of one provider in one daemon thread.

    `name` identifies the provider in messages; `tell` shows the user each kind of problem once.
    """

    def __init__(self, name: str, limits: ProviderLimits, tell: Notify) -> None:
        self.name = name
        self.disabled_reason = ""
        """Why the provider is no longer called; empty while it is."""
        self._limits, self._tell = limits, tell
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._current: _Job | None = None
        self._current_since = 0.0
        self._queued = 0
        self._timeouts = 0
        """Consecutive timeouts."""
        self._skip_queued = False
        """True once queued calls must not run any more."""
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
            raise ToolError(
                f"the memory provider {self.name} is switched off: {self.disabled_reason}"
            )
        if (hanging := self._hanging_job()) is not None:
            raise self._timed_out(f"is still busy with {hanging.label}", quiet)
        job = self._enqueue(_Job(label, work, timeout, quiet))
        if not job.done.wait(timeout):
            job.abandoned = True
            raise self._timed_out(f"did not answer within {timeout:g} s ({label})", quiet)
        if job.error is not None:
            problem = f"the memory provider {self.name} failed: {describe_error(job.error)}"
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
            log.warning("memory provider %s: queue is full, dropped %s", self.name, label)
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
        log.warning("memory provider %s is disabled: %s", self.name, reason)
        self._report_once(kind, f"is disabled for this session: {reason}")

    def close(self) -> None:
        """Accept no more calls. The thread ends after the queued ones; this does not wait."""
        with self._lock:
            self.disabled_reason = self.disabled_reason or "it was shut down"
            queued = self._queued
        self._jobs.put(None)
        if queued:
            log.warning("memory provider %s: %d calls still queued at the end", self.name, queued)

    def _enqueue(self, job: _Job) -> _Job:
        with self._lock:
            self._queued += 1
            if self._thread is None:
                name = f"hermes-memory-{self.name}"
                self._thread = threading.Thread(target=self._run_jobs, name=name, daemon=True)
                self._thread.start()
        self._jobs.put(job)
        return job

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._lock:
                self._queued -= 1
                skip = job.abandoned or self._skip_queued
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
            log.log(level, "memory provider %s: %s: %s", self.name, job.label, text)
            log.debug("memory provider %s failed", self.name, exc_info=True)
            if not job.quiet:
                self._report_once("raised", f"failed ({job.label}): {text}")
        finally:
            job.done.set()

    def _hanging_job(self) -> _Job | None:
        """Return the running call if it has exceeded its timeout."""
        with self._lock:
            job = self._current
            late = job is not None and time.monotonic() - self._current_since > job.timeout
            return job if late else None

    def _timed_out(self, problem: str, quiet: bool) -> ToolTimedOut:
        with self._lock:
            self._timeouts += 1
            enough = self._timeouts >= self._limits.max_timeouts
        log.warning("memory provider %s %s", self.name, problem)
        if enough:
            self.disable(f"it {problem}", "late")
        elif not quiet:
            self._report_once("late", f"{problem}; the conversation continues without it")
        return ToolTimedOut(f"the memory provider {self.name} {problem}")

    def _report_once(self, kind: str, text: str) -> None:
        with self._lock:
            is_new = kind not in self._reported
            self._reported.add(kind)
        if is_new:
            self._tell(f"the memory provider {self.name} {text}")


def describe_error(error: BaseException) -> str:
    """Return one line about an error, with the hint of a `HermesError`."""
    try:
        text = " ".join(str(error).split())[:MAX_ERROR_CHARS]
    except Exception:  # noqa: BLE001 - __str__ of a foreign error may raise anything
        text = ""
    if isinstance(error, HermesError):
        return f"{text} ({error.hint})" if error.hint else text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def call_accepted(target: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """Call `method` of `target` with as many of the arguments as it accepts.

    Plugins implement the short forms of the documentation, such as
    `sync_turn(self, user, assistant)`.
    """
    function = getattr(target, method)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # no signature, for example written in C: pass everything
        return function(*args, **kwargs)
    kinds = {each.kind for each in parameters}
    positional = [each.name for each in parameters if each.kind in _POSITIONAL]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        args = args[: len(positional)]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        keyword_only = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
        accepted = keyword_only | set(positional[len(args) :])
        kwargs = {name: value for name, value in kwargs.items() if name in accepted}
    return function(*args, **kwargs)

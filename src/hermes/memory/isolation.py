"""Calls of a provider, kept apart: it may raise or hang, and the conversation goes on.

Each provider has one daemon thread, so its calls come in order and a hung one holds up neither the
others nor the end of the process.
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
"""Characters of what an error says."""

Notify = Callable[[str], None]
"""Shows the user one line. It is called from any thread and must not raise."""


class ProviderLimits(msgspec.Struct, frozen=True):
    """In seconds, unless said otherwise."""

    turn: float = 5
    """`memory.provider_timeout`: how long a turn waits for what is recalled."""
    start: float = 15
    """How long a session waits for `initialize`."""
    tool: float = 30
    """How long the model waits for a tool of the provider."""
    end: float = 10
    """How long the end of a session waits, and the end of the process."""
    background: float = 60
    """How long a call may take that nobody waits for, before the provider counts as hanging."""
    waiting: int = 50
    """How many such calls may wait for their turn; more are dropped."""
    time_outs: int = 3
    """After so many in a row the provider is switched off for the session."""


class _Job:
    def __init__(self, what: str, work: Callable[[], Any], patience: float, quiet: bool) -> None:
        self.what, self.work, self.patience, self.quiet = what, work, patience, quiet
        self.context = copy_context()
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self.given_up = False


class IsolatedThread:
    """Runs what a provider does in a thread of its own. `name` is what the user calls it."""

    def __init__(self, name: str, limits: ProviderLimits, tell: Notify) -> None:
        self.name = name
        self.off = ""
        """Why it is not called any more; empty while it is."""
        self._limits, self._tell = limits, tell
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._current: _Job | None = None
        self._since = 0.0
        self._waiting = 0
        self._time_outs = 0
        self._drops = False
        """Whether what waits is not done any more."""
        self._told: set[str] = set()

    @property
    def late(self) -> bool:
        """Whether the last call that was waited for took too long."""
        with self._lock:
            return self._time_outs > 0

    def call(
        self, what: str, work: Callable[[], Any], seconds: float, *, quiet: bool = False
    ) -> Any:
        """What `work` returns. Raises `ToolTimedOut` when that takes too long, `ToolError` when it
        raises or the provider is switched off. A call that was given up before its turn came is
        never made. With `quiet` the user is not told of a failure: the caller does that."""
        self._refuse_if_off()
        if (busy := self._hanging()) is not None:
            raise self._timed_out(f"is still busy with {busy.what}", quiet)
        job = self._put(_Job(what, work, seconds, quiet))
        if not job.done.wait(seconds):
            job.given_up = True
            raise self._timed_out(f"did not answer within {seconds:g} s ({what})", quiet)
        if job.error is not None:
            problem = f"the memory provider {self.name} failed: {describe_error(job.error)}"
            raise ToolError(problem) from job.error
        with self._lock:
            self._time_outs = 0
        return job.result

    def later(self, what: str, work: Callable[[], Any]) -> bool:
        """Let `work` be done after what was asked before; nobody waits. False when it is not."""
        if self.off:
            return False
        with self._lock:
            full = self._waiting >= self._limits.waiting
        if full:
            log.warning("memory provider %s: %s was dropped, too much waits", self.name, what)
            self._tell_once("full", "falls behind; some of this conversation is not kept by it")
            return False
        self._put(_Job(what, work, self._limits.background, quiet=False))
        return True

    def switch_off(self, reason: str, kind: str = "off") -> None:
        """Never call it again. The user is told, unless of another problem of this kind before."""
        with self._lock:
            if self.off:
                return
            self.off, self._drops = reason, True
        self._jobs.put(None)
        log.warning("memory provider %s is switched off: %s", self.name, reason)
        self._tell_once(kind, f"is switched off for this session: {reason}")

    def close(self) -> None:
        """Take no more calls. The thread ends after those that wait; nobody waits for it."""
        with self._lock:
            self.off, left = self.off or "it was shut down", self._waiting
        self._jobs.put(None)
        if left:
            log.warning("memory provider %s: %d calls still wait at the end", self.name, left)

    def _put(self, job: _Job) -> _Job:
        with self._lock:
            self._waiting += 1
            if self._thread is None:
                name = f"hermes-memory-{self.name}"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()
        self._jobs.put(job)
        return job

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._lock:
                self._waiting -= 1
                skipped = job.given_up or self._drops
                self._current, self._since = job, time.monotonic()
            if not skipped:
                self._run(job)
            with self._lock:
                self._current = None

    def _run(self, job: _Job) -> None:
        try:
            job.result = job.context.run(job.work)
        except BaseException as error:  # the boundary around foreign code
            job.error = error
            level = logging.DEBUG if job.quiet else logging.WARNING
            log.log(level, "memory provider %s: %s: %s", self.name, job.what, describe_error(error))
            log.debug("memory provider %s failed", self.name, exc_info=True)
            if not job.quiet:
                self._tell_once("raised", f"failed ({job.what}): {describe_error(error)}")
        finally:
            job.done.set()

    def _hanging(self) -> _Job | None:
        """The call that has been running for longer than it may."""
        with self._lock:
            job = self._current
            late = job is not None and time.monotonic() - self._since > job.patience
            return job if late else None

    def _timed_out(self, problem: str, quiet: bool) -> ToolTimedOut:
        with self._lock:
            self._time_outs += 1
            enough = self._time_outs >= self._limits.time_outs
        log.warning("memory provider %s %s", self.name, problem)
        if enough:
            self.switch_off(f"it {problem}", "late")
        elif not quiet:
            self._tell_once("late", f"{problem}; the conversation goes on without it")
        return ToolTimedOut(f"the memory provider {self.name} {problem}")

    def _refuse_if_off(self) -> None:
        if self.off:
            raise ToolError(f"the memory provider {self.name} is switched off: {self.off}")

    def _tell_once(self, kind: str, text: str) -> None:
        with self._lock:
            new = kind not in self._told
            self._told.add(kind)
        if new:
            self._tell(f"the memory provider {self.name} {text}")


def describe_error(error: BaseException) -> str:
    """One line of what went wrong, and what to do about it if that is known."""
    try:
        text = " ".join(str(error).split())[:MAX_ERROR_CHARS]
    except Exception:  # noqa: BLE001 - foreign errors may be unable to say what they are
        text = ""
    if isinstance(error, HermesError):
        return f"{text} ({error.hint})" if error.hint else text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# Calling methods that take less than there is to say.

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def call_accepted(thing: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """Call `method` with as much of the arguments as it takes: plugins write the short forms of
    the documentation, `sync_turn(self, user, assistant)`, say."""
    function = getattr(thing, method)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C, say: it is expected to take everything
        return function(*args, **kwargs)
    kinds = {each.kind for each in parameters}
    places = [each.name for each in parameters if each.kind in _POSITIONAL]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        args = args[: len(places)]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        only = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
        known = only | set(places[len(args) :])
        kwargs = {name: value for name, value in kwargs.items() if name in known}
    return function(*args, **kwargs)

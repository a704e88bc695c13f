"""A shell whose commands form one session, whichever machine they run on.

Each command is a new program that restores the folder and the variables the last one left. The
local and the host shell differ only in how they start that program and where its state is kept.
"""

import asyncio
import contextlib
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar

import msgspec

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.terminal.base import CommandResult, Running, Shell, Sink
from hermes.terminal.output import Capture, OutputLimits
from hermes.util.lazy import late_pattern


class Session(Protocol):
    """What a shell opens for its commands."""

    @property
    def alive(self) -> bool: ...


class ForegroundCommand(msgspec.Struct, frozen=True):
    """A started command whose state is kept."""

    process: Running
    path: str  #: The private path with which error messages of its shell begin.
    load_state: Callable[[], str]
    """Adopts the variables that the command left; returns its last folder, "" if unknown."""
    exit_code: Callable[[], Awaitable[int]]
    """Returns the exit code after the end; raises `ToolError` if the command never ran."""


S = TypeVar("S", bound=Session)

EXPORT_TIMEOUT = 30.0  #: Seconds that setting the variables may take.
TIMED_OUT = 124  #: The exit code that `timeout(1)` uses.

# The scripts that `bash` (or `sh`) runs around a command. `cd` comes before the saved variables,
# which restore OLDPWD.
RESTORE_STATE = r"""
cd -- "$1" || exit 126
set -- "$PWD"
if [ -f {exports} ]; then . {exports} 2>/dev/null; fi
PWD=$1
set --
"""

# The trap survives `exit`, `set -e` and a syntax error; `command` and `>|` keep it working despite
# functions with those names and `set -C`.
SAVE_STATE = 'command export -p >|{command}.exports; command printf "%s\\n" "$PWD" >|{command}.cwd'

# Read into memory, so that messages do not begin with the name of a private file.
BACKGROUND = r"""
hermes_text=$(command -p cat {command}) || exit 126
command -p rm -f {command}
set -- "$hermes_text"
unset hermes_text
eval "shift; $1"
"""

# bash sets `dumb` if TERM is unset.
SET_TERM = 'case "${TERM:-dumb}" in dumb) export TERM=xterm-256color ;; esac\n'


def foreground_script(begin: str, exports: str, command: str, prelude: str = "") -> str:
    """Return the script of a command whose folder and variables are kept.

    `begin` registers the process; `exports` and `command` are paths of files. The command leaves
    its state in `{command}.exports` and then `{command}.cwd`.
    """
    paths = {"exports": shlex.quote(exports), "command": shlex.quote(command)}
    trap = shlex.quote(SAVE_STATE.format(**paths))
    restore = RESTORE_STATE.format(**paths)
    return f"{begin}{restore}{prelude}\ntrap {trap} EXIT\n. {paths['command']}\n"


def background_script(
    begin: str, exports: str, command: str, prelude: str = "", *, terminal: bool
) -> str:
    """Return the script of a command whose changes are not kept; it deletes the file `command`."""
    restore = RESTORE_STATE.format(exports=shlex.quote(exports))
    work = BACKGROUND.format(command=shlex.quote(command))
    return f"{begin}{restore}{prelude}\n{SET_TERM if terminal else ''}{work}"


class SessionShell(ABC, Generic[S]):
    """Base class of the shells. `S` is what a subclass opens for its commands.

    Variables given to `export` are set before the next command. No command is run just for them,
    so a session without commands costs nothing.
    """

    def __init__(self, cwd: str, limits: OutputLimits | None) -> None:
        self._cwd = self._first_cwd = cwd
        self._limits = limits or OutputLimits()
        self._command_lock = asyncio.Lock()
        """Held by the running command: each starts with the state of the previous one."""
        self._open_lock = asyncio.Lock()
        self._session: S | None = None
        self._pending: dict[str, str] = {}
        self._exported: dict[str, str] = {}

    @property
    def cwd(self) -> str:
        """The folder of the next command; empty until the default of a host is known."""
        return self._cwd

    def export(self, variables: Mapping[str, str]) -> None:
        self._pending |= {n: v for n, v in variables.items() if self._exported.get(n) != v}

    def exported_names(self) -> tuple[str, ...]:
        """Return the names of all variables set or pending."""
        return tuple(sorted({*self._exported, *self._pending}))

    def variables(self) -> dict[str, str]:
        """Return the variables that the next command will have, as far as they are known."""
        return {**parse_exports(self._saved_exports()), **self._pending}

    def _saved_exports(self) -> bytes:
        """Return what `export -p` printed at the end of the last command."""
        return b""

    async def run(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        on_output: Callable[[str], None],
        cancel: CancelToken,
    ) -> CommandResult:
        source = _encode_command(command)
        with cancel.scope():
            async with self._command_lock, self.keep_open():
                session = await self._ensure_open()
                await self._export_pending(session)
                return await self._run(session, source, timeout, cwd, on_output)

    async def start(
        self, command: str, *, cwd: str | None = None, on_output: Sink, pty: bool = False
    ) -> Running:
        source = _encode_command(command)
        async with self.keep_open():
            if self._pending:
                async with self._command_lock:
                    await self._export_pending(await self._ensure_open())
            session = await self._ensure_open()
            return await self._start_background(session, source, cwd, on_output, pty=pty)

    async def close(self) -> None:
        async with self._command_lock, self._open_lock:
            await self._close()

    def keep_open(self) -> AbstractAsyncContextManager[None]:
        """Keep the session from being closed as idle."""
        return contextlib.nullcontext()

    async def _ensure_open(self) -> S:
        async with self._open_lock:
            if self._session is None or not self._session.alive:
                self._session = await self._open()
            return self._session

    async def _export_pending(self, session: S) -> None:
        due = dict(self._pending)
        if not due:
            return
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in due.items())
        source = _encode_command(f"export {words}")
        result = await self._run(session, source, EXPORT_TIMEOUT, None, lambda _text: None)
        if result.exit_code:
            raise ToolError(f"the variables {', '.join(due)} could not be set")
        self._exported |= due
        self._pending = {n: v for n, v in self._pending.items() if self._exported.get(n) != v}

    async def _run(
        self,
        session: S,
        source: bytes,
        timeout: float,
        cwd: str | None,
        on_output: Callable[[str], None],
    ) -> CommandResult:
        capture = Capture(self._limits, on_output)
        command = await self._start_foreground(session, source, cwd, capture.add)
        timed_out = ended = False
        try:
            async with asyncio.timeout(timeout):
                await command.process.wait()
            ended = True
        except TimeoutError:
            timed_out = True
        finally:
            try:
                if not ended:
                    await command.process.stop()
            finally:
                output, truncated = capture.finish()
                folder = command.load_state()
                if folder and cwd is None:
                    self._cwd = folder
        code = TIMED_OUT if timed_out else await command.exit_code()
        output = output.replace(f"{command.path}: ", "shell: ")
        return CommandResult(code, output, timed_out, truncated)

    @abstractmethod
    async def _open(self) -> S:
        """Start what commands need. Called with the opening lock held."""

    @abstractmethod
    async def _close(self) -> None:
        """Stop what commands left running. Called with both locks held."""

    @abstractmethod
    async def _start_foreground(
        self, session: S, source: bytes, cwd: str | None, on_output: Sink
    ) -> ForegroundCommand: ...

    @abstractmethod
    async def _start_background(
        self, session: S, source: bytes, cwd: str | None, on_output: Sink, *, pty: bool
    ) -> Running: ...


_DECLARED = late_pattern(
    rb"^(?:declare -\w+|export) (\w+)=(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)')$",
    re.MULTILINE | re.DOTALL,
)
_ESCAPED = late_pattern(rb"\\(.)", re.DOTALL)
LONGEST_VALUE = 2_000  #: Bytes of a variable; the analysis of commands does not need longer ones.


def parse_exports(text: bytes) -> dict[str, str]:
    """Return the variables in the output of `export -p`."""
    found = {}
    for name, double, single in _DECLARED.findall(text):
        value = _ESCAPED.sub(rb"\1", double) if double else single
        if len(value) <= LONGEST_VALUE:
            found[name.decode()] = value.decode("utf-8", "replace")
    return found


def _encode_command(command: str) -> bytes:
    if "\0" in command:
        raise ToolArgumentsInvalid("a command cannot contain a NUL character")
    try:
        return (command + "\n").encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ToolArgumentsInvalid("the command holds half a character (a surrogate)") from error


async def run_beside(
    shell: Shell,
    command: str,
    *,
    timeout: float,
    cwd: str | None,
    on_output: Callable[[str], None],
    cancel: CancelToken,
    limits: OutputLimits = OutputLimits(),  # noqa: B008 - frozen
    pty: bool = True,
) -> CommandResult:
    """Like `Shell.run`, but next to the commands that run, and with `pty` in a terminal; changes to
    folder and variables are not kept."""
    with cancel.scope():
        capture = Capture(limits, on_output)
        program = await shell.start(command, cwd=cwd, on_output=capture.add, pty=pty)
        code = None
        try:
            async with asyncio.timeout(timeout):
                with contextlib.suppress(ToolError):  # it has already ended
                    await program.close_input()
                code = await program.wait()
        except TimeoutError:
            code = None
        finally:
            if code is None:
                await program.stop()
            output, truncated = capture.finish()
        timed_out = code is None
        return CommandResult(TIMED_OUT if code is None else code, output, timed_out, truncated)

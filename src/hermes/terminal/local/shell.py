"""The local shell: each command runs in a new `bash` that restores the state of the last one."""

import asyncio
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from hermes.config.masking import is_secret_variable
from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.terminal.base import CommandResult, Running
from hermes.terminal.local.lifeline import Lifeline
from hermes.terminal.local.process import ANNOUNCE, launch
from hermes.terminal.output import Capture, OutputLimits

# The user's start-up files, read once when the session's shell starts.
#
# Exported variables are kept, as if a first command had exported them. Aliases, functions and
# options are not: commands run in a non-interactive shell, like scripts.

_EXPORTED = re.compile(rb"^(?:declare -\w+|export) (\w+)", re.MULTILINE)


class ShellOptions(msgspec.Struct, frozen=True):
    init_files: tuple[str, ...] = ()
    """Files read after ~/.bashrc: `terminal.shell_init_files`."""
    source_bashrc: bool = True
    """Whether ~/.bashrc is read: `terminal.auto_source_bashrc`."""
    withheld: frozenset[str] = frozenset()
    """Variables hidden from commands whatever their names: those defined in .env."""
    init_seconds: float = 5
    """Timeout for each file."""


def startup_commands(options: ShellOptions, home: str) -> Iterator[str]:
    """Yield a command for each file that exists."""
    names = (*(("~/.bashrc",) if options.source_bashrc else ()), *options.init_files)
    for name in names:
        path = Path(home + name[1:] if name.split("/")[0] == "~" else name)
        if path.is_absolute() and path.is_file():
            yield f". {shlex.quote(str(path))}"


def unset_command(options: ShellOptions, exports: Path, environment: Mapping[str, str]) -> str:
    """Return a command that unsets secrets which the files exported; "" if there are none."""
    if not exports.exists():
        return ""
    text = exports.read_bytes()
    # A line inside a value may look like a variable; unsetting a missing one does no harm.
    names = {
        name
        for name in map(bytes.decode, _EXPORTED.findall(text))
        if (is_secret_variable(name) or name in options.withheld) and name not in environment
    }
    if not names:
        return ""
    # A read-only variable cannot be unset, so the next shell must not declare it read-only.
    choice = "|".join(sorted(names)).encode()
    exports.write_bytes(
        re.sub(rb"(?m)^declare -\w*r\w* (?=(?:%b)\b)" % choice, b"declare -x ", text)
    )
    return f"unset -v {' '.join(sorted(names))}"


# The scripts that `bash` (or `sh`) runs around a command so that commands form one session.

# `cd` comes before the saved variables, which restore OLDPWD.
RESTORE_STATE = (
    ANNOUNCE
    + r"""
cd -- "$1" || exit 126
set -- "$PWD"
if [ -f {exports} ]; then . {exports} 2>/dev/null; fi
PWD=$1
set --
{sudo}"""
)

# The trap survives `exit`, `set -e` and a syntax error; `command` and `>|` keep it working despite
# functions with those names and `set -C`.
FOREGROUND = (
    RESTORE_STATE
    + r"""
trap {leaving} EXIT
. {command}
"""
)

SAVE_STATE = 'command export -p >|{exports}.new; command printf "%s\\n" "$PWD" >|{cwd}'

# Read into memory, so that messages do not begin with the name of a private file.
BACKGROUND = (
    RESTORE_STATE
    + r"""
{terminal}
set -- "$(/bin/cat {command})"
eval "shift; $1"
"""
)

# bash sets `dumb` if TERM is unset.
SET_TERM = """case "${TERM:-dumb}" in dumb) export TERM=xterm-256color ;; esac"""

# sudo runs this askpass program only when it needs the password. Through standard input (-S) the
# password would reach the command whenever sudo does not need it.
SUDO = r"""if command -v sudo >/dev/null; then
sudo() {{
case "${{1-}}" in -[AS]*|--askpass|--stdin) command sudo "$@" ;;
*) SUDO_ASKPASS={askpass} command sudo -A "$@" ;; esac
}}
fi"""


class ShellScripts:
    """The scripts of one session, whose files are in `folder`."""

    def __init__(self, folder: Path, sudo_password: str) -> None:
        self._folder = folder
        self._sudo = self._write_askpass(sudo_password) if sudo_password else ""
        self.command = folder / "command"
        self.exports = folder / "exports"
        self.cwd = folder / "cwd"
        leaving = SAVE_STATE.format(exports=_quote_path(self.exports), cwd=_quote_path(self.cwd))
        self.foreground = FOREGROUND.format(
            exports=_quote_path(self.exports),
            leaving=shlex.quote(leaving),
            command=_quote_path(self.command),
            sudo=self._sudo,
        )
        self._started = 0

    def background(self, command: bytes, *, terminal: bool) -> str:
        """Return a script with its own copies of files, so that later commands do not change its
        state."""
        self._started += 1
        exports, source = (
            self._folder / f"{kind}.{self._started}" for kind in ("exports", "command")
        )
        source.write_bytes(command)
        if self.exports.exists():
            exports.hardlink_to(self.exports)
        return BACKGROUND.format(
            exports=_quote_path(exports),
            command=_quote_path(source),
            sudo=self._sudo,
            terminal=SET_TERM if terminal else "",
        )

    def _write_askpass(self, password: str) -> str:
        """Write a program that prints the password for sudo; the folder is private to this user."""
        program = self._folder / "askpass"
        program.touch(0o700)
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(password)}\n")
        return SUDO.format(askpass=_quote_path(program))


def _quote_path(path: Path) -> str:
    return shlex.quote(str(path))


TIMED_OUT = 124
"""The exit code that `timeout(1)` uses."""


class LocalShell:
    """`Shell` of this machine.

    `environment` is the whole environment of commands; `cwd` is their initial folder. With
    `sudo_password` (the variable SUDO_PASSWORD), `sudo` in a command does not prompt.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        cwd: Path,
        limits: OutputLimits | None = None,
        options: ShellOptions | None = None,
        *,
        sudo_password: str = "",
    ) -> None:
        self._environment = dict(environment)
        self._first_cwd = str(cwd.absolute())
        self._cwd = self._first_cwd
        self._limits = limits or OutputLimits()
        self._options = options or ShellOptions()
        self._sudo_password = sudo_password
        self._command_lock = asyncio.Lock()
        """Held by the running command: each starts with the state of the previous one."""
        self._open_lock = asyncio.Lock()
        self._session: _Session | None = None

    @property
    def cwd(self) -> str:
        return self._cwd

    async def run(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        on_output: Callable[[str], None],
        cancel: CancelToken,
    ) -> CommandResult:
        with cancel.scope():
            async with self._command_lock:
                session = await self._ensure_session()
                folder = self._start_folder(cwd)
                try:
                    return await session.run(command, folder, timeout, on_output)
                finally:
                    if cwd is None:
                        self._cwd = session.end_cwd or self._cwd

    async def start(
        self,
        command: str,
        *,
        cwd: str | None = None,
        on_output: Callable[[bytes], None],
        pty: bool = False,
    ) -> Running:
        session = await self._ensure_session()
        return session.start(command, self._start_folder(cwd), on_output, pty=pty)

    async def close(self) -> None:
        async with self._command_lock, self._open_lock:
            session, self._session = self._session, None
            if session is not None:
                await session.lifeline.close()

    async def _ensure_session(self) -> "_Session":
        async with self._open_lock:
            if self._session is None:
                session = _Session(self._environment, self._limits, self._sudo_password)
                async with AsyncExitStack() as undo:
                    undo.push_async_callback(session.lifeline.close)
                    await self._run_startup_files(session)
                    undo.pop_all()
                self._session = session
            return self._session

    async def _run_startup_files(self, session: "_Session") -> None:
        """Read the user's start-up files, ignoring their output and failures."""
        home = self._environment.get("HOME", "")
        folder, seconds = self._start_folder(None), self._options.init_seconds
        for command in startup_commands(self._options, home):
            await session.run(command, folder, seconds, lambda _text: None)
        withhold = unset_command(self._options, session.exports, self._environment)
        if withhold:
            await session.run(withhold, folder, seconds, lambda _text: None)

    def _start_folder(self, cwd: str | None) -> str:
        """Return the command's folder. If the remembered one is gone, it is the first one."""
        if cwd is None:
            if not Path(self._cwd).is_dir():
                self._cwd = self._first_cwd
            return self._cwd
        home = self._environment.get("HOME", "~")
        folder = Path(self._cwd, home + cwd[1:] if cwd.split("/")[0] == "~" else cwd)
        if not folder.is_dir():
            raise ToolError(f"the working folder {cwd} does not exist")
        return str(folder)


class _Session:
    """Commands that share variables, and the lifeline they are registered with."""

    def __init__(
        self, environment: Mapping[str, str], limits: OutputLimits, sudo_password: str
    ) -> None:
        self._environment, self._limits = environment, limits
        self.lifeline = Lifeline()
        self._scripts = ShellScripts(self.lifeline.folder, sudo_password)
        self.exports = self._scripts.exports
        bash = shutil.which("bash", path=environment.get("PATH", os.defpath))
        self._program = [bash, "--noprofile", "--norc"] if bash else ["/bin/sh"]
        self._has_state = False
        self.end_cwd = ""
        """The folder in which the last command ended; empty if unknown."""

    async def run(
        self, command: str, folder: str, timeout: float, on_output: Callable[[str], None]
    ) -> CommandResult:
        self._scripts.command.write_bytes(_encode_command(command))
        self.end_cwd = ""
        capture = Capture(self._limits, on_output)
        process = launch(
            [*self._program, "-c", self._scripts.foreground, "shell", folder],
            self._initial_environment(),
            self.lifeline,
            on_output=capture.add,
            takes_input=False,
        )
        timed_out, ended = False, False
        try:
            async with asyncio.timeout(timeout):
                await process.wait()
            ended = True
        except TimeoutError:
            timed_out = True
        finally:
            try:
                if not ended:
                    await process.stop()
            finally:
                output, truncated = capture.finish()
                self._load_state()
        output = output.replace(f"{self._scripts.command}: ", "shell: ")
        exit_code = TIMED_OUT if timed_out else await process.wait()
        return CommandResult(exit_code, output, timed_out, truncated)

    def start(
        self, command: str, folder: str, on_output: Callable[[bytes], None], *, pty: bool
    ) -> Running:
        script = self._scripts.background(_encode_command(command), terminal=pty)
        return launch(
            [*self._program, "-c", script, "shell", folder],
            self._initial_environment(),
            self.lifeline,
            on_output=on_output,
            pty=pty,
        )

    def _initial_environment(self) -> Mapping[str, str]:
        """The saved variables are complete: what a command unset must not come back."""
        return {} if self._has_state else self._environment

    def _load_state(self) -> None:
        """Adopt what the trap wrote. The folder is written last, so its presence means both are
        complete."""
        try:
            name = os.fsdecode(self._scripts.cwd.read_bytes())
        except FileNotFoundError:
            return
        self._scripts.cwd.unlink()
        if name.endswith("\n"):
            self._scripts.exports.with_suffix(".new").replace(self._scripts.exports)
            self._has_state = True
            self.end_cwd = name[:-1]


def _encode_command(command: str) -> bytes:
    if "\0" in command:
        raise ToolArgumentsInvalid("a command cannot contain a NUL character")
    try:
        return (command + "\n").encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ToolArgumentsInvalid("the command holds half a character (a surrogate)") from error

"""The local shell: each command in a `bash` of its own that takes over what the last one left."""

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

# The user's start-up files: read once, when the session's shell begins.
#
# What they export is kept, as if a first command had exported it. Aliases, functions and options
# are not: commands run in a shell that is not interactive, and a script does not see them either.

_EXPORTED = re.compile(rb"^(?:declare -\w+|export) (\w+)", re.MULTILINE)


class ShellOptions(msgspec.Struct, frozen=True):
    init_files: tuple[str, ...] = ()
    """Files read after ~/.bashrc: `terminal.shell_init_files`."""
    source_bashrc: bool = True
    """Whether ~/.bashrc is read: `terminal.auto_source_bashrc`."""
    withheld: frozenset[str] = frozenset()
    """Variables commands must not see, whatever their names: those that stand in .env."""
    init_seconds: float = 5
    """The longest that one file may take."""


def startup_commands(options: ShellOptions, home: str) -> Iterator[str]:
    """A command for each file that is there."""
    names = (*(("~/.bashrc",) if options.source_bashrc else ()), *options.init_files)
    for name in names:
        path = Path(home + name[1:] if name.split("/")[0] == "~" else name)
        if path.is_absolute() and path.is_file():
            yield f". {shlex.quote(str(path))}"


def withholding_command(
    options: ShellOptions, exports: Path, environment: Mapping[str, str]
) -> str:
    """Takes back what the files exported although commands must not see it; "" when nothing."""
    if not exports.exists():
        return ""
    text = exports.read_bytes()
    # A line inside a value may look like a variable; to unset one that is not there does no harm.
    names = {
        name
        for name in map(bytes.decode, _EXPORTED.findall(text))
        if (is_secret_variable(name) or name in options.withheld) and name not in environment
    }
    if not names:
        return ""
    # What is read-only cannot be unset, but the next shell need not make it so.
    choice = "|".join(sorted(names)).encode()
    exports.write_bytes(
        re.sub(rb"(?m)^declare -\w*r\w* (?=(?:%b)\b)" % choice, b"declare -x ", text)
    )
    return f"unset -v {' '.join(sorted(names))}"


# What `bash` (or `sh`) is told to do around a command so that commands form one session.

# `cd` comes before the saved variables, which put OLDPWD back.
BEGIN = (
    ANNOUNCE
    + r"""
cd -- "$1" || exit 126
set -- "$PWD"
if [ -f {exports} ]; then . {exports} 2>/dev/null; fi
PWD=$1
set --
{sudo}"""
)

# The trap survives `exit`, `set -e` and a syntax error; `command` and `>|` keep it working after
# functions of those names and `set -C`.
FOREGROUND = (
    BEGIN
    + r"""
trap {leaving} EXIT
. {command}
"""
)

LEAVING = 'command export -p >|{exports}.new; command printf "%s\\n" "$PWD" >|{cwd}'

# Read into memory, so that messages do not begin with the name of a private file.
BACKGROUND = (
    BEGIN
    + r"""
{terminal}
set -- "$(/bin/cat {command})"
eval "shift; $1"
"""
)

# bash says `dumb` where nothing is said.
TERMINAL = """case "${TERM:-dumb}" in dumb) export TERM=xterm-256color ;; esac"""

# sudo itself asks this program when it needs the password, and only then. On its standard input
# (-S) the password would reach the command wherever sudo does not need it.
SUDO = r"""if command -v sudo >/dev/null; then
sudo() {{
case "${{1-}}" in -[AS]*|--askpass|--stdin) command sudo "$@" ;;
*) SUDO_ASKPASS={askpass} command sudo -A "$@" ;; esac
}}
fi"""


class Scripts:
    """The scripts of one session, whose files lie in `folder`."""

    def __init__(self, folder: Path, sudo_password: str) -> None:
        self._folder = folder
        self._sudo = self._arrange_sudo(sudo_password) if sudo_password else ""
        self.command = folder / "command"
        self.exports = folder / "exports"
        self.cwd = folder / "cwd"
        leaving = LEAVING.format(exports=_quoted(self.exports), cwd=_quoted(self.cwd))
        self.foreground = FOREGROUND.format(
            exports=_quoted(self.exports),
            leaving=shlex.quote(leaving),
            command=_quoted(self.command),
            sudo=self._sudo,
        )
        self._started = 0

    def background(self, command: bytes, *, terminal: bool) -> str:
        """Files of its own keep the variables of now, whatever later commands do."""
        self._started += 1
        exports, source = (
            self._folder / f"{kind}.{self._started}" for kind in ("exports", "command")
        )
        source.write_bytes(command)
        if self.exports.exists():
            exports.hardlink_to(self.exports)
        return BACKGROUND.format(
            exports=_quoted(exports),
            command=_quoted(source),
            sudo=self._sudo,
            terminal=TERMINAL if terminal else "",
        )

    def _arrange_sudo(self, password: str) -> str:
        """A program that tells sudo the password; the folder is private to this user."""
        program = self._folder / "askpass"
        program.touch(0o700)
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(password)}\n")
        return SUDO.format(askpass=_quoted(program))


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


TIMED_OUT = 124
"""The exit code `timeout(1)` uses."""


class LocalShell:
    """`environment` is all that commands see of our variables; `cwd` is where they begin.

    With `sudo_password` (the variable SUDO_PASSWORD) a `sudo` in a command does not ask for it.
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
        self._turn = asyncio.Lock()
        """Held by the command that runs: each begins with what the one before left."""
        self._opening = asyncio.Lock()
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
            async with self._turn:
                session = await self._opened()
                folder = self._start_folder(cwd)
                try:
                    return await session.run(command, folder, timeout, on_output)
                finally:
                    if cwd is None:
                        self._cwd = session.ended_in or self._cwd

    async def start(
        self,
        command: str,
        *,
        cwd: str | None = None,
        on_output: Callable[[bytes], None],
        pty: bool = False,
    ) -> Running:
        session = await self._opened()
        return session.start(command, self._start_folder(cwd), on_output, pty=pty)

    async def close(self) -> None:
        async with self._turn, self._opening:
            session, self._session = self._session, None
            if session is not None:
                await session.lifeline.close()

    async def _opened(self) -> "_Session":
        async with self._opening:
            if self._session is None:
                session = _Session(self._environment, self._limits, self._sudo_password)
                async with AsyncExitStack() as undo:
                    undo.push_async_callback(session.lifeline.close)
                    await self._start_up(session)
                    undo.pop_all()
                self._session = session
            return self._session

    async def _start_up(self, session: "_Session") -> None:
        """Read the user's start-up files. What they print, and how they fail, is not told."""
        home = self._environment.get("HOME", "")
        folder, seconds = self._start_folder(None), self._options.init_seconds
        for command in startup_commands(self._options, home):
            await session.run(command, folder, seconds, lambda _text: None)
        withhold = withholding_command(self._options, session.exports, self._environment)
        if withhold:
            await session.run(withhold, folder, seconds, lambda _text: None)

    def _start_folder(self, cwd: str | None) -> str:
        """Where the command runs. A remembered folder that is gone gives way to the first one."""
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
    """The commands that share variables, and the lifeline they hang on."""

    def __init__(
        self, environment: Mapping[str, str], limits: OutputLimits, sudo_password: str
    ) -> None:
        self._environment, self._limits = environment, limits
        self.lifeline = Lifeline()
        self._scripts = Scripts(self.lifeline.folder, sudo_password)
        self.exports = self._scripts.exports
        bash = shutil.which("bash", path=environment.get("PATH", os.defpath))
        self._program = [bash, "--noprofile", "--norc"] if bash else ["/bin/sh"]
        self._saved = False
        self.ended_in = ""
        """The folder the last command ended in; empty when it could not tell."""

    async def run(
        self, command: str, folder: str, timeout: float, on_output: Callable[[str], None]
    ) -> CommandResult:
        self._scripts.command.write_bytes(_source(command))
        self.ended_in = ""
        capture = Capture(self._limits, on_output)
        process = launch(
            [*self._program, "-c", self._scripts.foreground, "shell", folder],
            self._first_environment(),
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
                self._adopt_state()
        output = output.replace(f"{self._scripts.command}: ", "shell: ")
        exit_code = TIMED_OUT if timed_out else await process.wait()
        return CommandResult(exit_code, output, timed_out, truncated)

    def start(
        self, command: str, folder: str, on_output: Callable[[bytes], None], *, pty: bool
    ) -> Running:
        script = self._scripts.background(_source(command), terminal=pty)
        return launch(
            [*self._program, "-c", script, "shell", folder],
            self._first_environment(),
            self.lifeline,
            on_output=on_output,
            pty=pty,
        )

    def _first_environment(self) -> Mapping[str, str]:
        """The saved variables are complete: what a command unset must not come back."""
        return {} if self._saved else self._environment

    def _adopt_state(self) -> None:
        """Take over what the trap wrote. The folder is written last: it tells both are whole."""
        try:
            name = os.fsdecode(self._scripts.cwd.read_bytes())
        except FileNotFoundError:
            return
        self._scripts.cwd.unlink()
        if name.endswith("\n"):
            self._scripts.exports.with_suffix(".new").replace(self._scripts.exports)
            self._saved = True
            self.ended_in = name[:-1]


def _source(command: str) -> bytes:
    if "\0" in command:
        raise ToolArgumentsInvalid("a command cannot contain a NUL character")
    try:
        return (command + "\n").encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ToolArgumentsInvalid("the command holds half a character (a surrogate)") from error

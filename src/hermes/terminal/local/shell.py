"""The local shell: each command runs in a new `bash` that restores the state of the last one."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from hermes.config.environment import is_secret_variable
from hermes.core.errors import ToolError
from hermes.terminal.base import Running, Sink
from hermes.terminal.boundary import Boundary
from hermes.terminal.local.lifeline import Lifeline
from hermes.terminal.local.process import ANNOUNCE, launch
from hermes.terminal.output import OutputLimits
from hermes.terminal.session_shell import (
    ForegroundCommand,
    SessionShell,
    background_script,
    foreground_script,
)
from hermes.util.lazy import late_pattern

# The user's start-up files, read once when the session's shell starts.
#
# Exported variables are kept, as if a first command had exported them. Aliases, functions and
# options are not: commands run in a non-interactive shell, like scripts.

_EXPORTED = late_pattern(rb"^(?:declare -\w+|export) (\w+)", re.MULTILINE)


class ShellOptions(msgspec.Struct, frozen=True):
    init_files: tuple[str, ...] = ()  #: Files read after ~/.bashrc: `terminal.shell_init_files`.
    source_bashrc: bool = True  #: Whether ~/.bashrc is read: `terminal.auto_source_bashrc`.
    withheld: frozenset[str] = frozenset()
    """Variables hidden from commands whatever their names: those defined in .env."""
    init_seconds: float = 5  #: Timeout for each file.


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


# sudo runs this askpass program only when it needs the password. Through standard input (-S) the
# password would reach the command whenever sudo does not need it.
SUDO = r"""if command -v sudo >/dev/null; then
sudo() {{
case "${{1-}}" in -[AS]*|--askpass|--stdin) command sudo "$@" ;;
*) SUDO_ASKPASS={askpass} command sudo -A "$@" ;; esac
}}
fi"""


class LocalSession:
    """The files of one session, and the lifeline its commands are registered with."""

    alive = True

    def __init__(self, sudo_password: str, boundary: Boundary | None) -> None:
        self.lifeline = Lifeline(boundary)
        self._folder = self.lifeline.folder
        self.command = self._folder / "command"
        self.exports = self._folder / "exports"
        self._sudo = self._write_askpass(sudo_password) if sudo_password else ""
        self.foreground = foreground_script(
            ANNOUNCE, str(self.exports), str(self.command), self._sudo
        )
        self._started = 0

    def background(self, source: bytes, *, terminal: bool) -> str:
        """Return a script with its own copies of files, so that later commands do not change its
        state."""
        self._started += 1
        exports, command = (
            self._folder / f"{kind}.{self._started}" for kind in ("exports", "command")
        )
        command.write_bytes(source)
        if self.exports.exists():
            exports.hardlink_to(self.exports)
        return background_script(
            ANNOUNCE, str(exports), str(command), self._sudo, terminal=terminal
        )

    def load_state(self) -> str:
        """Adopt what the trap wrote. The folder is written last, so its presence means both are
        complete."""
        path = self.command.with_suffix(".cwd")
        try:
            name = os.fsdecode(path.read_bytes())
        except FileNotFoundError:
            return ""
        path.unlink()
        if not name.endswith("\n"):
            return ""
        self.command.with_suffix(".exports").replace(self.exports)
        return name[:-1]

    def _write_askpass(self, password: str) -> str:
        """Write a program that prints the password for sudo; the folder is private to this user."""
        program = self._folder / "askpass"
        program.touch(0o700)
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(password)}\n")
        return SUDO.format(askpass=shlex.quote(str(program)))


class LocalShell(SessionShell[LocalSession]):
    """`Shell` of this machine.

    `environment` is the whole environment of commands; `cwd` is their initial folder. With
    `sudo_password` (the variable SUDO_PASSWORD), `sudo` in a command does not prompt. `boundary`
    keeps commands from Hermes' own files.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        cwd: Path,
        limits: OutputLimits | None = None,
        options: ShellOptions | None = None,
        *,
        sudo_password: str = "",
        boundary: Boundary | None = None,
    ) -> None:
        super().__init__(str(cwd.absolute()), limits)
        self._environment = dict(environment)
        self._options = options or ShellOptions()
        self._sudo_password, self._boundary = sudo_password, boundary
        bash = shutil.which("bash", path=environment.get("PATH", os.defpath))
        self._program = [bash, "--noprofile", "--norc"] if bash else ["/bin/sh"]

    async def _open(self) -> LocalSession:
        session = LocalSession(self._sudo_password, self._boundary)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(session.lifeline.close)
            await self._run_startup_files(session)
            undo.pop_all()
        return session

    def variables(self) -> dict[str, str]:
        saved = super().variables()
        # Without a saved state the next command starts with the environment of the session.
        return (
            saved
            if self._session and self._session.exports.exists()
            else {**self._environment, **saved}
        )

    def _saved_exports(self) -> bytes:
        try:
            return self._session.exports.read_bytes() if self._session else b""
        except FileNotFoundError:  # no command has ended yet
            return b""

    async def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.lifeline.close()

    async def _run_startup_files(self, session: LocalSession) -> None:
        """Read the user's start-up files, ignoring their output and failures."""
        folder, seconds = self._start_folder(None), self._options.init_seconds

        async def run(command: str) -> None:
            source = command.encode("utf-8", "surrogateescape")
            await self._run(session, source, seconds, folder, lambda _text: None)

        for command in startup_commands(self._options, self._environment.get("HOME", "")):
            await run(command)
        if withhold := unset_command(self._options, session.exports, self._environment):
            await run(withhold)

    async def _start_foreground(
        self, session: LocalSession, source: bytes, cwd: str | None, on_output: Sink
    ) -> ForegroundCommand:
        folder = self._start_folder(cwd)
        session.command.write_bytes(source)
        process = self._launch(session, session.foreground, folder, on_output, takes_input=False)
        return ForegroundCommand(process, str(session.command), session.load_state, process.wait)

    async def _start_background(
        self, session: LocalSession, source: bytes, cwd: str | None, on_output: Sink, *, pty: bool
    ) -> Running:
        folder = self._start_folder(cwd)
        script = session.background(source, terminal=pty)
        return self._launch(session, script, folder, on_output, pty=pty)

    def _launch(
        self,
        session: LocalSession,
        script: str,
        folder: str,
        on_output: Sink,
        *,
        pty: bool = False,
        takes_input: bool = True,
    ) -> Running:
        return launch(
            [*self._program, "-c", script, "shell", folder],
            # The saved variables are complete: what a command unset must not come back.
            {} if session.exports.exists() else self._environment,
            session.lifeline,
            on_output=on_output,
            pty=pty,
            takes_input=takes_input,
        )

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

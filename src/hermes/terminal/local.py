"""The local shell: each command in a `bash` of its own that takes over what the last one left."""

import asyncio
import os
import shlex
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolError
from hermes.terminal.base import CommandResult
from hermes.terminal.capture import Capture
from hermes.terminal.lifeline import Lifeline, group_alive
from hermes.terminal.output import OutputLimits

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
GRACE_LOOKS = 100
"""How often we look in that time whether the group has gone."""
TIMED_OUT = 124
"""The exit code `timeout(1)` uses."""

# Standard input is the lifeline: the group is known there before the command can start anything.
# `cd` comes before the saved variables, which put OLDPWD back. The trap survives `exit`, `set -e`
# and a syntax error; `command` and `>|` keep it working after functions and `set -C`.
START = r"""
printf '+ %s\n' "$$" >&0
exec </dev/null
cd -- "$1" || exit 126
set -- "$PWD"
if [ -f {exports} ]; then . {exports} 2>/dev/null; fi
PWD=$1
set --
trap 'command export -p >|{exports}.new; command printf "%s\n" "$PWD" >|{cwd}' EXIT
. {command}
"""


class LocalShell:
    """`environment` is all that commands see of our variables; `cwd` is where they begin."""

    def __init__(
        self,
        environment: Mapping[str, str],
        cwd: Path,
        limits: OutputLimits | None = None,
    ) -> None:
        self._environment = dict(environment)
        self._first_cwd = str(cwd.absolute())
        self._cwd = self._first_cwd
        self._limits = limits or OutputLimits()
        self._lock = asyncio.Lock()
        self._lifeline: Lifeline | None = None
        self._left: set[int] = set()
        self._captures: set[Capture] = set()

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
            async with self._lock:
                return await self._run(command, timeout, cwd, on_output)

    async def close(self) -> None:
        async with self._lock:
            for capture in self._captures:
                capture.close()
            self._captures.clear()
            lifeline, self._lifeline = self._lifeline, None
            if lifeline is not None:
                await lifeline.close()

    async def _run(
        self, command: str, timeout: float, cwd: str | None, on_output: Callable[[str], None]
    ) -> CommandResult:
        if self._lifeline is None:
            self._lifeline = Lifeline()
        lifeline = self._lifeline
        folder = self._start_folder(cwd)
        source = (command + "\n").encode("utf-8", "surrogateescape")
        (lifeline.folder / "command").write_bytes(source)
        capture = Capture(self._limits, on_output)
        with ExitStack() as undo:
            undo.callback(capture.close)
            process = await self._spawn(lifeline, folder, capture)
            undo.pop_all()
        capture.begin()
        self._captures.add(capture)
        timed_out = False
        try:
            async with asyncio.timeout(timeout):
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            if process.returncode is None:
                await self._stop(process)
            output, truncated = capture.finish()
            output = output.replace(f"{lifeline.folder}/command: ", "shell: ")
            self._adopt_state(lifeline.folder, keep_cwd=cwd is not None)
            self._left.add(process.pid)
            self._forget_finished(lifeline)
        exit_code = TIMED_OUT if timed_out else _exit_code(process.returncode)
        return CommandResult(exit_code, output, timed_out, truncated)

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

    async def _spawn(
        self, lifeline: Lifeline, folder: str, capture: Capture
    ) -> asyncio.subprocess.Process:
        shell = shutil.which("bash", path=self._environment.get("PATH", os.defpath))
        options = ["--noprofile", "--norc"] if shell else []
        saved = lifeline.folder / "exports"
        script = START.format(
            exports=shlex.quote(str(saved)),
            cwd=shlex.quote(str(lifeline.folder / "cwd")),
            command=shlex.quote(str(lifeline.folder / "command")),
        )
        return await asyncio.create_subprocess_exec(
            shell or "/bin/sh",
            *options,
            "-c",
            script,
            "hermes",
            folder,
            stdin=lifeline.descriptor,
            stdout=capture.descriptor,
            stderr=capture.descriptor,
            # The saved variables are complete: what a command unset must not come back.
            env={} if saved.exists() else self._environment,
            start_new_session=True,
        )

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        """End the whole group: politely, then surely. A second cancellation kills at once."""
        group = process.pid
        try:
            _signal_group(group, signal.SIGTERM)
            for _ in range(GRACE_LOOKS):
                if not group_alive(group):
                    break
                await asyncio.sleep(GRACE / GRACE_LOOKS)
        finally:
            _signal_group(group, signal.SIGKILL)
        await process.wait()

    def _adopt_state(self, folder: Path, *, keep_cwd: bool) -> None:
        """Take over what the trap wrote. The folder is written last: it tells both are whole."""
        written = folder / "cwd"
        if not written.exists():
            return
        name = os.fsdecode(written.read_bytes())
        written.unlink()
        if not name.endswith("\n"):
            return
        (folder / "exports.new").replace(folder / "exports")
        if not keep_cwd:
            self._cwd = name[:-1]

    def _forget_finished(self, lifeline: Lifeline) -> None:
        for group in [group for group in self._left if not group_alive(group)]:
            self._left.remove(group)
            lifeline.forget(group)
        for capture in [capture for capture in self._captures if capture.closed]:
            self._captures.remove(capture)


def _signal_group(group: int, number: signal.Signals) -> None:
    if group_alive(group):
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return


def _exit_code(code: int | None) -> int:
    """Ended by signal n is 128 + n, as in a shell."""
    if code is None:
        raise RuntimeError("the command has not ended")
    return code if code >= 0 else 128 - code

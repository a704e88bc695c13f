"""Additions to any shell: environment variables set during a session, and foreground terminals."""

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Mapping

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolError
from hermes.terminal.base import CommandResult, Running, Shell
from hermes.terminal.output import Capture, OutputLimits

EXPORT_TIMEOUT = 30.0
"""Seconds that setting the variables may take."""


class EnvShell:
    """Wraps `inner` and sets the variables given to `export` before its next command.

    No command is run just for them, so a session without commands costs nothing.
    """

    def __init__(self, inner: Shell) -> None:
        self._inner = inner
        self._pending: dict[str, str] = {}
        self._exported: dict[str, str] = {}
        self._lock = asyncio.Lock()

    def export(self, variables: Mapping[str, str]) -> None:
        self._pending |= {n: v for n, v in variables.items() if self._exported.get(n) != v}

    def exported_names(self) -> tuple[str, ...]:
        """Return the names of all variables set or pending."""
        return tuple(sorted({*self._exported, *self._pending}))

    @property
    def cwd(self) -> str:
        return self._inner.cwd

    async def run(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        on_output: Callable[[str], None],
        cancel: CancelToken,
    ) -> CommandResult:
        await self._export_pending(cancel)
        return await self._inner.run(
            command, timeout=timeout, cwd=cwd, on_output=on_output, cancel=cancel
        )

    async def start(
        self,
        command: str,
        *,
        cwd: str | None = None,
        on_output: Callable[[bytes], None],
        pty: bool = False,
    ) -> Running:
        await self._export_pending(CancelToken())
        return await self._inner.start(command, cwd=cwd, on_output=on_output, pty=pty)

    async def close(self) -> None:
        await self._inner.close()

    async def _export_pending(self, cancel: CancelToken) -> None:
        async with self._lock:
            due = dict(self._pending)
            if not due:
                return
            words = " ".join(f"{name}={shlex.quote(value)}" for name, value in due.items())
            done = await self._inner.run(
                f"export {words}",
                timeout=EXPORT_TIMEOUT,
                on_output=lambda _text: None,
                cancel=cancel,
            )
            if done.exit_code:
                raise ToolError(f"the variables {', '.join(due)} could not be set")
            self._exported |= due
            self._pending = {n: v for n, v in self._pending.items() if self._exported.get(n) != v}


TIMED_OUT = 124


async def run_in_terminal(
    shell: Shell,
    command: str,
    *,
    timeout: float,
    cwd: str | None,
    on_output: Callable[[str], None],
    cancel: CancelToken,
    limits: OutputLimits,
) -> CommandResult:
    """Like `Shell.run`, but in a terminal; changes to folder and variables are not kept."""
    with cancel.scope():
        capture = Capture(limits, on_output)
        program = await shell.start(command, cwd=cwd, on_output=capture.add, pty=True)
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

"""A shell that is given variables while a session goes on."""

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Mapping

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolError
from hermes.terminal.base import CommandResult, Running, Shell
from hermes.terminal.output import Capture, OutputLimits

SECONDS = 30.0
"""Longest time to set them."""


class GivingShell:
    """`inner`, with the variables that `give` was told set before the next command.

    Nothing is started for them: a session that runs no command pays nothing.
    """

    def __init__(self, inner: Shell) -> None:
        self._inner = inner
        self._due: dict[str, str] = {}
        self._given: dict[str, str] = {}
        self._giving = asyncio.Lock()

    def give(self, variables: Mapping[str, str]) -> None:
        self._due |= {n: v for n, v in variables.items() if self._given.get(n) != v}

    def given(self) -> tuple[str, ...]:
        """The names of all of them."""
        return tuple(sorted({*self._given, *self._due}))

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
        await self._set(cancel)
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
        await self._set(CancelToken())
        return await self._inner.start(command, cwd=cwd, on_output=on_output, pty=pty)

    async def close(self) -> None:
        await self._inner.close()

    async def _set(self, cancel: CancelToken) -> None:
        async with self._giving:
            due = dict(self._due)
            if not due:
                return
            words = " ".join(f"{name}={shlex.quote(value)}" for name, value in due.items())
            done = await self._inner.run(
                f"export {words}", timeout=SECONDS, on_output=lambda _text: None, cancel=cancel
            )
            if done.exit_code:
                raise ToolError(f"the variables {', '.join(due)} could not be set")
            self._given |= due
            self._due = {n: v for n, v in self._due.items() if self._given.get(n) != v}


# A command in a terminal of its own, in the foreground.

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
    """Like `Shell.run`, but in a terminal, and what it changes of the session stays its own."""
    with cancel.scope():
        capture = Capture(limits, on_output)
        program = await shell.start(command, cwd=cwd, on_output=capture.add, pty=True)
        code = None
        try:
            async with asyncio.timeout(timeout):
                with contextlib.suppress(ToolError):  # it has ended already
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

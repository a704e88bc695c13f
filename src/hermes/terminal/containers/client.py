"""The command-line client of a container engine, run so that it ends with us."""

import asyncio
import shutil
from collections.abc import Callable, Mapping

import msgspec

from hermes.core.errors import BackendUnavailable
from hermes.terminal.base import Running
from hermes.terminal.here.lifeline import Lifeline
from hermes.terminal.here.spawn import spawn

SECONDS = 30.0
"""The longest an engine may take for a small question."""


class Answer(msgspec.Struct, frozen=True):
    exit_code: int
    output: str
    errors: str


class Client:
    """`environment` is all the program sees: its own settings (`DOCKER_HOST`), `PATH`, `HOME`."""

    def __init__(self, program: str, environment: Mapping[str, str], lifeline: Lifeline) -> None:
        self.program = program
        self._environment = environment
        self._lifeline = lifeline

    def installed(self) -> bool:
        return shutil.which(self.program, path=self._environment.get("PATH")) is not None

    async def start(
        self,
        *arguments: str,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        pty: bool = False,
        extra: Mapping[str, str] | None = None,
    ) -> Running:
        """Start the program; `extra` joins its environment, where `ps` does not show it."""
        return await spawn(
            [self.program, *arguments],
            environment={**self._environment, **(extra or {})},
            on_output=on_output,
            on_error=on_error,
            pty=pty,
            lifeline=self._lifeline,
        )

    async def call(
        self,
        *arguments: str,
        timeout: float | None = SECONDS,
        tell: Callable[[str], None] | None = None,
    ) -> Answer:
        """Run it to its end; with `tell` its lines are passed on as they come."""
        output, errors = bytearray(), bytearray()
        lines = Lines(tell) if tell else None

        def heard(kept: bytearray, data: bytes) -> None:
            kept.extend(data)
            if lines:
                lines.feed(data)

        running = await self.start(
            *arguments,
            on_output=lambda data: heard(output, data),
            on_error=lambda data: heard(errors, data),
        )
        try:
            await running.close_input()
            async with asyncio.timeout(timeout):
                code = await running.wait()
        except TimeoutError as error:
            raise BackendUnavailable(
                f"{self.program} {arguments[0]} did not answer in {timeout:.0f} s",
                hint=f"see what `{self.program} info` says",
            ) from error
        finally:
            if running.exit_code is None:
                await running.stop()
        return Answer(code, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))


class Lines:
    """Passes on whole lines of what comes in pieces."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._rest = tell, b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data.replace(b"\r", b"\n")).split(b"\n")
        for line in lines:
            if text := line.decode("utf-8", "replace").strip():
                self._tell(text)

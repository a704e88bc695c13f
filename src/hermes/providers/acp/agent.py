"""One running agent program."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec

from hermes.providers.acp.protocol import VERSION, Initialized, Permission
from hermes.providers.acp.rpc import LONGEST_LINE, METHOD_NOT_FOUND, Connection, RpcError
from hermes.providers.failures.text import presentable
from hermes.util.programs import start_program

STOP_SECONDS = 2.0
"""How long the program may take to end by itself once its standard input has."""
LAST_WORDS = 10
"""Lines of its standard error that are kept for the error message."""


class AgentLost(Exception):
    """The program ended, or had to be ended; the text says how."""


class Agent:
    """A child process that speaks the protocol on its standard input and output.

    It works in an empty folder of its own, so it finds no project to read or to change. It has
    no hands: every permission it asks for is refused, and so are files and terminals.
    """

    def __init__(self, process: asyncio.subprocess.Process, name: str, folder: Path) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("the process needs three pipes")
        self.name, self.folder = name, folder
        self.ended = False
        self.abilities = Initialized(VERSION)
        """What it said of itself; set by whoever started it."""
        self._process, self._stderr = process, process.stderr
        self._words: deque[str] = deque(maxlen=LAST_WORDS)
        self._sinks: dict[str, Callable[[Any], None]] = {}
        self._why = ""
        self.rpc = Connection(process.stdout, process.stdin, self._heard, _asked)
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str]) -> "Agent":
        """Raises `OSError` when there is no such program or it cannot be run."""
        program = shutil.which(command[0], path=environment.get("PATH"))
        if program is None:
            raise FileNotFoundError(command[0])
        program = str(Path(program).absolute())
        folder = Path(tempfile.mkdtemp(prefix="hermes-acp-"))
        with ExitStack() as undo:
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            process = await start_program(
                program,
                *command[1:],
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=folder,
                env=environment,
                limit=LONGEST_LINE,
            )
            undo.pop_all()
        return cls(process, Path(program).name, folder)

    @property
    def gone(self) -> bool:
        """Nothing is left of it."""
        return self._listening.done()

    def follow(self, session: str, sink: Callable[[Any], None]) -> None:
        """`sink` gets the updates of the session."""
        self._sinks[session] = sink

    def leave(self, session: str, *, unfinished: bool) -> None:
        """No more updates of the session; what it still does is stopped. Does not wait."""
        self._sinks.pop(session, None)
        if unfinished:
            self.rpc.notify("session/cancel", {"sessionId": session})
        for method in self.abilities.farewells:
            self.rpc.ask_in_passing(method, {"sessionId": session})

    def kill(self, why: str) -> None:
        """End it at once. Does not wait; those who wait for answers are told `why`."""
        self.ended, self._why = True, self._why or why
        if self.gone:
            return  # its number may be another program's by now
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Let it end by itself, then make it."""
        self.ended = True
        if self._process.stdin is not None:
            self._process.stdin.close()
        await asyncio.wait({self._listening}, timeout=STOP_SECONDS)
        self.kill("was stopped")
        await asyncio.wait({self._listening}, timeout=STOP_SECONDS)
        self._listening.cancel()

    async def _listen(self) -> None:
        complaining = asyncio.create_task(self._hear_complaints())
        try:
            await self.rpc.listen()
        except ValueError:
            self.kill(f"sent a line of more than {LONGEST_LINE // 1024**2} MB")
        finally:
            self.ended = True
            exited = asyncio.create_task(self._process.wait())
            await asyncio.wait({exited, complaining}, timeout=STOP_SECONDS)
            self.kill(_ending(self._process.returncode))
            await exited
            await asyncio.wait({complaining}, timeout=STOP_SECONDS)
            complaining.cancel()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.rpc.lose(self._lost)

    async def _hear_complaints(self) -> None:
        while piece := await self._stderr.read(65_536):
            lines = piece.decode("utf-8", "replace").splitlines()
            self._words.extend(line for line in lines if line.strip())

    def _lost(self) -> AgentLost:
        words = presentable(" / ".join(self._words), 400)
        return AgentLost(f"{self.name} {self._why}" + (f": {words}" if words else ""))

    def _heard(self, method: str, params: Any) -> None:
        if method != "session/update" or not isinstance(params, dict):
            return
        sink = self._sinks.get(str(params.get("sessionId")))
        if sink is not None:
            sink(params.get("update"))


def _ending(code: int | None) -> str:
    if code is None:
        return "closed its output"
    return f"ended with exit code {code}" if code >= 0 else f"was killed by signal {-code}"


def _asked(method: str, params: Any) -> Any:
    """What the agent gets for a request of its own: a no."""
    if method != "session/request_permission":
        raise RpcError(METHOD_NOT_FOUND, f"not offered here: {method}")
    try:
        options = msgspec.convert(params, Permission).options
    except msgspec.ValidationError:
        options = []
    for kind in ("reject_once", "reject_always"):
        for option in options:
            if option.kind == kind:
                return {"outcome": {"outcome": "selected", "optionId": option.option_id}}
    return {"outcome": {"outcome": "cancelled"}}

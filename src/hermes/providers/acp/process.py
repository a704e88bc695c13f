"""One running agent program."""

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec

from hermes import __version__
from hermes.config.environment import child_environment
from hermes.core.errors import CredentialRefused, ProviderError, RequestRefused, Unreachable
from hermes.providers.acp.protocol import AUTH_REQUIRED, VERSION, Initialized, PermissionRequest
from hermes.providers.acp.rpc import MAX_LINE, METHOD_NOT_FOUND, RpcConnection, RpcError
from hermes.providers.failures import failed_in_stream
from hermes.providers.failures.body import printable
from hermes.util.programs import start_program

STOP_SECONDS = 2.0
"""How long the program may take to end by itself once its standard input has."""
MAX_STDERR_LINES = 10
"""Lines of its standard error that are kept for the error message."""


class AgentExited(Exception):
    """The program ended, or had to be ended; the text says how."""


class AgentProcess:
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
        self._words: deque[str] = deque(maxlen=MAX_STDERR_LINES)
        self._sinks: dict[str, Callable[[Any], None]] = {}
        self._why = ""
        self.rpc = RpcConnection(process.stdout, process.stdin, self._heard, _answer_request)
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str]) -> "AgentProcess":
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
                limit=MAX_LINE,
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
            self.kill(f"sent a line of more than {MAX_LINE // 1024**2} MB")
        finally:
            self.ended = True
            exited = asyncio.create_task(self._process.wait())
            await asyncio.wait({exited, complaining}, timeout=STOP_SECONDS)
            self.kill(_exit_reason(self._process.returncode))
            await exited
            await asyncio.wait({complaining}, timeout=STOP_SECONDS)
            complaining.cancel()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.rpc.lose(self._lost)

    async def _hear_complaints(self) -> None:
        while piece := await self._stderr.read(65_536):
            lines = piece.decode("utf-8", "replace").splitlines()
            self._words.extend(line for line in lines if line.strip())

    def _lost(self) -> AgentExited:
        words = printable(" / ".join(self._words), 400)
        return AgentExited(f"{self.name} {self._why}" + (f": {words}" if words else ""))

    def _heard(self, method: str, params: Any) -> None:
        if method != "session/update" or not isinstance(params, dict):
            return
        sink = self._sinks.get(str(params.get("sessionId")))
        if sink is not None:
            sink(params.get("update"))


def _exit_reason(code: int | None) -> str:
    if code is None:
        return "closed its output"
    return f"ended with exit code {code}" if code >= 0 else f"was killed by signal {-code}"


def _answer_request(method: str, params: Any) -> Any:
    """What the agent gets for a request of its own: a no."""
    if method != "session/request_permission":
        raise RpcError(METHOD_NOT_FOUND, f"not offered here: {method}")
    try:
        options = msgspec.convert(params, PermissionRequest).options
    except msgspec.ValidationError:
        options = []
    for kind in ("reject_once", "reject_always"):
        for option in options:
            if option.kind == kind:
                return {"outcome": {"outcome": "selected", "optionId": option.option_id}}
    return {"outcome": {"outcome": "cancelled"}}


# Which program is started.

COMMAND_VARS = ("HERMES_COPILOT_ACP_COMMAND", "COPILOT_CLI_PATH")
ARGS_VAR = "HERMES_COPILOT_ACP_ARGS"

_PROGRAM = "copilot"
_ACP_ARGUMENTS = ("--acp", "--stdio")
_DISABLE_TOOLS = ("--available-tools=none", "--disable-builtin-mcps", "--no-custom-instructions")
"""Leaves the model of the Copilot CLI without its own tools and texts: it cannot reach for them,
and each call is some 6,000 tokens shorter."""


def agent_command(variable: Callable[[str], str | None]) -> tuple[str, ...]:
    """The program and its arguments. `variable` gives a variable, or None when it is not set.

    Arguments the user wrote are taken as they are; those we add are only known to Copilot.
    """
    program = next(filter(None, map(variable, COMMAND_VARS)), _PROGRAM)
    if written := variable(ARGS_VAR):
        return (program, *shlex.split(written))
    is_copilot = Path(program).name.startswith(_PROGRAM)
    return (program, *_ACP_ARGUMENTS, *(_DISABLE_TOOLS if is_copilot else ()))


# From an error the agent answered with to the class that decides what happens next.

_CLIENT_ERRORS = range(-32602, -32599)
"""Invalid request, method not found, invalid params: asking again does not help."""


def agent_error(provider: str, agent: AgentProcess, error: RpcError) -> ProviderError:
    said = printable(" ".join(filter(None, (str(error), _error_text(error.data)))), 400)
    if error.code == AUTH_REQUIRED:
        return CredentialRefused(
            f"{agent.name} is not logged in: {said}", provider=provider, hint=_login_hint(agent)
        )
    if error.code in _CLIENT_ERRORS:
        return RequestRefused(f"{agent.name} refused the request: {said}", provider=provider)
    return failed_in_stream(provider, {"message": said})


def _login_hint(agent: AgentProcess) -> str:
    ways = [way.description or way.name for way in agent.abilities.auth_methods or ()]
    told = printable("; or ".join(filter(None, ways)), 300)
    return f"log in with that program: {told or f'run {agent.name} in a terminal'}"


def _error_text(data: Any) -> str:
    """The words in what came along with an error."""
    if isinstance(data, dict):
        return " ".join(_error_text(value) for value in data.values())
    return data if isinstance(data, str) else ""


# The agent program of a provider: started when it is needed, ended with its owner.

LOGIN_VARIABLES = (
    "COPILOT_GITHUB_TOKEN",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_PROVIDER_BEARER_TOKEN",
)
"""The keys the program logs in with. No other key is given to it."""
WITHHELD_VARIABLES = ("COPILOT_ALLOW_ALL",)
"""What would let it use its tools without asking."""


def agent_environment() -> dict[str, str]:
    environment = child_environment(LOGIN_VARIABLES)
    for name in WITHHELD_VARIABLES:
        environment.pop(name, None)
    return environment


class AgentPool:
    """Holds at most one process of `command`, shared by all the models made over it.

    It is started with the first call and again after it died; `close` ends it. `environment`
    gives the variables for a new process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        provider: str = "copilot-acp",
        environment: Callable[[], Mapping[str, str]] = agent_environment,
    ) -> None:
        self._command, self._provider = tuple(command), provider
        self._environment = environment
        self._starting = asyncio.Lock()
        self._agents: list[AgentProcess] = []
        """The one in use is the last; those before it are about to be gone."""

    async def ready(self) -> AgentProcess:
        """The running program. Raises `Unreachable` when it cannot be started."""
        async with self._starting:
            self._agents = [agent for agent in self._agents if not agent.gone]
            if not self._agents or self._agents[-1].ended:
                await self._start()
            return self._agents[-1]

    def drop(self, why: str) -> None:
        """Kill a program that no longer answers; the next call starts another one."""
        if self._agents:
            self._agents[-1].kill(why)

    async def close(self) -> None:
        async with self._starting:
            agents, self._agents = self._agents, []
            await asyncio.gather(*(agent.end() for agent in agents))

    async def _start(self) -> None:
        try:
            agent = await AgentProcess.start(self._command, self._environment())
        except FileNotFoundError:
            raise self._unreachable(
                f"the program {self._command[0]} is not installed",
                "npm install -g @github/copilot, or set HERMES_COPILOT_ACP_COMMAND to another"
                " program that speaks the Agent Client Protocol",
            ) from None
        except OSError as error:
            raise self._unreachable(
                f"{self._command[0]} cannot be started: {error.strerror or error}",
                "check HERMES_COPILOT_ACP_COMMAND",
            ) from error
        self._agents.append(agent)
        with ExitStack() as undo:
            undo.callback(agent.kill, "was stopped")
            agent.abilities = await self._introduced(agent)
            undo.pop_all()

    async def _introduced(self, agent: AgentProcess) -> Initialized:
        greeting: dict[str, Any] = {
            "protocolVersion": VERSION,
            "clientCapabilities": {
                "fs": {"readTextFile": False, "writeTextFile": False},
                "terminal": False,
            },
            "clientInfo": {"name": "hermes", "title": "Hermes", "version": __version__},
        }
        try:
            answer = await agent.rpc.request("initialize", greeting)
            abilities = msgspec.convert(answer, Initialized)
        except AgentExited as error:
            call = " ".join(self._command)
            raise self._unreachable(str(error), f"run `{call}` by hand to see why") from error
        except RpcError as error:
            raise agent_error(self._provider, agent, error) from error
        except msgspec.ValidationError as error:
            raise self._unlike(agent, str(error)) from error
        if abilities.protocol_version != VERSION:
            raise self._unlike(agent, f"it speaks version {abilities.protocol_version}")
        return abilities

    def _unreachable(self, message: str, hint: str) -> Unreachable:
        return Unreachable(message, provider=self._provider, hint=hint)

    def _unlike(self, agent: AgentProcess, what: str) -> ProviderError:
        return RequestRefused(
            f"{agent.name} does not speak version {VERSION} of the Agent Client Protocol: {what}",
            provider=self._provider,
            hint="update that program, or check HERMES_COPILOT_ACP_COMMAND and _ARGS",
        )

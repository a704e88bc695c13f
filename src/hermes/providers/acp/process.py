"""Agent programs: protocol, command, process, and errors. One process serves all models."""

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
from hermes.providers.failures import failed_in_stream
from hermes.providers.failures.body import printable
from hermes.util.jsonrpc import JsonRpcConnection, RpcError, decode
from hermes.util.processes import start_program

# The Agent Client Protocol, version 1: what a model needs of it. Agents omit fields or send null;
# unknown fields are ignored.

VERSION = 1
AUTH_REQUIRED = -32000


class AcpStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Base struct; field names are camelCase, such as `sessionId`."""


class PromptCapabilities(AcpStruct, frozen=True):
    image: bool | None = None


class AgentCapabilities(AcpStruct, frozen=True):
    prompt_capabilities: PromptCapabilities | None = None
    session_capabilities: dict[str, Any] | None = None
    """One key for each optional session method of the agent: `close`, `delete`."""


class AuthMethod(AcpStruct, frozen=True):
    name: str | None = None
    description: str | None = None


class AgentInfo(AcpStruct, frozen=True):
    name: str = ""


class Initialized(AcpStruct, frozen=True):
    protocol_version: int
    agent_info: AgentInfo | None = None
    agent_capabilities: AgentCapabilities | None = None
    auth_methods: list[AuthMethod] | None = None

    @property
    def images(self) -> bool:
        prompt = self.agent_capabilities and self.agent_capabilities.prompt_capabilities
        return bool(prompt and prompt.image)

    @property
    def is_copilot(self) -> bool:
        return self.agent_info is not None and "copilot" in self.agent_info.name.lower()

    @property
    def closing_methods(self) -> tuple[str, ...]:
        """Methods that release a session."""
        known = (self.agent_capabilities and self.agent_capabilities.session_capabilities) or {}
        return tuple(
            f"session/{name}" for name in ("close", "delete") if known.get(name) is not None
        )


class ModelSelection(msgspec.Struct, frozen=True):
    """How to set the model of a session."""

    method: str
    fields: dict[str, str]  #: Further parameters of the method.
    key: str  #: Name of the parameter that takes the model.
    models: list[str]


class OfferedModel(AcpStruct, frozen=True):
    model_id: str


class AcpModelList(AcpStruct, frozen=True):
    available_models: list[OfferedModel] = []


class SelectOption(AcpStruct, frozen=True):
    """An option, or a group of options."""

    value: str | None = None
    options: list["SelectOption"] | None = None

    def values(self) -> list[str]:
        inside = [value for option in self.options or () for value in option.values()]
        return inside if self.value is None else [self.value]


class ConfigOption(AcpStruct, frozen=True):
    id: str
    category: Any = None
    options: Any = None  #: For a `select`: its options.


class NewSessionResult(AcpStruct, frozen=True):
    session_id: str
    models: AcpModelList | None = None
    config_options: list[ConfigOption] | None = None

    def model_selection(self) -> ModelSelection | None:
        """Return how to choose the model; None when the agent offers no choice.

        The list under `models` is the older form, the option of category `model` the newer one.
        """
        for setting in self.config_options or ():
            if setting.category == "model":
                options = msgspec.convert(setting.options or [], list[SelectOption])
                values = [value for option in options for value in option.values()]
                fields = {"configId": setting.id}
                return ModelSelection("session/set_config_option", fields, "value", values)
        if self.models is not None:
            ids = [entry.model_id for entry in self.models.available_models]
            return ModelSelection("session/set_model", {}, "modelId", ids)
        return None


class TokenCounts(AcpStruct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    total_tokens: int | None = None


class TurnEnd(AcpStruct, frozen=True):
    stop_reason: str
    usage: TokenCounts | None = None


class ContentBlock(AcpStruct, frozen=True):
    type: str = ""
    text: str | None = None


class SessionUpdate(AcpStruct, frozen=True):
    session_update: str = ""
    content: Any = None  #: For a chunk: one `ContentBlock`.


class PermissionOption(AcpStruct, frozen=True):
    option_id: str
    kind: str = ""


class PermissionRequest(AcpStruct, frozen=True):
    options: list[PermissionOption] = []


# The process.

MAX_LINE = 64 * 1024 * 1024
STOP_SECONDS = 2.0  #: Time for the program to exit after its standard input was closed.
MAX_STDERR_LINES = 10  #: Lines of standard error kept for the error message.


class AgentExited(Exception):
    """The program exited or was killed; the text says how."""


class AgentProcess:
    """A child process that speaks the protocol on its standard input and output.

    It runs in an empty folder of its own, so it finds no project to read or change. All its
    requests for permission, files and terminals are refused.
    """

    def __init__(self, process: asyncio.subprocess.Process, name: str, folder: Path) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("the process needs three pipes")
        self.name, self.folder = name, folder
        self.is_ending = False
        self.capabilities = Initialized(VERSION)
        """What it reported about itself; set by the code that started it."""
        self._process, self._stdin = process, process.stdin
        self._stdout, self._stderr = process.stdout, process.stderr
        self._stderr_lines: deque[str] = deque(maxlen=MAX_STDERR_LINES)
        self._sinks: dict[str, Callable[[Any], None]] = {}
        self._reason = ""
        self.rpc = JsonRpcConnection[None](
            self._send, {"session/request_permission": _refuse_permission}, self._on_notification
        )
        self._listen_task = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str]) -> "AgentProcess":
        """Start the program. Raises `OSError` when it is missing or cannot be run."""
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
    def has_exited(self) -> bool:
        """Whether the process has exited and everything is cleaned up."""
        return self._listen_task.done()

    def subscribe(self, session: str, sink: Callable[[Any], None]) -> None:
        """Pass the updates of the session to `sink`."""
        self._sinks[session] = sink

    def leave_session(self, session: str, *, unfinished: bool) -> None:
        """Stop the session and its updates, without waiting."""
        self._sinks.pop(session, None)
        if unfinished:
            self.rpc.post("session/cancel", {"sessionId": session})
        for method in self.capabilities.closing_methods:
            self.rpc.post(method, {"sessionId": session}, as_request=True)

    def kill(self, reason: str) -> None:
        """Kill it without waiting; pending requests fail with `reason`."""
        self.is_ending, self._reason = True, self._reason or reason
        if self.has_exited:
            return  # its process id may belong to another program by now
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Let it exit on its own, then kill it."""
        self.is_ending = True
        self._stdin.close()
        await asyncio.wait({self._listen_task}, timeout=STOP_SECONDS)
        self.kill("was stopped")
        await asyncio.wait({self._listen_task}, timeout=STOP_SECONDS)
        self._listen_task.cancel()

    async def _listen(self) -> None:
        stderr_task = asyncio.create_task(self._read_stderr())
        try:
            while line := await self._stdout.readline():
                for message in decode(line):
                    if not self.rpc.settle(message) and message.method:
                        self.rpc.dispatch(message)
        except ValueError:
            self.kill(f"sent a line of more than {MAX_LINE // 1024**2} MB")
        finally:
            self.is_ending = True
            exited = asyncio.create_task(self._process.wait())
            await asyncio.wait({exited, stderr_task}, timeout=STOP_SECONDS)
            match self._process.returncode:
                case None:
                    self.kill("closed its output")
                case code:
                    signalled = f"was killed by signal {-code}"
                    self.kill(signalled if code < 0 else f"ended with exit code {code}")
            await exited
            await asyncio.wait({stderr_task}, timeout=STOP_SECONDS)
            stderr_task.cancel()
            shutil.rmtree(self.folder, ignore_errors=True)
            words = printable(" / ".join(self._stderr_lines), 400)
            reason = f"{self.name} {self._reason}" + (f": {words}" if words else "")
            self.rpc.lost(AgentExited(reason))
            await self.rpc.close()

    async def _send(self, data: bytes, _number: int | None) -> None:
        if not self._stdin.is_closing():
            self._stdin.write(data + b"\n")

    async def _read_stderr(self) -> None:
        while piece := await self._stderr.read(65_536):
            lines = piece.decode("utf-8", "replace").splitlines()
            self._stderr_lines.extend(line for line in lines if line.strip())

    def _on_notification(self, method: str, params: Any) -> None:
        if method != "session/update" or not isinstance(params, dict):
            return
        sink = self._sinks.get(str(params.get("sessionId")))
        if sink is not None:
            sink(params.get("update"))


async def _refuse_permission(params: Any, _origin: int | None) -> Any:
    """Answer the agent's request for permission with its option to refuse."""
    try:
        options = msgspec.convert(params, PermissionRequest).options
    except msgspec.ValidationError:
        options = []
    for kind in ("reject_once", "reject_always"):
        for option in options:
            if option.kind == kind:
                return {"outcome": {"outcome": "selected", "optionId": option.option_id}}
    return {"outcome": {"outcome": "cancelled"}}


# The command.

COMMAND_VARS = ("HERMES_COPILOT_ACP_COMMAND", "COPILOT_CLI_PATH")
ARGS_VAR = "HERMES_COPILOT_ACP_ARGS"

_PROGRAM = "copilot"
_ACP_ARGUMENTS = ("--acp", "--stdio")
_DISABLE_TOOLS = ("--available-tools=none", "--disable-builtin-mcps", "--no-custom-instructions")
"""Disables the tools and texts of the Copilot CLI: its model cannot use them, and each call is some
6,000 tokens shorter."""


def agent_command(variable: Callable[[str], str | None]) -> tuple[str, ...]:
    """Return the program and its arguments; `variable` returns a variable or None.

    Arguments set by the user are used unchanged; the default ones are known to Copilot only.
    """
    program = next(filter(None, map(variable, COMMAND_VARS)), _PROGRAM)
    if written := variable(ARGS_VAR):
        return (program, *shlex.split(written))
    is_copilot = Path(program).name.startswith(_PROGRAM)
    return (program, *_ACP_ARGUMENTS, *(_DISABLE_TOOLS if is_copilot else ()))


# Errors in responses of the agent.

_CLIENT_ERRORS = range(-32602, -32599)
"""Invalid request, method not found, invalid params: a retry does not help."""


def agent_error(provider: str, agent: AgentProcess, error: RpcError) -> ProviderError:
    text = printable(" ".join(filter(None, (str(error), _error_text(error.data)))), 400)
    if error.code == AUTH_REQUIRED:
        ways = [way.description or way.name for way in agent.capabilities.auth_methods or ()]
        shown = printable("; or ".join(filter(None, ways)), 300)
        return CredentialRefused(
            f"{agent.name} is not logged in: {text}",
            provider=provider,
            hint=f"log in with that program: {shown or f'run {agent.name} in a terminal'}",
        )
    if error.code in _CLIENT_ERRORS:
        return RequestRefused(f"{agent.name} refused the request: {text}", provider=provider)
    return failed_in_stream(provider, {"message": text})


def _error_text(data: Any) -> str:
    """Return the strings in the data of an error."""
    if isinstance(data, dict):
        return " ".join(_error_text(value) for value in data.values())
    return data if isinstance(data, str) else ""


# The shared process.

LOGIN_VARIABLES = (
    "COPILOT_GITHUB_TOKEN",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_PROVIDER_BEARER_TOKEN",
)
"""Keys the program logs in with. It receives no other key."""
WITHHELD_VARIABLES = ("COPILOT_ALLOW_ALL",)  #: Would let it use its tools without asking.


def agent_environment() -> dict[str, str]:
    environment = child_environment(LOGIN_VARIABLES)
    for name in WITHHELD_VARIABLES:
        environment.pop(name, None)
    return environment


class AgentPool:
    """Holds at most one process of `command`, shared by all models that use it.

    The process starts with the first call and again after it died; `close` ends it. `environment`
    returns the variables of a new process.
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
        """The last one is in use; those before it are exiting."""

    async def ready(self) -> AgentProcess:
        """Return the running process. Raises `Unreachable` when it cannot be started."""
        async with self._starting:
            self._agents = [agent for agent in self._agents if not agent.has_exited]
            if not self._agents or self._agents[-1].is_ending:
                await self._start()
            return self._agents[-1]

    def kill_current(self, reason: str) -> None:
        """Kill a process that does not respond; the next call starts another one."""
        if self._agents:
            self._agents[-1].kill(reason)

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
            agent.capabilities = await self._initialize(agent)
            undo.pop_all()

    async def _initialize(self, agent: AgentProcess) -> Initialized:
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
            capabilities = msgspec.convert(answer, Initialized)
        except AgentExited as error:
            call = " ".join(self._command)
            raise self._unreachable(str(error), f"run `{call}` by hand to see why") from error
        except RpcError as error:
            raise agent_error(self._provider, agent, error) from error
        except msgspec.ValidationError as error:
            raise self._incompatible(agent, str(error)) from error
        if capabilities.protocol_version != VERSION:
            raise self._incompatible(agent, f"it speaks version {capabilities.protocol_version}")
        return capabilities

    def _unreachable(self, message: str, hint: str) -> Unreachable:
        return Unreachable(message, provider=self._provider, hint=hint)

    def _incompatible(self, agent: AgentProcess, what: str) -> ProviderError:
        return RequestRefused(
            f"{agent.name} does not speak version {VERSION} of the Agent Client Protocol: {what}",
            provider=self._provider,
            hint="update that program, or check HERMES_COPILOT_ACP_COMMAND and _ARGS",
        )

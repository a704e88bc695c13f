"""What a terminal backend may import: the host Protocol, the manifest, and bases of hosts.

A backend is a class that is called with a `BackendContext` and returns a `Host`. Its manifest says
how it is called and what it needs, so that Hermes can offer and check it without loading it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal import Argv, Host, Notify, Running, Sink, log_notice
from hermes.util.extras import Extra, extras, install_hint
from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.terminal import (
        EngineClient,
        EngineResult,
        Lifeline,
        Mount,
        is_owner_gone,
        owner_mark,
        persistent_folder,
        spawn,
    )
    from hermes.terminal.local.process import COLUMNS, LINES
    from hermes.terminal.remote import HOME

__all__ = [
    "ABANDONED", "COLUMNS", "HOME", "LEAD_GROUP", "LINES",
    "Argv", "BackendContext", "BackendUnavailable", "CloudHost", "EngineClient", "EngineResult",
    "Host", "Lifeline", "Mount", "Notify", "RemoteProcess", "Running", "Sink", "TerminalBackend",
    "TerminalManifest", "is_owner_gone", "owner_mark", "persistent_folder", "spawn",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)


class BackendContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend is given to create its host."""

    settings: Mapping[str, Any]
    """The settings `terminal.*` by their names, such as `modal_image`."""
    own_settings: Mapping[str, Any] = {}
    """The block of config.yaml that has the name of the backend."""
    secret: Callable[[str], str] = lambda _name: ""
    """Returns a variable of the environment or of .env, or an empty string."""
    forward_env: dict[str, str] = {}  #: Variables for commands, with their values.
    environment: dict[str, str] = {}
    """Environment for programs that the backend starts on this machine; holds no secrets."""
    storage: Path = Path()  #: `terminal.sandbox_dir`: where files outlive a session.
    task: str = "default"  #: Owner of the kept files; tasks with the same name share them.
    credential_mounts: tuple["Mount", ...] = ()  #: `terminal.credential_files`.
    notify: Notify = log_notice  #: Shows one line to the user.


TerminalBackend = Callable[[BackendContext], Host]
"""Creates the host of one session. Usually a class; it starts nothing before `Host.open`."""


class TerminalManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What Hermes knows about a terminal backend before it loads it."""

    name: str  #: The value of `terminal.backend`; the name of the plugin.
    backend: str | TerminalBackend  #: `module:Class`, or the class itself.
    summary: str = ""  #: Where commands run, for `hermes setup terminal`: "in the cloud of X".
    place: str = ""  #: The same for the model: "a container in the cloud".
    home: str = "/root"  #: Home folder of the user there.
    isolated: bool = True
    """The host is a security boundary (a container): commands there need no approval."""
    copies_credentials: bool = False
    """Hermes copies `terminal.credential_files` there, because they cannot be mounted."""
    package: str = ""  #: A Python package that must be installed.
    programs: tuple[str, ...] = ()  #: Programs of which one must be installed.
    install: str = ""  #: The system package that has the program.
    secrets: tuple[str, ...] = ()  #: Variables that must be set.
    questions: tuple[tuple[str, str], ...] = ()
    """Settings of `terminal` that `hermes setup terminal` asks for, with the question."""

    @property
    def extra(self) -> Extra | None:
        """For a bundled backend: the extra of its name, which installs `package`."""
        return Extra(f"commands {self.summary}", "hermes setup terminal") if self.package else None

    def load(self) -> TerminalBackend:
        if not isinstance(self.backend, str):
            return self.backend
        module, _, name = self.backend.partition(":")
        backend: TerminalBackend = getattr(import_module(module), name)
        return backend


# A program that runs behind a cloud service's API.

GRACE = 0.7
"""Seconds to end after the input was closed; cancelling a call may take one second in total."""
ABANDONED = 137  #: Exit code of a program that was given up, as if it had been killed.

LEAD_GROUP = r"""
kill -0 "-$$" 2>/dev/null || ! command -v setsid >/dev/null || set -- setsid "$@"
exec "$@"
"""
"""Runs its arguments as the leader of a process group, so that a program can stop its children."""


class RemoteProcess(ABC):
    """Base class: a subclass starts its program, calls `follow` and implements sending input."""

    pid = None

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self._closed = False
        self._ended = asyncio.Event()
        self._follow_task: asyncio.Task[None] | None = None

    def follow(self, until_end: Coroutine[Any, Any, int]) -> None:
        """Start delivering output; `until_end` returns the exit code."""
        self._follow_task = asyncio.create_task(self._watch_until_end(until_end))

    async def wait(self) -> int:
        await self._ended.wait()
        return ABANDONED if self.exit_code is None else self.exit_code

    async def write(self, data: bytes) -> None:
        if self._closed or self.exit_code is not None:
            raise ToolError("the program takes no input any more")
        await self._send(data)

    async def close_input(self) -> None:
        if not self._closed:
            self._closed = True
            await self._send_end()

    async def stop(self) -> None:
        if self.exit_code is not None:
            return
        await self.close_input()
        try:
            async with asyncio.timeout(GRACE):
                await self.wait()
        except TimeoutError:
            await self._abandon()
            if self._follow_task is not None:
                self._follow_task.cancel()
            self._end(ABANDONED)

    def _end(self, code: int) -> None:
        if self.exit_code is None:
            self.exit_code = code
        self._ended.set()

    async def _watch_until_end(self, until_end: Coroutine[Any, Any, int]) -> None:
        self._end(await until_end)

    @abstractmethod
    async def _send(self, data: bytes) -> None: ...

    @abstractmethod
    async def _send_end(self) -> None: ...

    async def _abandon(self) -> None:
        """Do what the service allows for a program that did not end when its input closed."""
        return


class CloudHost(ABC):
    """Base class: a sandbox of a cloud service that is made at first use and when it has ended."""

    name: str  #: Also the name of the SDK's module.
    service: str
    auth_hint: str
    create_hint: str
    recreated: str  #: What happens to a sandbox that has ended, for the notice.

    def __init__(self, context: BackendContext) -> None:
        self._context, self._settings = context, context.settings
        self._notify = context.notify
        self._lock = asyncio.Lock()
        self._sdk: Any = None
        self._client: Any = None
        self._sandbox: Any = None

    async def open(self) -> None:
        async with self._lock:
            if self._sandbox is None:
                await self._connect()

    async def start(
        self, argv: Argv, *, on_output: Sink, on_error: Sink | None = None, pty: bool = False
    ) -> Running:
        await self.open()
        streams = (on_output, on_error or on_output)
        failure, _ = self._errors()
        try:
            running: Running = await self._start(argv, *streams, pty=pty)
        except failure as error:
            async with self._lock:  # the sandbox may have ended
                if await self._is_running():
                    raise self._start_error(error) from error
                self._sandbox = None
                await self._connect()
        else:
            return running
        self._notify(f"the {self.service} sandbox had ended; {self.recreated}")
        try:
            running = await self._start(argv, *streams, pty=pty)
        except failure as again:
            raise self._start_error(again) from again
        return running

    def _start_error(self, error: Exception) -> ToolError:
        return ToolError(f"{self.service} could not start the program: {error}")

    async def _connect(self) -> None:
        try:
            self._sdk = import_module(self.name)
        except ImportError as error:
            hint = (
                install_hint(self.name) if self.name in extras() else "install it in Hermes' .venv"
            )
            raise BackendUnavailable(
                f"the package {self.name} is not installed", hint=hint
            ) from error
        failure, refusal = self._errors()
        try:
            await self._create()
        except refusal as error:
            raise BackendUnavailable(
                f"{self.service} does not let us in: {error}", hint=self.auth_hint
            ) from error
        except failure as error:
            raise BackendUnavailable(
                f"{self.service} could not make a sandbox: {error}", hint=self.create_hint
            ) from error

    @abstractmethod
    def _errors(self) -> tuple[type[Exception], type[Exception]]:
        """Return the SDK's base class of errors, and its error for refused credentials."""

    @abstractmethod
    async def _create(self) -> None:
        """Set `_sandbox`: end what dead processes left, then resume or make a sandbox."""

    @abstractmethod
    async def _is_running(self) -> bool: ...

    @abstractmethod
    async def _start(
        self, argv: Argv, on_output: Sink, on_error: Sink, *, pty: bool
    ) -> Running: ...

    @abstractmethod
    async def close(self) -> None: ...

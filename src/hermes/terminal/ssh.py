"""The SSH backend: commands run on another machine, over the system's `ssh`.

There is one connection, with a session for each program. The connection is a foreground child (`ssh
-M -N`), so it ends with this process. Host keys, jump hosts and agents follow the user's ssh
configuration; nothing in it is weakened.
"""

import asyncio
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal.base import Argv, Running, Sink
from hermes.terminal.local.lifeline import Lifeline
from hermes.terminal.local.process import spawn

# Known messages of `ssh`, and what to do about each. The first match is reported.

SSH_ERRORS = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "the host key of {host} is not the one that is known",
        "find out why before you connect; then `ssh-keygen -R {host}` forgets the old one",
    ),
    (
        "Host key verification failed",
        "the host key of {host} is not known here",
        "connect once with `ssh {host}` and check the key it shows",
    ),
    (
        "Permission denied",
        "{host} refused the login",
        "check terminal.ssh_user and terminal.ssh_key; a key with a passphrase needs ssh-agent",
    ),
    (
        "Too many authentication failures",
        "{host} refused the login: too many keys were offered",
        "set terminal.ssh_key to the right one",
    ),
    ("Could not resolve hostname", "there is no machine named {host}", "check terminal.ssh_host"),
    (
        "Connection refused",
        "{host} takes no SSH connections on that port",
        "check terminal.ssh_port and that sshd runs there",
    ),
    ("timed out", "{host} does not answer", "check the network and terminal.ssh_host"),
    ("No route to host", "{host} cannot be reached", "check the network and terminal.ssh_host"),
    (
        "Network is unreachable",
        "{host} cannot be reached",
        "check the network and terminal.ssh_host",
    ),
    ("Bad configuration option", "ssh does not take its settings", "check ~/.ssh/config"),
)


def ssh_unavailable(host: str, errors: str) -> BackendUnavailable:
    for sign, message, hint in SSH_ERRORS:
        if sign in errors:
            return BackendUnavailable(message.format(host=host), hint=hint.format(host=host))
    lines = errors.strip().splitlines() or ["no connection came about in time"]
    return BackendUnavailable(
        f"no SSH connection to {host}: {lines[-1]}", hint=f"does `ssh {host} true` work?"
    )


SOCKET = "ctl"
"""Socket of the connection, relative to the private folder, because socket paths must be short."""
POLL_INTERVAL = 0.02  #: Seconds between two checks that the connection is up.
MAX_ERROR_BYTES = 10_000

# Only what a terminal needs: the user's configuration must not forward ports or agents, run other
# commands, or share a connection made elsewhere.
FIXED_OPTIONS = (
    "BatchMode=yes", "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no",
    "PermitLocalCommand=no", "RemoteCommand=none", "EscapeChar=none", "ControlPersist=no",
    "LogLevel=ERROR",
)  # fmt: skip


class SshOptions(msgspec.Struct, frozen=True):
    host: str
    """`terminal.ssh_host`: a name, an address, or a Host of the user's ssh configuration."""
    user: str = ""  #: `terminal.ssh_user`; empty: ssh's default.
    port: int = 22  #: `terminal.ssh_port`; 22 leaves the choice to the ssh configuration.
    key: str = ""  #: `terminal.ssh_key`: a private key file; empty: ssh's default.
    connect_seconds: int = 15  #: Timeout of a connection attempt.
    alive_seconds: int = 10
    """Seconds of silence before a keep-alive; the connection is dropped after three."""
    options: tuple[str, ...] = ()  #: Further `-o` options.


class SshHost:
    """Another machine as a `Host`; `ssh` itself sees `environment` (HOME, SSH_AUTH_SOCK, …)."""

    name = "ssh"

    def __init__(self, options: SshOptions, environment: Mapping[str, str]) -> None:
        for value in (options.host, options.user):
            if value.startswith("-") or any(char.isspace() or char == "\0" for char in value):
                raise BackendUnavailable(
                    f"{value!r} is not the name of a machine or user",
                    hint="check terminal.ssh_host and terminal.ssh_user",
                )
        if not options.host:
            raise BackendUnavailable(
                "no machine is set for the ssh backend", hint="set terminal.ssh_host"
            )
        self._options, self._environment = options, dict(environment)
        self._open_lock = asyncio.Lock()
        self._lifeline: Lifeline | None = None
        self._master: Running | None = None

    async def open(self) -> None:
        async with self._open_lock:
            if self._master is not None and self._master.exit_code is None:
                return
            if shutil.which("ssh", path=self._environment.get("PATH")) is None:
                raise BackendUnavailable("ssh is not installed", hint="apt install openssh-client")
            if self._lifeline is None:
                self._lifeline = Lifeline()
            self._master = await self._connect(self._lifeline)

    async def start(
        self, argv: Argv, *, on_output: Sink, on_error: Sink | None = None, pty: bool = False
    ) -> Running:
        """Start a program, once, after reconnecting if the connection is lost."""
        await self.open()
        if self._lifeline is None:
            raise ToolError("the ssh backend was closed meanwhile")
        options = ["-o", "ControlMaster=no", "-tt" if pty else "-T"]
        arguments = [*options, "--", self._target(), remote_command(argv)]
        return await self._spawn(self._lifeline, arguments, on_output, on_error)

    async def close(self) -> None:
        async with self._open_lock:
            lifeline, self._lifeline, self._master = self._lifeline, None, None
            if lifeline is not None:
                await lifeline.close()

    async def _connect(self, lifeline: Lifeline) -> Running:
        errors = bytearray()
        socket = lifeline.folder / SOCKET
        socket.unlink(missing_ok=True)
        master = await self._spawn(
            lifeline,
            ["-M", "-N", "-T", "--", self._target()],
            lambda _data: None,
            lambda data: errors.extend(data[: MAX_ERROR_BYTES - len(errors)]),
        )
        connected = False
        try:
            connected = await self._wait_connected(master, socket)
        finally:
            if not connected:
                await master.stop()
        if not connected:
            raise ssh_unavailable(self._options.host, errors.decode("utf-8", "replace"))
        return master

    async def _wait_connected(self, master: Running, socket: Path) -> bool:
        """Wait for the control socket, which ssh creates after the login."""
        try:
            async with asyncio.timeout(2 * self._options.connect_seconds):
                while master.exit_code is None:
                    if socket.exists():
                        return True
                    await asyncio.sleep(POLL_INTERVAL)
                await master.wait()
        except TimeoutError:
            return False
        return False

    async def _spawn(
        self, lifeline: Lifeline, arguments: Sequence[str], on_output: Sink, on_error: Sink | None
    ) -> Running:
        # In the private folder, so that the socket's path is one word.
        return await spawn(
            ["ssh", *self._arguments(), *arguments],
            environment=self._environment,
            cwd=str(lifeline.folder),
            on_output=on_output,
            on_error=on_error,
            lifeline=lifeline,
        )

    def _arguments(self) -> list[str]:
        options = self._options
        home = self._environment.get("HOME", "")
        settings = [
            *FIXED_OPTIONS,
            f"ControlPath={SOCKET}",
            f"ConnectTimeout={options.connect_seconds}",
            f"ServerAliveInterval={options.alive_seconds}",
            "ServerAliveCountMax=3",
            *options.options,
        ]
        arguments = [word for setting in settings for word in ("-o", setting)]
        if options.port != 22:
            arguments += ["-p", str(options.port)]
        if options.key:
            path = (
                options.key.replace("~", home, 1) if options.key.startswith("~/") else options.key
            )
            arguments += ["-i", str(Path(path).absolute()), "-o", "IdentitiesOnly=yes"]
        return arguments

    def _target(self) -> str:
        return (
            f"{self._options.user}@{self._options.host}"
            if self._options.user
            else self._options.host
        )


def remote_command(argv: Argv) -> str:
    """Return `argv` as a command line for the remote login shell, whichever that is.

    ssh passes one string to that shell, and fish and csh parse quotes differently from `sh`. The
    quotes therefore enclose only characters that all of them leave unchanged; `printf` restores the
    text.
    """
    text = f"exec {shlex.join(argv)}".encode("utf-8", "surrogateescape")
    safe = "".join(chr(byte) if byte in _UNESCAPED else f"\\0{byte:03o}" for byte in text)
    return f"""exec sh -c 'eval "$(printf %b "$1")"' sh '{safe}'"""


_UNESCAPED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-+=.,:/@%")

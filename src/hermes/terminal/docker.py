"""The Docker backend: commands run in a Docker or podman container.

The container lives as long as an attached `docker run` child whose standard input this process
holds open. If this process is killed, that input closes, the container's main process ends, and the
engine removes the container. Containers that escape this (the engine was stopped, the machine lost
power) carry an owner label, and the next start removes them.
"""

import asyncio
import logging
import secrets
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from hermes.core.errors import BackendUnavailable
from hermes.terminal.base import Argv, Notify, Running, Sink, load_script, log_notice
from hermes.terminal.host_shell import wait_first
from hermes.terminal.local.lifeline import Lifeline
from hermes.terminal.local.process import COLUMNS, LINES
from hermes.terminal.remote import (
    HOME,
    WORKSPACE,
    EngineClient,
    Mount,
    is_owner_gone,
    owner_mark,
    parse_volume,
    persistent_folder,
    safe_mount,
)


class EngineError(msgspec.Struct, frozen=True):
    """A known error message, and what to do about it: a row of `docker_errors.json`."""

    words: tuple[str, ...]  #: Any of these, in lower case, identifies the error.
    message: str
    hint: str


def engine_unavailable(program: str, complaint: str, image: str) -> BackendUnavailable:
    """Return the error for what the engine wrote to standard error."""
    lowered = complaint.lower()
    table = Path(__file__).with_name("docker_errors.json").read_bytes()
    for cause in msgspec.json.decode(table, type=list[EngineError]):
        if any(words in lowered for words in cause.words):
            return BackendUnavailable(
                cause.message.format(program=program, image=image),
                hint=cause.hint.format(program=program, image=image),
            )
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    line = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")
    return BackendUnavailable(
        f"{program} could not make the container: {line or 'it gave no reason'}",
        hint=f"see what `{program} info` and `{program} run --rm {image} true` say",
    )


def not_installed(programs: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"{programs} is not installed",
        hint="install Docker or podman, or set terminal.backend to local or sandbox",
    )


# Settings of a container, and the engine arguments that follow from them.

# The container is tied to this process by its standard input: when it closes, `cat` ends and so
# does the container. As the first process, the shell also adopts orphans where the engine has no
# `--init`.
MAIN = (
    'exec 3<&0; trap "exit 0" TERM; mkdir -p /workspace 2>/dev/null; '
    "cat <&3 >/dev/null & echo ready; wait"
)

HARDENING = (
    *("--cap-drop", "ALL"),
    *("--cap-add", "CHOWN", "--cap-add", "DAC_OVERRIDE", "--cap-add", "FOWNER"),
    *("--security-opt", "no-new-privileges"),
    *("--pids-limit", "256"),
)
TMPFS = (
    *("--tmpfs", "/tmp:rw,exec,nosuid,nodev,size=512m,mode=1777"),
    *("--tmpfs", "/var/tmp:rw,noexec,nosuid,nodev,size=256m,mode=1777"),
    *("--tmpfs", "/run:rw,noexec,nosuid,nodev,size=64m"),
)


class DockerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a container, with the settings they come from."""

    image: str  #: `terminal.docker_image`.
    task: str = "default"  #: Owner of the kept files; tasks with the same name share them.
    forward_env: dict[str, str] = {}  #: Variables passed to commands, with their values.
    cpu: float = 1  #: `terminal.container_cpu`; 0 means no limit.
    memory: int = 5120  #: `terminal.container_memory` in MB; 0 means no limit.
    persistent: bool = True  #: `terminal.container_persistent`: files outlive the container.
    sandbox_dir: str = ""  #: `terminal.sandbox_dir`, never empty when `persistent`.
    environment: dict[str, str] = {}
    """Environment of the client program: `PATH`, `HOME`, `DOCKER_HOST` and so on."""
    credential_files: tuple[Mount, ...] = ()
    """`terminal.credential_files`, from `credential_mounts`."""
    program: str = ""
    """The client program; empty: the first that is installed and whose engine answers."""
    volumes: tuple[str, ...] = ()  #: `terminal.docker_volumes`.
    workspace: str = ""
    """Folder mounted at /workspace (`terminal.docker_mount_cwd_to_workspace`), or empty."""
    disk: int = 51200
    """`terminal.container_disk` in MB, if the storage driver supports a limit; 0 means no limit."""
    network: str = ""  #: The network to join; empty: the engine's default; `none`: no network.
    engine_defaults: bool = False
    """Capabilities, temporary folders and the first folder as the engine and the image give them.
    Benchmarks need this: their images install packages, start services and use /tmp."""
    prepare: Callable[[EngineClient], Awaitable[None]] | None = None
    """Makes the image available before the container is created, for example by building it."""


class ImageConfig(msgspec.Struct, frozen=True):
    """The relevant part of an image's configuration."""

    user: str = ""
    workdir: str = ""

    @property
    def as_root(self) -> bool:
        return self.user.partition(":")[0] in ("", "root", "0")


class OptionalFlag(msgspec.Struct, frozen=True):
    """An option that some engines reject: their errors, and the warning when it is dropped."""

    name: str
    complaints: tuple[str, ...]
    lost: str


OPTIONAL_FLAGS = (
    OptionalFlag(
        "--storage-opt",
        ("storage-opt", "storage option", "pquota", "project quota"),
        "the disk of the container is not limited: the engine's storage driver cannot",
    ),
    OptionalFlag(
        "--init",
        ("container-init", "docker-init", "catatonit"),
        "the container runs without an init process: the engine has none",
    ),
)


def run_arguments(
    options: DockerOptions,
    *,
    name: str,
    labels: Mapping[str, str],
    mounts: Sequence[Mount],
    workdir: str,
    without: frozenset[str] = frozenset(),
) -> list[str]:
    """Return the arguments of `docker run`, except for the options named in `without`."""
    optional = {
        "--init": [],
        "--storage-opt": [f"size={options.disk}m"] if options.disk else None,
        "--network": [options.network] if options.network else None,
        "--workdir": [workdir] if workdir else None,
        "--cpus": [f"{options.cpu:g}"] if options.cpu else None,
        "--memory": [f"{options.memory}m"] if options.memory else None,
        "--memory-swap": [f"{options.memory}m"] if options.memory else None,
    }
    chosen = {flag: value for flag, value in optional.items() if flag not in without}
    return [
        *("run", "--rm", "-i", "--pull=never", "--name", name),
        *(() if options.engine_defaults else (*HARDENING, *TMPFS)),
        *(word for flag, value in chosen.items() if value is not None for word in (flag, *value)),
        *(word for key, value in labels.items() for word in ("--label", f"{key}={value}")),
        *(word for mount in mounts for word in ("--mount", mount.option())),
        *(word for variable in options.forward_env for word in ("--env", variable)),
        *("--entrypoint", "sh", options.image, "-c", MAIN),
    ]


def seed_arguments(options: DockerOptions, folder: str) -> list[str]:
    """Return arguments that copy the image's /root to `folder`, which is then mounted over it."""
    return [
        *("run", "--rm", "--pull=never", "--network", "none", "--user", "0", *HARDENING),
        *("--mount", Mount(folder, "/hermes-seed").option()),
        *("--entrypoint", "sh", options.image, "-c", "cp -a /root/. /hermes-seed/"),
    ]


def qualified_name(image: str) -> str:
    """Return the full name of what Docker would pull; podman does not guess a registry."""
    first, slash, _ = image.partition("/")
    if not slash:
        return f"docker.io/library/{image}"
    if "." in first or ":" in first or first == "localhost":
        return image
    return f"docker.io/{image}"


# A program in a terminal inside a container.
#
# When the client of `docker exec -t` ends, the terminal inside does not hang up. The program
# therefore carries an environment variable by which `hang_up.sh` finds and stops it.

PTY_VARIABLE = "HERMES_TERMINAL"
DETACH_KEYS = "ctrl-],ctrl-],ctrl-],ctrl-]"
"""The default, Ctrl-P Ctrl-Q, would swallow a typed Ctrl-P."""

# Docker sets the size of the terminal only shortly after the program has started.
SET_SIZE = f'stty rows {LINES} cols {COLUMNS} 2>/dev/null; exec "$@"'


class ContainerPty:
    """`Running` for a program in a container's terminal."""

    def __init__(self, client: EngineClient, container: str, running: Running, mark: str) -> None:
        self._client, self._container = client, container
        self._running, self._mark = running, mark

    @classmethod
    async def start(
        cls, client: EngineClient, container: str, argv: Argv, on_output: Sink
    ) -> "ContainerPty":
        mark = secrets.token_hex(8)
        running = await client.start(
            *("exec", "-i", "-t", "--detach-keys", DETACH_KEYS, "--env", f"{PTY_VARIABLE}={mark}"),
            *(container, "sh", "-c", SET_SIZE, "hermes", *argv),
            on_output=on_output,
            pty=True,
        )
        return cls(client, container, running, mark)

    @property
    def pid(self) -> int | None:
        return self._running.pid

    @property
    def exit_code(self) -> int | None:
        return self._running.exit_code

    async def wait(self) -> int:
        return await self._running.wait()

    async def write(self, data: bytes) -> None:
        await self._running.write(data)

    async def close_input(self) -> None:
        await self._running.close_input()

    async def stop(self) -> None:
        await self._running.stop()
        # This fails if the container is gone; then there is nothing left to stop.
        program = ("sh", "-c", load_script("hang_up"), "hermes", self._mark)
        await self._client.call("exec", self._container, *program)


MANAGED_LABEL = "hermes"
OWNER_LABEL = "hermes.owner"
TASK_LABEL = "hermes.task"
START_TIMEOUT = 60.0
END_TIMEOUT = 5.0

log = logging.getLogger(__name__)


class DockerHost:
    """A container as a `Host`. `notify` receives progress lines for the user."""

    name = "docker"

    def __init__(self, options: DockerOptions, notify: Notify = log_notice) -> None:
        self._options, self._notify = options, notify
        self._lifeline: Lifeline | None = None
        self._lock = asyncio.Lock()
        self._refused: frozenset[str] = frozenset()
        self._current: _Container | None = None

    @property
    def container(self) -> str:
        """Name of the running container, or empty."""
        return self._current.name if self._current and self._current.alive else ""

    async def open(self) -> None:
        await self._ensure_container()

    async def start(
        self, argv: Argv, *, on_output: Sink, on_error: Sink | None = None, pty: bool = False
    ) -> Running:
        container = await self._ensure_container()
        if pty:
            return await ContainerPty.start(container.client, container.name, argv, on_output)
        return await container.client.start(
            *("exec", "-i", container.name, *argv), on_output=on_output, on_error=on_error
        )

    async def close(self) -> None:
        async with self._lock:
            container, self._current = self._current, None
            lifeline, self._lifeline = self._lifeline, None
            try:
                if container is not None:
                    await container.end()
            finally:
                if lifeline is not None:
                    await lifeline.close()

    async def _ensure_container(self) -> "_Container":
        """Return the running container; create a new one, and say so, if the last one has ended."""
        async with self._lock:
            if self._current is None:
                self._current = await self._create_container()
            elif not self._current.alive:
                died, self._current = self._current, None
                self._current = await self._create_container()
                self._notify(
                    f"the container {died.name} had ended; a new one was made "
                    f"({'kept files are there' if self._options.persistent else 'it is empty'})"
                )
            return self._current

    async def _create_container(self) -> "_Container":
        self._lifeline = self._lifeline or Lifeline()
        client = await choose_engine(self._options, self._lifeline)
        if self._options.prepare is not None:
            await self._options.prepare(client)
        image = await self._inspect_image(client)
        mounts = await self._mounts(client, image)
        while True:
            container = _Container(client, f"hermes-{secrets.token_hex(6)}")
            arguments = run_arguments(
                self._options,
                name=container.name,
                labels={
                    MANAGED_LABEL: "1",
                    OWNER_LABEL: owner_mark(),
                    TASK_LABEL: self._options.task,
                },
                mounts=mounts,
                workdir=self._workdir(image),
                without=self._refused,
            )
            complaint = await container.begin(arguments, self._options.forward_env)
            if complaint is None:
                return container
            self._drop_refused_flag(client, complaint)

    def _drop_refused_flag(self, client: EngineClient, complaint: str) -> None:
        """Retry without the one option the engine complains about; raise if there is none."""
        for option in OPTIONAL_FLAGS:
            refused = any(words in complaint.lower() for words in option.complaints)
            if refused and option.name not in self._refused:
                self._refused |= {option.name}
                log.warning("%s", option.lost)
                return
        raise engine_unavailable(client.program, complaint, self._options.image)

    async def _inspect_image(self, client: EngineClient) -> ImageConfig:
        """Return the configuration of the image; pull the image if it is missing."""
        image = self._options.image
        asked = ("image", "inspect", "--format", "{{json .Config}}", "--", image)
        answer = await client.call(*asked)
        if answer.exit_code:
            self._notify(f"fetching the image {image}")
            name = qualified_name(image) if client.program == "podman" else image
            pulled = await client.call("pull", "--", name, timeout=None, notify=self._notify)
            if pulled.exit_code:
                raise engine_unavailable(client.program, pulled.errors, image)
            answer = await client.call(*asked)
        try:
            config = msgspec.json.decode(answer.output or "{}")
        except msgspec.DecodeError:
            raise engine_unavailable(
                client.program, answer.errors or answer.output, image
            ) from None
        return ImageConfig(config.get("User") or "", config.get("WorkingDir") or "")

    async def _mounts(self, client: EngineClient, image: ImageConfig) -> list[Mount]:
        options = self._options
        mounts = [parse_volume(volume) for volume in options.volumes]
        if options.workspace:
            mounts.append(safe_mount(options.workspace, WORKSPACE))
        if options.persistent:
            kept = persistent_folder(options.sandbox_dir, options.task)
            if not options.workspace:
                folder = kept / "workspace"  # its parent is private
                folder.mkdir(mode=0o700, exist_ok=True)
                if not image.as_root:
                    folder.chmod(0o777)
                mounts.append(Mount(str(folder), WORKSPACE))
            if image.as_root:
                mounts.append(Mount(await self._home_folder(client, kept / "root"), HOME))
        return [*mounts, *options.credential_files]

    async def _home_folder(self, client: EngineClient, folder: Path) -> str:
        """Return the persistent /root folder, initially filled with the image's own."""
        if not folder.exists():
            new = Path(tempfile.mkdtemp(prefix="new-", dir=folder.parent))
            answer = await client.call(*seed_arguments(self._options, str(new)))
            if answer.exit_code:
                raise engine_unavailable(client.program, answer.errors, self._options.image)
            if not folder.exists():  # another process of the same task may have been faster
                new.rename(folder)
        return str(folder)

    def _workdir(self, image: ImageConfig) -> str:
        """Return the initial folder: the user's, a persistent one, or the image's own."""
        if self._options.workspace:
            return WORKSPACE
        if self._options.persistent:
            return HOME if image.as_root else WORKSPACE
        if self._options.engine_defaults:
            return ""
        own = image.workdir if image.workdir != "/" else ""
        return own or (HOME if image.as_root else "")


class _Container:
    """One container and the attached client that keeps it alive."""

    def __init__(self, client: EngineClient, name: str) -> None:
        self.client, self.name = client, name
        self._main: Running | None = None

    @property
    def alive(self) -> bool:
        return self._main is not None and self._main.exit_code is None

    async def begin(self, arguments: Sequence[str], environment: dict[str, str]) -> str | None:
        """Start it. Returns None once it runs, else the engine's error output."""
        ready = asyncio.Event()
        errors = bytearray()
        self._main = main = await self.client.start(
            *arguments, on_output=lambda _: ready.set(), on_error=errors.extend, extra=environment
        )
        try:
            await wait_first(main.wait(), ready.wait(), timeout=START_TIMEOUT)
        except asyncio.CancelledError:
            await self.end()
            raise
        if ready.is_set():
            return None
        if main.exit_code is None:
            await self.end()
            return f"the container did not start in {START_TIMEOUT:.0f} s"
        return errors.decode("utf-8", "replace")

    async def end(self) -> None:
        """Close its input, which ends it; the engine then removes it."""
        if self._main is None:
            return
        try:
            if self._main.exit_code is None:
                await self._main.close_input()
                async with asyncio.timeout(END_TIMEOUT):
                    await self._main.wait()
        except TimeoutError:
            await self.client.call("rm", "-f", self.name)
        finally:
            await self._main.stop()


async def choose_engine(options: DockerOptions, lifeline: Lifeline) -> EngineClient:
    """Return the client of the first engine that answers, after removing orphaned containers."""
    programs = [options.program] if options.program else ["docker", "podman"]
    environment = {"DOCKER_CLI_HINTS": "false", **options.environment}
    failure: BackendUnavailable | None = None
    for program in programs:
        client = EngineClient(program, environment, lifeline)
        if not client.installed():
            continue
        try:
            await reap_orphans(client)
        except BackendUnavailable as error:
            failure = failure or error
        else:
            return client
    raise failure or not_installed(" or ".join(programs))


async def reap_orphans(client: EngineClient) -> list[str]:
    """Remove containers whose owner ran on this machine and has ended; return their ids."""
    listed = await client.call("ps", "-aq", "--no-trunc", "--filter", f"label={MANAGED_LABEL}=1")
    if listed.exit_code:
        raise engine_unavailable(client.program, listed.errors, "")
    if not (ids := listed.output.split()):
        return []
    form = f'{{{{.Id}}}} {{{{index .Config.Labels "{OWNER_LABEL}"}}}}'
    # A container may be gone by now; the others are listed nevertheless.
    marks = await client.call("inspect", "--type", "container", "--format", form, *ids)
    rows = [line.partition(" ") for line in marks.output.splitlines()]
    orphans = [container for container, _, mark in rows if is_owner_gone(mark)]
    if orphans:
        log.info("removing %d containers of processes that are gone", len(orphans))
        await client.call("rm", "-f", *orphans)
    return orphans

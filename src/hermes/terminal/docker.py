"""A container of Docker or podman as the place where commands run.

The container lives as long as an attached `docker run` of ours whose standard input we hold open.
When we are killed that input closes, the container's main process ends, and the engine removes it.
What that misses (the engine was stopped, the machine lost power) is removed by the next start, by
the mark of its owner.
"""

import asyncio
import logging
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from hermes.core.errors import BackendUnavailable
from hermes.terminal.base import Running, Tell, tell_the_log
from hermes.terminal.local.lifeline import Lifeline
from hermes.terminal.local.process import COLUMNS, LINES
from hermes.terminal.remote import (
    HOME,
    WORKSPACE,
    Client,
    Mount,
    kept_folder,
    own_mark,
    owner_is_gone,
    parse_volume,
    safe_mount,
)

# What the engine's complaints mean, and what to do about each.


class Cause(msgspec.Struct, frozen=True):
    words: tuple[str, ...]
    """Any of these in the complaint, in lower case."""
    message: str
    hint: str


CAUSES = (
    Cause(
        ("permission denied while trying to connect", "connect: permission denied"),
        "you may not use the {program} engine",
        "join the group `docker` and log in again, or install podman, which needs no rights",
    ),
    Cause(
        (
            "cannot connect to the docker daemon",
            "is the docker daemon running",
            "cannot connect to podman",
            "error during connect",
            "dial unix",
        ),
        "the {program} engine does not run",
        "start it (`sudo systemctl start {program}`, or Docker Desktop), or install podman",
    ),
    Cause(
        ("manifest unknown", "pull access denied", "repository does not exist", "not found: man"),
        "there is no image {image} to be had",
        "check the name in terminal.docker_image; a private one needs `{program} login`",
    ),
    Cause(
        (
            *("no such host", "i/o timeout", "network is unreachable", "dial tcp", "tls handshake"),
            *("proxyconnect", "connection reset", "temporary failure in name resolution"),
        ),
        "the image {image} is not here and cannot be fetched: no connection to its registry",
        "connect to the network, bring it with `{program} load`, or set terminal.docker_image to "
        "one that `{program} images` lists",
    ),
    Cause(
        ("invalid reference format",),
        "{image!r} is not the name of an image",
        "correct terminal.docker_image",
    ),
    Cause(
        ("range of cpus is from",),
        "the machine has fewer processors than the container asks for",
        "lower terminal.container_cpu",
    ),
    Cause(
        ("minimum memory limit",),
        "the container's memory limit is too small",
        "raise terminal.container_memory",
    ),
    Cause(
        ("no space left on device",),
        "the disk is full",
        "free some, for instance with `{program} system prune`",
    ),
    Cause(
        ("executable file not found", 'exec: "sh"', "no such file or directory: oci"),
        "the image {image} has no shell",
        "set terminal.docker_image to an image with a POSIX shell",
    ),
)


def unavailable(program: str, complaint: str, image: str) -> BackendUnavailable:
    """The error for what the engine wrote on standard error."""
    lowered = complaint.lower()
    for cause in CAUSES:
        if any(words in lowered for words in cause.words):
            return BackendUnavailable(
                cause.message.format(program=program, image=image),
                hint=cause.hint.format(program=program, image=image),
            )
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    said = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")
    return BackendUnavailable(
        f"{program} could not make the container: {said or 'it gave no reason'}",
        hint=f"see what `{program} info` and `{program} run --rm {image} true` say",
    )


def not_installed(programs: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"{programs} is not installed",
        hint="install Docker or podman, or set terminal.backend to local or sandbox",
    )


# How a container is made: the settings, and the arguments for the engine that follow from them.

# Standard input is what ties the container to us: when it closes, `cat` ends, and so does the
# container. As first process the shell also takes in orphans where the engine has no `--init`.
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
    """Each field names the setting it comes from."""

    image: str
    """`terminal.docker_image`."""
    environment: dict[str, str] = {}
    """What the client program sees: `PATH`, `HOME`, `DOCKER_HOST` and the like."""
    task: str = "default"
    """Whose files these are; tasks of one name share what is kept."""
    volumes: tuple[str, ...] = ()
    """`terminal.docker_volumes`."""
    forward_env: dict[str, str] = {}
    """The variables named by `terminal.docker_forward_env`, with their values."""
    workspace: str = ""
    """The folder mounted at /workspace (`terminal.docker_mount_cwd_to_workspace`), or empty."""
    cpu: float = 1
    """`terminal.container_cpu`; 0 is no limit."""
    memory: int = 5120
    """`terminal.container_memory` in MB; 0 is no limit."""
    disk: int = 51200
    """`terminal.container_disk` in MB, where the storage driver can limit it; 0 is no limit."""
    persistent: bool = True
    """`terminal.container_persistent`: /workspace and /root outlive the container."""
    sandbox_dir: str = ""
    """`terminal.sandbox_dir`, never empty when `persistent`."""
    credential_files: tuple[Mount, ...] = ()
    """`terminal.credential_files`, from `containers.credential_mounts`."""
    program: str = ""
    """docker or podman; empty is docker when its engine answers, else podman."""
    network: str = ""
    """The network to join; empty is the engine's default, `none` is none."""


class Image(msgspec.Struct, frozen=True):
    """What an image says about itself."""

    user: str = ""
    workdir: str = ""

    @property
    def as_root(self) -> bool:
        return self.user.partition(":")[0] in ("", "root", "0")


class Picky(msgspec.Struct, frozen=True):
    """An option that some engines cannot take: how they complain, and what goes without it."""

    name: str
    complaints: tuple[str, ...]
    lost: str


PICKY = (
    Picky(
        "--storage-opt",
        ("storage-opt", "storage option", "pquota", "project quota"),
        "the disk of the container is not limited: the engine's storage driver cannot",
    ),
    Picky(
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
    """The arguments of `docker run`, but for the options named in `without`."""
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
        *HARDENING,
        *TMPFS,
        *(word for flag, value in chosen.items() if value is not None for word in (flag, *value)),
        *(word for key, value in labels.items() for word in ("--label", f"{key}={value}")),
        *(word for mount in mounts for word in ("--mount", mount.option())),
        *(word for variable in options.forward_env for word in ("--env", variable)),
        *("--entrypoint", "sh", options.image, "-c", MAIN),
    ]


def seed_arguments(options: DockerOptions, folder: str) -> list[str]:
    """Copy the image's own /root to `folder`, which will then hide it."""
    return [
        *("run", "--rm", "--pull=never", "--network", "none", "--user", "0", *HARDENING),
        *("--mount", Mount(folder, "/hermes-seed").option()),
        *("--entrypoint", "sh", options.image, "-c", "cp -a /root/. /hermes-seed/"),
    ]


def qualified(image: str) -> str:
    """The full name of what Docker would fetch; podman does not guess a registry."""
    first, slash, _ = image.partition("/")
    if not slash:
        return f"docker.io/library/{image}"
    if "." in first or ":" in first or first == "localhost":
        return image
    return f"docker.io/{image}"


# A program in a terminal inside a container.
#
# When the client of `docker exec -t` goes away, the terminal inside does not hang up. So what runs
# there carries a variable by which it is found and ended.

VARIABLE = "HERMES_TERMINAL"
DETACH_KEYS = "ctrl-],ctrl-],ctrl-],ctrl-]"
"""The default, Ctrl-P Ctrl-Q, would swallow a Ctrl-P that is typed."""

# Docker tells the terminal its size a moment after the program has begun.
SIZED = f'stty rows {LINES} cols {COLUMNS} 2>/dev/null; exec "$@"'
HANG_UP = r"""
alive() {
  found=
  for one in $(grep -ls "HERMES_TERMINAL=$1" /proc/[0-9]*/environ); do
    one=${one#/proc/}
    found="$found ${one%/environ}"
  done
  [ -n "$found" ]
}
alive "$1" && kill -s HUP $found 2>/dev/null
for _ in 1 2 3 4; do
  alive "$1" || exit 0
  sleep 0.1
done
kill -s KILL $found 2>/dev/null
exit 0
"""


class ContainerTerminal:
    """`Running` around the client."""

    def __init__(self, client: Client, container: str, running: Running, mark: str) -> None:
        self._client, self._container = client, container
        self._running, self._mark = running, mark

    @classmethod
    async def start(
        cls, client: Client, container: str, argv: Sequence[str], on_output: Callable[[bytes], None]
    ) -> "ContainerTerminal":
        mark = secrets.token_hex(8)
        running = await client.start(
            *("exec", "-i", "-t", "--detach-keys", DETACH_KEYS, "--env", f"{VARIABLE}={mark}"),
            *(container, "sh", "-c", SIZED, "hermes", *argv),
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
        # When the container is gone this fails, and there is nothing left to end.
        await self._client.call("exec", self._container, "sh", "-c", HANG_UP, "hermes", self._mark)


OURS = "hermes"
OWNER = "hermes.owner"
TASK = "hermes.task"
SECONDS_TO_START = 60.0
SECONDS_TO_END = 5.0

log = logging.getLogger(__name__)


class DockerHost:
    """`tell` gets a line for the user: the progress of a download, a container made anew."""

    name = "docker"

    def __init__(
        self,
        options: DockerOptions,
        lifeline: Lifeline,
        tell: Tell = tell_the_log,
    ) -> None:
        self._options, self._lifeline, self._tell = options, lifeline, tell
        self._lock = asyncio.Lock()
        self._refused: frozenset[str] = frozenset()
        self._made: _Container | None = None

    @property
    def container(self) -> str:
        """The name of the container that runs now, or empty."""
        return self._made.name if self._made and self._made.alive else ""

    async def open(self) -> None:
        await self._container()

    async def start(
        self,
        argv: Sequence[str],
        *,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        pty: bool = False,
    ) -> Running:
        made = await self._container()
        if pty:
            return await ContainerTerminal.start(made.client, made.name, argv, on_output)
        return await made.client.start(
            *("exec", "-i", made.name, *argv), on_output=on_output, on_error=on_error
        )

    async def close(self) -> None:
        async with self._lock:
            made, self._made = self._made, None
            if made is not None:
                await made.end()

    async def _container(self) -> "_Container":
        """The running container; one that has died since is made anew, which is told."""
        async with self._lock:
            if self._made is None:
                self._made = await self._make()
            elif not self._made.alive:
                died, self._made = self._made, None
                self._made = await self._make()
                self._tell(
                    f"the container {died.name} had ended; a new one was made "
                    f"({'kept files are there' if self._options.persistent else 'it is empty'})"
                )
            return self._made

    async def _make(self) -> "_Container":
        client = await choose_engine(self._options, self._lifeline)
        image = await self._image(client)
        mounts = await self._mounts(client, image)
        while True:
            made = _Container(client, f"hermes-{secrets.token_hex(6)}")
            arguments = run_arguments(
                self._options,
                name=made.name,
                labels={OURS: "1", OWNER: own_mark(), TASK: self._options.task},
                mounts=mounts,
                workdir=self._workdir(image),
                without=self._refused,
            )
            complaint = await made.begin(arguments, self._options.forward_env)
            if complaint is None:
                return made
            self._go_without(client, complaint)

    def _go_without(self, client: Client, complaint: str) -> None:
        """Give up the one option the engine complains about, or raise."""
        for option in PICKY:
            refused = any(words in complaint.lower() for words in option.complaints)
            if refused and option.name not in self._refused:
                self._refused |= {option.name}
                log.warning("%s", option.lost)
                return
        raise unavailable(client.program, complaint, self._options.image)

    async def _image(self, client: Client) -> Image:
        """What the image says about itself; it is fetched when it is not here."""
        image = self._options.image
        asked = ("image", "inspect", "--format", "{{json .Config}}", "--", image)
        answer = await client.call(*asked)
        if answer.exit_code:
            self._tell(f"fetching the image {image}")
            name = qualified(image) if client.program == "podman" else image
            pulled = await client.call("pull", "--", name, timeout=None, tell=self._tell)
            if pulled.exit_code:
                raise unavailable(client.program, pulled.errors, image)
            answer = await client.call(*asked)
        try:
            config = msgspec.json.decode(answer.output or "{}")
        except msgspec.DecodeError:
            raise unavailable(client.program, answer.errors or answer.output, image) from None
        return Image(config.get("User") or "", config.get("WorkingDir") or "")

    async def _mounts(self, client: Client, image: Image) -> list[Mount]:
        options = self._options
        mounts = [parse_volume(volume) for volume in options.volumes]
        if options.workspace:
            mounts.append(safe_mount(options.workspace, WORKSPACE))
        if options.persistent:
            kept = kept_folder(options.sandbox_dir, options.task)
            if not options.workspace:
                mounts.append(Mount(_folder(kept / "workspace", image), WORKSPACE))
            if image.as_root:
                mounts.append(Mount(await self._home(client, kept / "root"), HOME))
        return [*mounts, *options.credential_files]

    async def _home(self, client: Client, folder: Path) -> str:
        """The kept /root. At first it holds what the image has there."""
        if not folder.exists():
            new = Path(tempfile.mkdtemp(prefix="new-", dir=folder.parent))
            answer = await client.call(*seed_arguments(self._options, str(new)))
            if answer.exit_code:
                raise unavailable(client.program, answer.errors, self._options.image)
            if not folder.exists():  # another process of the same task may have been faster
                new.rename(folder)
        return str(folder)

    def _workdir(self, image: Image) -> str:
        """Where commands begin: the user's folder, one that is kept, or the image's own."""
        if self._options.workspace:
            return WORKSPACE
        if self._options.persistent:
            return HOME if image.as_root else WORKSPACE
        own = image.workdir if image.workdir != "/" else ""
        return own or (HOME if image.as_root else "")


class _Container:
    """One container and the client that it lives by."""

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name = client, name
        self._main: Running | None = None

    @property
    def alive(self) -> bool:
        return self._main is not None and self._main.exit_code is None

    async def begin(self, arguments: Sequence[str], environment: dict[str, str]) -> str | None:
        """None once it runs, else what the engine complained about."""
        ready = asyncio.Event()
        errors = bytearray()
        self._main = main = await self.client.start(
            *arguments,
            on_output=lambda _: ready.set(),
            on_error=errors.extend,
            extra=environment,
        )
        ended = asyncio.ensure_future(main.wait())
        started = asyncio.ensure_future(ready.wait())
        try:
            done, _ = await asyncio.wait(
                (ended, started),
                timeout=SECONDS_TO_START,
                return_when=asyncio.FIRST_COMPLETED,
            )
        except asyncio.CancelledError:
            await self.end()
            raise
        finally:
            started.cancel()
            ended.cancel()
        if ready.is_set():
            return None
        if not done:
            await self.end()
            return f"the container did not start in {SECONDS_TO_START:.0f} s"
        return errors.decode("utf-8", "replace")

    async def end(self) -> None:
        """Close its input, which ends it; the engine then removes it."""
        if self._main is None:
            return
        try:
            if self._main.exit_code is None:
                await self._main.close_input()
                async with asyncio.timeout(SECONDS_TO_END):
                    await self._main.wait()
        except TimeoutError:
            await self.client.call("rm", "-f", self.name)
        finally:
            await self._main.stop()


async def choose_engine(options: DockerOptions, lifeline: Lifeline) -> Client:
    """The client of the first engine that answers; what dead processes left there is removed."""
    programs = [options.program] if options.program else ["docker", "podman"]
    environment = {"DOCKER_CLI_HINTS": "false", **options.environment}
    failure: BackendUnavailable | None = None
    for program in programs:
        client = Client(program, environment, lifeline)
        if not client.installed():
            continue
        try:
            await reap_orphans(client)
        except BackendUnavailable as error:
            failure = failure or error
        else:
            return client
    raise failure or not_installed(" or ".join(programs))


async def reap_orphans(client: Client) -> list[str]:
    """Remove the containers whose owner ran on this machine and is gone; returns their ids."""
    listed = await client.call("ps", "-aq", "--no-trunc", "--filter", f"label={OURS}=1")
    if listed.exit_code:
        raise unavailable(client.program, listed.errors, "")
    if not (ids := listed.output.split()):
        return []
    form = f'{{{{.Id}}}} {{{{index .Config.Labels "{OWNER}"}}}}'
    # One may have gone since: then the others are told all the same.
    marks = await client.call("inspect", "--type", "container", "--format", form, *ids)
    rows = [line.partition(" ") for line in marks.output.splitlines()]
    orphans = [container for container, _, mark in rows if owner_is_gone(mark)]
    if orphans:
        log.info("removing %d containers of processes that are gone", len(orphans))
        await client.call("rm", "-f", *orphans)
    return orphans


def _folder(path: Path, image: Image) -> str:
    """A kept folder. The folder around it is private; a user of the image may write in this one."""
    path.mkdir(mode=0o700, exist_ok=True)
    if not image.as_root:
        path.chmod(0o777)
    return str(path)

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
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hermes.core.errors import BackendUnavailable
from hermes.terminal.base import Running, Tell, tell_the_log
from hermes.terminal.containers.client import Client
from hermes.terminal.containers.docker_errors import not_installed, unavailable
from hermes.terminal.containers.docker_options import (
    PICKY,
    DockerOptions,
    Image,
    qualified,
    run_arguments,
    seed_arguments,
)
from hermes.terminal.containers.docker_terminal import ContainerTerminal
from hermes.terminal.containers.mounts import (
    HOME,
    WORKSPACE,
    Mount,
    kept_folder,
    parse_volume,
    safe_mount,
)
from hermes.terminal.containers.owner import own_mark, owner_is_gone
from hermes.terminal.here.lifeline import Lifeline

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

"""An instance of Apptainer (or Singularity) as the place where commands run.

An instance is a process of its own that would outlive us. A small watcher holds a pipe of ours and
stops the instance when that closes; its name carries the mark by which the next start finds one
that was left all the same.
"""

import asyncio
import logging
import secrets
import subprocess
from collections.abc import Callable, Sequence

import msgspec

from hermes.core.errors import BackendUnavailable
from hermes.terminal.base import Running, Tell, tell_the_log
from hermes.terminal.local.lifeline import Lifeline
from hermes.terminal.remote import HOME, Answer, Client, Mount, kept_folder, own_mark, owner_is_gone

PROGRAMS = ("apptainer", "singularity")
PREFIX = "hermes."
LOOK_EVERY = 5.0
"""Seconds between two looks whether the instance still runs; each is a program started."""

WATCHER = 'cat >/dev/null; exec "$1" instance stop -t 2 "$2"'

LIMITS = ("cgroup", "--cpus", "--memory")
"""Words of the complaint when the machine cannot limit an instance."""

log = logging.getLogger(__name__)


class SingularityOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Each field names the setting it comes from."""

    image: str
    """`terminal.singularity_image`: `docker://…` or a file."""
    environment: dict[str, str] = {}
    """What the client program sees: `PATH`, `HOME`, `APPTAINER_CACHEDIR` and the like."""
    task: str = "default"
    """Whose files these are; tasks of one name share what is kept."""
    forward_env: dict[str, str] = {}
    """Variables that commands see, with their values."""
    cpu: float = 1
    """`terminal.container_cpu`, where the machine can limit it; 0 is no limit."""
    memory: int = 5120
    """`terminal.container_memory` in MB, where the machine can limit it; 0 is no limit."""
    persistent: bool = True
    """`terminal.container_persistent`: changes are kept in an overlay."""
    sandbox_dir: str = ""
    """`terminal.sandbox_dir`, never empty when `persistent`."""
    credential_files: tuple[Mount, ...] = ()
    """`terminal.credential_files`, from `containers.credential_mounts`."""
    program: str = ""
    """apptainer or singularity; empty is the first that is installed."""


class SingularityHost:
    name = "singularity"

    def __init__(
        self,
        options: SingularityOptions,
        lifeline: Lifeline,
        tell: Tell = tell_the_log,
    ) -> None:
        self._options, self._lifeline, self._tell = options, lifeline, tell
        self._lock = asyncio.Lock()
        self._client: Client | None = None
        self._instance = ""
        self._watcher: subprocess.Popen[bytes] | None = None
        self._limited = True
        self._looked = 0.0

    async def open(self) -> None:
        await self._ready()

    async def start(
        self,
        argv: Sequence[str],
        *,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        pty: bool = False,
    ) -> Running:
        client = await self._ready()
        return await client.start(
            *("exec", "--cleanenv", "--pwd", HOME, f"instance://{self._instance}", *argv),
            on_output=on_output,
            on_error=on_error,
            pty=pty,
            extra=self._variables(),
        )

    async def close(self) -> None:
        async with self._lock:
            watcher, self._watcher = self._watcher, None
            if watcher is not None:
                await _release(watcher)

    def _variables(self) -> dict[str, str]:
        """Variables for the inside, under the names both programs take them by."""
        prefixes = [f"{program.upper()}ENV_" for program in PROGRAMS]
        variables = self._options.forward_env.items()
        return {prefix + name: value for prefix in prefixes for name, value in variables}

    async def _ready(self) -> Client:
        """The client, once the instance runs; one that has ended is made anew, which is told."""
        async with self._lock:
            client = self._client = self._client or self._find()
            if self._watcher is None:
                await self._reap_orphans(client)
                await self._begin(client)
            elif not await self._seen(client):
                ended = self._instance
                await _release(self._watcher)
                await self._begin(client)
                self._tell(f"the instance {ended} had ended; a new one was made")
            return client

    async def _seen(self, client: Client) -> bool:
        """Whether the instance runs, as far as was looked a moment ago."""
        now = asyncio.get_running_loop().time()
        if now - self._looked > LOOK_EVERY:
            if self._instance not in await self._instances(client):
                return False
            self._looked = now
        return True

    def _find(self) -> Client:
        programs = (self._options.program,) if self._options.program else PROGRAMS
        for program in programs:
            client = Client(program, self._options.environment, self._lifeline)
            if client.installed():
                return client
        raise BackendUnavailable(
            f"{' or '.join(programs)} is not installed",
            hint="install Apptainer, or choose another terminal.backend",
        )

    async def _begin(self, client: Client) -> None:
        self._instance = f"{PREFIX}{own_mark().replace(':', '.')}.{secrets.token_hex(4)}"
        answer = await self._start_instance(client)
        if answer.exit_code and self._limited and any(word in answer.errors for word in LIMITS):
            log.warning("%s cannot limit processor and memory here", client.program)
            self._limited = False
            answer = await self._start_instance(client)
        if answer.exit_code:
            raise self._unavailable(client.program, answer.errors)
        self._watcher = _watch(client.program, self._instance, self._options.environment)

    async def _start_instance(self, client: Client) -> Answer:
        """Fetching and converting an image takes minutes: its lines are shown, no time limit."""
        options = self._options
        arguments = ["instance", "start", "--containall", "--no-privs"]
        if options.persistent:
            kept = kept_folder(options.sandbox_dir, options.task)
            overlay = kept / "overlay"
            overlay.mkdir(mode=0o700, exist_ok=True)
            arguments += ["--overlay", str(overlay)]
        else:
            kept = self._lifeline.folder
            arguments += ["--writable-tmpfs"]
        home = kept / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        arguments += ["--home", f"{home}:{HOME}"]
        if self._limited and options.cpu:
            arguments += ["--cpus", f"{options.cpu:g}"]
        if self._limited and options.memory:
            arguments += ["--memory", f"{options.memory}M"]
        for mount in options.credential_files:
            arguments += ["--bind", mount.bind()]
        arguments += [options.image, self._instance]
        return await client.call(*arguments, timeout=None, tell=self._tell)

    async def _instances(self, client: Client) -> list[str]:
        answer = await client.call("instance", "list", "--json")
        if answer.exit_code:
            raise self._unavailable(client.program, answer.errors)
        found = msgspec.json.decode(answer.output or "{}").get("instances") or []
        return [instance["instance"] for instance in found]

    async def _reap_orphans(self, client: Client) -> None:
        for name in await self._instances(client):
            *mark, _ = name.removeprefix(PREFIX).rsplit(".", 3)
            if name.startswith(PREFIX) and owner_is_gone(":".join(mark)):
                log.info("stopping %s: its process is gone", name)
                await client.call("instance", "stop", "-t", "2", name)

    def _unavailable(self, program: str, complaint: str) -> BackendUnavailable:
        lines = [line.strip() for line in complaint.splitlines() if line.strip()]
        fatal = [line for line in lines if line.startswith("FATAL")]
        said = (fatal or lines or ["it gave no reason"])[-1].removeprefix("FATAL:").strip()
        hint = f"try `{program} exec {self._options.image} true`"
        if "overlay" in complaint.lower():
            hint = "this machine cannot keep an overlay: set terminal.container_persistent to false"
        return BackendUnavailable(f"{program} could not start the instance: {said}", hint=hint)


def _watch(program: str, instance: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Not under the lifeline, which would kill it at its work, and in a session of its own."""
    return subprocess.Popen(
        ["/bin/sh", "-c", WATCHER, "hermes-watcher", program, instance],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=environment,
        start_new_session=True,
    )


async def _release(watcher: subprocess.Popen[bytes]) -> None:
    """Let it stop its instance; returns when that is done."""
    if watcher.stdin is not None:
        watcher.stdin.close()
    await asyncio.to_thread(watcher.wait)

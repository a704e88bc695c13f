"""The Singularity backend: commands run in an Apptainer or Singularity instance.

An instance is a separate process that would outlive this one. A watcher holds a pipe from this
process and stops the instance when the pipe closes. The instance's name contains the owner mark, by
which the next start finds an instance that was left running nevertheless.
"""

import asyncio
import logging
import secrets
import subprocess

import msgspec

from hermes.sdk.terminal import (
    HOME,
    Argv,
    BackendContext,
    BackendUnavailable,
    EngineClient,
    EngineResult,
    Lifeline,
    Running,
    Sink,
    is_owner_gone,
    owner_mark,
    persistent_folder,
)

PROGRAMS = ("apptainer", "singularity")
PREFIX = "hermes."
CHECK_INTERVAL = 5.0
"""Seconds between two checks that the instance is running; each check starts a program."""

WATCHER = 'cat >/dev/null; exec "$1" instance stop -t 2 "$2"'

LIMIT_ERRORS = ("cgroup", "--cpus", "--memory")
"""Words in the error message when the machine cannot limit an instance."""

log = logging.getLogger(__name__)


class SingularityHost:
    name = "singularity"

    def __init__(self, context: BackendContext) -> None:
        self._context, self._settings = context, context.settings
        self._notify = context.notify
        self._lifeline: Lifeline | None = None
        self._lock = asyncio.Lock()
        self._client: EngineClient | None = None
        self._instance = ""
        self._watcher: subprocess.Popen[bytes] | None = None
        self._limits_supported = True
        self._checked_at = 0.0

    async def open(self) -> None:
        await self._ensure_instance()

    async def start(
        self, argv: Argv, *, on_output: Sink, on_error: Sink | None = None, pty: bool = False
    ) -> Running:
        client = await self._ensure_instance()
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
                await _close_watcher(watcher)
            lifeline, self._lifeline, self._client = self._lifeline, None, None
            if lifeline is not None:
                await lifeline.close()

    def _variables(self) -> dict[str, str]:
        """Return variables for the inside, under the names that both programs read."""
        prefixes = [f"{program.upper()}ENV_" for program in PROGRAMS]
        variables = self._context.forward_env.items()
        return {prefix + name: value for prefix in prefixes for name, value in variables}

    async def _ensure_instance(self) -> EngineClient:
        """Return the client of the instance; start a new one, and say so, if it has ended."""
        async with self._lock:
            client = self._client = self._client or self._find_client()
            if self._watcher is None:
                for name in await self._list_instances(client):
                    *mark, _ = name.removeprefix(PREFIX).rsplit(".", 3)
                    if name.startswith(PREFIX) and is_owner_gone(":".join(mark)):
                        log.info("stopping %s: its process is gone", name)
                        await client.call("instance", "stop", "-t", "2", name)
                await self._start(client)
            elif not await self._is_running(client):
                ended = self._instance
                await _close_watcher(self._watcher)
                await self._start(client)
                self._notify(f"the instance {ended} had ended; a new one was made")
            return client

    async def _is_running(self, client: EngineClient) -> bool:
        """Return whether the instance is running, checked every `CHECK_INTERVAL` seconds."""
        now = asyncio.get_running_loop().time()
        if now - self._checked_at > CHECK_INTERVAL:
            if self._instance not in await self._list_instances(client):
                return False
            self._checked_at = now
        return True

    def _find_client(self) -> EngineClient:
        self._lifeline = self._lifeline or Lifeline()
        for program in PROGRAMS:
            client = EngineClient(program, self._context.environment, self._lifeline)
            if client.installed():
                return client
        raise BackendUnavailable(
            f"{' or '.join(PROGRAMS)} is not installed",
            hint="install Apptainer, or choose another terminal.backend",
        )

    async def _start(self, client: EngineClient) -> None:
        self._instance = f"{PREFIX}{owner_mark().replace(':', '.')}.{secrets.token_hex(4)}"
        answer = await self._start_instance(client)
        if (
            answer.exit_code
            and self._limits_supported
            and any(word in answer.errors for word in LIMIT_ERRORS)
        ):
            log.warning("%s cannot limit processor and memory here", client.program)
            self._limits_supported = False
            answer = await self._start_instance(client)
        if answer.exit_code:
            raise self._unavailable(client.program, answer.errors)
        self._watcher = _start_watcher(client.program, self._instance, self._context.environment)

    async def _start_instance(self, client: EngineClient) -> EngineResult:
        """Start the instance without a timeout: pulling and converting an image takes minutes."""
        context, settings = self._context, self._settings
        arguments = ["instance", "start", "--containall", "--no-privs"]
        if settings["container_persistent"]:
            kept = persistent_folder(context.storage, context.task)
            overlay = kept / "overlay"
            overlay.mkdir(mode=0o700, exist_ok=True)
            arguments += ["--overlay", str(overlay)]
        else:
            assert self._lifeline is not None  # from `_find_client`
            kept = self._lifeline.folder
            arguments += ["--writable-tmpfs"]
        home = kept / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        arguments += ["--home", f"{home}:{HOME}"]
        if self._limits_supported and (cpu := settings["container_cpu"]):
            arguments += ["--cpus", f"{cpu:g}"]
        if self._limits_supported and (memory := settings["container_memory"]):
            arguments += ["--memory", f"{memory}M"]
        for mount in context.credential_mounts:
            arguments += ["--bind", mount.bind()]
        arguments += [settings["singularity_image"], self._instance]
        return await client.call(*arguments, timeout=None, notify=self._notify)

    async def _list_instances(self, client: EngineClient) -> list[str]:
        answer = await client.call("instance", "list", "--json")
        if answer.exit_code:
            raise self._unavailable(client.program, answer.errors)
        found = msgspec.json.decode(answer.output or "{}").get("instances") or []
        return [instance["instance"] for instance in found]

    def _unavailable(self, program: str, complaint: str) -> BackendUnavailable:
        lines = [line.strip() for line in complaint.splitlines() if line.strip()]
        fatal = [line for line in lines if line.startswith("FATAL")]
        reason = (fatal or lines or ["it gave no reason"])[-1].removeprefix("FATAL:").strip()
        hint = f"try `{program} exec {self._settings['singularity_image']} true`"
        if "overlay" in complaint.lower():
            hint = "this machine cannot keep an overlay: set terminal.container_persistent to false"
        return BackendUnavailable(f"{program} could not start the instance: {reason}", hint=hint)


def _start_watcher(
    program: str, instance: str, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start the watcher in its own session: the lifeline would kill it too early."""
    return subprocess.Popen(
        ["/bin/sh", "-c", WATCHER, "hermes-watcher", program, instance],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=environment,
        start_new_session=True,
    )


async def _close_watcher(watcher: subprocess.Popen[bytes]) -> None:
    """Let the watcher stop its instance; returns when that is done."""
    if watcher.stdin is not None:
        watcher.stdin.close()
    await asyncio.to_thread(watcher.wait)

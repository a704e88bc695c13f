"""The process of the embedded model: started on demand, kept between turns."""

import asyncio
import hashlib
import os
import secrets
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec

from hermes.core.errors import LocalModelError
from hermes.core.model import EmitModelEvent, Model, ModelRequest, Reply
from hermes.providers.local.serve import ServeAnswer, ServeOrder
from hermes.providers.policy import ModelWrapper
from hermes.util.extras import is_installed
from hermes.util.http import AnyClient, HttpError, fetch
from hermes.util.lazy import late_pattern

RUNTIME = "xllamacpp"
SERVE_ARGUMENTS = ("-I", "-m", "hermes.providers.local.serve")
START_SECONDS = 120.0
STOP_SECONDS = 2.0

_LOGGED_ERROR = late_pattern(r" E [^:\n]+: (.+)")


def runtime_is_installed() -> bool:
    return is_installed(RUNTIME)


class ModelProcess:
    """A child process that serves one GGUF file over HTTP on loopback."""

    def __init__(self, process: asyncio.subprocess.Process, address: str, api_key: str) -> None:
        self._process = process
        self._drain = asyncio.ensure_future(_drain_stderr(process))
        self.base_url, self.api_key = f"{address}/v1", api_key

    @classmethod
    async def start(cls, model: Path, *, context: int, threads: int, cache: Path) -> "ModelProcess":
        """Start the process. Raises `LocalModelError` when the file cannot be served."""
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        order = ServeOrder(
            model=str(model),
            alias=model.stem,
            api_key=secrets.token_hex(16),
            context=context,
            threads=threads,
            slots=f"{cache}/",
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *SERVE_ARGUMENTS,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal is meant for the agent
        )
        async with AsyncExitStack() as undo:
            undo.push_async_callback(_stop, process)
            answer = await asyncio.wait_for(_handshake(process, order), START_SECONDS)
            undo.pop_all()
        return cls(process, answer.address, order.api_key)

    async def close(self) -> None:
        self._drain.cancel()
        await _stop(self._process)


async def _handshake(process: asyncio.subprocess.Process, order: ServeOrder) -> ServeAnswer:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise LocalModelError("the model process has no pipes")
    with suppress(ConnectionError):  # it exited at once; its stderr says why
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        await process.stdin.drain()
    line = await process.stdout.readline()
    if not line:
        stderr = (await process.stderr.read()).decode("utf-8", "replace").strip()
        last = stderr.splitlines()[-1] if stderr else f"exit code {await process.wait()}"
        raise LocalModelError(f"the model process did not start: {last}")
    answer = msgspec.json.decode(line, type=ServeAnswer)
    if answer.error:
        # The runtime only reports failure; the cause is the first error it logged.
        logged = _LOGGED_ERROR.search((await process.stderr.read()).decode("utf-8", "replace"))
        raise LocalModelError(
            f"{order.model} cannot be used: {logged[1] if logged else answer.error}",
            hint="`hermes local list` shows the models, `hermes local use 0.5b` goes back",
        )
    return answer


async def _drain_stderr(process: asyncio.subprocess.Process) -> None:
    """Read the runtime's stderr, so that it never blocks on a full pipe."""
    while process.stderr is not None and await process.stderr.read(65_536):
        continue


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Stop the child. It exits when its standard input is closed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


# Threads.

SAMPLE_SECONDS = 0.1
BUSY_PERCENT = 50.0  #: Above this load a core counts as busy.


def thread_count(wanted: int) -> int:
    """Return `wanted` if positive, else the number of idle cores, at least one.

    With more threads than idle cores every step waits for the slowest thread.
    """
    if wanted > 0:
        return wanted
    import psutil  # slow to load; only the start of a model needs it

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    usable = min(allowed or 1, psutil.cpu_count(logical=False) or 1)
    busy = sum(share > BUSY_PERCENT for share in psutil.cpu_percent(SAMPLE_SECONDS, percpu=True))
    return max(1, min(usable, (psutil.cpu_count() or 1) - busy))


# The processed start of the prompt, stored on disk: processing it again takes seconds.

REQUEST_SECONDS = 10.0
MIN_SAVED_TOKENS = 200  #: A shorter prompt is processed in about a second.


class PromptPrefixCache(ModelWrapper):
    """A `Model` in front of the model process that stores and restores the prompt prefix.

    Before the first call with a system prompt it restores what an earlier run saved for it. If
    that is missing or covers less than half of the prompt, it saves after the reply, unless the
    prompt is short. A failure is ignored: the prompt is processed again.
    """

    def __init__(
        self, inner: Model, process: ModelProcess, client: AnyClient, folder: Path
    ) -> None:
        super().__init__(inner)
        self._process, self._client, self._folder = process, client, folder
        self._latest = ""  #: File of the latest system prompt, which the process has in memory.

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        file = prefix_file_name(request)
        first, self._latest = file != self._latest, file
        restored = first and await self._slot_action("restore", file)
        reply = await self._inner.call(request, emit)
        # A saved prefix of other examples matches the system prompt only.
        is_useful = restored and 2 * reply.usage.cache_read > reply.usage.prompt
        if first and not is_useful and reply.usage.prompt >= MIN_SAVED_TOKENS:
            # Older prefixes change with the version of Hermes and its tools.
            for old in self._folder.glob("prefix-*.bin"):
                old.unlink(missing_ok=True)
            await self._slot_action("save", file)
        return reply

    async def _slot_action(self, action: str, file: str) -> bool:
        if action == "restore" and not (self._folder / file).is_file():
            return False
        address = self._process.base_url.removesuffix("/v1")
        try:
            answer = await fetch(
                self._client,
                "POST",
                f"{address}/slots/0?action={action}",
                json={"filename": file},
                headers={"authorization": f"Bearer {self._process.api_key}"},
                seconds=REQUEST_SECONDS,
            )
        except HttpError:
            return False
        return answer.status == 200


def prefix_file_name(request: ModelRequest) -> str:
    """Return a file name for the start of the prompt."""
    front = getattr(request.messages[0], "text", "") if request.messages else ""
    return f"prefix-{hashlib.sha256(front.encode()).hexdigest()[:16]}.bin"

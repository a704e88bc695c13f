"""The processes of a training run: the supervisor of a trainer, and the rollouts of a test.

`python -m hermes.envs.training_worker run FOLDER` detaches from its parent, so that a run outlives
the chat that started it. It serves the capture endpoint, runs the trainer's command, copies its
output to the log without secrets, and writes how it ended. `test FOLDER` runs rollouts of a set of
tasks in a process of its own, because it runs the code of the tasks.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import yaml

from hermes.config.environment import child_environment
from hermes.config.home import Home, use_home
from hermes.config.loader import Loaded, load
from hermes.core.errors import HermesError
from hermes.envs.capture import CaptureServer, RolloutResult
from hermes.envs.trace import Trace, write_traces
from hermes.envs.training import (
    CONFIG,
    LOG,
    METRICS,
    PLAN,
    STATE,
    TRACES,
    RolloutOutcome,
    RunPlan,
    RunState,
)
from hermes.envs.training_environments import AGENT_FIELDS
from hermes.terminal import Lifeline, process_family, stop_family
from hermes.util import files
from hermes.util.processes import PIECE_BYTES, pipe, process_name

READY = b"ready"
MAX_CONCURRENT = 16  #: Rollouts of a test that run at the same time.
LAST_OUTPUT_SECONDS = 5.0
"""A program that left the family of the trainer may hold its output open; it is not waited for."""


def read_plan(folder: Path) -> RunPlan:
    return msgspec.json.decode((folder / PLAN).read_bytes(), type=RunPlan)


def open_capture(
    loaded: Loaded, model: str, on_finish: Callable[[Trace], None] = lambda _trace: None
) -> CaptureServer:
    """Return the capture endpoint for the model server of the settings, not yet started."""
    server = loaded.settings.rl.server
    key = loaded.variable(server.key_env) if server.key_env else ""
    return CaptureServer(
        server.url,
        server.kind,
        model=model,
        api_key=key or "",
        parser=server.parser,
        on_finish=on_finish,
    )


# The supervisor


class TrainerSupervisor:
    """Runs the trainer of one run and records how it ended."""

    def __init__(self, folder: Path, plan: RunPlan) -> None:
        self._folder, self._plan = folder, plan
        self._loaded = load(Home(Path(plan.home)))
        self._settings = self._loaded.settings.rl
        self._state = RunState(status="starting", supervisor=process_name(), started_at=time.time())
        self._stop = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        """Run until the trainer has ended; call `ready` when it has started."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop.set)
        loaded, settings = self._loaded, self._settings
        keys = [name for name in settings.keys if loaded.variable(name)]
        async with AsyncExitStack() as stack:
            capture = await self._capture(stack)
            root = capture.url("").removesuffix("//v1") if capture else ""
            self._write_config()
            lifeline = Lifeline()
            stack.push_async_callback(lifeline.close)
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                settings.trainer_command,
                cwd=self._folder,
                env={**child_environment(keys, dict(loaded.saved)), **self._variables(root)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
            # If this process is killed, the trainer ends too.
            os.write(lifeline.descriptor, b"+ %d\n" % process.pid)
            self._write(status="running", capture_url=root)
            ready()
            code = await self._wait(process, tuple(loaded.secrets()))
        if capture is not None:
            for rollout in capture.rollouts():
                capture.finish(rollout, RolloutResult(exit_reason="stopped"))
        if self._stop.is_set():
            self._write(status="stopped", exit_code=code, ended_at=time.time())
        else:
            status = "finished" if code == 0 else "failed"
            self._write(status=status, exit_code=code, ended_at=time.time())

    async def _capture(self, stack: AsyncExitStack) -> CaptureServer | None:
        if not self._settings.server.url:
            return None

        def keep(trace: Trace) -> None:
            write_traces(self._folder / TRACES, [trace])

        capture = open_capture(self._loaded, self._plan.model, keep)
        return await stack.enter_async_context(capture)

    def _write_config(self) -> None:
        """Write the configuration as environment scripts read it with `--config`. They ask the
        model server itself: they have a capture endpoint of their own."""
        server, sections = self._settings.server, {"env": self._plan.config}
        if server.url:
            sections["openai"] = {
                "base_url": f"{server.url.rstrip('/').removesuffix('/v1')}/v1",
                "model_name": self._plan.model,
                "server_type": "openai" if server.kind == "chat" else server.kind,
            }
        text = yaml.safe_dump(sections, sort_keys=False, allow_unicode=True)
        files.write_text(self._folder / CONFIG, text)

    def _variables(self, root: str) -> dict[str, str]:
        plan, folder = self._plan, self._folder
        found = {
            "RUN_ID": plan.id,
            "RUN_DIR": str(folder),
            "CONFIG": str(folder / CONFIG),
            "METRICS": str(folder / METRICS),
            "TRACES": str(folder / TRACES) if root else "",
            "ENVIRONMENT": plan.environment,
            "ENVIRONMENT_SOURCE": plan.source,
            "CAPTURE_URL": root,
            "MODEL_SERVER_URL": self._settings.server.url,
            "MODEL": plan.model,
        }
        return {f"HERMES_RL_{name}": value for name, value in found.items() if value}

    async def _wait(
        self, process: asyncio.subprocess.Process, secrets: tuple[str, ...]
    ) -> int | None:
        """Wait for the end of the trainer, or end it; leave nothing that it started."""
        with (self._folder / LOG).open("ab", buffering=0) as log:
            copying = asyncio.ensure_future(copy_output(pipe(process.stdout), log, secrets))
            ended = asyncio.ensure_future(process.wait())
            stopping = asyncio.ensure_future(self._stop.wait())
            await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
            family = process_family(process.pid)
            if not ended.done():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                await asyncio.wait({ended}, timeout=self._settings.stop_seconds)
            await stop_family(process.pid)
            for left in process_family(process.pid, family):  # in sessions of their own
                with contextlib.suppress(ProcessLookupError):
                    os.kill(left.pid, signal.SIGKILL)
            await ended
            stopping.cancel()
            await asyncio.wait({copying}, timeout=LAST_OUTPUT_SECONDS)
            copying.cancel()
        return process.returncode

    def fail(self, error: BaseException) -> None:
        """Record that the run could not be started or supervised."""
        message = f"{type(error).__name__}: {error}"
        self._write(status="failed", message=message, ended_at=time.time())

    def _write(self, **changes: Any) -> None:
        self._state = msgspec.structs.replace(self._state, **changes)
        files.write_bytes(self._folder / STATE, msgspec.json.encode(self._state))


async def copy_output(
    stream: asyncio.StreamReader, log: BinaryIO, secrets: tuple[str, ...]
) -> None:
    """Copy output to the log. Secrets are replaced, also where they arrive in two pieces."""
    values = [value.encode() for value in secrets]
    longest = max(map(len, values), default=0)
    held = b""
    while piece := await stream.read(PIECE_BYTES):
        held += piece
        for value in values:
            held = held.replace(value, b"[removed]")
        # What may be the beginning of a secret waits for the rest of it.
        keep = next(
            (
                size
                for size in range(min(longest - 1, len(held)), 0, -1)
                if any(value.startswith(held[-size:]) for value in values)
            ),
            0,
        )
        log.write(held[: len(held) - keep])
        held = held[len(held) - keep :]
    log.write(held)


# Rollouts of a test


async def run_test(plan: RunPlan) -> None:
    """Run the rollouts of a test and print their results, one JSON object a line."""
    # A supervisor, which may live for days, does not need the whole agent.
    from hermes.envs.runner import ModelEndpoint, RolloutOptions, RolloutRunner
    from hermes.envs.taskset import load_tasks

    test, config = plan.test, {**AGENT_FIELDS, **plan.config}
    assert test is not None  # the plan of a test
    tasks = load_tasks(plan.source)[: test.steps]
    options = RolloutOptions(
        toolsets=tuple(config.get("enabled_toolsets") or ("terminal", "file")),
        backend=config["terminal_backend"],
        max_turns=config["max_agent_turns"],
        attempts=1,
    )
    sampling = {"temperature": config["agent_temperature"]}
    limit = asyncio.Semaphore(MAX_CONCURRENT)
    async with RolloutRunner(options) as runner:

        async def run(number: int, url: str) -> RolloutOutcome:
            task = tasks[number % len(tasks)]
            endpoint = ModelEndpoint(base_url=url, model=plan.model, sampling=sampling)
            async with limit:
                trace = await runner.run(task, endpoint)
            failure = trace.failure
            why = f"{failure.boundary}: {failure.error}: {failure.message}" if failure else ""
            return RolloutOutcome(task.key, trace.exit_reason, trace.reward, why)

        rollouts = [run(number, url) for number, url in enumerate(test.urls)]
        for outcome in await asyncio.gather(*rollouts):
            sys.stdout.write(msgspec.json.encode(outcome).decode() + "\n")


# Start


@contextlib.contextmanager
def _detached() -> Iterator[Callable[[bytes], None]]:
    """Continue in a process without a parent. The parent waits for a message, prints what is not
    `READY`, and exits."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            message = file.read()
        if message != READY:
            sys.stderr.write(message.decode("utf-8", "replace") or "the supervisor ended at once")
        sys.stderr.flush()
        os._exit(0 if message == READY else 1)
    os.setsid()
    os.close(reading)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    is_sent = False

    def send(message: bytes) -> None:
        nonlocal is_sent
        if not is_sent:
            os.write(writing, message)
            os.close(writing)
        is_sent = True

    try:
        yield send
    except Exception as error:
        send(f"{type(error).__name__}: {error}".encode())
        raise


def main(arguments: list[str]) -> None:
    mode, folder = arguments[0], Path(arguments[1])
    plan = read_plan(folder)
    with use_home(Home(Path(plan.home))):
        if mode == "test":
            try:
                asyncio.run(run_test(plan))
            except HermesError as error:
                sys.exit(f"{error}. {error.hint}".strip())
            return
        with _detached() as send:
            supervisor = TrainerSupervisor(folder, plan)
            try:
                asyncio.run(supervisor.run(lambda: send(READY)))
            except Exception as error:
                supervisor.fail(error)  # the state says what happened, also to later processes
                raise


if __name__ == "__main__":
    main(sys.argv[1:])

"""One run of a script: the talk with its runner, its time, and its certain end."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec

from hermes.core.errors import ToolError
from hermes.terminal.base import Running, Shell
from hermes.tools.code.launch import NOT_FOUND, TOO_OLD, Launch

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL when the time is up."""
PATIENCE = 5.0
"""Seconds after that until we stop waiting to be told of the end."""
MOST_NOISE = 2_000
"""Characters kept of what is not ours: messages of a shell, or of a Python that cannot start."""

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class Outcome(msgspec.Struct, frozen=True):
    code: int | None
    """As Python's `returncode`; None when it is not known."""
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False


class ScriptRun:
    """`show` is given what the script prints, as it comes."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._messages: asyncio.Queue[dict[str, Any] | BaseException | None] = asyncio.Queue()
        self._answering: set[asyncio.Task[None]] = set()
        self._rest = b""
        self._noise = ""
        self._mark = b""
        self._folder = ""
        self._clock: asyncio.Timeout | None = None
        self._questions = 0
        self._left = 0.0

    async def run(self, shell: Shell, launch: Launch, seconds: float, answer: Answer) -> Outcome:
        """`answer` is given what the script asks for.

        Everything the script started is gone when this returns, or raises.
        """
        self._mark, self._answer = launch.mark, answer
        loop = asyncio.get_running_loop()
        began = loop.time()
        running = await shell.start(launch.command, on_output=self._feed)
        watching = asyncio.ensure_future(self._watch(running))
        ended: dict[str, Any] | None = None
        timed_out = False
        try:
            # One that has ended already takes no input; its exit code says why.
            with contextlib.suppress(ToolError):
                await running.write(launch.setup)
            try:
                ended = await self._in_time(running, seconds)
            except TimeoutError:
                timed_out = True
                ended = await self._end(running)
        finally:
            watching.cancel()
            await self._drop_answers()
            await running.stop()
        if ended is None and not timed_out:
            raise self._cannot_start(running.exit_code)
        ended = ended or {}
        return Outcome(
            code=ended.get("code"),
            stdout=self._plain(ended.get("stdout", "")),
            stderr=self._plain(ended.get("stderr", "")),
            seconds=loop.time() - began,
            timed_out=timed_out,
        )

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Within it the time of the script stands still: a person is being asked."""
        now = asyncio.get_running_loop().time
        self._questions += 1
        if self._clock is not None and (when := self._clock.when()) is not None:
            self._left = when - now()
            self._clock.reschedule(None)
        try:
            yield
        finally:
            self._questions -= 1
            if self._clock is not None and not self._questions:
                self._clock.reschedule(now() + self._left)

    async def _in_time(self, running: Running, seconds: float) -> dict[str, Any] | None:
        try:
            async with asyncio.timeout(seconds) as self._clock:
                return await self._converse(running)
        finally:
            self._clock = None

    async def _converse(self, running: Running) -> dict[str, Any] | None:
        """Until the runner tells of the end, or has ended itself."""
        while (message := await self._messages.get()) is not None:
            if isinstance(message, BaseException):
                raise message
            match message["type"]:
                case "started":
                    self._folder = message["folder"]
                case "output":
                    self._show(message["text"])
                case "request":
                    task = asyncio.ensure_future(self._reply(running, message))
                    self._answering.add(task)
                    task.add_done_callback(self._answered)
                case "ended":
                    return message
                case "failed":
                    raise ToolError(f"the script cannot be started: {message['reason']}")
        return None

    async def _end(self, running: Running) -> dict[str, Any] | None:
        """The time is up."""
        await self._drop_answers()
        try:
            async with asyncio.timeout(GRACE + PATIENCE):
                await _send(running, type="stop", grace=GRACE)
                return await self._converse(running)
        except TimeoutError:
            return None

    async def _reply(self, running: Running, message: dict[str, Any]) -> None:
        reply = await self._answer(message["request"])
        await _send(running, type="reply", id=message["id"], reply=reply)

    def _answered(self, task: asyncio.Task[None]) -> None:
        """A tool that broke must not keep the script waiting."""
        self._answering.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._messages.put_nowait(error)

    async def _drop_answers(self) -> None:
        tasks = [*self._answering]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, running: Running) -> None:
        await running.wait()
        self._messages.put_nowait(None)

    def _feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            before, mark, text = line.partition(self._mark)
            if mark:
                self._messages.put_nowait(json.loads(text))
            if before or not mark:
                self._noise = (self._noise + before.decode("utf-8", "replace") + "\n")[-MOST_NOISE:]

    def _plain(self, text: str) -> str:
        """The script by its name alone."""
        return text.replace(f"{self._folder}/", "") if self._folder else text

    def _cannot_start(self, exit_code: int | None) -> ToolError:
        if exit_code in (NOT_FOUND, TOO_OLD):
            return ToolError(
                "there is no Python 3.8 or newer where commands run",
                hint="install python3 there, or do it with the terminal tool",
            )
        noise = (self._noise + self._rest.decode("utf-8", "replace")).strip()
        return ToolError(
            f"the script was lost (exit code {exit_code}): {noise or 'no reason told'}"
        )


async def _send(running: Running, **message: Any) -> None:
    # A runner that has gone takes nothing; `_watch` tells of it.
    with contextlib.suppress(ToolError):
        await running.write(json.dumps(message).encode() + b"\n")

"""A small kind of run for tests of the engine, and the model server that counts its calls.

Each item makes some model calls and writes the replies as its line. A field `do` of the row says
what else happens: `fail`, `discard`, `raise`, `exit` (the worker process ends), `hang`.
"""

import asyncio
import hashlib
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import msgspec

from hermes.batch import JournaledModel
from hermes.batch.work import CallJournal, ItemJob, ItemResult, RunSpec, WorkItem, number_items
from hermes.core.errors import UsageError
from hermes.core.messages import Assistant, Text, User
from hermes.core.model import EmitModelEvent, ModelRequest, Price, Reply, Usage

COST = Price(input=10.0, output=1000.0, cache_read=0.0, cache_write=0.0)
USAGE = Usage(input=100, output=9)
CALL_USD = COST.cost(USAGE)  #: One cent.


class LineSpec(RunSpec, frozen=True, kw_only=True, tag="lines"):
    rows: tuple[dict[str, Any], ...]
    calls: int = 0  #: Model calls of an item.
    port: int = 0  #: Of the `CountingServer`.
    max_tokens: int | None = 10
    repeats: int = 1
    setting: str = ""
    api_key: str = ""
    broken: bool = False  #: The job cannot be opened.

    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.calls} {self.setting}".encode()).hexdigest()

    def items(self) -> Iterator[WorkItem]:
        return number_items(self.rows, self.fingerprint(), self.repeats)

    def output_file(self, item: WorkItem) -> str:
        return f"batch_{item.index // 10 + 1:03}_output.jsonl"

    def open_job(self, workspace: str = "") -> ItemJob:
        return LineJob(self)

    def price(self) -> Price | None:
        return COST if self.max_tokens else None

    def max_output(self) -> int | None:
        return self.max_tokens


def numbered(count: int) -> tuple[dict[str, Any], ...]:
    return tuple({"n": n} for n in range(count))


class LineJob(ItemJob):
    def __init__(self, spec: LineSpec) -> None:
        self._spec = spec

    async def __aenter__(self) -> Self:
        if self._spec.broken:
            raise UsageError("the job is broken", hint="mend it")
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def run(self, item: WorkItem, journal: CallJournal) -> ItemResult:
        model = JournaledModel(RemoteModel(self._spec.port), journal)
        replies: list[Reply] = []
        for number in range(self._spec.calls):
            texts = [f"{item.key} {number}", *(reply.message.text for reply in replies)]
            request = ModelRequest(tuple(User.say(text) for text in texts))
            replies.append(await model.call(request, lambda _event: None))
        return await self._end(item, replies)

    async def _end(self, item: WorkItem, replies: list[Reply]) -> ItemResult:
        action = item.row.get("do", "")
        if action == "exit":
            os._exit(3)
        if action == "hang":
            await asyncio.Event().wait()
        if action == "raise":
            raise ValueError("a bug")
        texts = [reply.message.text for reply in replies]
        line = {"row": item.row, "repeat": item.repeat, "key": item.key, "replies": texts}
        return ItemResult(
            key=item.key,
            state={"fail": "failed", "discard": "discarded"}.get(action, "done"),  # type: ignore[arg-type]
            reason=f"asked to {action}" if action else "",
            boundary="task" if action == "fail" else "",
            line=b"" if action else msgspec.json.encode(line),
            usage=sum((reply.usage for reply in replies), Usage()),
            cost_usd=sum(reply.cost_usd or 0.0 for reply in replies),
            api_calls=len(replies),
            seconds=0.25,
        )


class RemoteModel:
    """Sends the first text of a request to the server."""

    name = provider = "counting"

    def __init__(self, port: int) -> None:
        self._port = port

    async def call(self, request: ModelRequest, _emit: EmitModelEvent) -> Reply:
        first = request.messages[0]
        assert isinstance(first, User)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(f"{first.text}\n".encode())
            text = (await reader.readline()).decode().strip()
        finally:
            writer.close()
        if not text:
            raise ConnectionError("the server hung up")
        return Reply(Assistant((Text(text),)), USAGE, cost_usd=CALL_USD)


class CountingServer:
    """Answers calls and counts them, in a thread. `delay` is the time of a call in seconds."""

    def __init__(self, delay: float = 0.0) -> None:
        self.asked: Counter[str] = Counter()  #: By item and number of the call.
        self.answered: Counter[str] = Counter()
        self.empty = 0  #: Connections of clients that left without a call.
        self.delay = delay
        self.hold: set[str] = set()  #: Calls that are not answered.
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.port: int = self._socket.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._loop.close()

    def wait_for_calls(self, count: int) -> None:
        """Wait until `count` calls were asked in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.asked.total() >= count, timeout=60)

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._answer, sock=self._socket)
        await self._stopping.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            call = (await reader.readline()).decode().strip()
            if not call:
                self.empty += 1
                return
            with self._changed:
                self.asked[call] += 1
                self._changed.notify_all()
            if call in self.hold or "*" in self.hold:
                await reader.read()  # until the client leaves
                return
            await asyncio.sleep(self.delay)
            writer.write(f"reply {self.asked[call]} to {call}\n".encode())
            await writer.drain()
            self.answered[call] += 1
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()


def counts(pending: int, leased: int, done: int, discarded: int, failed: int) -> dict[str, int]:
    states = ("pending", "leased", "done", "discarded", "failed")
    return dict(zip(states, (pending, leased, done, discarded, failed), strict=True))


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of all output files; fails if a line is torn."""
    lines = []
    for file in sorted(folder.glob("batch_*_output.jsonl")):
        content = file.read_bytes()
        assert not content or content.endswith(b"\n")
        lines += [msgspec.json.decode(line) for line in content.splitlines()]
    return lines

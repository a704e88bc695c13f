"""The work that is measured, done in a process of its own by the Python of one contender.

    python -m bench.store_worker CONTENDER TASK STORE CORPUS RESULT

Both contenders do the same through a thin adapter. Every figure is CPU time of the whole process,
threads included. The corpus is read and turned into what a contender takes before a clock runs.
"""

import asyncio
import gc
import importlib
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from bench.store_corpus import LONG_SESSION, Line, queries, read_corpus

Figures = dict[str, float]
Session = list[Any]
"""The id and then the messages, in the form of the contender."""

LANES = 64
"""Sessions that write at the same moment in the group tasks."""
LIMIT = 20
ROUNDS = 15


class Adapter(Protocol):
    def __init__(self, path: Path) -> None: ...

    def message(self, line: Line) -> Any: ...

    async def create(self, session: str) -> None: ...

    async def append(self, session: str, message: Any) -> None: ...

    async def search(self, query: str) -> int: ...

    async def load(self, session: str) -> int: ...

    async def stored(self, session: str) -> int: ...

    def close(self) -> None: ...


class Hermes:
    """This project."""

    def __init__(self, path: Path) -> None:
        self._from_dict = importlib.import_module("hermes.core.messages").from_dict
        self._repair = importlib.import_module("hermes.store.rows").repair_history
        self._request = importlib.import_module("hermes.store.records").SearchRequest
        self._store = importlib.import_module("hermes.store.session_store").open_store("", path)

    def message(self, line: Line) -> Any:
        return self._from_dict(line)

    async def create(self, session: str) -> None:
        await self._store.create(session, source="cli", model="m", system_prompt="")

    async def append(self, session: str, message: Any) -> None:
        await self._store.append(session, message)

    async def search(self, query: str) -> int:
        return len(await self._store.search(self._request(query, limit=LIMIT)))

    async def load(self, session: str) -> int:
        return len(self._repair(await self._store.messages(session)))

    async def stored(self, session: str) -> int:
        return len(await self._store.messages(session))

    def close(self) -> None:
        self._store.close()


class HermesAgent:
    """The published package, through its documented `SessionDB`."""

    def __init__(self, path: Path) -> None:
        self._db = importlib.import_module("hermes_state").SessionDB(db_path=path)

    def message(self, line: Line) -> Any:
        return {name: value for name, value in line.items() if name != "session"}

    async def create(self, session: str) -> None:
        self._db.create_session(session, "cli", model="m", system_prompt="")

    async def append(self, session: str, message: Any) -> None:
        self._db.append_message(session, **message)

    async def search(self, query: str) -> int:
        return len(self._db.search_messages(query, limit=LIMIT))

    async def load(self, session: str) -> int:
        return len(self._db.get_messages_as_conversation(session))

    async def stored(self, session: str) -> int:
        return await self.load(session)

    def close(self) -> None:
        self._db.close()


ADAPTERS: dict[str, type[Adapter]] = {"hermes": Hermes, "hermes-agent": HermesAgent}


def sessions(adapter: Adapter, lines: list[Line]) -> Iterator[Session]:
    """The lines by session, ready to be appended."""
    for session, group in groupby(lines, key=lambda line: line["session"]):
        yield [session, *map(adapter.message, group)]


async def _append_one(adapter: Adapter, session: Session) -> None:
    name, *messages = session
    await adapter.create(name)
    for message in messages:
        await adapter.append(name, message)


async def alone(adapter: Adapter, lines: list[Line]) -> Figures:
    """One after the other, each awaited."""
    return await _append(adapter, lines, lanes=1)


async def group(adapter: Adapter, lines: list[Line]) -> Figures:
    """Many sessions at a time, each awaiting its own appends."""
    return await _append(adapter, lines, lanes=LANES)


async def _append(adapter: Adapter, lines: list[Line], lanes: int) -> Figures:
    waiting = list(sessions(adapter, lines))
    waiting.reverse()
    errors: list[Exception] = []

    async def lane() -> None:
        while waiting:
            try:
                await _append_one(adapter, waiting.pop())
            except Exception as error:  # noqa: BLE001 - counted and shown, whatever it is
                errors.append(error)
                print(f"{type(error).__name__}: {error}", file=sys.stderr)

    _settle()
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(lane() for _ in range(lanes)))
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "cpu_ms": cpu * 1000 / len(lines),
        "per_second": len(lines) / wall,
        "errors": float(len(errors)),
    }


async def search(adapter: Adapter, _lines: list[Line]) -> Figures:
    """Figures by kind of query, and `hits of` each."""
    figures: Figures = {}
    _settle()
    for kind, texts in queries().items():
        figures[f"hits of {kind}"] = float(sum([await adapter.search(text) for text in texts]))

        async def all_of_them(texts: list[str] = texts) -> None:
            for text in texts:
                await adapter.search(text)

        figures[kind] = await _cpu_ms(all_of_them) / len(texts)
    return figures


async def load(adapter: Adapter, _lines: list[Line]) -> Figures:
    """The long conversation, ready to be sent."""
    messages = float(await adapter.load(LONG_SESSION))
    _settle()
    return {"messages": messages, "cpu_ms": await _cpu_ms(lambda: adapter.load(LONG_SESSION))}


async def count(adapter: Adapter, lines: list[Line]) -> Figures:
    """How many messages are missing from their sessions, or too many in them."""
    expected = Counter(str(line["session"]) for line in lines)
    wrong = [abs(await adapter.stored(name) - size) for name, size in expected.items()]
    return {"missing": float(sum(wrong))}


TASKS: dict[str, Callable[[Adapter, list[Line]], Coroutine[Any, Any, Figures]]] = {
    task.__name__: task for task in (alone, group, search, load, count)
}


async def _cpu_ms(work: Callable[[], Awaitable[object]]) -> float:
    """The median of several rounds."""
    rounds: list[float] = []
    for _ in range(ROUNDS):
        cpu = time.process_time()
        await work()
        rounds.append((time.process_time() - cpu) * 1000)
    return statistics.median(rounds)


def _settle() -> None:
    """The corpus is no garbage: keep the collector from looking at it again and again."""
    gc.collect()
    gc.freeze()


def main(contender: str, task: str, store: str, corpus: str, result: str) -> None:
    # What a contender prints is not for the table.
    os.dup2(2, 1)
    lines = read_corpus(Path(corpus))
    adapter = ADAPTERS[contender](Path(store))
    try:
        figures = asyncio.run(TASKS[task](adapter, lines))
    finally:
        adapter.close()
    Path(result).write_text(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])

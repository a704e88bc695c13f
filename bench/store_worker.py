"""Run one measured task with the Python of one contender.

    python -m bench.store_worker CONTENDER TASK STORE CORPUS RESULT

Both contenders are called through a thin adapter. Every figure is CPU time of the whole process,
including threads. The corpus is read and converted before the measurement starts.
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
"""The id, followed by the messages in the format of the contender."""

LANES = 64
"""Sessions that write concurrently in the group tasks."""
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
    """Yield the messages of each session, converted for the adapter."""
    for session, group in groupby(lines, key=lambda line: line["session"]):
        yield [session, *map(adapter.message, group)]


async def _append_one(adapter: Adapter, session: Session) -> None:
    name, *messages = session
    await adapter.create(name)
    for message in messages:
        await adapter.append(name, message)


async def alone(adapter: Adapter, lines: list[Line]) -> Figures:
    """Append one message after the other."""
    return await _append(adapter, lines, lanes=1)


async def group(adapter: Adapter, lines: list[Line]) -> Figures:
    """Append to many sessions concurrently."""
    return await _append(adapter, lines, lanes=LANES)


async def _append(adapter: Adapter, lines: list[Line], lanes: int) -> Figures:
    waiting = list(sessions(adapter, lines))
    waiting.reverse()
    errors: list[Exception] = []

    async def lane() -> None:
        while waiting:
            try:
                await _append_one(adapter, waiting.pop())
            except Exception as error:  # noqa: BLE001 - counted and printed
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
    """Measure each kind of query and count its hits."""
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
    """Load the long conversation, ready to be sent."""
    messages = float(await adapter.load(LONG_SESSION))
    _settle()
    return {"messages": messages, "cpu_ms": await _cpu_ms(lambda: adapter.load(LONG_SESSION))}


async def count(adapter: Adapter, lines: list[Line]) -> Figures:
    """Count the messages that are missing from their sessions or duplicated in them."""
    expected = Counter(str(line["session"]) for line in lines)
    wrong = [abs(await adapter.stored(name) - size) for name, size in expected.items()]
    return {"missing": float(sum(wrong))}


TASKS: dict[str, Callable[[Adapter, list[Line]], Coroutine[Any, Any, Figures]]] = {
    task.__name__: task for task in (alone, group, search, load, count)
}


async def _cpu_ms(work: Callable[[], Awaitable[object]]) -> float:
    """Return the median over several rounds."""
    rounds: list[float] = []
    for _ in range(ROUNDS):
        cpu = time.process_time()
        await work()
        rounds.append((time.process_time() - cpu) * 1000)
    return statistics.median(rounds)


def _settle() -> None:
    """Exclude the corpus from garbage collection, which would scan it repeatedly."""
    gc.collect()
    gc.freeze()


def main(contender: str, task: str, store: str, corpus: str, result: str) -> None:
    # Output of a contender must not get into the table.
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

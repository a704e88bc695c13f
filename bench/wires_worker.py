"""Make the measured calls with one client.

    python -m bench.wires_worker CLIENT WIRE URL

Every figure is CPU time of this process; the endpoint runs in another.
"""

import asyncio
import gc
import importlib
import json
import statistics
import sys
import time
from typing import Protocol

Figures = dict[str, float]
CALLS, ROUNDS = 20, 7
DELTAS = 20
"""Deltas of a short reply."""
SHORT, LONG = 200, 2000
PACED_ROUNDS = 2


class Caller(Protocol):
    """A client of one wire; `caller` of each `bench.wires_CLIENT` module yields one."""

    async def call(self, model: str, *, stream: bool) -> str:
        """Return the whole text of a reply."""
        ...


async def cpu_us(caller: Caller, model: str, *, stream: bool, calls: int = 1) -> float:
    """Return the CPU microseconds of one call."""
    gc.collect()
    text, before = "", time.process_time_ns()
    for _ in range(calls):
        text = await caller.call(model, stream=stream)
    spent = time.process_time_ns() - before
    deltas = int(model.split("-")[1])
    if len(text) != 8 * deltas:
        raise SystemExit(f"{type(caller)} read {len(text)} characters of {8 * deltas}")
    return spent / calls / 1000


async def chunk_us(caller: Caller, ending: str, rounds: int) -> float:
    """Return the cost of one more delta: the slope between a short and a long reply."""
    slopes = []
    for _ in range(rounds):
        short = await cpu_us(caller, f"text-{SHORT}{ending}", stream=True)
        long = await cpu_us(caller, f"text-{LONG}{ending}", stream=True)
        slopes.append((long - short) / (LONG - SHORT))
    return statistics.median(slopes)


async def measure(caller: Caller) -> Figures:
    short = f"text-{DELTAS}"
    figures = {}
    for name, stream in (("whole_us", False), ("streamed_us", True)):
        costs = [await cpu_us(caller, short, stream=stream, calls=CALLS) for _ in range(ROUNDS)]
        figures[name] = statistics.median(costs)
    figures["chunk_us"] = await chunk_us(caller, "-paced", PACED_ROUNDS)
    figures["chunk_burst_us"] = await chunk_us(caller, "", ROUNDS)
    return figures


async def main() -> None:
    client, wire, url = sys.argv[1:]
    async with importlib.import_module(f"bench.wires_{client}").caller(wire, url) as caller:
        print(json.dumps(await measure(caller)))


if __name__ == "__main__":
    asyncio.run(main())

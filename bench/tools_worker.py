"""Make the measured tool calls in the environment of one contender.

    python tools_worker.py CONTENDER

Our calls pass everything that a call of the model passes except the store: argument validation,
hooks, approval, the tool itself, redaction. The peer is called by its documented entry point,
`model_tools.handle_function_call`. This file runs as a script, because the package `bench` cannot
be imported in the peer's environment.
"""

import asyncio
import json
import resource
import statistics
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

CALLS, ROUNDS = 20, 5
STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system"})
Call = Callable[[str, dict[str, Any]], Awaitable[str]]

started: list[str] = []


def note(event: str, _args: tuple[Any, ...]) -> None:
    # `subprocess` may report one start twice: as its own event and as that of the system call.
    if event in STARTS and not (event != "subprocess.Popen" and started[-1:] == ["popen"]):
        started.append("popen" if event == "subprocess.Popen" else event)


def tasks() -> dict[str, Callable[[int], dict[str, Any]]]:
    """Return for each tool a function that makes the arguments of the n-th call; all differ."""
    return {
        "read_file": lambda n: {"path": "module.py", "offset": 1 + n, "limit": 200},
        "search_files": lambda n: {"pattern": f"function_{n}\\b", "path": "."},
        "patch": lambda n: {
            "mode": "replace",
            "path": "module.py",
            "old_string": f"def function_{n}(value):\n    return value + {n}\n",
            "new_string": f"def function_{n}(value):\n    return value - {n}\n",
        },
        "terminal": lambda n: {"command": f"echo {n}"},
        "execute_code": lambda n: {"code": f"print({n})"},
    }


def cpu() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


async def figures(call: Call) -> dict[str, dict[str, float]]:
    result = {}
    for tool, arguments in tasks().items():
        await call(tool, arguments(0))  # warm-up
        rounds, number = [], 0
        started.clear()
        for _ in range(ROUNDS):
            before = cpu()
            for _ in range(CALLS):
                number += 1
                answer = await call(tool, arguments(number))
                if '"error": "' in answer or '{"error"' in answer:
                    raise SystemExit(f"{tool} failed: {answer[:300]}")
            rounds.append((cpu() - before) / CALLS * 1000)
        starts = len(started) / (CALLS * ROUNDS)
        result[tool] = {"cpu_ms": statistics.median(rounds), "processes": starts}
    return result


async def measure_ours() -> dict[str, dict[str, float]]:
    prepared = import_module("bench.tools_hermes")
    async with prepared.caller() as call:
        return await figures(call)


async def measure_peer() -> dict[str, dict[str, float]]:
    handle = import_module("model_tools").handle_function_call

    async def call(name: str, arguments: dict[str, Any]) -> str:
        return str(handle(name, arguments, task_id="bench"))

    return await figures(call)


def main() -> None:
    sys.addaudithook(note)
    ours = sys.argv[1] == "hermes"
    if ours:
        sys.path.insert(0, str(__file__).rpartition("/bench/")[0])
    print(json.dumps(asyncio.run(measure_ours() if ours else measure_peer())))


if __name__ == "__main__":
    main()

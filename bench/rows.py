"""The rows of the table: each is the same work for every contender."""

import statistics
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.contenders import Contender
from bench.measure import Cost, cpu_ms_so_far, run
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, StepLike

Figures = dict[str, float]
REPEATS = 5
ITERATIONS = 40
EARLY = 5


def start(contender: Contender) -> Figures:
    """Measure `hermes --version` when its files are cached."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        env = contender.environment(home)
        costs = [
            _succeed(run([contender.command, "--version"], env=env, cwd=home))
            for _ in range(REPEATS + 1)
        ][1:]
    return {"cpu_ms": _median(costs, "cpu_ms"), "rss_mb": _median(costs, "rss_mb")}


def one_shot(contender: Contender) -> Figures:
    """Measure `hermes chat -q hello` against a model server that answers immediately."""
    cost, server = _chat(contender, lambda _request: "Hello to you.", repeats=REPEATS)
    chats = [request for request in server.requests if _is_chat(request)]
    return {
        "cpu_ms": _median(cost, "cpu_ms"),
        "rss_mb": _median(cost, "rss_mb"),
        "request_bytes": float(len(chats[0].raw)),
        "http_requests": len(server.requests) / len(cost),
    }


def loop_iteration(contender: Contender) -> Figures:
    """Measure a turn of 40 model calls with one `read_file` each, as CPU time between the calls."""
    marks: list[float] = []
    process: list[int] = []

    def answer(request: RecordedRequest) -> StepLike:
        if not (_is_chat(request) and request.body.get("tools")):
            return "A title"
        marks.append(cpu_ms_so_far(process[-1]))
        if len(marks) > ITERATIONS:
            return "All read."
        # The line differs each time, so that no contender detects a loop.
        return ToolCall(
            f"call_{len(marks)}", "read_file", f'{{"path":"notes.txt","offset":{len(marks)}}}'
        )

    cost, _ = _chat(contender, answer, repeats=1, started=process.append)
    steps = [after - before for before, after in pairwise(marks)]
    if len(steps) < ITERATIONS:
        raise SystemExit(f"{contender.name} made {len(steps)} of {ITERATIONS} iterations")
    early, late = steps[EARLY - 2 : EARLY + 3], steps[-5:]
    return {
        "cpu_ms_at_5th": statistics.median(early),
        "cpu_ms_at_40th": statistics.median(late),
        "rss_mb": _median(cost, "rss_mb"),
    }


ROWS: dict[str, Callable[[Contender], Figures]] = {
    "start": start,
    "one_shot_chat": one_shot,
    "loop_iteration": loop_iteration,
}


def _chat(
    contender: Contender,
    answer: Callable[[RecordedRequest], StepLike],
    *,
    repeats: int,
    started: Callable[[int], Any] = lambda _pid: None,
) -> tuple[list[Cost], ModelServer]:
    with tempfile.TemporaryDirectory() as folder, ModelServer(answer) as server:
        home, work = Path(folder) / "home", Path(folder) / "work"
        home.mkdir()
        work.mkdir()
        (work / "notes.txt").write_text("".join(f"line {n}\n" for n in range(1, 201)))
        contender.point_at(server.url, home)
        argv = [contender.command, "chat", "-Q", "-q", "hello"]
        env = contender.environment(home)
        costs = [_succeed(run(argv, env=env, cwd=work, started=started)) for _ in range(repeats)]
        return costs, server


def _is_chat(request: RecordedRequest) -> bool:
    return request.path.endswith("/chat/completions")


def _median(costs: list[Cost], field: str) -> float:
    return statistics.median(float(getattr(cost, field)) for cost in costs)


def _succeed(cost: Cost) -> Cost:
    if cost.exit_code != 0:
        raise SystemExit(f"exit code {cost.exit_code}:\n{cost.output[-2000:]}")
    return cost

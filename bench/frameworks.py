"""Measure the CPU time of a rollout: ours, in verifiers, and with the published package.

    python -m bench.frameworks [--few 3] [--many 12] [--verifiers] [--peer VENV] [--json FILE]

The task is to copy a word from a file to another. The model is a scripted server in this process,
whose time does not count: it calls `terminal` once and answers. A row runs the task a few and many
times (`rollouts` ten times as often); the difference is the cost of a rollout, what remains is the
cost of starting. Where each rollout is a process, the cost is the mean of many. CPU time includes
all child processes.

| row | what runs |
|---|---|
| rollouts | `hermes.envs.RolloutRunner`, all in one process, with rewards |
| commands | `hermes chat -q`, a process for each |
| verifiers, null | `vf-eval` with its smallest harness, which has no tools: one model call |
| verifiers, hermes | `vf-eval` with its Hermes harness and this checkout, over ACP |
| peer commands | `hermes chat -q` of hermes-agent in VENV, a process for each |

`--verifiers` installs verifiers into the test cache if it is not there.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.contenders import ROOT, Contender, ours, peer
from bench.frameworks_worker import AT_ONCE, WORD
from bench.measure import Cost, run
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, StepLike
from tests.adapters.environments import make_environment
from tests.adapters.vf_eval import (
    NULL_HARNESS,
    REQUIREMENT,
    WORDS,
    hermes_harness,
    release_of_checkout,
    variables,
    vf_eval,
)

PROMPT = "Copy the word of note.txt to made.txt."
Figures = dict[str, float]


def answer(request: RecordedRequest) -> StepLike:
    messages = request.body["messages"]
    if not request.body.get("tools") or messages[-1]["role"] == "tool":
        return "Made."
    return ToolCall("call_1", "terminal", '{"command": "cat note.txt > made.txt"}')


# Rows: each runs the task `count` times and returns the cost.


def rollouts(count: int) -> Cost:
    with tempfile.TemporaryDirectory() as folder, ModelServer(answer) as server:
        worker = [sys.executable, "-m", "bench.frameworks_worker", server.url, str(count)]
        return _succeed(run(worker, env=ours().environment(Path(folder)), cwd=ROOT))


def commands(contender: Contender) -> Callable[[int], Cost]:
    def measured(count: int) -> Cost:
        with tempfile.TemporaryDirectory() as folder, ModelServer(answer) as server:
            home = Path(folder) / "home"
            home.mkdir()
            contender.point_at(server.url, home)
            costs = [_command(contender, home, Path(folder) / str(n)) for n in range(count)]
        output = "\n".join(cost.output for cost in costs)
        cpu, rss = sum(cost.cpu_ms for cost in costs), max(cost.rss_mb for cost in costs)
        return Cost(cpu, rss, 0, output)

    return measured


def _command(contender: Contender, home: Path, work: Path) -> Cost:
    work.mkdir()
    (work / "note.txt").write_text(WORD)
    argv = [contender.command, "--yolo", "chat", "-Q", "-q", PROMPT]
    cost = _succeed(run(argv, env=contender.environment(home), cwd=work))
    made = work / "made.txt"
    if not made.exists() or made.read_text() != WORD:
        raise SystemExit(f"{contender.name} did not solve the task:\n{cost.output[-2000:]}")
    return cost


def verifiers(*harness: str, solves: bool) -> Callable[[int], Cost]:
    environment = make_environment(REQUIREMENT)

    def measured(count: int) -> Cost:
        with tempfile.TemporaryDirectory() as name, ModelServer(answer) as server:
            folder = Path(name)
            options = (*harness, "-r", str(count // len(WORDS)), "-c", str(AT_ONCE))
            command = vf_eval(environment, server.url, *options)
            cost = _succeed(run(command, env=variables(folder), cwd=folder))
            (file,) = folder.glob("outputs/*/traces.jsonl")
            episodes = [json.loads(line) for line in file.read_text().splitlines()]
        scores = [
            reward["score"]
            for episode in episodes
            for trace in episode["traces"]
            for reward in trace["rewards"].values()
        ]
        if scores != [float(solves)] * count:
            raise SystemExit(f"expected {count} rewards of {solves:d}: {scores}\n{cost.output}")
        return cost

    return measured


def _succeed(cost: Cost) -> Cost:
    if cost.exit_code != 0:
        raise SystemExit(f"exit code {cost.exit_code}:\n{cost.output[-2000:]}")
    return cost


# The table


def measure(row: Callable[[int], Cost], few: int, many: int) -> Figures:
    row(few)  # compiled files and caches
    first, second = row(few), row(many)
    each = (second.cpu_ms - first.cpu_ms) / (many - few)
    return {"each_ms": each, "start_ms": first.cpu_ms - few * each, "rss_mb": second.rss_mb}


def measure_commands(contender: Contender, few: int, many: int) -> Figures:
    """Measure a row in which each rollout is a process, so that starting is part of each."""
    row = commands(contender)
    row(few)
    cost = row(many)
    return {"each_ms": cost.cpu_ms / many, "rss_mb": cost.rss_mb}


def show(table: dict[str, Figures]) -> None:
    base = table["rollouts"]["each_ms"]
    print(f"{'CPU':<20} {'rollout ms':>11} {'start ms':>10} {'peak MB':>9} {'ratio':>8}")
    for name, row in table.items():
        each, rss = row["each_ms"], row["rss_mb"]
        start = f"{row['start_ms']:,.0f}" if "start_ms" in row else "-"
        print(f"{name:<20} {each:>11,.1f} {start:>10} {rss:>9,.0f} {each / base:>7.1f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the CPU time of a rollout")
    parser.add_argument("--few", type=int, default=3)
    parser.add_argument("--many", type=int, default=12)
    parser.add_argument("--verifiers", action="store_true", help="measure verifiers too")
    parser.add_argument("--peer", type=Path, metavar="VENV", help="environment with hermes-agent")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    if args.many <= args.few or any(count % len(WORDS) for count in (args.few, args.many)):
        parser.error(f"--few and --many must be multiples of {len(WORDS)}, --many the larger")
    table = {
        # A rollout is so cheap that a few do not stand out.
        "rollouts": measure(rollouts, 10 * args.few, 10 * args.many),
        "commands": measure_commands(ours(), args.few, args.many),
    }
    if args.verifiers:
        null = verifiers(*NULL_HARNESS, solves=False)
        table["verifiers, null"] = measure(null, args.few, args.many)
        with release_of_checkout() as version:
            harness = verifiers(*hermes_harness(version), solves=True)
            table["verifiers, hermes"] = measure(harness, args.few, args.many)
    if args.peer:
        table["peer commands"] = measure_commands(peer(args.peer), args.few, args.many)
    show(table)
    if args.json:
        args.json.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Measure batch runs of our agent, and kill their driver at random instants.

    python -m bench.batch --rollouts 2000 [--concurrency 256] [--processes 2] [--turns 1]
                          [--latency 0.0] [--ray] [--kills 20] [--seed 7] [--lose-node]

The model server is a process of its own, so that its CPU time is not counted. The driver and its
workers are processes too; the CPU time per rollout is theirs together, with their start (on Ray it
is that of the driver alone). With `--kills` the driver is killed that many times, and continued.
After that every item must have exactly one line, and only model calls that were running at a kill
may have been made again. With `--lose-node` the run uses a Ray cluster of two nodes, of which one
is killed, and its files are compared with those of a run without Ray. That needs a network
namespace:

    unshare -n sh -c 'ip link set lo up && python -m bench.batch --lose-node'
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import psutil

from hermes.batch import BatchRun, RunOptions, read_items, read_run
from hermes.batch.distributions import Distribution
from hermes.batch.models import RunModel
from hermes.batch.prompts import PromptSpec

SAMPLE_SECONDS = 0.2


# The model server.


class StubModel:
    """Answers chat completions at once, or after `latency` seconds, and counts them."""

    def __init__(self, turns: int, latency: float) -> None:
        self._turns, self._latency = turns, latency
        self._calls: Counter[str] = Counter()  #: By prompt and number of messages.

    async def serve(self) -> None:
        server = await asyncio.start_server(self._converse, "127.0.0.1", 0, backlog=4096)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                size = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                body = await reader.readexactly(int(size or 0))
                answer = await self._answer(body) if body else self._facts()
                data = msgspec.json.encode(answer)
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d"
                writer.write(head % len(data) + b"\r\n\r\n" + data)
        writer.close()

    def _facts(self) -> dict[str, Any]:
        return {"data": [{"id": "stub"}], "calls": self._calls}

    async def _answer(self, body: bytes) -> dict[str, Any]:
        messages = msgspec.json.decode(body)["messages"]
        prompt = next(each["content"] for each in messages if each["role"] == "user")
        self._calls[f"{prompt} #{len(messages)}"] += 1
        await asyncio.sleep(self._latency)
        answered = sum(each["role"] == "assistant" for each in messages)
        message: dict[str, Any] = {"role": "assistant", "reasoning_content": "I think."}
        if is_last := answered + 1 >= self._turns:
            message["content"] = "Done."
        else:
            function = {"name": "terminal", "arguments": '{"command": "echo hi"}'}
            call = {"id": f"c{answered}", "type": "function", "function": function}
            message |= {"content": "", "tool_calls": [call]}
        finish = "stop" if is_last else "tool_calls"
        return {
            "id": "r",
            "object": "chat.completion",
            "model": "stub",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }


@contextmanager
def stub_server(args: argparse.Namespace) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.batch", "--serve"]
    command += ["--turns", str(args.turns), "--latency", str(args.latency)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.communicate()


def calls_of(url: str) -> Counter[str]:
    with urlopen(f"{url}/v1/models", timeout=10) as answer:
        return Counter(json.load(answer)["calls"])


# The driver.


class DriverArgs(msgspec.Struct):
    folder: str
    spec: PromptSpec
    options: RunOptions


async def drive(given: DriverArgs) -> None:
    async with BatchRun(Path(given.folder), given.spec, given.options) as run:
        outcome = await run.execute()
    print(outcome.ended, outcome.counts, flush=True)


def make_args(args: argparse.Namespace, url: str, folder: Path) -> DriverArgs:
    dataset = folder / "prompts.jsonl"
    with dataset.open("w") as file:
        for number in range(args.rollouts):
            file.write(json.dumps({"prompt": f"prompt {number}"}) + "\n")
    model = RunModel(name="stub", base_url=f"{url}/v1", api_key="k", home=str(folder / "home"))
    spec = PromptSpec(
        dataset=str(dataset),
        model=model,
        distribution=Distribution("terminal", "one toolset", {"terminal": 100}),
        batch_size=1000,
    )
    options = RunOptions(
        concurrency=args.concurrency,
        processes=args.processes,
        ray_address="local" if args.ray else "",
    )
    return DriverArgs(str(folder / "run"), spec, options)


def start_driver(given: DriverArgs) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bench.batch", "--drive", msgspec.json.encode(given).decode()]
    return subprocess.Popen(command)


class Measured(msgspec.Struct):
    seconds: float
    cpu_seconds: float  #: Of the driver and all processes that it waited for.
    peak_mb: float  #: Of all processes together.


def run_measured(given: DriverArgs) -> Measured:
    began, peak = time.monotonic(), 0.0
    driver = start_driver(given)
    while True:
        pid, status, usage = os.wait4(driver.pid, os.WNOHANG)
        if pid:
            break
        peak = max(peak, memory_mb(driver.pid))
        time.sleep(SAMPLE_SECONDS)
    driver.returncode = os.waitstatus_to_exitcode(status)
    if driver.returncode:
        raise SystemExit(f"the driver ended with exit code {driver.returncode}")
    return Measured(time.monotonic() - began, usage.ru_utime + usage.ru_stime, peak)


def memory_mb(pid: int) -> float:
    total = 0.0
    with suppress(psutil.Error):
        driver = psutil.Process(pid)
        for process in [driver, *driver.children(recursive=True)]:
            with suppress(psutil.Error):
                total += process.memory_info().rss / 1e6
    return total


def run_with_kills(args: argparse.Namespace, given: DriverArgs, url: str) -> None:
    """Kill the driver while it works; at the end of the run, check what it has written."""
    chance = random.Random(args.seed)
    step = args.rollouts * args.turns // (args.kills + 1)
    killed = 0
    for _ in range(args.kills):
        driver = start_driver(given)
        target = calls_of(url).total() + chance.randint(1, max(1, step))
        while driver.poll() is None and calls_of(url).total() < target:
            time.sleep(0.02)
        time.sleep(chance.random() * 0.2)
        killed += driver.poll() is None
        driver.kill()
        driver.wait()
    run_measured(given)
    check(args, Path(given.folder), calls_of(url), killed)


def check(args: argparse.Namespace, folder: Path, calls: Counter[str], killed: int) -> None:
    lines: Counter[int] = Counter()
    for file in folder.glob("batch_*_output.jsonl"):
        for line in file.read_bytes().splitlines():
            lines[json.loads(line)["prompt_index"]] += 1
    repeated = sum(count - 1 for count in calls.values())
    status = read_run(folder)
    print(
        f"{killed} kills: {status.counts['done']} done of {status.total}, {lines.total()} lines, "
        f"{repeated} of {calls.total()} model calls were made again"
    )
    done = Counter(record.index for record in read_items(folder, "done"))
    assert done == lines == Counter(range(args.rollouts)), "each item has one line"
    assert repeated <= killed * args.concurrency, "only running calls may be made again"


def run_and_lose_a_node(args: argparse.Namespace, given: DriverArgs, url: str) -> None:
    """Kill one of two nodes after a third of the calls; compare the files with a plain run."""
    # An extra without type information.
    cluster = import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1}
    )
    other = cluster.add_node(num_cpus=1)
    options = msgspec.structs.replace(given.options, ray_address=cluster.address, processes=None)
    on_ray = DriverArgs(f"{given.folder}-ray", given.spec, options)
    began, driver = time.monotonic(), start_driver(on_ray)
    while driver.poll() is None and calls_of(url).total() * 3 < args.rollouts * args.turns:
        time.sleep(0.5)
    cluster.remove_node(other, allow_graceful=False)
    print(f"a node was killed after {calls_of(url).total()} calls", flush=True)
    if driver.wait():
        raise SystemExit(f"the driver ended with exit code {driver.returncode}")
    print(f"with Ray: {time.monotonic() - began:.1f} s, {calls_of(url).total()} calls", flush=True)
    cluster.shutdown()
    run_measured(given)
    lines = 0
    for path in sorted(Path(given.folder).glob("batch_*_output.jsonl")):
        plain = path.read_bytes().splitlines()
        lost = Path(on_ray.folder, path.name).read_bytes().splitlines()
        assert sorted(plain) == sorted(lost), f"{path.name} differs"
        lines += len(plain)
    print(f"{lines} lines are the same in both runs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rollouts", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--turns", type=int, default=1, help="model calls of a rollout")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds of a model call")
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--lose-node", action="store_true", help="kill one of two Ray nodes")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--drive", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(StubModel(args.turns, args.latency).serve())
        return
    if args.drive:
        asyncio.run(drive(msgspec.json.decode(args.drive, type=DriverArgs)))
        return
    with tempfile.TemporaryDirectory(prefix="bench-batch-") as made, stub_server(args) as url:
        given = make_args(args, url, Path(made))
        if args.kills:
            run_with_kills(args, given, url)
            return
        if args.lose_node:
            run_and_lose_a_node(args, given, url)
            return
        cost = run_measured(given)
        # The actors of Ray are not children of the driver, which is all that is counted.
        whose = "of the driver alone" if args.ray else "of driver and workers"
        print(
            f"{args.rollouts} rollouts of {args.turns} calls in {cost.seconds:.1f} s: "
            f"{args.rollouts / cost.seconds:.0f} rollouts/s, "
            f"{cost.cpu_seconds / args.rollouts * 1000:.2f} ms CPU {whose} per rollout, "
            f"{cost.peak_mb:.0f} MB at most"
        )


if __name__ == "__main__":
    main()

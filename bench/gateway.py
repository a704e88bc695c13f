"""Measure the API server and, for comparison, that of the published hermes-agent package.

    python -m bench.gateway [--peer VENV] [--streams 1000] [--json FILE]

The server and the model run in separate processes; the model answers immediately. CPU is that of
the server's process with all its threads, per request: for new conversations, and for one that
grows by a question each time. Fifty parallel requests are made several times. For the open streams
the model stops in the middle of its answer. The streams are not measured for hermes-agent, whose
server uses a thread for each.

The exit code is 1 if a target is missed.
"""

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.contenders import Contender, ours, peer
from bench.gateway_client import Client, healthy
from bench.gateway_model import ANSWER, HOLD
from bench.loop import cpu_ms

KEY = "a-key-for-the-measurement"
WARM_UP = 5
REQUESTS = 60
AT_ONCE, ROUNDS = 50, 4
START_RUNS = 3
PATIENCE = 120.0
TARGETS = {
    "start, s": 1.0,
    "idle, MB": 70.0,
    "CPU of a chat, ms": 10.0,
    "CPU of a turn, ms": 10.0,
    "p99 / p50": 20.0,
    "streams, MB": 300.0,
}
ANSWERED = "answered of 50, %"
"""Must be 100."""
Figures = dict[str, float]


@contextmanager
def model() -> Iterator[str]:
    """Start a model that answers immediately and yield its address."""
    command = [sys.executable, "-m", "bench.gateway_model"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdin and process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()


class Server:
    """The API server of a contender."""

    def __init__(self, contender: Contender, command: list[str], url: str, home: Path) -> None:
        contender.point_at(url, home)
        with (home / ".hermes" / "config.yaml").open("a") as file:
            file.write("sessions:\n  auto_title: false\n")
        self.port = _free_port()
        environment = contender.environment(home) | {
            "API_SERVER_ENABLED": "1",
            "API_SERVER_PORT": str(self.port),
            "API_SERVER_KEY": KEY,
        }
        self._log = (home / "log").open("w+")
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command, env=environment, cwd=home, stdout=self._log, stderr=subprocess.STDOUT
        )
        self.client = Client(self.port, KEY)

    async def ready(self) -> float:
        """Wait until /health answers and return the seconds that it took."""
        end = self.began + PATIENCE
        while not await healthy(self.port):
            if self.process.poll() is not None or time.perf_counter() > end:
                self._log.seek(0)
                raise SystemExit(f"the server did not start:\n{self._log.read()[-3000:]}")
            await asyncio.sleep(0.005)
        return time.perf_counter() - self.began

    @property
    def cpu(self) -> float:
        return cpu_ms(self.process.pid)

    @property
    def megabytes(self) -> float:
        return float(psutil.Process(self.process.pid).memory_info().rss) / 1e6

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()


async def measure_new_chats(server: Server) -> Figures:
    """Measure conversations of one question."""
    for number in range(WARM_UP):
        await server.client.chat(_user_message(f"warm {number}"))
    before = server.cpu
    for number in range(REQUESTS):
        await server.client.chat(_user_message(f"question {number}"))
    return {"CPU of a chat, ms": (server.cpu - before) / REQUESTS}


async def measure_growing_chat(server: Server, turns: int) -> Figures:
    """Measure one conversation; each request contains all of it, as clients send it."""
    messages: list[dict[str, str]] = []
    before = server.cpu
    for number in range(turns):
        messages += _user_message(f"turn {number}")
        await server.client.chat(messages)
        messages.append({"role": "assistant", "content": ANSWER})
    return {"CPU of a turn, ms": (server.cpu - before) / turns}


async def measure_parallel(server: Server) -> Figures:
    times: list[float] = []
    for turn in range(ROUNDS):
        asked = [server.client.chat(_user_message(f"{turn} {n}")) for n in range(AT_ONCE)]
        done = await asyncio.gather(*asked, return_exceptions=True)
        times += [each for each in done if isinstance(each, float)]
    times.sort()
    p50, p99 = statistics.median(times), times[int(len(times) * 0.99)]
    return {
        ANSWERED: 100 * len(times) / (AT_ONCE * ROUNDS),
        "p50 of 50, ms": p50 * 1000,
        "p99 of 50, ms": p99 * 1000,
        "p99 / p50": p99 / p50,
    }


async def measure_streams(server: Server, count: int) -> Figures:
    """Measure memory while `count` streams are open, each in the middle of an answer."""
    opened = []
    before = server.cpu
    for start in range(0, count, 50):
        asked = [server.client.open_stream(f"{HOLD} {start + n}") for n in range(50)]
        opened += await asyncio.gather(*asked)
    figures = {
        "streams, MB": server.megabytes,
        "CPU of a stream, ms": (server.cpu - before) / count,
    }
    for writer in opened:
        writer.close()
    return figures


async def measure(contender: Contender, command: list[str], streams: int) -> Figures:
    with model() as url, tempfile.TemporaryDirectory() as name:
        starts, servers = [], []
        for number in range(START_RUNS):
            home = Path(name) / str(number)
            home.mkdir()
            servers.append(Server(contender, command, url, home))
            starts.append(await servers[-1].ready())
            if number < START_RUNS - 1:
                servers[-1].close()
        try:
            return {"start, s": min(starts)} | await measure_requests(servers[-1], streams)
        finally:
            servers[-1].close()


async def measure_requests(server: Server, streams: int) -> Figures:
    await asyncio.sleep(1)
    figures = {"idle, MB": server.megabytes}
    figures |= await measure_new_chats(server)
    figures |= await measure_growing_chat(server, REQUESTS)
    figures |= await measure_parallel(server)
    figures["then, MB"] = server.megabytes
    return figures | (await measure_streams(server, streams) if streams else {})


def _user_message(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def show(table: dict[str, Figures]) -> list[str]:
    """Print the table and return the targets that were missed."""
    others = [name for name in table if name != "hermes"]
    print(f"{'':<20} {'hermes':>8} {''.join(f'{name:>14}' for name in others)} {'target':>8}")
    missed = []
    for figure, value in table["hermes"].items():
        theirs = "".join(
            f"{table[name][figure]:>14.2f}" if figure in table[name] else f"{'-':>14}"
            for name in others
        )
        target = f"{TARGETS[figure]:>8.0f}" if figure in TARGETS else f"{'-':>8}"
        print(f"{figure:<20} {value:>8.2f} {theirs} {target}")
        wrong = value < 100 if figure == ANSWERED else value > TARGETS.get(figure, value)
        if wrong:
            missed.append(figure)
    for figure in missed:
        print(f"missed: {figure}")
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the API server")
    parser.add_argument("--peer", type=Path, metavar="VENV", help="environment with hermes-agent")
    parser.add_argument("--streams", type=int, default=1000, help="number of open streams")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    run = "from hermes.cli.main import run; run()"
    worker = [sys.executable, "-c", run, "gateway", "run", "--quiet"]
    table = {"hermes": asyncio.run(measure(ours(), worker, args.streams))}
    if args.peer:
        other = peer(args.peer)
        command = [other.command, "gateway", "run"]
        table[other.name] = asyncio.run(measure(other, command, 0))
    if args.json:
        args.json.write_text(json.dumps(table, indent=2) + "\n")
    sys.exit(1 if show(table) else 0)


if __name__ == "__main__":
    main()

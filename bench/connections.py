"""Measure the HTTP client of model calls with many requests in flight.

    python -m bench.connections [--in-flight 64 1024]

Figures are CPU milliseconds of this process for one call; the server runs in another. The exit
code is 1 if a call costs more than `TARGET`.
"""

import argparse
import asyncio
import subprocess
import sys
import time

from hermes.providers.transport import HttpClient
from hermes.util.files import allow_many_open_files
from hermes.util.http import LateTls

TARGET = 1.0
ROUNDS = 3
"""Calls of each client; the first one opens the connection."""
ANSWER_SECONDS = 1.0
BODY = b"x" * 2000


async def serve() -> None:
    """Answer every request after a second, as a model would."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(len(BODY))
                await asyncio.sleep(ANSWER_SECONDS)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def measure(url: str, in_flight: int) -> float:
    """Return the CPU milliseconds of one call."""
    client, limits = HttpClient(LateTls()), (60.0, 60.0, 60.0, 60.0)

    async def call_repeatedly() -> None:
        for _ in range(ROUNDS):
            call = client.stream("POST", url, content=BODY, headers={}, timeout=limits)
            async with call as response:
                await response.aread()

    before = time.process_time()
    await asyncio.gather(*[call_repeatedly() for _ in range(in_flight)])
    cost = (time.process_time() - before) * 1000 / (in_flight * ROUNDS)
    await client.aclose()
    return cost


def main() -> None:
    parser = argparse.ArgumentParser(description="measure model calls in flight")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    allow_many_open_files()
    if args.serve:
        asyncio.run(serve())
    command = [sys.executable, "-m", "bench.connections", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        if server.stdout is None:
            raise SystemExit("the server has no output")
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/"
        figures = {count: asyncio.run(measure(url, count)) for count in args.in_flight}
        server.kill()
    for count, cost in figures.items():
        print(f"{count:>6} in flight {cost:>8.2f} ms a call")
    sys.exit(int(max(figures.values()) > TARGET))


if __name__ == "__main__":
    main()

"""An endpoint for `bench.wires` with pre-encoded replies and one write per event.

    python -m bench.wires_server

Prints its address and serves until standard input ends. The name of the requested model
selects the reply: `text-200` has 200 deltas, sent as fast as the client reads; `text-200-paced`
pauses after each, so that events reach the client one at a time, as with a real endpoint.
"""

import asyncio
import functools
import json
import sys

from hermes.core.messages import Text
from hermes.core.model import Usage
from hermes.core.testing.model_server import WIRES
from hermes.core.testing.wires import Answer

PAUSE_SECONDS = 0.0005
DELTA = "a delta "
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s\r\n\r\n"


@functools.cache
def reply(path: str, model: str, *, stream: bool) -> list[bytes]:
    """Return the pieces of a reply, one per write."""
    wire = next(wire for address, wire in WIRES.items() if path.endswith(address))
    text = DELTA * int(model.split("-")[1])
    body = {"model": model, "stream_options": {"include_usage": True}}
    answer = Answer(1, 1_767_225_600, (Text(text),), "stop", Usage(1000, 2000, 500, 0, 0), body)
    if not stream:
        data = json.dumps(wire.whole(answer)).encode()
        return [HEAD % (b"application/json", b"Content-Length: %d" % len(data)) + data]
    events = [data for data, _delta in wire.stream(answer)]
    chunks = [b"%x\r\n%s\r\n" % (len(data), data) for data in events]
    head = HEAD % (b"text/event-stream", b"Transfer-Encoding: chunked")
    return [head, *chunks, b"0\r\n\r\n"]


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            first, *fields = head.decode().lower().split("\r\n")
            length = next(line for line in fields if line.startswith("content-length:"))
            body = json.loads(await reader.readexactly(int(length.partition(":")[2])))
            paced = body["model"].endswith("-paced")
            for data in reply(first.split()[1], body["model"], stream=bool(body.get("stream"))):
                writer.write(data)
                await writer.drain()
                if paced:
                    await asyncio.sleep(PAUSE_SECONDS)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())

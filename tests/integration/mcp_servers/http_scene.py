"""The reference server over HTTP, and a client for it: `http_scene.py PROGRAM KIND`.

That server listens on all addresses, so this runs in a network namespace of its own.
"""

import asyncio
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hermes.config.settings import McpServer
from hermes.mcp import Caller
from tests.integration.mcp.stage import Stage, inside
from tests.integration.mcp.test_sampling import Scripted

PORT = 3001
PATHS = {"streamableHttp": "mcp", "sse": "sse"}
SIOCGIFFLAGS, SIOCSIFFLAGS, UP = 0x8913, 0x8914, 1


def switch_loopback_on() -> None:
    with socket.socket() as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, asked))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | UP))


def wait_for(server: "subprocess.Popen[bytes]") -> None:
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", PORT)) == 0:
                return
        if server.poll() is not None:
            raise SystemExit("the server has ended")
        time.sleep(0.05)


async def converse(folder: Path, kind: str) -> dict[str, Any]:
    stage, model = Stage(folder), Scripted()
    hub = stage.hub({"all": McpServer(url=f"http://127.0.0.1:{PORT}/{PATHS[kind]}")})
    try:
        tools = await stage.tools(hub, Caller(sampler=model))

        async def call(tool: str, /, **arguments: Any) -> str:
            return inside(await stage.run(tools[f"mcp_all_{tool}"], **arguments))

        said = {
            "echo": await call("echo", message="hi"),
            "sampled": await call("trigger_sampling_request", prompt="well?", maxTokens=9),
            "resource": await call("read_resource", uri="demo://resource/dynamic/text/3"),
            "long": await call("trigger_long_running_operation", duration=0.2, steps=2),
        }
        await asyncio.gather(*(call("echo", message=str(n)) for n in range(10)))
        status = hub.status()[0]
        return {
            **said,
            "shown": stage.shown,
            "transport": status.transport,
            "notices": stage.notices,
        }
    finally:
        await stage.close()


def main(program: str, kind: str) -> None:
    switch_loopback_on()
    with TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [program, kind],
            env={**os.environ, "PORT": str(PORT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(server)
            sys.stdout.write(json.dumps(asyncio.run(converse(Path(folder), kind))))
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])

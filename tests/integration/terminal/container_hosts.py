"""Containers for tests, and a process with one that can be killed.

Run as a program, `python -m … PROGRAM SANDBOX_DIR` opens a container in the engine of its own
environment, prints its name, starts something in it and waits.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermes.terminal import Host, Running
from hermes.terminal.docker import DockerHost, DockerOptions
from tests.integration.terminal.docker_engine import IMAGE, Engine

ROOT = Path(__file__).resolve().parents[3]


class Hosts:
    """Makes hosts in one engine; all are closed with it."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self.told: list[str] = []
        self._made: list[DockerHost] = []

    def make(self, **options: Any) -> DockerHost:
        settings = {
            "image": IMAGE,
            "environment": self.engine.environment,
            "program": self.engine.program,
            "sandbox_dir": str(self.folder / "sandboxes"),
            "network": "none",
            "persistent": False,
            "memory": 256,
            "disk": 0,
        }
        host = DockerHost(DockerOptions(**{**settings, **options}), self.told.append)
        self._made.append(host)
        return host

    async def close(self) -> None:
        for host in self._made:
            await host.close()

    def inspect(self, host: DockerHost) -> dict[str, Any]:
        return json.loads(self.engine.call("inspect", host.container))[0]

    def containers(self) -> list[str]:
        return self.engine.call("ps", "-a", "--format", "{{.Names}}").split()

    async def gone(self, name: str) -> None:
        """Waits until a container is removed; the test's own time limit is the only clock."""
        while name in self.containers():
            await asyncio.sleep(0.05)


@asynccontextmanager
async def hosts_of(engine: Engine, folder: Path) -> AsyncIterator[Hosts]:
    hosts = Hosts(engine, folder)
    try:
        yield hosts
    finally:
        await hosts.close()


async def started(host: Host, script: str, **options: Any) -> tuple[Running, bytearray]:
    output = bytearray()
    running = await host.start(["sh", "-c", script], on_output=output.extend, **options)
    return running, output


async def said(host: Host, script: str) -> str:
    """What a script in the container prints; it must end well."""
    running, output = await started(host, script)
    await running.close_input()
    code = await running.wait()
    assert code == 0, (code, output)
    return output.decode().strip()


async def died(host: DockerHost) -> None:
    while host.container:
        await asyncio.sleep(0.02)


async def heard(output: bytearray, text: bytes) -> None:
    while text not in output:
        await asyncio.sleep(0.02)


def process_with_container(engine: Engine, folder: Path) -> subprocess.Popen[str]:
    """Another process that holds a container; its first line is the container's name."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__, engine.program, str(folder)],
        cwd=ROOT,
        env={**engine.environment, "PYTHONPATH": f"{ROOT}/src"},
        stdout=subprocess.PIPE,
        text=True,
    )


async def _hold(program: str, folder: Path) -> None:
    async with hosts_of(Engine(program, dict(os.environ)), folder) as hosts:
        host = hosts.make()
        _, output = await started(host, "echo up; sleep 1000")
        await heard(output, b"up")
        sys.stdout.write(f"{host.container}\n")
        sys.stdout.flush()
        await asyncio.sleep(1000)


if __name__ == "__main__":
    asyncio.run(_hold(sys.argv[1], Path(sys.argv[2])))

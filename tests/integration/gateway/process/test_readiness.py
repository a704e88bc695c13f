"""A gateway that runs but cannot work reports the reason: over HTTP and in `gateway status`."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from bench.gateway_storm import GatewayProcess
from tests.fakes.local.server import LocalServer
from tests.postgres_server import free_port, new_server

LONG = 100.0


class Watched:
    """A gateway with the local platform and the API server, and what it says about itself."""

    def __init__(self, gateway: GatewayProcess, platform: LocalServer, port: int) -> None:
        self.gateway, self.platform = gateway, platform
        self.http = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=LONG)

    async def ready(self) -> tuple[int, list[str]]:
        answer = await self.http.get("/ready")
        return answer.status_code, answer.json()["problems"]

    async def is_alive(self) -> bool:
        return (await self.http.get("/health")).json() == {"status": "ok"}

    async def wait_ready(self, what: Callable[[int, list[str]], bool]) -> None:
        async with asyncio.timeout(LONG):
            while not what(*await self.ready()):
                await asyncio.sleep(0.1)

    async def wait_status(self, exit_code: int) -> dict[str, Any]:
        """Return what `hermes gateway status` prints when it ends with this code."""
        async with asyncio.timeout(LONG):
            while True:
                code, text = await self.gateway.run("gateway", "status", "--json")
                if code == exit_code:
                    return json.loads(text)
                await asyncio.sleep(0.2)


@asynccontextmanager
async def watched(root: Path, settings: str = "") -> AsyncIterator[Watched]:
    port, platform = free_port(), LocalServer()
    await platform.listen(root / "socket")
    gateway = GatewayProcess(
        root,
        "machine",
        "model: {provider: custom, base_url: 'http://127.0.0.1:9/v1', default: lab-model}\n"
        f"platforms: {{api_server: {{enabled: true, extra: {{port: {port}}}}}}}\n{settings}",
    )
    await gateway.start()
    try:
        async with asyncio.timeout(LONG):
            while not gateway.is_connected:
                await asyncio.sleep(0.05)
        it = Watched(gateway, platform, port)
        async with it.http:
            yield it
    finally:
        await gateway.end(signal.SIGKILL)
        await platform.close()


async def test_gateway_is_not_ready_while_the_store_is_away(tmp_path: Path) -> None:
    server = new_server(fsync="off")
    with server.database() as url:
        async with watched(tmp_path, f"store: {{url: '{url}'}}\n") as it:
            await it.wait_ready(lambda code, _: code == 200)
            await it.wait_status(0)
            await asyncio.to_thread(server.stop)
            await it.wait_ready(lambda code, parts: code == 503 and parts == ["store"])
            assert await it.is_alive()
            found = await it.wait_status(1)
            assert "the session store is unavailable" in found["problems"][0]["reason"]
            await asyncio.to_thread(server.start)
            await it.wait_ready(lambda code, _: code == 200)


async def test_gateway_is_not_ready_while_a_platform_is_not_connected(tmp_path: Path) -> None:
    async with watched(tmp_path) as it:
        await it.wait_ready(lambda code, _: code == 200)
        await it.platform.close()
        await it.wait_ready(lambda code, parts: code == 503 and parts == ["platform:local"])
        assert await it.is_alive()


async def test_gateway_is_not_ready_with_less_free_disk_space_than_configured(
    tmp_path: Path,
) -> None:
    async with watched(tmp_path, "gateway: {min_free_mb: 1000000000}\n") as it:
        await it.wait_ready(lambda code, parts: code == 503 and parts == ["disk"])
        found = await it.wait_status(1)
        assert (found["running"], found["ready"]) == (True, False)
        assert "left on the disk" in found["problems"][0]["reason"]

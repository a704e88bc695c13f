"""Connections go where the guard looked, under the name that was asked for."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx2
import pytest

from hermes.core.errors import ToolDenied
from hermes.security import GuardedTransport, UrlGuard
from hermes.security.urls import ANY_PORT
from tests.unit.security.certificates import server_and_trust

SITE = "site.example"


class Answers:
    """A name server whose answers change with each question."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return self._answers.pop(0)


class Machine:
    """A web server that answers with its own name and remembers what it was asked."""

    def __init__(self, says: str) -> None:
        self.says, self.heads, self.names = says, list[str](), list[str | None]()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        body = self.says.encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def running(
    machine: Machine, host: str, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Machine]:
    server = await asyncio.start_server(machine.serve, host, port, ssl=tls)
    machine.port = server.sockets[0].getsockname()[1]
    async with server:
        yield machine


async def get(guard: UrlGuard, url: str, context: ssl.SSLContext | None = None) -> str:
    transport = GuardedTransport(guard, context or ssl.create_default_context())
    async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
        return (await client.get(url)).text


def opened(resolver: Answers) -> UrlGuard:
    return UrlGuard(resolver, allowed=frozenset({(SITE, ANY_PORT)}))


async def test_name_is_resolved_once_and_later_answers_are_ignored() -> None:
    async with (
        running(Machine("good"), "127.0.0.1") as good,
        running(Machine("rebound"), "127.0.0.2", good.port) as rebound,
    ):
        names = Answers(["127.0.0.1"], ["127.0.0.2"])
        assert await get(opened(names), f"http://{SITE}:{good.port}/page") == "good"
    assert names.asked == 1
    assert rebound.heads == []
    [head] = good.heads
    assert head.startswith("GET /page HTTP/1.1")
    assert f"host: {SITE}:{good.port}\r\n" in head.lower()


async def test_a_name_that_turns_private_is_refused_when_it_is_fetched() -> None:
    names = Answers(["93.184.215.14"], ["127.0.0.1"])
    guard = UrlGuard(names)
    async with running(Machine("secret"), "127.0.0.1") as machine:
        url = f"http://{SITE}:{machine.port}/"
        await guard.vet(url)
        with pytest.raises(ToolDenied, match=r"127\.0\.0\.1, which is this machine"):
            await get(guard, url)
    assert machine.heads == []


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async with running(Machine("second"), "127.0.0.2") as machine:
        names = Answers(["127.0.0.1", "127.0.0.2"])
        assert await get(opened(names), f"http://{SITE}:{machine.port}/") == "second"


async def test_no_address_that_answers_is_a_connection_error() -> None:
    async with running(Machine(""), "127.0.0.3") as machine:
        port = machine.port
    with pytest.raises(httpx2.ConnectError):
        await get(opened(Answers(["127.0.0.3", "127.0.0.4"])), f"http://{SITE}:{port}/")


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(Machine("proxy"), "127.0.0.1") as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with running(Machine("direct"), "127.0.0.1") as machine:
            names = Answers(["127.0.0.1"])
            assert await get(opened(names), f"http://{SITE}:{machine.port}/") == "direct"
    assert proxy.heads == []


@pytest.mark.parametrize("named", [SITE, "other.example"])
async def test_tls_names_and_checks_the_host_although_the_address_is_dialled(tmp_path, named):
    tls, trust = server_and_trust(tmp_path, f"DNS:{named}")
    machine = Machine("over TLS")
    tls.sni_callback = lambda _socket, name, _context: machine.names.append(name)
    async with running(machine, "127.0.0.1", tls=tls):
        url = f"https://{SITE}.:{machine.port}/"
        if named == SITE:
            assert await get(opened(Answers(["127.0.0.1"])), url, trust) == "over TLS"
        else:
            with pytest.raises(httpx2.ConnectError, match="certificate"):
                await get(opened(Answers(["127.0.0.1"])), url, trust)
    assert machine.names == [SITE]

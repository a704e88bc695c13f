"""Certificates are read at the first handshake, and checked as always."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from hermes.util.http import LateTls
from tests.unit.security.certificates import server_and_trust


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
    await writer.drain()
    writer.close()


@asynccontextmanager
async def serving(folder: Path, name: str) -> AsyncIterator[str]:
    tls, _trust = server_and_trust(folder, name)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def get(url: str) -> str:
    async with httpx2.AsyncClient(verify=LateTls()) as client:
        return (await client.get(url)).text


async def test_a_trusted_server_is_reached(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path, "IP:127.0.0.1") as url:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        assert await get(url) == "hi"


async def test_a_server_nobody_vouches_for_is_refused(tmp_path) -> None:
    async with serving(tmp_path, "IP:127.0.0.1") as url:
        with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await get(url)


async def test_a_trusted_server_of_another_name_is_refused(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, "DNS:elsewhere.example") as url:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await get(url)


def test_nothing_is_read_before_the_first_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpx2, "create_ssl_context", lambda: pytest.fail("read too early"))
    httpx2.AsyncClient(verify=LateTls())


def test_used_in_any_other_way_it_trusts_nobody() -> None:
    context = LateTls()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.get_ca_certs() == []

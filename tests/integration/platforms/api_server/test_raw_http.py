"""Bad HTTP, slow clients and clients that leave do not affect others."""

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator

import pytest

from hermes.core.messages import Text
from hermes.core.testing import RecordedRequest, Stall, Step, StepLike
from hermes.gateway.platforms.api_server.http import ApiOptions
from hermes.store.records import SessionFilter
from tests.integration.platforms.api_server.conftest import KEY, Served, chat
from tests.integration.platforms.api_server.raw import dialled, post

CHAT = "/v1/chat/completions"
HELD = "hold still"


def holding(request: RecordedRequest) -> StepLike:
    text = str(request.body["messages"][-1]["content"])
    step = Step((Text("one two three four five"),))
    return Step(step.parts, faults=(Stall(after=2),)) if text == HELD else text


NO_HTTP = (
    b"hello\r\n\r\n",
    b"GET /health HTTP/1.1\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 50 + b"\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n",
    b"GET /he\xfflth HTTP/1.1\r\nHost: a\r\n\r\n",
)


async def test_invalid_http_gets_an_error_and_the_connection_is_closed(served):
    for data in NO_HTTP:
        wire = await dialled(served)
        await wire.send(data)
        status, headers, body = await wire.answer()
        assert (status, headers["content-type"]) == (400, "application/json"), data[:100]
        assert json.loads(body)["error"]["code"] == "invalid_http"
        assert await wire.rest() == b""
        wire.close()
    assert (await served.http.get("/health")).json() == {"status": "ok"}


async def test_a_request_that_comes_byte_by_byte_is_answered(served):
    wire = await dialled(served)
    for byte in post(served, CHAT, chat("slowly")):
        await wire.send(bytes([byte]))
    status, _headers, body = await wire.answer()
    assert status == 200
    assert json.loads(body)["choices"][0]["message"]["content"] == "slowly"
    wire.close()


async def test_pipelined_requests_are_answered_in_order(served):
    wire = await dialled(served)
    await wire.send(post(served, CHAT, chat("first")) + post(served, CHAT, chat("second")))
    for text in ("first", "second"):
        _status, _headers, body = await wire.answer()
        assert json.loads(body)["choices"][0]["message"]["content"] == text
    wire.close()


async def refused(server: Served, data: bytes, status: int) -> None:
    wire = await dialled(server)
    await wire.send(data)
    assert (await wire.answer())[0] == status
    assert await wire.rest() == b""
    wire.close()


async def test_large_bodies_and_slow_clients_are_refused(serve):
    async with serve(options=ApiOptions(port=0, key=KEY, max_body_bytes=2000)) as server:
        whole = post(server, CHAT, chat("x" * 3000))
        response = whole.replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nX-Length")
        head, _, body = response.partition(b"\r\n\r\n")
        chunked = head + b"\r\n\r\n" + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        for data in (whole, chunked, whole[:300]):
            await refused(server, data, 413)
    async with serve(options=ApiOptions(port=0, key=KEY, body_seconds=0.05)) as server:
        await refused(server, post(server, CHAT, chat("x" * 100))[:-50], 408)
    async with serve(options=ApiOptions(port=0, key=KEY, head_seconds=0.05)) as server:
        for data in (b"", b"GET /health HTTP/1.1\r\nHost:"):
            wire = await dialled(server)
            await wire.send(data)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await wire.answer()
            wire.close()


async def test_far_too_large_body_gets_413(serve):
    """Not by a connection that is reset while it sends."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield bytes(1_000_000)

    options = ApiOptions(port=0, key=KEY, max_body_bytes=2000)
    async with serve(options=options) as server:
        for body in (bytes(40_000_000), pieces(), bytes(40_000_000), pieces()):
            response = await server.http.post(CHAT, content=body)
            assert (response.status_code, response.json()["error"]["code"]) == (
                413,
                "request_too_large",
            )


async def test_only_json_is_read(served):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        response = await served.http.post(CHAT, content=b"{}", headers={"content-type": kind})
        assert response.status_code == 415
    data = json.dumps(chat("hi")).encode()
    plain = await served.http.post(CHAT, content=data)
    assert plain.status_code == 200


async def test_a_client_that_leaves_stops_its_turn(serve):
    async with serve(holding) as server:
        for body in (chat(HELD, stream=True), chat(HELD)):
            wire = await dialled(server)
            await wire.send(post(server, CHAT, body))
            if body.get("stream"):
                await wire.until(b"one")
            while server.model.calls == [] or await running(server) == 0:
                await asyncio.sleep(0.01)
            wire.close()
            while await running(server):
                await asyncio.sleep(0.01)
        infos = [await server.app.store.info(name) for name in await session_ids(server)]
        assert [info.end_reason for info in infos] == ["interrupted"] * 2


async def test_a_response_and_a_reset_connection_do_not_harm_the_others(serve):
    async with serve(holding) as server:
        wires = [await dialled(server) for _ in range(20)]
        for wire in wires:
            body = {"input": HELD, "stream": True}
            await wire.send(post(server, "/v1/responses", body))
        for wire in wires:
            await wire.until(b"output_text.delta")
            wire.writer.transport.abort()
        answer = await server.http.post(CHAT, json=chat("still there?"))
        assert answer.json()["choices"][0]["message"]["content"] == "still there?"
        while await running(server):
            await asyncio.sleep(0.01)


async def test_a_silent_stream_shows_that_it_is_alive(serve):
    options = ApiOptions(port=0, key=KEY, beat_seconds=0.02)
    async with serve(holding, options=options) as server:
        wire = await dialled(server)
        await wire.send(post(server, CHAT, chat(HELD, stream=True)))
        await wire.until(b": still here\n\n")
        await wire.until(b": still here\n\n")
        wire.close()


async def test_client_that_never_reads_is_disconnected(serve):
    options = ApiOptions(port=0, key=KEY, send_seconds=0.1)
    async with serve(options=options, metrics=lambda: b"x" * 30_000_000) as server:
        head = f"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {KEY}\r\n\r\n"
        connections = server.adapter._server._server.server_state.connections
        with socket.create_connection(("127.0.0.1", server.port)) as lazy:
            lazy.sendall(head.encode())
            while not connections:
                await asyncio.sleep(0.01)
            while connections:
                await asyncio.sleep(0.01)


async def test_stop_ends_streams_with_an_error_event(serve):
    async with serve(holding) as server:
        wire = await dialled(server)
        await wire.send(post(server, CHAT, chat(HELD, stream=True)))
        await wire.until(b"one")
        await server.adapter.disconnect()
        rest = await wire.rest()
        assert b"the server is stopping" in rest
        assert b"[DONE]" in rest
        wire.close()
        await server.adapter.disconnect()


async def test_existing_objects_are_frozen_for_garbage_collection(serve):
    async with serve(holding) as server:
        assert gc.get_freeze_count() > 0
        await server.adapter.disconnect()
        assert gc.get_freeze_count() == 0


async def test_draining_server_is_healthy_and_accepts_no_requests(serve):
    """Else its supervisor would start it again in the middle of that."""
    async with serve(holding) as server:
        wire, idle = await dialled(server), await dialled(server)
        await wire.send(post(server, CHAT, chat(HELD, stream=True)))
        await wire.until(b"one")
        draining = asyncio.ensure_future(server.adapter.drain(30))
        assert await idle.rest() == b""
        await server.adapter.probe()
        await server.adapter.drain(0)
        assert b"the server is stopping" in await wire.rest()
        await draining
        for each in (wire, idle):
            each.close()


async def running(server: Served) -> int:
    count: int = (await server.http.get("/health/detailed")).json()["turns_running"]
    return count


async def session_ids(server: Served) -> list[str]:
    return [info.id for info in await server.app.store.sessions(SessionFilter())]

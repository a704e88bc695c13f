"""Streams that fail, and clients that leave."""

import asyncio
import json
from collections.abc import AsyncGenerator, MutableMapping
from typing import Any

import pytest

from hermes.core.errors import HermesError, StoreError
from hermes.gateway.platforms.api_server.http import ApiRequest, EventStream
from hermes.gateway.platforms.api_server.idempotency import Recording
from hermes.gateway.platforms.api_server.options import ApiOptions

FAILURES = [(StoreError("the disk is full"), "store_failed"), (KeyError("x"), "internal_error")]


async def broken(error: Exception) -> AsyncGenerator[bytes, None]:
    yield b"half"
    raise error


def error_code(piece: bytes) -> str:
    return str(json.loads(piece.removeprefix(b"data: "))["error"]["code"])


async def leave() -> MutableMapping[str, Any]:
    return {"type": "http.disconnect"}


def request() -> ApiRequest:
    return ApiRequest({"type": "http", "method": "POST"}, ApiOptions(), leave)


@pytest.mark.parametrize(("error", "code"), FAILURES)
async def test_failing_stream_ends_with_an_error_event(error: Exception, code: str) -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(event: MutableMapping[str, Any]) -> None:
        sent.append(event)

    stream = EventStream(request(), broken(error))
    await stream(request().scope, leave, send)
    bodies = [event["body"] for event in sent[1:]]
    assert (bodies[0], bodies[-1]) == (b"half", b"")
    assert error_code(bodies[1]) == code
    assert sent[-1]["more_body"] is False


async def test_callback_is_called_when_the_client_leaves_or_has_left() -> None:
    client, left = request(), asyncio.Event()
    client.on_disconnect(left.set)
    await left.wait()
    again: list[bool] = []
    client.on_disconnect(lambda: again.append(True))
    assert again == [True]
    detached = client.detach()
    detached.on_disconnect(lambda: again.append(False))
    await asyncio.sleep(0)
    assert again == [True]


@pytest.mark.parametrize(("error", "code"), FAILURES)
async def test_recording_contains_the_error_event(error: Exception, code: str) -> None:
    recording = Recording()
    await recording.record(broken(error))
    half, rest = [piece async for piece in recording.play()]
    assert (half, error_code(rest)) == (b"half", code)
    assert isinstance(error, HermesError) or "KeyError" not in rest.decode()

"""A stream that fails ends with an error event."""

import json
from collections.abc import AsyncGenerator, MutableMapping
from typing import Any

import pytest

from hermes.core.errors import HermesError, StoreError
from hermes.gateway.platforms.api_server.http import SSE, ApiReply, Exchange
from hermes.gateway.platforms.api_server.idempotency import Recording
from hermes.gateway.platforms.api_server.options import ApiOptions

FAILURES = [(StoreError("the disk is full"), "store_failed"), (KeyError("x"), "internal_error")]


async def broken(error: Exception) -> AsyncGenerator[bytes, None]:
    yield b"half"
    raise error


def told(piece: bytes) -> str:
    return str(json.loads(piece.removeprefix(b"data: "))["error"]["code"])


@pytest.mark.parametrize(("error", "code"), FAILURES)
async def test_failing_stream_ends_with_an_error_event(error: Exception, code: str) -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(event: MutableMapping[str, Any]) -> None:
        sent.append(event)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    exchange = Exchange(receive, send, ApiOptions(), ())
    await exchange.answer(ApiReply(media_type=SSE, stream=broken(error)))
    bodies = [event["body"] for event in sent[1:]]
    assert (bodies[0], bodies[-1]) == (b"half", b"")
    assert told(bodies[1]) == code
    assert sent[-1]["more_body"] is False


@pytest.mark.parametrize(("error", "code"), FAILURES)
async def test_recording_contains_the_error_event(error: Exception, code: str) -> None:
    recording = Recording()
    await recording.record(broken(error))
    half, rest = [piece async for piece in recording.play()]
    assert (half, told(rest)) == (b"half", code)
    assert isinstance(error, HermesError) or "KeyError" not in rest.decode()

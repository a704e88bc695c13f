"""A request with an Idempotency-Key runs once, however often it is sent."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.responses import Response

from hermes.gateway.platforms.api_server import idempotency
from hermes.gateway.platforms.api_server.http import ApiError, ApiRequest, EventStream
from hermes.gateway.platforms.api_server.idempotency import IdempotencyCache
from hermes.gateway.platforms.api_server.options import ApiOptions
from tests.unit.gateway.hand_clock import HandClock


class Work:
    """A handler that counts, waits to be let go, and answers by the number of its run."""

    def __init__(self, *, status: int = 200, stream: bool = False) -> None:
        self.runs = 0
        self.go = asyncio.Event()
        self._status, self._stream = status, stream

    async def __call__(self, request: ApiRequest) -> Response:
        self.runs += 1
        run = self.runs
        if self._stream:
            return EventStream(request, self._pieces(run))
        await self.go.wait()
        return Response(b"%d" % run, self._status)

    async def _pieces(self, run: int) -> AsyncGenerator[bytes, None]:
        yield b"run %d, " % run
        await self.go.wait()
        yield b"end"


def request(
    key: str | None = "k", body: bytes = b"{}", path: str = "/v1/x", session: str = ""
) -> ApiRequest:
    headers = [] if key is None else [(b"idempotency-key", key.encode())]
    headers += [(b"x-hermes-session-id", session.encode())] if session else []
    return ApiRequest(
        {"type": "http", "path": path, "headers": headers}, ApiOptions(), content=body
    )


async def read(reply: Response) -> bytes:
    if isinstance(reply, EventStream):
        return b"".join([piece async for piece in reply.pieces])
    return bytes(reply.body)


async def test_the_same_request_at_the_same_time_runs_once() -> None:
    once, work = IdempotencyCache(HandClock()), Work()
    asked = [asyncio.ensure_future(once.run_once(request(), work)) for _ in range(20)]
    await asyncio.sleep(0)
    work.go.set()
    replies = await asyncio.gather(*asked)
    assert {reply.body for reply in replies} == {b"1"}
    assert work.runs == 1
    assert sum("Idempotent-Replayed" in reply.headers for reply in replies) == 19


async def test_reply_is_dropped_after_five_minutes() -> None:
    clock, work = HandClock(), Work()
    once = IdempotencyCache(clock)
    work.go.set()
    for minutes, run in ((0, b"1"), (4.9, b"1"), (5.2, b"2")):
        clock.time = 1_000_000.0 + minutes * 60
        assert (await once.run_once(request(), work)).body == run


@pytest.mark.parametrize("stream", [False, True])
async def test_five_minutes_start_when_the_reply_is_complete(stream: bool) -> None:
    """A client that gave up after ten minutes asks again for what took eight."""
    clock, work = HandClock(), Work(stream=stream)
    once = IdempotencyCache(clock)
    first = asyncio.ensure_future(answered(once, work))
    await asyncio.sleep(0)
    clock.time += 8 * 60
    work.go.set()
    said = await first
    clock.time += 2 * 60
    assert await answered(once, work) == said
    assert work.runs == 1


async def test_size_of_stored_replies_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MAX_BYTES", 10)
    once, work = IdempotencyCache(HandClock()), Work(stream=True)
    work.go.set()
    for key in ("a", "b", "c"):
        await answered(once, work, key)
    assert await answered(once, work, "c") == b"run 3, end"
    assert await answered(once, work, "a") == b"run 4, end"


async def test_another_session_under_the_same_key_is_refused() -> None:
    once, work = IdempotencyCache(HandClock()), Work()
    work.go.set()
    await once.run_once(request(), work)
    with pytest.raises(ApiError):
        await once.run_once(request(session="s"), work)


async def answered(once: IdempotencyCache, work: Work, key: str = "k") -> bytes:
    return await read(await once.run_once(request(key), work))


async def test_requests_without_a_key_all_run() -> None:
    once, work = IdempotencyCache(HandClock()), Work()
    work.go.set()
    assert [(await once.run_once(request(None), work)).body for _ in range(2)] == [b"1", b"2"]


async def test_another_body_under_the_same_key_is_refused() -> None:
    once, work = IdempotencyCache(HandClock()), Work()
    work.go.set()
    await once.run_once(request(), work)
    with pytest.raises(ApiError) as caught:
        await once.run_once(request(body=b'{"a": 1}'), work)
    assert caught.value.status == 422
    assert (await once.run_once(request(path="/v1/y"), work)).body == b"2"


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_a_key_of_the_wrong_size_is_refused(key: str) -> None:
    with pytest.raises(ApiError):
        await IdempotencyCache(HandClock()).run_once(request(key), Work())


async def test_work_continues_for_the_retry_of_a_client_that_left() -> None:
    once, work = IdempotencyCache(HandClock()), Work()
    first = asyncio.ensure_future(once.run_once(request(), work))
    await asyncio.sleep(0)
    first.cancel()
    work.go.set()
    assert (await once.run_once(request(), work)).body == b"1"


async def test_failed_request_can_be_retried() -> None:
    once, work = IdempotencyCache(HandClock()), Work(status=502)
    work.go.set()
    assert [(await once.run_once(request(), work)).body for _ in range(2)] == [b"1", b"2"]


async def test_late_reader_of_a_stream_gets_it_from_the_beginning() -> None:
    once, work = IdempotencyCache(HandClock()), Work(stream=True)
    first = asyncio.ensure_future(read(await once.run_once(request(), work)))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(read(await once.run_once(request(), work)))
    await asyncio.sleep(0)
    work.go.set()
    assert await asyncio.gather(first, second) == [b"run 1, end"] * 2
    assert await read(await once.run_once(request(), work)) == b"run 1, end"


async def test_close_cancels_running_work() -> None:
    once, work = IdempotencyCache(HandClock()), Work()
    asked = asyncio.ensure_future(once.run_once(request(), work))
    await asyncio.sleep(0)
    await once.close()
    with pytest.raises(asyncio.CancelledError):
        await asked

"""Options, streams, clients that leave, and requests with an Idempotency-Key."""

import asyncio
import json
from collections.abc import AsyncGenerator, MutableMapping
from typing import Any

import pytest
from starlette.responses import Response

from hermes.config.settings.platforms import ApiServerExtra, ApiServerPlatform
from hermes.core.errors import HermesError, StoreError
from hermes.gateway.platforms.api_server import http
from hermes.gateway.platforms.api_server.http import (
    ApiError,
    ApiOptions,
    ApiRequest,
    EventStream,
    IdempotencyCache,
    Recording,
    read_options,
)
from hermes.sdk.platforms import CredentialsRefused
from tests.unit.gateway.hand_clock import HandClock

FAILURES = [(StoreError("the disk is full"), "store_failed"), (KeyError("x"), "internal_error")]


async def broken(error: Exception) -> AsyncGenerator[bytes, None]:
    yield b"half"
    raise error


def error_code(piece: bytes) -> str:
    return str(json.loads(piece.removeprefix(b"data: "))["error"]["code"])


async def leave() -> MutableMapping[str, Any]:
    return {"type": "http.disconnect"}


def leaving() -> ApiRequest:
    return ApiRequest({"type": "http", "method": "POST"}, ApiOptions(), leave)


@pytest.mark.parametrize(("error", "code"), FAILURES)
async def test_failing_stream_ends_with_an_error_event(error, code):
    sent: list[MutableMapping[str, Any]] = []

    async def send(event: MutableMapping[str, Any]) -> None:
        sent.append(event)

    stream = EventStream(leaving(), broken(error))
    await stream(leaving().scope, leave, send)
    bodies = [event["body"] for event in sent[1:]]
    assert (bodies[0], bodies[-1]) == (b"half", b"")
    assert error_code(bodies[1]) == code
    assert sent[-1]["more_body"] is False


async def test_callback_is_called_when_the_client_leaves_or_has_left():
    client, left = leaving(), asyncio.Event()
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
async def test_recording_contains_the_error_event(error, code):
    recording = Recording()
    await recording.record(broken(error))
    half, rest = [piece async for piece in recording.play()]
    assert (half, error_code(rest)) == (b"half", code)
    assert isinstance(error, HermesError) or "KeyError" not in rest.decode()


KEY = "0123456789abcdef"


def options_of(**variables: str) -> ApiOptions:
    return read_options({f"API_SERVER_{name}": value for name, value in variables.items()}.get)


def written(token: str = "", **extra: Any) -> ApiServerPlatform:
    return ApiServerPlatform(token=token, extra=ApiServerExtra(**extra))


def test_settings_take_precedence_over_variables():
    variables = {f"API_SERVER_{name}": "0" * 16 for name in ("KEY", "MODEL_NAME", "HOST")}
    variables |= {"API_SERVER_PORT": "1", "API_SERVER_CORS_ORIGINS": "https://other.example.com"}
    pages = ("https://Chat.example.com/",)
    said = {"host": "0.0.0.0", "port": 0, "cors_origins": pages, "model_name": "butler"}
    wanted = ApiOptions("0.0.0.0", 0, KEY, ("https://chat.example.com",), "butler")
    assert read_options(variables.get, written(key=KEY, **said)) == wanted
    assert read_options(variables.get, written(KEY, **said)) == wanted
    assert read_options(variables.get, written()).port == 1


@pytest.mark.parametrize(
    "connection",
    [
        written("${MY_KEY}"), written(key="${MY_KEY}"), written(key="a-good-beginning-${MY_KEY}"),
        written("short"), written(key="short"),
    ],
)  # fmt: skip
def test_key_can_come_from_settings(connection):
    with pytest.raises(CredentialsRefused) as refused:
        read_options({}.get, connection)
    if "MY_KEY" in f"{connection}":
        assert "${MY_KEY} is not set" in str(refused.value)


def test_configured_but_missing_key_is_refused():
    with pytest.raises(CredentialsRefused, match=r"\$\{MY_KEY\} is not set"):
        read_options({}.get, unset={"API_SERVER_KEY": ("MY_KEY",)}.__getitem__)


def test_defaults_listen_on_loopback():
    options = options_of()
    assert (options.host, options.port, options.key) == ("127.0.0.1", 8642, "")
    assert options.origins == ()
    assert options.model_name == "hermes"


def test_variables_are_used():
    options = options_of(
        HOST="0.0.0.0",
        PORT="9000",
        KEY=f" {KEY} ",
        CORS_ORIGINS="https://Chat.example.com/, http://localhost:3000",
        MODEL_NAME="butler",
    )
    assert options == ApiOptions(
        "0.0.0.0", 9000, KEY, ("https://chat.example.com", "http://localhost:3000"), "butler"
    )


@pytest.mark.parametrize(
    "variables",
    [
        {"KEY": "s3cret"}, {"KEY": "0123456789abcde"}, {"KEY": "ABC" + " " * 20},
        {"CORS_ORIGINS": "chat.example.com"}, {"PORT": "http"}, {"PORT": "70000"},
        {"PORT": "-1"}, {"PORT": "٣"},
    ],
)  # fmt: skip
def test_dangerous_or_invalid_options_are_refused(variables):
    with pytest.raises(CredentialsRefused) as refused:
        options_of(**variables)
    key = variables.get("KEY", "").strip()
    assert not key or key not in str(refused.value)


def test_with_a_key_any_host_and_origin_is_possible():
    assert options_of(HOST="::", KEY=KEY, CORS_ORIGINS="*").origins == ("*",)


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


async def test_the_same_request_at_the_same_time_runs_once():
    once, work = IdempotencyCache(HandClock()), Work()
    asked = [asyncio.ensure_future(once.run_once(request(), work)) for _ in range(20)]
    await asyncio.sleep(0)
    work.go.set()
    replies = await asyncio.gather(*asked)
    assert {reply.body for reply in replies} == {b"1"}
    assert work.runs == 1
    assert sum("Idempotent-Replayed" in reply.headers for reply in replies) == 19


async def test_reply_is_dropped_after_five_minutes():
    clock, work = HandClock(), Work()
    once = IdempotencyCache(clock)
    work.go.set()
    for minutes, run in ((0, b"1"), (4.9, b"1"), (5.2, b"2")):
        clock.time = 1_000_000.0 + minutes * 60
        assert (await once.run_once(request(), work)).body == run


@pytest.mark.parametrize("stream", [False, True])
async def test_five_minutes_start_when_the_reply_is_complete(stream):
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


async def test_size_of_stored_replies_is_limited(monkeypatch):
    monkeypatch.setattr(http, "MAX_BYTES", 10)
    once, work = IdempotencyCache(HandClock()), Work(stream=True)
    work.go.set()
    for key in ("a", "b", "c"):
        await answered(once, work, key)
    assert await answered(once, work, "c") == b"run 3, end"
    assert await answered(once, work, "a") == b"run 4, end"


async def test_another_session_under_the_same_key_is_refused():
    once, work = IdempotencyCache(HandClock()), Work()
    work.go.set()
    await once.run_once(request(), work)
    with pytest.raises(ApiError):
        await once.run_once(request(session="s"), work)


async def answered(once: IdempotencyCache, work: Work, key: str = "k") -> bytes:
    return await read(await once.run_once(request(key), work))


async def test_requests_without_a_key_all_run():
    once, work = IdempotencyCache(HandClock()), Work()
    work.go.set()
    assert [(await once.run_once(request(None), work)).body for _ in range(2)] == [b"1", b"2"]


async def test_another_body_under_the_same_key_is_refused():
    once, work = IdempotencyCache(HandClock()), Work()
    work.go.set()
    await once.run_once(request(), work)
    with pytest.raises(ApiError) as caught:
        await once.run_once(request(body=b'{"a": 1}'), work)
    assert caught.value.status == 422
    assert (await once.run_once(request(path="/v1/y"), work)).body == b"2"


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_a_key_of_the_wrong_size_is_refused(key):
    with pytest.raises(ApiError):
        await IdempotencyCache(HandClock()).run_once(request(key), Work())


async def test_work_continues_for_the_retry_of_a_client_that_left():
    once, work = IdempotencyCache(HandClock()), Work()
    first = asyncio.ensure_future(once.run_once(request(), work))
    await asyncio.sleep(0)
    first.cancel()
    work.go.set()
    assert (await once.run_once(request(), work)).body == b"1"


async def test_failed_request_can_be_retried():
    once, work = IdempotencyCache(HandClock()), Work(status=502)
    work.go.set()
    assert [(await once.run_once(request(), work)).body for _ in range(2)] == [b"1", b"2"]


async def test_late_reader_of_a_stream_gets_it_from_the_beginning():
    once, work = IdempotencyCache(HandClock()), Work(stream=True)
    first = asyncio.ensure_future(read(await once.run_once(request(), work)))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(read(await once.run_once(request(), work)))
    await asyncio.sleep(0)
    work.go.set()
    assert await asyncio.gather(first, second) == [b"run 1, end"] * 2
    assert await read(await once.run_once(request(), work)) == b"run 1, end"


async def test_close_cancels_running_work():
    once, work = IdempotencyCache(HandClock()), Work()
    asked = asyncio.ensure_future(once.run_once(request(), work))
    await asyncio.sleep(0)
    await once.close()
    with pytest.raises(asyncio.CancelledError):
        await asked

"""The capture endpoint: a server between any agent and a model server that records every token.

It accepts chat completions, responses and Anthropic messages, whole and streamed. The rollout that
a call belongs to is named by the first segment of the path, `http://host:port/NAME/v1`, or by the
API key. `POST /NAME/finish` ends a rollout, and `GET /NAME/trace` returns it while it runs.

With vLLM, SGLang and llama.cpp, the ids of earlier turns are kept: only the new messages are
rendered, and their tokens are appended. A history that is rendered again may have other tokens than
the model wrote, and log probabilities of other tokens. Any other server renders the history itself;
its calls are token-exact if it returns the ids of prompt and completion.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Self

import msgspec

from hermes.core.errors import HermesError, ProviderError, UsageError
from hermes.core.messages import Assistant, to_dict
from hermes.core.testing.wires import ANTHROPIC, CHAT, RESPONSES, Answer, Wire
from hermes.envs.capture_requests import read_request
from hermes.envs.model_servers import SOURCES, CaptureRequest, ModelServerClient, ServerKind
from hermes.envs.parsers import get_parser
from hermes.envs.trace import Failure, RecordedCall, Trace, TraceRecorder
from hermes.sdk.platforms.http_server import BodyTooLarge, ClientDisconnected, HttpServer, read_body

MAX_BODY_BYTES = 256_000_000
MAX_WAITING = 2048  #: Connections; many rollouts may begin at the same moment.
KEEP_ALIVE_SECONDS = 10.0  #: A stream without data gets a comment after this time.


_WIRES = {wire.path: wire for wire in (CHAT, ANTHROPIC, RESPONSES)}


class RolloutResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a rollout ended: the body of `POST /NAME/finish`."""

    reward: float | None = None
    rewards: dict[str, float] = {}  #: Instead of `reward`, several by name; their sum counts.
    metrics: dict[str, float] = {}
    task: str = ""
    exit_reason: str = "finished"
    failure: Failure | None = None  #: The rollout has no result, and so no reward.


class CaptureServer:
    """Serves rollouts and records their calls; an async context manager.

    It sends the key of the model server with every request, so it listens on loopback unless
    another host is given.
    """

    def __init__(
        self,
        base_url: str,
        kind: ServerKind,
        *,
        model: str = "",
        api_key: str = "",
        parser: str = "",
        host: str = "127.0.0.1",
        port: int = 0,
        on_finish: Callable[[Trace], None] = lambda _trace: None,
    ) -> None:
        """`parser` names the format of the model's tool calls (`list_parsers`). A server of the
        kind `chat` finds them itself unless a parser is given. Port 0 takes any free port.
        `on_finish` gets the trace of each rollout that `finish` ends."""
        if kind not in SOURCES:
            raise UsageError(f"unknown server kind {kind!r}", hint=f"known: {', '.join(SOURCES)}")
        found = get_parser(parser or "hermes") if parser or kind != "chat" else None
        self.model, self._host, self._port = model, host, port
        self._client = ModelServerClient(base_url, model, api_key)
        self._source = SOURCES[kind](self._client, found)
        self._recorders: dict[str, TraceRecorder] = {}
        self._running: Counter[str] = Counter()  #: Calls that the model has not answered yet.
        self._calls, self._on_finish = 0, on_finish
        self._http: HttpServer | None = None
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        server = self._http = HttpServer(
            self._serve,
            self._host,
            self._port,
            label="the capture endpoint",
            hint="choose another port, or 0 for any free one",
            backlog=MAX_WAITING,
        )
        serving = asyncio.ensure_future(server.serve())
        self._resources.push_async_callback(self._client.close)
        self._resources.push_async_callback(server.close, serving)
        await server.listening.wait()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._resources.aclose()

    def url(self, rollout: str) -> str:
        """Return the base URL for the agent of a rollout."""
        if self._http is None:
            raise UsageError("the capture endpoint is not started", hint="use `async with`")
        return f"http://{self._host}:{self._http.port}/{rollout}/v1"

    def recorder(self, rollout: str) -> TraceRecorder:
        """Return the calls of a rollout, which grow until `take`."""
        return self._recorders.setdefault(rollout, TraceRecorder())

    def take(self, rollout: str) -> TraceRecorder:
        """Return the calls of a rollout and forget them."""
        return self._recorders.pop(rollout, None) or TraceRecorder()

    def rollouts(self, *, idle: float = 0.0) -> list[str]:
        """Return the names of the rollouts with calls that are not finished, and whose last call
        ended at least `idle` seconds ago."""
        latest = time.time() - idle
        return [
            name
            for name, recorder in self._recorders.items()
            if recorder.nodes and recorder.nodes[-1].at <= latest and not self._running[name]
        ]

    def trace(self, rollout: str, result: RolloutResult | None = None) -> Trace:
        """Return the trace of a rollout. Raises `UsageError` if it has no calls."""
        recorder, end = self._recorders.get(rollout), result or RolloutResult(exit_reason="")
        if recorder is None or not recorder.nodes:
            raise UsageError(f"there are no calls of the rollout {rollout!r}")
        began = recorder.nodes[0].at
        single = {"reward": end.reward} if end.reward is not None else {}
        return Trace(
            rollout,
            end.task or rollout,
            task_hash="",
            model=self.model,
            nodes=recorder.nodes,
            tools=recorder.tools,
            rewards={} if end.failure else {**end.rewards, **single},
            metrics=end.metrics,
            failure=end.failure,
            exit_reason=end.exit_reason,
            started_at=began,
            seconds=round(recorder.nodes[-1].at - began, 6),
        )

    def finish(self, rollout: str, result: RolloutResult) -> Trace:
        """Pass the trace of a rollout to `on_finish`, forget its calls and return it. Raises
        `UsageError` if it has none, and what `on_finish` raises; the calls are kept then."""
        trace = self.trace(rollout, result)
        self._on_finish(trace)
        self.take(rollout)
        return trace

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application."""
        method, path = scope["method"], scope["path"]
        prefix, found, rest = path.partition("/v1/")
        wire = _WIRES.get(f"/v1/{rest}") if found else None
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
        key = bearer or headers.get("x-api-key", "")
        name, _, action = path.strip("/").rpartition("/")
        if method == "GET" and found and rest == "models":
            listed = [{"id": self.model or "model", "object": "model", "owned_by": "capture"}]
            await _send_json(send, 200, {"object": "list", "data": listed})
        elif method == "GET" and path == "/health":
            await _send_json(send, 200, {"status": "ok"})
        elif (method, action) in (("POST", "finish"), ("GET", "trace")):
            await self._send_trace(name or key, method, receive, send)
        elif wire is None or method != "POST":
            await _send_json(send, 404, _error(CHAT, f"there is no {method} {path}"))
        else:
            await self._serve_call(wire, prefix.strip("/") or key, headers, receive, send)

    async def _send_trace(self, rollout: str, method: str, receive: Any, send: Any) -> None:
        """Finish a rollout, or only show it. The reply has the trace and its training samples."""
        try:
            if method == "GET":
                trace = self.trace(rollout)
            else:
                data = await read_body(receive, {}, MAX_BODY_BYTES)
                result = msgspec.json.decode(data or b"{}", type=RolloutResult)
                if self._running[rollout]:
                    busy = f"a call of the rollout {rollout!r} is still running"
                    await _send_json(send, 409, _error(CHAT, busy))
                    return
                trace = self.finish(rollout, result)
        except ClientDisconnected:
            return
        except (msgspec.DecodeError, BodyTooLarge) as error:
            await _send_json(send, 400, _error(CHAT, f"the body is invalid: {error}"))
        except UsageError as error:
            await _send_json(send, 404, _error(CHAT, str(error)))
        except OSError as error:
            await _send_json(send, 500, _error(CHAT, f"the trace is not written: {error}"))
        else:
            samples = trace.branches()
            reply = {"reward": trace.reward, "token_exact": trace.token_exact, "samples": samples}
            await _send_json(send, 200, {**reply, "trace": trace})

    async def _serve_call(
        self, wire: Wire, rollout: str, headers: dict[str, str], receive: Any, send: Any
    ) -> None:
        try:
            body = msgspec.json.decode(await read_body(receive, headers, MAX_BODY_BYTES))
            if not rollout:
                raise UsageError("the rollout is not named: use /NAME/v1 or an API key")
            if not isinstance(body, dict):
                raise UsageError("the body is not a JSON object")
            request = read_request(wire, {"model": self.model, **body})
        except ClientDisconnected:
            return
        except BodyTooLarge:
            await _send_json(send, 413, _error(wire, "the body is too large"))
            return
        except (UsageError, msgspec.DecodeError) as error:
            await _send_json(send, 400, _error(wire, str(error)))
            return
        await self._answer(wire, request, rollout, receive, send)

    async def _answer(
        self, wire: Wire, request: CaptureRequest, rollout: str, receive: Any, send: Any
    ) -> None:
        """Complete a request and send the reply. A client that leaves cancels the call, which is
        then not recorded: the agent never saw its reply."""
        work = asyncio.ensure_future(self._complete(request, rollout))
        gone = asyncio.ensure_future(_wait_for_disconnect(receive))
        started = False
        try:
            while not work.done():
                await asyncio.wait(
                    {work, gone}, timeout=KEEP_ALIVE_SECONDS, return_when="FIRST_COMPLETED"
                )
                if gone.done():
                    return
                if not work.done() and request.stream:
                    await _send_stream(send, b": waiting\n\n", start=not started)
                    started = True
            await self._send_reply(wire, request, work, send, started=started)
        finally:
            for task in (work, gone):
                task.cancel()
            with suppress(asyncio.CancelledError, HermesError):
                await work

    async def _complete(self, request: CaptureRequest, rollout: str) -> Answer:
        recorder = self.recorder(rollout)
        began = time.monotonic()
        self._running[rollout] += 1
        try:
            completion = await self._source.complete(request, recorder)
        finally:
            self._running -= Counter([rollout])
        reply = to_dict(Assistant(completion.parts, completion.finish_reason))
        if thought := reply.pop("reasoning", ""):
            reply["reasoning_content"] = thought
        reply.pop("finish_reason")
        recorder.add(
            RecordedCall(
                messages=request.messages,
                tools=request.tools,
                reply=reply,
                finish_reason=completion.finish_reason,
                prompt_ids=completion.prompt_ids,
                completion_ids=completion.completion_ids,
                logprobs=completion.logprobs,
                usage=completion.usage,
                seconds=time.monotonic() - began,
            )
        )
        self._calls += 1
        finish, parts = completion.finish_reason, completion.parts
        now = int(time.time())
        return Answer(self._calls, now, parts, finish, completion.usage, request.body)

    async def _send_reply(
        self,
        wire: Wire,
        request: CaptureRequest,
        work: "asyncio.Future[Answer]",
        send: Any,
        *,
        started: bool,
    ) -> None:
        try:
            answer = work.result()
        except ProviderError as error:
            message = _error(wire, f"{error} ({error.hint})" if error.hint else str(error))
            if started:
                await _send_stream(send, wire.sse({"type": "error", **message}, 0), end=True)
            else:
                await _send_json(send, error.status or 502, message)
            return
        if not request.stream:
            await _send_json(send, 200, wire.whole(answer))
            return
        frames = b"".join(frame for frame, _is_delta in wire.stream(answer))
        await _send_stream(send, frames, start=not started, end=True)


def _error(wire: Wire, message: str) -> dict[str, Any]:
    error = {"type": "invalid_request_error", "message": message}
    return {"type": "error", "error": error} if wire is ANTHROPIC else {"error": error}


async def _wait_for_disconnect(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_json(send: Any, status: int, body: Mapping[str, Any]) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": msgspec.json.encode(body)})


async def _send_stream(send: Any, data: bytes, *, start: bool = False, end: bool = False) -> None:
    if start:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": data, "more_body": not end})

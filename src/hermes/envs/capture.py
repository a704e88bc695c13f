"""The capture endpoint: a server between any agent and a model server that records every token.

It accepts chat completions, responses and Anthropic messages, whole and streamed. The rollout that
a call belongs to is named by the first segment of the path, `http://host:port/NAME/v1`, or by the
API key.

With vLLM and llama.cpp, the ids of earlier turns are kept: only the new messages are rendered, and
their tokens are appended. A history that is rendered again may have other tokens than the model
wrote, and log probabilities of other tokens. Any other server renders the history itself; its calls
are token-exact if it returns the ids of prompt and completion.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Self

import msgspec

from hermes.core.errors import HermesError, ProviderError, UsageError
from hermes.core.messages import Assistant, to_dict
from hermes.core.testing.wires import ANTHROPIC, CHAT, RESPONSES, Answer, Wire
from hermes.envs.model_servers import SOURCES, CaptureRequest, ModelServerClient, ServerKind
from hermes.envs.parsers import get_parser
from hermes.envs.trace import JsonMessage, JsonTool, RecordedCall, TraceRecorder, content_text
from hermes.sdk.platforms.http_server import BodyTooLarge, ClientDisconnected, HttpServer, read_body

MAX_BODY_BYTES = 256_000_000
KEEP_ALIVE_SECONDS = 10.0  #: A stream without data gets a comment after this time.


# Requests of the three APIs


def read_request(wire: Wire, body: Mapping[str, Any]) -> CaptureRequest:
    """Convert a request. Raises `UsageError` if it is invalid."""
    try:
        if wire is ANTHROPIC:
            return _from_anthropic(body)
        return _from_responses(body) if wire is RESPONSES else _from_chat(body)
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"the request is invalid: {type(error).__name__}: {error}") from error


def _from_chat(body: Mapping[str, Any]) -> CaptureRequest:
    own = ("model", "messages", "tools", "stream", "max_tokens", "max_completion_tokens")
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    options = {name: value for name, value in body.items() if name not in own}
    messages, tools = list(body["messages"]), list(body.get("tools") or ())
    for tool in tools:
        _ = tool["function"]["name"]
    return CaptureRequest(messages, tools, options, limit, bool(body.get("stream")), dict(body))


_SHARED_OPTIONS = ("temperature", "top_p", "top_k", "chat_template_kwargs")


def _from_anthropic(body: Mapping[str, Any]) -> CaptureRequest:
    options = {name: body[name] for name in _SHARED_OPTIONS if name in body}
    if stops := body.get("stop_sequences"):
        options["stop"] = stops
    messages: list[JsonMessage] = []
    if system := body.get("system"):
        messages.append({"role": "system", "content": content_text(system)})
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "assistant":
            messages.append(_anthropic_reply(blocks))
            continue
        for block in blocks:
            if block["type"] == "tool_result":
                text = content_text(block.get("content"))
                messages.append(
                    {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}
                )
        if texts := [block["text"] for block in blocks if block["type"] == "text"]:
            messages.append({"role": "user", "content": "\n".join(texts)})
    tools = [
        _tool(each["name"], each.get("description"), each["input_schema"])
        for each in body.get("tools") or ()
    ]
    stream, limit = bool(body.get("stream")), body.get("max_tokens")
    return CaptureRequest(messages, tools, options, limit, stream, dict(body))


def _anthropic_reply(blocks: Sequence[Mapping[str, Any]]) -> JsonMessage:
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    message: JsonMessage = {"role": "assistant", "content": text}
    if thoughts := [block["thinking"] for block in blocks if block["type"] == "thinking"]:
        message["reasoning_content"] = "\n".join(thoughts)
    calls = [
        _call(block["id"], block["name"], msgspec.json.encode(block["input"]).decode())
        for block in blocks
        if block["type"] == "tool_use"
    ]
    return {**message, "tool_calls": calls} if calls else message


def _from_responses(body: Mapping[str, Any]) -> CaptureRequest:
    if body.get("previous_response_id"):
        raise UsageError("previous_response_id is not supported: send the whole input")
    messages: list[JsonMessage] = []
    if instructions := body.get("instructions"):
        messages.append({"role": "system", "content": instructions})
    items = body["input"]
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        _add_item(messages, item)
    tools = [
        _tool(each["name"], each.get("description"), each["parameters"])
        for each in body.get("tools") or ()
        if each.get("type") == "function"
    ]
    options = {name: body[name] for name in _SHARED_OPTIONS if name in body}
    stream, limit = bool(body.get("stream")), body.get("max_output_tokens")
    return CaptureRequest(messages, tools, options, limit, stream, dict(body))


def _add_item(messages: list[JsonMessage], item: Mapping[str, Any]) -> None:
    """Add an input item. Reasoning, text and calls of one reply form one message."""
    kind = item.get("type") or "message"
    if kind == "function_call_output":
        output = item["output"]
        text = output if isinstance(output, str) else content_text(output)
        messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": text})
        return
    if kind == "message" and item["role"] != "assistant":
        role = "system" if item["role"] == "developer" else item["role"]
        messages.append({"role": role, "content": content_text(item["content"])})
        return
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    reply = messages[-1]
    if kind == "message":
        reply["content"] += content_text(item["content"])
    elif kind == "function_call":
        call = _call(item["call_id"], item["name"], item["arguments"])
        reply.setdefault("tool_calls", []).append(call)
    elif kind == "reasoning":
        thought = content_text(item.get("content")) or content_text(item.get("summary"))
        reply["reasoning_content"] = reply.get("reasoning_content", "") + thought


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def _tool(name: str, description: str | None, parameters: Any) -> JsonTool:
    function = {"name": name, "description": description or "", "parameters": parameters}
    return {"type": "function", "function": function}


# The server

_WIRES = {wire.path: wire for wire in (CHAT, ANTHROPIC, RESPONSES)}


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
    ) -> None:
        """`parser` names the format of the model's tool calls (`list_parsers`). A server of the
        kind `chat` finds them itself unless a parser is given. Port 0 takes any free port."""
        if kind not in SOURCES:
            raise UsageError(f"unknown server kind {kind!r}", hint=f"known: {', '.join(SOURCES)}")
        found = get_parser(parser or "hermes") if parser or kind != "chat" else None
        self.model, self._host, self._port = model, host, port
        self._client = ModelServerClient(base_url, model, api_key)
        self._source = SOURCES[kind](self._client, found)
        self._recorders: dict[str, TraceRecorder] = {}
        self._calls = 0
        self._http: HttpServer | None = None
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        server = self._http = HttpServer(
            self._serve,
            self._host,
            self._port,
            label="the capture endpoint",
            hint="choose another port, or 0 for any free one",
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

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application."""
        path = scope["path"]
        prefix, found, rest = path.partition("/v1/")
        wire = _WIRES.get(f"/v1/{rest}") if found else None
        if scope["method"] == "GET" and found and rest == "models":
            listed = [{"id": self.model or "model", "object": "model", "owned_by": "capture"}]
            await _send_json(send, 200, {"object": "list", "data": listed})
            return
        if scope["method"] == "GET" and path == "/health":
            await _send_json(send, 200, {"status": "ok"})
            return
        if wire is None or scope["method"] != "POST":
            await _send_json(send, 404, _error(CHAT, f"there is no {scope['method']} {path}"))
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
        rollout = prefix.strip("/") or bearer or headers.get("x-api-key", "")
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
        completion = await self._source.complete(request, recorder)
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

"""A model server to test against: real HTTP on loopback, three wires, answers from a script."""

import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Self

import msgspec

from hermes.core.messages import AssistantPart, ToolCall
from hermes.core.model import FREE, Price, Usage
from hermes.core.testing import script
from hermes.core.testing.http_server import Action, LoopbackServer, Outgoing, RecordedRequest, Stop
from hermes.core.testing.prefix_cache import (
    MOST_BREAKPOINTS,
    PrefixCache,
    SessionReport,
    prompt_blocks,
    session_report,
)
from hermes.core.testing.script import (
    REFUSALS,
    Redirect,
    Refusal,
    Refuse,
    Script,
    ScriptError,
    ScriptItem,
    Step,
    StepLike,
    as_step,
    output_tokens,
    thought_tokens,
)
from hermes.core.testing.wires import ANTHROPIC, CHAT, RESPONSES, Answer, Wire

# How a reply leaves the server: its bytes, with the faults of the step worked in.
#
# A fault that cannot strike is a `ScriptError`: a test must not pass because nothing went wrong.

TORN = b'data: {"id":"torn","choices":[{"delta":{"content":"to\n\n'
COMMENT = b": keep-alive\n\n"


def parts_of(step: Step) -> tuple[AssistantPart, ...]:
    """Return the parts with the ids that the step asks for."""
    ids = step.fault(script.CallIds)
    if ids is None:
        return step.parts
    _need_calls(step, ids, 2 if ids.mode == "duplicate" else 1)
    shared = step.calls[0].id if ids.mode == "duplicate" else ""
    return tuple(
        msgspec.structs.replace(part, id=shared) if isinstance(part, ToolCall) else part
        for part in step.parts
    )


def _need_calls(step: Step, fault: script.Fault, least: int) -> None:
    if len(step.calls) < least:
        raise ScriptError(f"the reply has {len(step.calls)} tool calls, too few for {fault!r}")


def streamed(wire: Wire, answer: Answer, step: Step) -> list[Action]:
    interleave = step.fault(script.Interleave)
    if interleave:
        _need_calls(step, interleave, 2)
    frames = wire.stream(answer, interleave=interleave is not None)
    step.check_reach(sum(delta for _, delta in frames))
    before: list[Action] = []
    if slow := step.fault(script.Slow):
        before.append(float(slow.seconds))
    if step.fault(script.KeepAlive):
        before.append(COMMENT)
    seen, actions = 0, _due(0, 0, wire, answer, step)
    for number, (data, delta) in enumerate(frames, start=1):
        actions += [*before, data]
        if delta:
            seen += 1
            actions += _due(seen, number, wire, answer, step)
    return actions


def _due(seen: int, number: int, wire: Wire, answer: Answer, step: Step) -> list[Action]:
    """Return the faults after `seen` deltas, which are `number` events."""
    actions: list[Action] = []
    for fault in step.faults:
        match fault:
            case script.Stall(after, seconds) if after == seen:
                actions.append(float(seconds))
            case script.Malformed(after) if after == seen:
                # Named like any other delta, so that no client skips it.
                name = wire.delta(answer, 0, "").get("type") if answer.parts else None
                actions.append((f"event: {name}\n".encode() if name else b"") + TORN)
            case script.ErrorEvent(after, kind) if after == seen:
                event = wire.error_event(answer, REFUSALS[kind])
                actions += [wire.sse(event, number), Stop.END]
            case script.Cut(after) if after == seen:
                actions.append(Stop.CUT)
    return actions


def whole(wire: Wire, answer: Answer, step: Step) -> list[Action]:
    """Return the reply in one body; `after` has no meaning here."""
    body = msgspec.json.encode(wire.whole(answer))
    half = len(body) // 2
    actions: list[Action] = [body]
    for fault in step.faults:
        match fault:
            case script.ErrorEvent() | script.KeepAlive() | script.Interleave():
                raise ScriptError(f"{fault!r} needs a request with stream: true")
            case script.Slow(seconds=seconds) | script.Stall(seconds=seconds):
                actions.insert(0, float(seconds))
            case script.Malformed():
                actions[-1] = body[:half]
            case script.Cut():
                actions[-1:] = [body[:half], Stop.CUT, body[half:]]
    return actions


def add_transfer_faults(outgoing: Outgoing, step: Step) -> Outgoing:
    """Return `outgoing` with the faults of any response: compression, headers, torn bytes."""
    headers, actions = outgoing.headers, outgoing.actions
    if step.fault(script.Gzip):
        headers, actions = {**headers, "Content-Encoding": "gzip"}, _gzipped(actions)
    if extra := step.fault(script.Headers):
        replaced = {name.lower() for name in extra.values}
        kept = {name: value for name, value in headers.items() if name.lower() not in replaced}
        headers = {**kept, **extra.values}
    split = step.fault(script.SplitBytes)
    return msgspec.structs.replace(
        outgoing, headers=headers, actions=actions, split=split.size if split else 0
    )


def _gzipped(actions: Sequence[Action]) -> list[Action]:
    """Return one compressed body, flushed after each piece: a client can read it at once."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    packed: list[Action] = []
    for action in actions:
        match action:
            case bytes():
                packed.append(packer.compress(action) + packer.flush(zlib.Z_SYNC_FLUSH))
            case Stop.END:
                return [*packed, packer.flush()]
            case _:
                packed.append(action)
    return [*packed, packer.flush()]


WIRES = {wire.path: wire for wire in (CHAT, ANTHROPIC, RESPONSES)}
_JSON = "application/json"


class ModelServer:
    """Answers `/v1/chat/completions`, `/v1/messages`, `/v1/responses` and `/v1/models`.

    `/v1` may be left out. Used as a context manager; leaving it fails when a step was not used or
    a call had none. Calls take the steps in the order they arrive.
    """

    def __init__(
        self,
        script: Sequence[ScriptItem] | Callable[[RecordedRequest], StepLike],
        *,
        models: Sequence[str] = ("lab-model",),
        port: int = 0,
        clock: Callable[[], float] = time.monotonic,
        log: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.requests: list[RecordedRequest] = []  #: Everything that came in, listings too.
        self.failures: list[Exception] = []  #: What went wrong with the script itself.
        self._script = Script(script)
        self._models = models
        self._cache = PrefixCache(clock)
        self._usages: list[Usage] = []
        self._log = log
        self._port = port
        self._http: LoopbackServer | None = None

    @property
    def url(self) -> str:
        """The root, without `/v1`."""
        return f"http://127.0.0.1:{self._running.port}"

    @property
    def calls(self) -> list[RecordedRequest]:
        """The requests that called a model."""
        return [request for request in self.requests if _wire(request)]

    @property
    def connections(self) -> int:
        """How many connections were made; a client that reuses its own makes one."""
        return self._running.connections

    @property
    def hangups(self) -> int:
        """How many clients left before their reply was complete."""
        return self._running.hangups

    @property
    def _running(self) -> LoopbackServer:
        if self._http is None:
            raise RuntimeError("the model server is not started")
        return self._http

    def start(self) -> Self:
        self._http = LoopbackServer(self._respond, self._port)
        return self

    def close(self) -> None:
        self._running.close()

    def verify(self) -> None:
        """Raise the first failure of the script, or `ScriptError` when steps are left over."""
        if self.failures:
            raise self.failures[0]
        self._script.verify()

    def session_report(self, price: Price = FREE) -> SessionReport:
        """Return tokens and cost of all calls so far that were not refused."""
        return session_report(self._usages, price)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: object, *_error: object) -> None:
        self.close()
        if kind is None:
            self.verify()

    def _respond(self, request: RecordedRequest) -> Outgoing:
        self.requests.append(request)
        calls = len(self._usages)
        path = request.path.partition("?")[0]
        if wire := _wire(request):
            outgoing = self._call(wire, request)
        elif path in ("/v1/models", "/models") and request.method == "GET":
            outgoing = _sent(200, _models(self._models, request))
        else:
            message = f"Invalid URL ({request.method} {path})"
            outgoing = _sent(404, CHAT.error(_invalid(message)))
        line = f"{request.method} {request.path} -> {outgoing.status}"
        for usage in self._usages[calls:]:
            line += f" ({usage.prompt} prompt tokens, {usage.cache_read} from the cache)"
        self._log(line)
        return outgoing

    def _call(self, wire: Wire, request: RecordedRequest) -> Outgoing:
        try:
            if complaint := _complaint(wire, request.body):
                return _sent(400, wire.error(_invalid(complaint)))
            step = self._script.take(request)
            return add_transfer_faults(self._reply(wire, request, step), step)
        except Exception as error:  # noqa: BLE001 - a wrong script fails the test, not the thread
            self.failures.append(error)
            return _sent(400, wire.error(_invalid(f"model server: {error}")))

    def _reply(self, wire: Wire, request: RecordedRequest, step: Step) -> Outgoing:
        if refuse := step.fault(Refuse):
            return _refused(wire, refuse)
        if redirect := step.fault(Redirect):
            return Outgoing(redirect.status, {"Location": redirect.location}, [])
        parts = parts_of(step)
        usage = step.usage or msgspec.structs.replace(
            self._cache.measure(wire, request.body),
            output=output_tokens(parts),
            reasoning=thought_tokens(parts),
        )
        number, created = len(self._usages) + 1, int(time.time())
        answer = Answer(number, created, parts, step.finish, usage, request.body)
        stream = bool(request.body.get("stream"))
        actions = (streamed if stream else whole)(wire, answer, step)
        self._usages.append(usage)
        headers = {
            "Content-Type": "text/event-stream; charset=utf-8" if stream else _JSON,
            wire.request_id: f"req_{number:04}",
        }
        return Outgoing(200, headers, actions, chunked=stream)


def _wire(request: RecordedRequest) -> Wire | None:
    """Return the wire on which a request calls a model, or None."""
    path = request.path.partition("?")[0]
    found = WIRES.get(path) or WIRES.get("/v1" + path)
    return found if request.method == "POST" else None


def _complaint(wire: Wire, body: Any) -> str:
    """Return the complaint of a real endpoint about the request, or ""."""
    if not isinstance(body, dict):
        return "We could not parse the JSON body of your request."
    if missing := [field for field in wire.required if field not in body]:
        return f"Missing required parameter: '{missing[0]}'."
    marks = sum(block.ttl > 0 for block in prompt_blocks(wire, body))
    if marks > MOST_BREAKPOINTS:
        return f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    return ""


def _invalid(message: str) -> Refusal:
    kind = "invalid_request_error"
    return Refusal(400, kind, None, message, kind, message)


def _refused(wire: Wire, refuse: Refuse) -> Outgoing:
    refusal = REFUSALS[refuse.kind]
    headers = {"Content-Type": _JSON, wire.request_id: "req_0001"}
    if refuse.retry_after is not None:
        headers["Retry-After"] = f"{refuse.retry_after:g}"
    if refusal.raw is not None:
        return Outgoing(refusal.status, {**headers, "Content-Type": "text/html"}, [refusal.raw])
    return Outgoing(refusal.status, headers, [msgspec.json.encode(wire.error(refusal))])


def _sent(status: int, body: dict[str, Any]) -> Outgoing:
    return Outgoing(status, {"Content-Type": _JSON}, [msgspec.json.encode(body)])


def _models(names: Sequence[str], request: RecordedRequest) -> dict[str, Any]:
    if "anthropic-version" in request.headers:
        kind = {"type": "model", "created_at": "2026-01-01T00:00:00Z", "lifecycle": "active"}
        listed = [{**kind, "id": name, "display_name": name} for name in names]
        ends = {"first_id": names[0], "last_id": names[-1]} if names else {}
        return {"data": listed, "has_more": False, **ends}
    fields = {"object": "model", "created": 1767225600, "owned_by": "lab"}
    return {"object": "list", "data": [{**fields, "id": name} for name in names]}


def echo(request: RecordedRequest) -> Step:
    """Answer with the last text of the user, on any wire; for use as a script."""
    said = request.body.get("messages") or request.body.get("input") or ""
    if isinstance(said, str):
        return as_step(said)
    texts = [_text(item.get("content")) for item in said if item.get("role") == "user"]
    return as_step(next((text for text in reversed(texts) if text), "(nothing was said)"))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content or () if "text" in block)

"""How a reply leaves the server: its bytes, with the faults of the step worked in.

A fault that cannot strike is a `ScriptError`: a test must not pass because nothing went wrong.
"""

import zlib
from collections.abc import Sequence

import msgspec

from hermes.core.messages import AssistantPart, ToolCall
from hermes.core.testing import steps
from hermes.core.testing.refusals import REFUSALS
from hermes.core.testing.steps import ScriptError, Step
from hermes.core.testing.wire import Answer, Wire
from hermes.util.loopback_http import Action, Outgoing, Stop

TORN = b'data: {"id":"torn","choices":[{"delta":{"content":"to\n\n'
COMMENT = b": keep-alive\n\n"


def parts_of(step: Step) -> tuple[AssistantPart, ...]:
    """The parts with the ids the step asks for."""
    ids = step.fault(steps.CallIds)
    if ids is None:
        return step.parts
    _need_calls(step, ids, 2 if ids.mode == "duplicate" else 1)
    shared = step.calls[0].id if ids.mode == "duplicate" else ""
    return tuple(
        msgspec.structs.replace(part, id=shared) if isinstance(part, ToolCall) else part
        for part in step.parts
    )


def _need_calls(step: Step, fault: steps.Fault, least: int) -> None:
    if len(step.calls) < least:
        raise ScriptError(f"the reply has {len(step.calls)} tool calls, too few for {fault!r}")


def streamed(wire: Wire, answer: Answer, step: Step) -> list[Action]:
    interleave = step.fault(steps.Interleave)
    if interleave:
        _need_calls(step, interleave, 2)
    frames = wire.stream(answer, interleave=interleave is not None)
    step.check_reach(sum(delta for _, delta in frames))
    before: list[Action] = []
    if slow := step.fault(steps.Slow):
        before.append(float(slow.seconds))
    if step.fault(steps.KeepAlive):
        before.append(COMMENT)
    seen, actions = 0, _due(0, 0, wire, answer, step)
    for number, (data, delta) in enumerate(frames, start=1):
        actions += [*before, data]
        if delta:
            seen += 1
            actions += _due(seen, number, wire, answer, step)
    return actions


def _due(seen: int, number: int, wire: Wire, answer: Answer, step: Step) -> list[Action]:
    """What goes wrong once `seen` deltas, of `number` events, are out."""
    actions: list[Action] = []
    for fault in step.faults:
        match fault:
            case steps.Stall(after, seconds) if after == seen:
                actions.append(float(seconds))
            case steps.Malformed(after) if after == seen:
                actions.append(_torn(wire, answer))
            case steps.ErrorEvent(after, kind) if after == seen:
                event = wire.error_event(answer, REFUSALS[kind])
                actions += [wire.sse(event, number), Stop.END]
            case steps.Cut(after) if after == seen:
                actions.append(Stop.CUT)
    return actions


def _torn(wire: Wire, answer: Answer) -> bytes:
    """Named like any other delta, so that no client passes over it."""
    name = wire.delta(answer, 0, "").get("type") if answer.parts else None
    return (f"event: {name}\n".encode() if name else b"") + TORN


def whole(wire: Wire, answer: Answer, step: Step) -> list[Action]:
    """The reply in one body; `after` has no meaning here."""
    body = msgspec.json.encode(wire.whole(answer))
    half = len(body) // 2
    actions: list[Action] = [body]
    for fault in step.faults:
        match fault:
            case steps.ErrorEvent() | steps.KeepAlive() | steps.Interleave():
                raise ScriptError(f"{fault!r} needs a request with stream: true")
            case steps.Slow(seconds=seconds) | steps.Stall(seconds=seconds):
                actions.insert(0, float(seconds))
            case steps.Malformed():
                actions[-1] = body[:half]
            case steps.Cut():
                actions[-1:] = [body[:half], Stop.CUT, body[half:]]
    return actions


def dressed(outgoing: Outgoing, step: Step) -> Outgoing:
    """With the faults that strike whatever is sent: compression, headers, torn bytes."""
    headers, actions = outgoing.headers, outgoing.actions
    if step.fault(steps.Gzip):
        headers, actions = {**headers, "Content-Encoding": "gzip"}, _gzipped(actions)
    if extra := step.fault(steps.Headers):
        replaced = {name.lower() for name in extra.values}
        kept = {name: value for name, value in headers.items() if name.lower() not in replaced}
        headers = {**kept, **extra.values}
    split = step.fault(steps.SplitBytes)
    return msgspec.structs.replace(
        outgoing, headers=headers, actions=actions, split=split.size if split else 0
    )


def _gzipped(actions: Sequence[Action]) -> list[Action]:
    """One compressed body, flushed after each piece so that a client can read it at once."""
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

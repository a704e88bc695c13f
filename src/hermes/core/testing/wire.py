"""What the three wires share: the reply, and how a stream is built from its parts."""

from collections.abc import Callable
from itertools import chain, zip_longest
from typing import Any

import msgspec

from hermes.core.messages import AssistantPart, ToolCall
from hermes.core.model import Usage
from hermes.core.testing.script import Refusal, pieces

Event = dict[str, Any]
Events = list[tuple[Event, bool]]  #: The flag says that the event is a delta; faults count these.


class Answer(msgspec.Struct, frozen=True):
    """A reply as a wire writes it, with what the wire needs of the request."""

    number: int
    created: int
    parts: tuple[AssistantPart, ...]
    finish: str
    usage: Usage
    body: dict[str, Any]  #: The request.


class Wire(msgspec.Struct, frozen=True):
    """One API. The functions of a part get its index."""

    path: str
    required: tuple[str, ...]  #: Fields a request must have.
    prompt: tuple[str, ...]  #: Fields that make up the prompt, in the order the model reads them.
    whole: Callable[[Answer], Event]  #: The reply when it is not streamed.
    start: Callable[[Answer], list[Event]]
    open_part: Callable[[Answer, int], list[Event]]
    delta: Callable[[Answer, int, str], Event]
    close_part: Callable[[Answer, int], list[Event]]
    end: Callable[[Answer], list[Event]]
    error: Callable[[Refusal], Event]  #: The body of an HTTP error.
    error_event: Callable[[Answer, Refusal], Event]  #: The error inside a stream.
    request_id: str = "x-request-id"  #: The response header that names the request.
    automatic_cache: bool = True  #: False: only prefixes marked with `cache_control` are cached.
    numbered: bool = False  #: True: each event has a `sequence_number`.
    done: bytes = b""  #: Sent after the last event.

    def stream(self, answer: Answer, *, interleave: bool = False) -> list[tuple[bytes, bool]]:
        """Return the whole reply as SSE events."""
        parts = [self._part(answer, index) for index in range(len(answer.parts))]
        if interleave:
            parts = _interleaved(answer, parts)
        events = [_plain(self.start(answer)), *chain(*parts), _plain(self.end(answer))]
        numbered = enumerate(chain(*events))
        frames = [(self.sse(event, number), delta) for number, (event, delta) in numbered]
        return [*frames, (self.done, False)] if self.done else frames

    def _part(self, answer: Answer, index: int) -> list[Events]:
        """Return the first events of a part, its deltas and its last events."""
        deltas = [
            (self.delta(answer, index, p), True) for p in pieces(text_of(answer.parts[index]))
        ]
        opened, closed = self.open_part(answer, index), self.close_part(answer, index)
        return [_plain(opened), deltas, _plain(closed)]

    def sse(self, event: Event, number: int) -> bytes:
        if self.numbered:
            event = {**event, "sequence_number": number}
        name = f"event: {event['type']}\n" if "type" in event else ""
        return name.encode() + b"data: " + msgspec.json.encode(event) + b"\n\n"


def _plain(events: list[Event]) -> Events:
    return [(event, False) for event in events]


def _interleaved(answer: Answer, parts: list[list[Events]]) -> list[list[Events]]:
    """Let all calls begin, send their arguments in turns, and end all of them."""
    calls = [p for p, part in zip(parts, answer.parts, strict=True) if isinstance(part, ToolCall)]
    begun, deltas, ended = zip(*calls, strict=True)
    turns = [delta for turn in zip_longest(*deltas) for delta in turn if delta]
    together = [list(chain(*begun)), turns, list(chain(*ended))]
    return [*(part for part in parts if part not in calls), together]


def text_of(part: AssistantPart) -> str:
    """Return the text of a part that is streamed."""
    return part.arguments if isinstance(part, ToolCall) else part.text


def named(key: str, call: ToolCall) -> dict[str, str]:
    """Return the id of a call under `key`; nothing for a call without an id."""
    return {key: call.id} if call.id else {}

"""Messages that others answer: the last ones are remembered, older ones are asked for."""

from collections.abc import Callable

import msgspec

from hermes.core.ports import Clock
from hermes.gateway.platforms.matrix.patience import insistently
from hermes.gateway.platforms.matrix.reading import ENCRYPTED, QUOTED, Seen, seen_of
from hermes.gateway.platforms.matrix.shapes import Json, table, word
from hermes.gateway.platforms.matrix.wire import Wire, path

MOST = 500

Opens = Callable[[str, Json], Json | None]
"""Decrypts an event of a room; None when it cannot be."""


class Quotes:
    def __init__(self, wire: Wire, clock: Clock, opens: Opens) -> None:
        self._wire, self._clock, self._opens = wire, clock, opens
        self._known: dict[str, Seen] = {}

    def note(self, event: Json) -> None:
        """An event that came, also one of ours."""
        content, event_id = table(event, "content"), word(event, "event_id")
        if word(content, "m.relates_to", "rel_type") == "m.replace":
            event_id = word(content, "m.relates_to", "event_id")
            before = self._known.get(event_id)
            if before is None or before.sender != word(event, "sender"):
                return
            text = word(content, "m.new_content", "body")[:QUOTED]
            self._known[event_id] = msgspec.structs.replace(before, text=text)
        elif "body" in content:
            self._known[event_id] = seen_of(event)
            while len(self._known) > MOST:
                del self._known[next(iter(self._known))]

    async def find(self, room_id: str, event_id: str) -> Seen | None:
        if event_id not in self._known:
            nothing: Json = {}
            event = await insistently(
                lambda: self._wire.get(path("rooms", room_id, "event", event_id)),
                self._clock,
                nothing,
                "a message that was answered",
            )
            if event.get("type") == ENCRYPTED:
                event = self._opens(room_id, event) or {}
            self.note(event)
            edit = table(event, "unsigned", "m.relations", "m.replace")
            if edit.get("type") == ENCRYPTED:
                edit = self._opens(room_id, edit) or {}
            self.note(edit)
        return self._known.get(event_id)

"""Which events of a room are new to us. The homeserver leaves out the middle of a long absence;
that is asked for here."""

import logging

import msgspec

from hermes.gateway.platforms.matrix.reading import ENCRYPTED, MESSAGE, STICKER
from hermes.gateway.platforms.matrix.rooms import Room
from hermes.gateway.platforms.matrix.shapes import Json, at, tables, word
from hermes.gateway.platforms.matrix.wire import Wire, path

log = logging.getLogger(__name__)

PAGE = 100
MOST_PAGES = 10
"""Of what was missed in one room. What is older is not answered any more."""
MEMBER = "m.room.member"
FILTER = msgspec.json.encode(
    {"types": [MESSAGE, STICKER, ENCRYPTED, MEMBER], "lazy_load_members": True}
).decode()


async def new_events(wire: Wire, room: Room, joined: Json, since: str, me: str) -> list[Json]:
    """Oldest first. In a room that we just came into this is what was said since we were invited.
    Raises what `wire.TROUBLE` names."""
    events = tables(joined, "timeline", "events")
    if at(joined, "timeline", "limited") is True:
        start = word(joined, "timeline", "prev_batch")
        events = [*await _before(wire, room, start, since, events, me), *events]
    unique = {word(event, "event_id"): event for event in events}
    return since_entered(list(unique.values()), me)


def since_entered(events: list[Json], me: str) -> list[Json]:
    """What came after we were invited, or came in without that; all when we were there before."""
    entered = _entered(events, me)
    if entered is None:
        return events
    invited = _invited(events[:entered], me)
    return events[(entered if invited is None else invited) + 1 :]


async def _before(
    wire: Wire, room: Room, start: str, since: str, later: list[Json], me: str
) -> list[Json]:
    """Back to where we were, or to our invitation."""
    fresh = _entered(later, me) is not None
    if fresh and _invited(later, me) is not None:
        return []
    query = {"dir": "b", "limit": str(PAGE), "filter": FILTER}
    if not fresh:
        query["to"] = since
    found: list[Json] = []
    for _ in range(MOST_PAGES):
        page = await wire.get(path("rooms", room.id, "messages"), query | {"from": start})
        for event in tables(page, "state"):
            room.note(event)
        chunk = tables(page, "chunk")
        found += chunk
        start = word(page, "end")
        if not start or (fresh and _invited(chunk, me) is not None):
            break
    else:
        if fresh:  # a long history, and nobody invited us: what was said before is not for us
            return []
        log.warning("too much was said in %s: the oldest of it is left out", room.id)
    return found[::-1]


def _entered(events: list[Json], me: str) -> int | None:
    """Where we came in, the last time."""
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if not _is_ours(event, me, "join"):
            continue
        before = word(event, "unsigned", "prev_content", "membership")
        # Without that, what replaces something may be a change of our name only.
        if before != "join" and (before or not word(event, "unsigned", "replaces_state")):
            return index
    return None


def _invited(events: list[Json], me: str) -> int | None:
    found = [index for index, event in enumerate(events) if _is_ours(event, me, "invite")]
    return found[-1] if found else None


def _is_ours(event: Json, me: str, membership: str) -> bool:
    if event.get("type") != MEMBER or event.get("state_key") != me:
        return False
    return word(event, "content", "membership") == membership

"""What was said around the places that match, as text for a model."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import assert_never

from hermes.core.messages import Assistant, Message, System, ToolResult, User
from hermes.store.port import Conversations
from hermes.store.records import LoggedMessage, SearchHit
from hermes.tools.recall.conversations import Conversation
from hermes.util.text import cut_middle

GAP = "[…]"
MOST_SAID = 8_000
"""Characters of one message of a person or the agent."""
MOST_SHOWN = 1_500
"""Characters of one result of a tool."""
MOST_ARGUMENTS = 200


async def transcript(sessions: Conversations, conversation: Conversation, room: int) -> str:
    """At most about `room` characters of the conversation, those nearest to the matches."""
    hits = {hit.id: hit for hit in conversation.hits}
    found = {hit.session_id for hit in conversation.hits}
    # What follows on a match may stand in the session after a compaction.
    near = [each for each in conversation.members if {each.id, each.parent_id} & found]
    logged = [message for each in near for message in await sessions.log(each.id)]
    logged.sort(key=lambda message: message.id)
    pieces = [_piece(message, hits.get(message.id)) for message in logged]
    centres = [place for place, message in enumerate(logged) if message.id in hits]
    return around(pieces, centres, room)


def around(pieces: Sequence[str], centres: Collection[int], room: int) -> str:
    """The pieces nearest to the centres as long as there is room, in their order, with a sign
    where some are left out."""

    def distance(place: int) -> int:
        return min((abs(place - centre) for centre in centres), default=place)

    chosen: list[int] = []
    for place in sorted(range(len(pieces)), key=distance):
        room -= len(pieces[place]) + 1
        if chosen and room < 0:
            break
        chosen.append(place)
    lines: list[str] = []
    before = -1
    for place in sorted(chosen):
        lines += [GAP] * (place > before + 1) + [pieces[place]]
        before = place
    return "\n".join(lines + [GAP] * (before + 1 < len(pieces)))


def when(timestamp: float) -> str:
    """`2026-01-31 14:05`, in the time of this machine."""
    return f"{datetime.fromtimestamp(timestamp, UTC).astimezone():%Y-%m-%d %H:%M}"


def _piece(logged: LoggedMessage, hit: SearchHit | None) -> str:
    who, text, limit = _said(logged.message)
    shown = cut_middle(text, limit)
    if hit is not None and len(text) > limit:
        shown += f"\n[what matched in it: {hit.snippet}]"
    return f"{who}, {when(logged.timestamp)}: {shown}"


def _said(message: Message) -> tuple[str, str, int]:
    """Who, what, and how much of it is shown."""
    match message:
        case User():
            return "User", message.text, MOST_SAID
        case Assistant():
            calls = [f"[calls {call.name} {_short(call.arguments)}]" for call in message.calls]
            return "Agent", "\n".join(filter(None, [message.text, *calls])), MOST_SAID
        case ToolResult():
            return f"Tool {message.name}", message.text, MOST_SHOWN
        case System():
            return "System", message.text, MOST_SHOWN
        case _:
            assert_never(message)


def _short(arguments: str) -> str:
    text = " ".join(arguments.split())
    return text if len(text) <= MOST_ARGUMENTS else f"{text[:MOST_ARGUMENTS]}…"

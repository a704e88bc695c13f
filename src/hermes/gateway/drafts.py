"""From what the agent says to messages that are kept for sending."""

from collections.abc import Sequence

import msgspec

from hermes.gateway.lines import lane
from hermes.gateway.platforms.kit.compose import compose
from hermes.gateway.platforms.kit.contract import Button, Capabilities, Media, Outgoing, Target
from hermes.store.records import OutboxItem

AT_ONCE = "!"
"""The lane of answers to commands and of questions."""


class Envelope(msgspec.Struct, frozen=True):
    """Everything about a message but its text."""

    key: str
    """Parts of a long text are `key:0`, `key:1`, …"""
    target: Target
    kind: str = "reply"
    inbox_id: int = 0
    reply_to: str = ""
    reply_to_all: bool = False
    """Every part quotes the message, not only the first."""
    buttons: tuple[Button, ...] = ()
    silent: bool = False
    due_at: float = 0.0
    beside: str = ""
    """A lane of its own: does not wait for what is still being shown bit by bit."""
    mirrored: str = ""
    """See `Outgoing`; the first part has it."""


def drafts(
    text: str, envelope: Envelope, capabilities: Capabilities, files: Sequence[Media] = ()
) -> tuple[OutboxItem, ...]:
    """As many messages as the text needs on its platform; at least one when it has any content."""
    parts = compose(text, capabilities, files)
    last = len(parts) - 1
    return tuple(
        draft(
            msgspec.structs.replace(
                part,
                reply_to=envelope.reply_to if number == 0 or envelope.reply_to_all else "",
                buttons=envelope.buttons if number == last else (),
                silent=envelope.silent,
                mirrored=envelope.mirrored if number == 0 else "",
            ),
            envelope,
            number,
        )
        for number, part in enumerate(parts)
    )


def draft(message: Outgoing, envelope: Envelope, number: int = 0) -> OutboxItem:
    target = envelope.target
    return OutboxItem(
        key=f"{envelope.key}:{number}",
        platform=target.platform,
        account=target.account,
        target=msgspec.json.encode(target),
        lane=f"{lane(target)}{envelope.beside}",
        body=msgspec.json.encode(message),
        kind=envelope.kind,
        inbox_id=envelope.inbox_id,
        due_at=envelope.due_at,
    )

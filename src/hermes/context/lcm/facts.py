"""What the notes say whatever a model wrote: words and rules of the user, and files."""

from collections.abc import Iterable

from hermes.context.compressor.facts import facts_of, with_facts
from hermes.context.compressor.notes import ACTIVE, Notes
from hermes.context.compressor.summary_message import (
    IN_USERS,
    INTRO,
    Summary,
    is_summary,
    merged,
    read_summary,
    write_summary,
)
from hermes.context.engine import Dicts
from hermes.context.lcm.notes import plain


def facts_text(
    going: Dicts, before: Iterable[str], room: int, *, pending: str = "", place: str = ""
) -> str:
    """The facts of the messages that go and of earlier notes (`before`), in about so many tokens.

    `pending` is what the user waits for, if that is to be repeated. `place` says where the newest
    message of the user is.
    """
    known = [_read(text) for text in before if text]
    known += [read_summary(message) for message in going if is_summary(message)]
    facts = facts_of(going, merged(known), room, pending)
    if not facts.tokens:
        return ""
    told = place and (facts.users or place != IN_USERS)
    notes = with_facts(Notes({ACTIVE: place} if told else {}), facts)
    written = str(write_summary(Summary(notes, facts.users))["content"])
    return plain(written.removeprefix(INTRO))


def _read(text: str) -> Summary:
    return read_summary({"role": "user", "content": f"{INTRO}\n\n{text}"})

"""Undoing what the agent changed while keeping what the user changed. Only decides; writes nothing.

For one file and one stretch of the agent's work there are three versions: before it, after it, and
now. Undoing is a three-way merge: what leads from after to before is done to what is there now.
"""

from collections.abc import Awaitable, Callable

import msgspec

REGULAR = ("100644", "100755")


class Entry(msgspec.Struct, frozen=True):
    """A file in a tree."""

    mode: str
    id: str


class Delta(msgspec.Struct, frozen=True):
    """What a stretch of work did to one file; None is no file."""

    path: str
    before: Entry | None
    after: Entry | None


class Conflict(msgspec.Struct, frozen=True):
    reason: str


Merge = Callable[[str, str, str], Awaitable[str | None]]
"""The id of `now` with the way from `after` to `before` done to it; None when they collide."""


async def undone(delta: Delta, now: Entry | None, merge: Merge) -> Entry | Conflict | None:
    before, after = delta.before, delta.after
    if now == after:
        return before
    if now == before:
        return now
    if now is None:
        return Conflict("you deleted it since")
    if after is None:
        return Conflict("the agent deleted it and you made it anew")
    if before is None:
        return Conflict("the agent made it and you changed it since")
    if not all(entry.mode in REGULAR for entry in (before, after, now)):
        return Conflict("you changed it since")
    mode = before.mode if now.mode == after.mode else now.mode
    content = await _content(before, after, now, merge)
    if content is None:
        return Conflict("you changed the same lines since")
    return Entry(mode, content)


async def _content(before: Entry, after: Entry, now: Entry, merge: Merge) -> str | None:
    if now.id == after.id:
        return before.id
    if before.id in (now.id, after.id):
        return now.id
    return await merge(now.id, after.id, before.id)

"""A change of skills in words: who made it, why, and how that is written into a commit."""

import re
from enum import StrEnum

import msgspec

BY_HAND = "changed by hand"
AS_FOUND = "as it was before the first recorded change"
LONGEST_REASON = 500
SHORT = 8
"""Digits of an id that are shown."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


class Who(StrEnum):
    AGENT = "agent"
    REVIEW = "review"
    """The look back after a piece of work."""
    USER = "user"
    HUB = "hub"


class Change(msgspec.Struct, frozen=True):
    """What is about to be done."""

    action: str
    """create, patch, edit, delete, …, undo, retire; "by hand" for what nobody announced."""
    skills: tuple[str, ...]
    reason: str
    who: Who
    session: str = ""
    paths: tuple[str, ...] = ()
    """Files and folders it touches, below the folder of skills; empty: any."""
    undoes: str = ""
    """The id of the change it takes back."""


class Commit(msgspec.Struct, frozen=True):
    """What was done."""

    id: str
    at: float
    """Seconds since 1970."""
    action: str
    skills: tuple[str, ...]
    reason: str
    who: str
    session: str = ""
    undoes: str = ""

    @property
    def short(self) -> str:
        return self.id[:SHORT]

    @property
    def label(self) -> str:
        """For messages: the id and the reason."""
        return f"{self.short} ({self.reason})"


def message_of(change: Change) -> str:
    """The commit message: the reason, then one `Key: value` a line, as git's trailers are."""
    reason = _line(change.reason)[:LONGEST_REASON] or " ".join((change.action, *change.skills))
    trailers = [
        *(("Skill", name) for name in change.skills),
        ("Action", change.action),
        ("By", change.who.value),
        ("Session", change.session),
        ("Undoes", change.undoes),
    ]
    lines = [f"{key}: {_line(value)}" for key, value in trailers if value]
    return "\n".join((reason, "", *lines, ""))


def commit_of(commit_id: str, at: str, message: str) -> Commit:
    """The opposite of `message_of`; what a foreign commit lacks is empty."""
    reason, _, rest = message.strip("\n").partition("\n")
    found: dict[str, list[str]] = {}
    for line in rest.splitlines():
        key, colon, value = line.partition(": ")
        if colon:
            found.setdefault(key, []).append(value)
    return Commit(
        id=commit_id,
        at=float(at),
        action=_first(found, "Action"),
        skills=tuple(found.get("Skill", ())),
        reason=reason,
        who=_first(found, "By"),
        session=_first(found, "Session"),
        undoes=_first(found, "Undoes"),
    )


def _first(found: dict[str, list[str]], key: str) -> str:
    return found.get(key, [""])[0]


def _line(text: str) -> str:
    """On one line, so that nobody can write a trailer into a reason."""
    return " ".join(_CONTROL.sub(" ", text).split())

"""Names people give to sessions, and finding a session by what people call it."""

import re
import unicodedata

from hermes.core.errors import SessionNotFound, UsageError
from hermes.store.queries import sessions
from hermes.store.sql import Database

LIMIT = 100
SHOWN_MATCHES = 5

_NUMBERED = re.compile(r"(.*\S) #(\d+)", re.DOTALL)


def clean_title(title: str) -> str:
    """`title` without control, zero-width and direction characters. Raises `UsageError`."""
    spaced = " ".join(title.split())
    kept = "".join(
        character
        for character in spaced
        if unicodedata.category(character) not in ("Cc", "Cf", "Cs")
    )
    cleaned = " ".join(kept.split())
    if title.strip() and not cleaned:
        raise UsageError("the title has no visible character")
    if len(cleaned) > LIMIT:
        raise UsageError(
            f"the title has {len(cleaned)} characters; at most {LIMIT} are allowed",
            hint="Choose a shorter title.",
        )
    return cleaned


def set_title(database: Database, session_id: str, title: str) -> str:
    """The title as stored; an empty one is removed."""
    cleaned = clean_title(title)
    owners = database.rows("SELECT id FROM sessions WHERE title = ?", (cleaned,)) if cleaned else []
    if owners and owners[0][0] != session_id:
        raise UsageError(
            f"the title {cleaned!r} is already that of session {owners[0][0]}",
            hint=f"Choose another one, such as {next_title(database, cleaned)!r}.",
        )
    sessions.change(
        database, session_id, "UPDATE sessions SET title = ? WHERE id = ?", (cleaned or None,)
    )
    return cleaned


def next_title(database: Database, title: str) -> str:
    """`plan` → `plan #2` → `plan #3`, the first number that is free above all in use."""
    base = base_of(title)
    used = [number for number, _ in _line(database, base)]
    ending = f" #{max(used, default=1) + 1}"
    return base[: LIMIT - len(ending)].rstrip() + ending


def by_title(database: Database, title: str, *, exactly: bool = False) -> str | None:
    """The newest session of the line that the title begins, or the one with this very title."""
    cleaned = " ".join(title.split())
    if not exactly and base_of(cleaned) == cleaned and (line := _line(database, cleaned)):
        return max(line)[1]
    rows = database.rows("SELECT id FROM sessions WHERE title = ?", (cleaned,))
    return str(rows[0][0]) if rows else None


def resolve(database: Database, name: str, *, exactly: bool = False) -> str:
    """The id meant by an id, a title (see `by_title`) or the beginning of one id."""
    name = name.strip()
    if not name:
        raise UsageError("name a session by its id or title")
    if sessions.exists(database, name):
        return name
    if (titled := by_title(database, name, exactly=exactly)) is not None:
        return titled
    statement = "SELECT id FROM sessions WHERE substr(id, 1, ?) = ? ORDER BY started_at DESC"
    found = [str(row[0]) for row in database.rows(statement, (len(name), name))]
    if not found and exactly and (later := by_title(database, name)) is not None:
        raise SessionNotFound(
            f"there is no session {name}", hint=f"The newest that goes by that title is {later}."
        )
    if not found:
        raise sessions.not_found(name)
    if len(found) > 1:
        more = f" and {len(found) - SHOWN_MATCHES} more" if len(found) > SHOWN_MATCHES else ""
        raise UsageError(
            f"{name} is the beginning of {len(found)} session ids: "
            f"{', '.join(found[:SHOWN_MATCHES])}{more}",
            hint="Give more of the id.",
        )
    return found[0]


def base_of(title: str) -> str:
    match = _NUMBERED.fullmatch(title)
    return match[1] if match else title


def _line(database: Database, base: str) -> list[tuple[int, str]]:
    """Number and id of every session titled `base` or `base #n`."""
    start = f"{base} #"
    rows = database.rows(
        "SELECT title, id FROM sessions WHERE title = ? OR substr(title, 1, ?) = ?",
        (base, len(start), start),
    )
    return [
        (int(title[len(start) :]) if title != base else 1, str(session_id))
        for title, session_id in rows
        if title == base or title[len(start) :].isdecimal()
    ]

"""The `sessions` table: creating, describing and ending sessions, titles, and finding by name."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from hermes.core.errors import SessionNotFound, StoreError, UsageError
from hermes.core.model import Usage
from hermes.core.ports import SessionInfo
from hermes.store.engine import Database, Row
from hermes.store.records import SessionFilter
from hermes.store.rows import placeholders, user_text
from hermes.util.lazy import late_pattern
from hermes.util.text import clean

PREVIEW_CHARACTERS = 63

_FIRST_USER_MESSAGE = """
(SELECT content FROM messages
    WHERE session_id = {session} AND role = 'user' AND content IS NOT NULL
    ORDER BY timestamp, id LIMIT 1)
"""
# A new branch has no messages of its own yet; then the first message of its parent is shown.
_INFO = f"""
SELECT id, source, coalesce(model, ''), started_at, coalesce(title, ''),
    coalesce(system_prompt, ''), coalesce(message_count, 0), coalesce(tool_call_count, 0),
    coalesce(parent_session_id, ''), coalesce(user_id, ''),
    ended_at, coalesce(end_reason, ''), archived_at,
    coalesce(input_tokens, 0), coalesce(output_tokens, 0), coalesce(cache_read_tokens, 0),
    coalesce(cache_write_tokens, 0), coalesce(reasoning_tokens, 0),
    coalesce(actual_cost_usd, estimated_cost_usd),
    coalesce((SELECT max(timestamp) FROM messages WHERE session_id = sessions.id), started_at)
        AS last_active,
    coalesce({_FIRST_USER_MESSAGE.format(session="sessions.id")},
        {_FIRST_USER_MESSAGE.format(session="sessions.parent_session_id")})
FROM sessions
"""

# A compaction ends the parent in the instant it begins the child.
_CONTINUED = """
end_reason = 'compression' AND EXISTS (SELECT 1 FROM sessions AS next
    WHERE next.parent_session_id = sessions.id AND next.started_at = sessions.ended_at)
"""

_BEFORE_USAGE = SessionInfo.__struct_fields__.index("usage")
"""The number of leading columns of `_INFO` that are fields of `SessionInfo`, in order."""


def create(
    database: Database,
    now: float,
    session_id: str,
    *,
    source: str,
    model: str | None,
    system_prompt: str | None,
    parent_id: str | None = None,
    user_id: str | None = None,
    model_config: str | None = None,
) -> None:
    """Raises `StoreError` for an id that exists, `SessionNotFound` for an unknown parent."""
    if exists(database, session_id):
        raise id_exists(session_id)
    if parent_id and not exists(database, parent_id):
        raise not_found(parent_id)
    prompt = clean(system_prompt) if system_prompt is not None else None
    database.change(
        "INSERT INTO sessions (id, source, model, system_prompt, parent_session_id, user_id,"
        " model_config, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (session_id, source, model, prompt, parent_id or None, user_id or None, model_config, now),
    )


def exists(database: Database, session_id: str) -> bool:
    return bool(database.rows("SELECT 1 FROM sessions WHERE id = ?", (session_id,)))


def info(database: Database, session_id: str) -> SessionInfo:
    found = _infos(database, "WHERE id = ?", (session_id,))
    if not found:
        raise not_found(session_id)
    return found[0]


def infos(database: Database, ids: Sequence[str]) -> tuple[SessionInfo, ...]:
    """Return sessions in the order of `ids`, without those that do not exist any more."""
    return tuple(one for id_ in ids for one in _infos(database, "WHERE id = ?", (id_,)))


def latest(database: Database, source: str = "") -> SessionInfo | None:
    """Return the most recently active session with messages, of any source or of one."""
    which = SessionFilter(sources=(source,) if source else (), has_messages=True)
    clause, values = _where(which)
    order = "ORDER BY last_active DESC, started_at DESC LIMIT 1"
    found = _infos(database, f"{clause} {order}", values)
    return found[0] if found else None


def select(database: Database, which: SessionFilter) -> tuple[SessionInfo, ...]:
    """Return the sessions of the filter, the last started first."""
    if which.limit < 1 or which.offset < 0:
        raise UsageError("a limit must be at least 1 and an offset at least 0")
    clause, values = _where(which)
    order = "ORDER BY started_at DESC, id DESC LIMIT ? OFFSET ?"
    return tuple(_infos(database, f"{clause} {order}", (*values, which.limit, which.offset)))


def count(database: Database, which: SessionFilter) -> int:
    """Return the number of sessions of the filter; `limit` and `offset` are ignored."""
    clause, values = _where(which)
    return int(database.rows(f"SELECT count(*) FROM sessions {clause}", values)[0][0])


def select_ids(database: Database, which: SessionFilter) -> tuple[str, ...]:
    """Return all ids of the filter, oldest first; `limit` and `offset` are ignored."""
    clause, values = _where(which)
    rows = database.rows(f"SELECT id FROM sessions {clause} ORDER BY started_at, id", values)
    return tuple(str(row[0]) for row in rows)


def end(database: Database, now: float, session_id: str, exit_reason: str) -> None:
    statement = "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ?"
    change(database, session_id, statement, (now, exit_reason))


def lock(database: Database, session_id: str) -> None:
    """Lock the session: other writers wait for this transaction (PostgreSQL has several)."""
    change(database, session_id, "UPDATE sessions SET message_count = message_count WHERE id = ?")


def reopen(database: Database, session_id: str) -> None:
    statement = "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?"
    change(database, session_id, statement)


def set_archived(database: Database, now: float, session_id: str, archived: bool) -> None:
    statement = "UPDATE sessions SET archived_at = ? WHERE id = ?"
    change(database, session_id, statement, (now if archived else None,))


def change(database: Database, session_id: str, statement: str, values: Sequence[Any] = ()) -> None:
    """Update one session; its id is the last parameter. Raises `SessionNotFound`."""
    if not database.change(statement, (*values, session_id)):
        raise not_found(session_id)


def not_found(session_id: str) -> SessionNotFound:
    return SessionNotFound(
        f"there is no session {session_id}", hint="`hermes sessions list` shows the sessions."
    )


def id_exists(session_id: str) -> StoreError:
    return StoreError(f"there is already a session {session_id}")


def preview(content: str | None) -> str:
    return " ".join(user_text(content).split())[:PREVIEW_CHARACTERS]


def _where(which: SessionFilter) -> tuple[str, list[Any]]:
    conditions: list[str] = []
    values: list[Any] = []

    def add(condition: str, *given: Any) -> None:
        conditions.append(condition)
        values.extend(given)

    if which.sources:
        add(f"source IN ({placeholders(which.sources)})", *which.sources)
    if which.exclude_sources:
        add(f"source NOT IN ({placeholders(which.exclude_sources)})", *which.exclude_sources)
    if which.archived is not None:
        add(f"archived_at IS {'NOT ' if which.archived else ''}NULL")
    if which.started_before is not None:
        add("started_at < ?", which.started_before)
    if which.ended_only:
        add("ended_at IS NOT NULL")
    if which.has_messages:
        add("(message_count > 0 OR parent_session_id IS NOT NULL)")
    if which.newest_only:
        add(f"NOT ({_CONTINUED})")
    for word in which.title.split():
        escaped = re.sub("([!%_])", r"!\1", word)
        add("lower(title) LIKE lower(?) ESCAPE '!'", f"%{escaped}%")
    return (f"WHERE {' AND '.join(conditions)}" if conditions else ""), values


def _infos(database: Database, clause: str, values: Sequence[Any]) -> list[SessionInfo]:
    return [_info(row) for row in database.rows(f"{_INFO} {clause}", values)]


def _info(row: Row) -> SessionInfo:
    names = SessionInfo.__struct_fields__
    facts = dict(zip(names, row[:_BEFORE_USAGE], strict=False))
    *tokens, cost, active, said = row[_BEFORE_USAGE:]
    return SessionInfo(
        **facts, usage=Usage(*tokens), cost_usd=cost, last_active=active, preview=preview(said)
    )


# Titles, and finding a session by its name

LIMIT = 100
SHOWN_MATCHES = 5

_NUMBERED = late_pattern(r"(.*\S) #(\d+)", re.DOTALL)


def clean_title(title: str) -> str:
    """Return `title` without control, zero-width and direction characters. Raises `UsageError` if
    nothing visible is left or it is too long."""
    spaced = " ".join(title.split())
    kept = "".join(c for c in spaced if unicodedata.category(c) not in ("Cc", "Cf", "Cs"))
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
    """Set the title and return it as stored. An empty one removes it. Raises `UsageError` for a
    title that is invalid or in use."""
    cleaned = clean_title(title)
    owners = database.rows("SELECT id FROM sessions WHERE title = ?", (cleaned,)) if cleaned else []
    if owners and owners[0][0] != session_id:
        raise UsageError(
            f"the title {cleaned!r} is already that of session {owners[0][0]}",
            hint=f"Choose another one, such as {next_title(database, cleaned)!r}.",
        )
    change(database, session_id, "UPDATE sessions SET title = ? WHERE id = ?", (cleaned or None,))
    return cleaned


def next_title(database: Database, title: str) -> str:
    """Return the next title of a series: `plan` → `plan #2` → `plan #3`."""
    base = title_base(title)
    used = [number for number, _ in _title_series(database, base)]
    ending = f" #{max(used, default=1) + 1}"
    return base[: LIMIT - len(ending)].rstrip() + ending


def by_title(database: Database, title: str, *, exactly: bool = False) -> str | None:
    """Return the newest session titled `title` or `title #n`; with `exactly`, only `title`."""
    cleaned = " ".join(title.split())
    is_base = not exactly and title_base(cleaned) == cleaned
    if is_base and (series := _title_series(database, cleaned)):
        return max(series)[1]
    rows = database.rows("SELECT id FROM sessions WHERE title = ?", (cleaned,))
    return str(rows[0][0]) if rows else None


def resolve(database: Database, name: str, *, exactly: bool = False) -> SessionInfo:
    """Return the session meant by an id, a title (see `by_title`) or the unambiguous start of an
    id. Raises `SessionNotFound` or `UsageError`."""
    return info(database, _resolve_id(database, name, exactly=exactly))


def _resolve_id(database: Database, name: str, *, exactly: bool) -> str:
    name = name.strip()
    if not name:
        raise UsageError("name a session by its id or title")
    if exists(database, name):
        return name
    if (titled := by_title(database, name, exactly=exactly)) is not None:
        return titled
    statement = "SELECT id FROM sessions WHERE substr(id, 1, ?) = ? ORDER BY started_at DESC"
    found = [str(row[0]) for row in database.rows(statement, (len(name), name))]
    if not found and exactly and (later := by_title(database, name)) is not None:
        raise SessionNotFound(
            f"there is no session {name}", hint=f"The newest session with that title is {later}."
        )
    if not found:
        raise not_found(name)
    if len(found) > 1:
        more = f" and {len(found) - SHOWN_MATCHES} more" if len(found) > SHOWN_MATCHES else ""
        raise UsageError(
            f"{name} is the beginning of {len(found)} session ids: "
            f"{', '.join(found[:SHOWN_MATCHES])}{more}",
            hint="Give more of the id.",
        )
    return found[0]


def title_base(title: str) -> str:
    match = _NUMBERED.fullmatch(title)
    return match[1] if match else title


def _title_series(database: Database, base: str) -> list[tuple[int, str]]:
    """Return the number and id of every session titled `base` or `base #n`."""
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

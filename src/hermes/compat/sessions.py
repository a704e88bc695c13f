"""`hermes_state.SessionDB` and `gateway.session`: the store, for plugins and scripts.

Its dicts have the columns of the tables, with decoded JSON columns.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.compat.runtime import script_runtime
from hermes.config.home import current_home
from hermes.config.loader import load
from hermes.core.errors import SessionNotFound, UsageError
from hermes.core.messages import to_dict
from hermes.core.model import ModelCall, Usage
from hermes.gateway import build_session_key, sharing
from hermes.sdk.platforms import SessionSource
from hermes.store import (
    ChatRow,
    Database,
    LoggedMessage,
    Record,
    SearchRequest,
    SessionFilter,
    open_engine,
    parse_query,
    row_of,
)
from hermes.store.queries import lifecycle, messages, sessions, usage
from hermes.store.search import search

T = TypeVar("T")

DAY = 86400.0
_BILLING = (
    "actual_cost_usd",
    "cost_status",
    "cost_source",
    "pricing_version",
    "billing_provider",
    "billing_base_url",
    "billing_mode",
)


class SessionDB:
    """Sessions and messages of one store. Threads may share it; call `close` at the end."""

    def __init__(self, db_path: str | Path | None = None) -> None:
        """Open the file `db_path`, or the store of the settings of the current home."""
        home = current_home()
        url = load(home).settings.store.url if db_path is None else ""
        self.db_path = Path(db_path) if db_path is not None else home.state_db
        self._engine = open_engine(url, self.db_path)

    def close(self) -> None:
        """Finish pending writes and release the store. Further calls have no effect."""
        self._engine.close()

    def _write(self, work: Callable[[Database], T]) -> T:
        return self._engine.write(work).result()

    def _read(self, work: Callable[[Database], T]) -> T:
        return self._engine.read(work)

    def create_session(
        self,
        session_id: str,
        source: str,
        model: str | None = None,
        model_config: Any = None,
        system_prompt: str | None = None,
        user_id: str | None = None,
        parent_session_id: str | None = None,
    ) -> str:
        """Create a session and return its id. An existing session stays as it is."""
        if model_config is not None and not isinstance(model_config, str):
            model_config = msgspec.json.encode(model_config).decode()

        def work(database: Database) -> None:
            if not sessions.exists(database, session_id):
                sessions.create(
                    database,
                    time.time(),
                    session_id,
                    source=source,
                    model=model,
                    system_prompt=system_prompt,
                    parent_id=parent_session_id,
                    user_id=user_id,
                    model_config=model_config,
                )

        self._write(work)
        return session_id

    def end_session(self, session_id: str, end_reason: str) -> None:
        self._write(lambda database: sessions.end(database, time.time(), session_id, end_reason))

    def reopen_session(self, session_id: str) -> None:
        self._write(partial(sessions.reopen, session_id=session_id))

    def append_message(
        self,
        session_id: str,
        role: str,
        content: Any = None,
        tool_calls: Any = None,
        tool_name: str | None = None,
        tool_call_id: str | None = None,
        token_count: int | None = None,
        finish_reason: str | None = None,
        reasoning: str | None = None,
        reasoning_details: Any = None,
        codex_reasoning_items: Any = None,
    ) -> int:
        """Append a message to the log and return its id."""
        given = locals()  # most parameters are columns
        others = ("self", "session_id", "token_count")
        row = row_of({name: value for name, value in given.items() if name not in others})
        count = len(tool_calls) if isinstance(tool_calls, list) else 0
        append = partial(messages.append, self._engine.backend, calls=count, now=time.time())
        return self._write(partial(append, session_id=session_id, row=row, token_count=token_count))

    def set_session_title(self, session_id: str, title: str) -> bool:
        """Return False for an unknown session. Raises `ValueError` for an invalid title."""
        try:
            self._write(partial(sessions.set_title, session_id=session_id, title=title))
        except SessionNotFound:
            return False
        except UsageError as error:
            raise ValueError(str(error)) from error
        return True

    def update_token_counts(
        self,
        session_id: str,
        input_tokens: int = 0,
        output_tokens: int = 0,
        model: str | None = None,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        reasoning_tokens: int = 0,
        estimated_cost_usd: float | None = None,
        **billing: Any,
    ) -> None:
        """Record the usage of a call. `billing` may name other billing columns of the session."""
        if unknown := sorted(set(billing) - set(_BILLING)):
            raise TypeError(f"update_token_counts() has no argument {unknown[0]!r}")
        tokens = Usage(
            input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens
        )
        provider = billing.get("billing_provider") or ""
        call = ModelCall(tokens, model or "", provider, estimated_cost_usd)

        def work(database: Database) -> None:
            usage.record(database, time.time(), session_id, call)
            facts = {"model": model, **billing}
            for column, value in facts.items():
                if value is not None:
                    statement = f"UPDATE sessions SET {column} = ? WHERE id = ?"
                    sessions.change(database, session_id, statement, (value,))

        self._write(work)

    def prune_sessions(self, older_than_days: float = 90, source: str | None = None) -> int:
        """Delete ended sessions that started before then and return their number."""
        which = SessionFilter(
            sources=(source,) if source else (),
            started_before=time.time() - older_than_days * DAY,
            ended_only=True,
        )
        return len(self._write(partial(lifecycle.prune, which=which)))

    def clear_messages(self, session_id: str) -> None:
        """Delete the messages of a session, but not the session."""
        self._write(partial(lifecycle.clear_messages, session_id=session_id))

    def delete_session(self, session_id: str) -> bool:
        """Return False for an unknown session."""
        try:
            self._write(partial(lifecycle.delete, session_id=session_id))
        except SessionNotFound:
            return False
        return True

    def get_session(self, session_id: str) -> Record | None:
        """Return the columns of its row, or None for an unknown session."""
        return self._read_or_none(partial(lifecycle.row, session_id=session_id))

    def get_messages(self, session_id: str) -> list[Record]:
        """Return every logged message, by column."""
        logged = self._read(partial(lifecycle.message_dicts, session_id=session_id))
        return [{"session_id": session_id, **message} for message in logged]

    def get_messages_as_conversation(self, session_id: str) -> list[Record]:
        """Return the conversation in OpenAI format, without what was undone or compacted. A message
        has a `finish_reason` only if one was stored."""

        def work(database: Database) -> list[Record]:
            entries = messages.entries(database, session_id)
            stored = lifecycle.message_dicts(database, session_id)
            ended = {each["id"] for each in stored if each["finish_reason"]}
            replay = []
            for entry in entries:
                number = entry.id if isinstance(entry, LoggedMessage) else None
                data = to_dict(entry.message if isinstance(entry, LoggedMessage) else entry)
                if number not in ended:
                    data.pop("finish_reason", None)
                replay.append(data)
            return replay

        return self._read_or_none(work) or []

    def resolve_session_by_title(self, title: str) -> str | None:
        """Return the id of the newest session titled `title` or `title #n`."""
        return self._read(partial(sessions.by_title, title=title))

    def get_next_title_in_lineage(self, base_title: str) -> str:
        return self._read(partial(sessions.next_title, title=base_title))

    def search_messages(
        self,
        query: str,
        source_filter: Sequence[str] | None = None,
        exclude_sources: Sequence[str] | None = None,
        role_filter: Sequence[str] | None = None,
        limit: int = 20,
        offset: int = 0,
    ) -> list[Record]:
        """Return hits, best first; none for a query without a term."""
        request = SearchRequest(
            query,
            sources=tuple(source_filter or ()),
            exclude_sources=tuple(exclude_sources or ()),
            roles=tuple(role_filter or ()),
            limit=limit,
            offset=offset,
        )
        if not parse_query(query).any_of:
            return []
        find = partial(search, self._engine.backend, request=request, now=time.time())
        return [msgspec.to_builtins(hit) for hit in self._read(find)]

    def list_sessions_rich(
        self,
        source: str | None = None,
        exclude_sources: Sequence[str] | None = None,
        limit: int = 20,
        offset: int = 0,
    ) -> list[Record]:
        """Return sessions, the newest first: their columns, `preview` and `last_active`."""
        which = SessionFilter(
            sources=(source,) if source else (),
            exclude_sources=tuple(exclude_sources or ()),
            limit=limit,
            offset=offset,
        )

        def work(database: Database) -> list[Record]:
            return [
                {
                    **lifecycle.row(database, info.id),
                    "preview": info.preview,
                    "last_active": info.last_active,
                }
                for info in sessions.select(database, which)
            ]

        return self._read(work)

    def get_ancestors(self, session_id: str) -> list[str]:
        """Return the ids of the parent, its parent, and so on."""
        return [info.id for info in self._read(partial(lifecycle.ancestors, session_id=session_id))]

    def get_descendants(self, session_id: str) -> list[str]:
        """Return the ids of children and their children, oldest first."""
        return [
            info.id for info in self._read(partial(lifecycle.descendants, session_id=session_id))
        ]

    def export_session(self, session_id: str) -> Record | None:
        """Return the session with its messages, or None for an unknown one."""
        return self._read_or_none(partial(lifecycle.export, session_id=session_id))

    def export_all(self, source: str | None = None) -> list[Record]:
        which = SessionFilter(sources=(source,) if source else (), archived=None)

        def work(database: Database) -> list[Record]:
            ids = sessions.select_ids(database, which)
            return [lifecycle.export(database, session_id) for session_id in ids]

        return self._read(work)

    def _read_or_none(self, work: Callable[[Database], T]) -> T | None:
        try:
            return self._read(work)
        except SessionNotFound:
            return None


# `gateway.session`: which conversation each chat is in. Read only, because a running gateway holds
# its conversations in memory as well.


class SessionEntry(msgspec.Struct, frozen=True):
    """A chat and its conversation. Times are seconds since 1970."""

    session_key: str
    session_id: str
    created_at: float
    updated_at: float
    origin: SessionSource | None = None


class ChatSessions:
    """The chats of the current home and their conversations."""

    def list_sessions(self, active_minutes: float | None = None) -> list[SessionEntry]:
        """Return the chats that have a conversation, or those active lately; the newest first."""
        since = 0.0 if active_minutes is None else time.time() - active_minutes * 60
        rows = script_runtime().with_store(lambda store: store.chats.select())
        found = [_entry(row) for row in rows if row.session_id and row.last_active >= since]
        return sorted(found, key=lambda each: each.updated_at, reverse=True)

    def get_session(self, source: SessionSource | str) -> SessionEntry | None:
        """Return the conversation of a chat or of a session key; None if it has none."""
        runtime = script_runtime()
        shared = sharing(runtime.loaded.settings)
        key = source if isinstance(source, str) else build_session_key(source, **shared)
        row = runtime.with_store(lambda store: store.chats.get(key))
        return _entry(row) if row is not None and row.session_id else None

    def load_transcript(self, session_id: str) -> list[dict[str, Any]]:
        """Return the conversation as OpenAI-format messages; empty if it does not exist."""
        try:
            said = script_runtime().with_store(lambda store: store.messages(session_id))
        except SessionNotFound:
            return []
        return [to_dict(message) for message in said]


def _entry(row: ChatRow) -> SessionEntry:
    origin = msgspec.json.decode(row.origin, type=SessionSource) if row.origin else None
    return SessionEntry(row.session_key, row.session_id, row.started_at, row.last_active, origin)

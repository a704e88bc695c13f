"""`gateway.session`: which conversation each chat is in, for scripts and plugins that look.

What a gateway works on is in its memory too, so that nothing is changed from here: `/new` in the
chat begins anew.
"""

import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from hermes.app.compat.runtime import shared_process, tell
from hermes.app.session_store import opened_store
from hermes.core.errors import SessionNotFound
from hermes.core.openai_format import to_dict
from hermes.gateway.platforms.kit.contract import SessionSource
from hermes.gateway.session_keys import build_session_key
from hermes.store.records import ChatRow
from hermes.store.session_store import SessionStore as Store

T = TypeVar("T")


class SessionEntry(msgspec.Struct, frozen=True):
    """A chat and its conversation. Times are seconds since 1970."""

    session_key: str
    session_id: str
    created_at: float
    updated_at: float
    origin: SessionSource | None = None


class SessionStore:
    """Of the home in force."""

    def list_sessions(self, active_minutes: float | None = None) -> list[SessionEntry]:
        """The chats that are in a conversation, or those of them somebody wrote in lately; the
        newest first."""
        since = 0.0 if active_minutes is None else time.time() - active_minutes * 60
        rows = with_store(lambda store: store.chats.select())
        found = [_entry(row) for row in rows if row.session_id and row.last_active >= since]
        return sorted(found, key=lambda each: each.updated_at, reverse=True)

    def get_session(self, source: SessionSource | str) -> SessionEntry | None:
        """That of a chat, or of a session key."""
        key = source if isinstance(source, str) else session_key(source)
        row = with_store(lambda store: store.chats.get(key))
        return _entry(row) if row is not None and row.session_id else None

    def load_transcript(self, session_id: str) -> list[dict[str, Any]]:
        """The conversation as OpenAI-format messages; none when it is not there."""
        try:
            said = with_store(lambda store: store.messages(session_id))
        except SessionNotFound:
            return []
        return [to_dict(message) for message in said]


def session_key(source: SessionSource) -> str:
    """The key by the settings in force."""
    settings = shared_process().loaded.settings
    return build_session_key(
        source,
        group_sessions_per_user=settings.group_sessions_per_user,
        thread_sessions_per_user=settings.thread_sessions_per_user,
    )


def with_store(work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    shared = shared_process()

    async def run() -> T:
        url = shared.loaded.settings.store.url
        async with opened_store(shared.home, url, tell) as store:
            return await work(store)

    return shared.run(run())


def _entry(row: ChatRow) -> SessionEntry:
    origin = msgspec.json.decode(row.origin, type=SessionSource) if row.origin else None
    return SessionEntry(row.session_key, row.session_id, row.started_at, row.last_active, origin)

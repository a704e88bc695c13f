"""Past conversations of a home, for the surfaces that show them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes.config.home import Home
from hermes.core.errors import SessionNotFound
from hermes.core.messages import Message
from hermes.core.ports import SessionInfo
from hermes.store.sqlite_log import SqliteLog


async def past_sessions(home: Home, source: str, limit: int) -> tuple[SessionInfo, ...]:
    """The sessions started last, newest first. Looking creates no store."""
    if not home.state_db.exists():
        return ()
    async with _opened(home) as log:
        return await log.recent(source, limit)


async def stored_conversation(
    home: Home, session_id: str
) -> tuple[SessionInfo, tuple[Message, ...]]:
    if not home.state_db.exists():
        raise SessionNotFound(f"there is no session {session_id}: nothing was stored yet")
    async with _opened(home) as log:
        return await log.info(session_id), await log.messages(session_id)


@asynccontextmanager
async def _opened(home: Home) -> AsyncIterator[SqliteLog]:
    log = SqliteLog(home.state_db)
    try:
        yield log
    finally:
        log.close()

"""Open the session store of a home, and prune it."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from hermes.config.home import Home
from hermes.config.settings import SessionSettings, Settings
from hermes.core.errors import StoreError
from hermes.store import SessionFilter, SessionStore, open_store
from hermes.util import files


def store_exists(home: Home, url: str) -> bool:
    """Return whether there can be sessions, without creating anything."""
    return bool(url) or home.state_db.exists()


@asynccontextmanager
async def opened_store(
    home: Home, url: str, tell: Callable[[str], None]
) -> AsyncIterator[SessionStore]:
    """Open the store until the end of the block. `tell` receives messages about its state."""
    store = open_store(url, home.state_db, tell)
    try:
        yield store
    finally:
        store.close()


# Automatic deletion of old sessions (`sessions.auto_prune`).

HOUR, DAY = 3600.0, 86400.0
MARK = "sessions-pruned-at"

log = logging.getLogger(__name__)


async def prune_when_due(
    store: SessionStore, settings: SessionSettings, home: Home, now: Callable[[], float]
) -> int:
    """Delete ended sessions older than the settings allow, at most once in the interval. Return
    their number. A failure is logged."""
    try:
        return await _prune(store, settings, home, now)
    except (StoreError, OSError) as error:
        log.warning("old sessions were not pruned: %s", error)
        return 0


async def _prune(
    store: SessionStore, settings: SessionSettings, home: Home, now: Callable[[], float]
) -> int:
    mark, last = home.cache / MARK, 0.0
    with suppress(OSError, ValueError):
        last = float(mark.read_text())
    if not settings.auto_prune or now() - last < settings.min_interval_hours * HOUR:
        return 0
    mark.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(mark, f"{now()}\n")
    before = now() - settings.retention_days * DAY
    gone = await store.prune(SessionFilter(started_before=before))
    if gone:
        log.info("deleted %d sessions older than %d days", len(gone), settings.retention_days)
        if settings.vacuum_after_prune:
            await store.vacuum()
    return len(gone)


# Daily backups of the SQLite store (`sessions.daily_backups`)

QUICK_BACKUP_BYTES = 32 * 2**20
"""Maximum size of a store that is copied while a user waits for the program to end."""


def back_up_when_due(home: Home, settings: Settings, *, max_bytes: int | None = None) -> None:
    """Make the daily backup, unless the store is larger than `max_bytes`. A failure is logged."""
    if settings.store.url:
        return
    from hermes.store import back_up_daily  # a chat starts without it

    try:
        back_up_daily(home.state_db, settings.sessions.daily_backups, max_bytes=max_bytes)
    except (StoreError, OSError) as error:
        log.warning("no daily backup of the session store: %s", error)


async def latest_session(store: SessionStore, session_id: str) -> str:
    """Return the session that continues a compacted one. A crash may have come between the
    compaction and the update of what refers to the session. Raises `SessionNotFound`."""
    while (await store.info(session_id)).end_reason == "compression":
        children = await store.descendants(session_id)
        after = [each.id for each in children if each.parent_id == session_id]
        if not after:
            break
        session_id = after[-1]
    return session_id

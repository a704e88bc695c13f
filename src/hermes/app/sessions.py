"""The session store of a home, for whoever looks at past conversations."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hermes.config.home import Home
from hermes.store.session_store import SessionStore, open_store


def store_exists(home: Home, url: str) -> bool:
    """Whether there can be sessions. Asking creates nothing."""
    return bool(url) or home.state_db.exists()


@asynccontextmanager
async def opened_store(
    home: Home, url: str, tell: Callable[[str], None]
) -> AsyncIterator[SessionStore]:
    """The store, closed at the end. `tell` gets what the user must know about its state."""
    store = open_store(url, home.state_db, tell)
    try:
        yield store
    finally:
        store.close()

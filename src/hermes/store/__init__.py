"""Sessions and their log, search, the gateway's queues and scheduled runs, in SQLite or PostgreSQL.

`open_store` returns a `SessionStore`. Names are loaded on first use, because a module that needs
only a record must not load the whole store at start-up.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.store.backend import Progress, ignore_progress
    from hermes.store.query_language import is_unspaced, parse_query
    from hermes.store.records import (
        ChatLease,
        ChatRow,
        InboxItem,
        InboxRow,
        LoggedMessage,
        OutboxItem,
        OutboxRow,
        Record,
        Run,
        SearchHit,
        SearchRequest,
        SessionFilter,
    )
    from hermes.store.rows import repair_history
    from hermes.store.session_store import (
        ChatLeases,
        InboxQueue,
        OutboxQueue,
        ResponseStore,
        RunClaims,
        SessionStore,
        open_store,
        under_lease,
    )

__all__ = [
    "ChatLease", "ChatLeases", "ChatRow", "InboxItem", "InboxQueue", "InboxRow",
    "LoggedMessage", "OutboxItem", "OutboxQueue", "OutboxRow", "Progress", "Record",
    "ResponseStore", "Run", "RunClaims", "SearchHit", "SearchRequest", "SessionFilter",
    "SessionStore", "ignore_progress", "is_unspaced", "open_store", "parse_query",
    "repair_history", "under_lease",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)

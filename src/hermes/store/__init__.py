"""Sessions and their log, search, the gateway's queues and scheduled runs, in SQLite or PostgreSQL.

`open_store` returns a `SessionStore`. Names are loaded on first use, because a module that needs
only a record must not load the whole store at start-up.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.store.engine import Database, Progress, ignore_progress
    from hermes.store.git_history import (
        EXECUTABLE_MODE, LINK_MODE, CommitEntry, Git, GitCommandFailed, GitHistory, HistoryOptions,
        TooManyFiles, TreeEntry, TreeSnapshot, UndoConflict, history_lock, run_git, safe_git,
    )
    from hermes.store.queries.chats import LEASE_PREFIX
    from hermes.store.queries.sessions import clean_title
    from hermes.store.search import is_unspaced, parse_query, similar_words
    from hermes.store.records import (
        ENDED_STATES, HIDDEN_SOURCES, MATCH_NOTES, PROGRAM_SOURCES, Activity, ApprovalRow, CallSum,
        ChatLease, ChatRow, GatewayBeat, GatewayRow, InboxItem, InboxRow, LogEntry, LoggedMessage,
        OutboxItem, OutboxRow, QuarterHour, QueueCount, Record, Run, SearchHit, SearchRequest,
        SessionFilter, StoredJob, StoredResponse, ToolSum, UsageLine,
    )
    from hermes.store.rows import JSON_COLUMNS, from_row, repair_history, row_of
    from hermes.store.session_store import (
        ApprovalStore, ChatLeases, InboxQueue, OutboxQueue, ResponseStore, RunClaims, SessionStore,
        SuggestWords,
        open_engine, open_store, under_lease,
    )
    from hermes.store.sqlite.backend import copy_database
    from hermes.store.sqlite.repair import back_up_daily
    from hermes.store.sqlite.health import as_store_error
    from hermes.store.sqlite.schema import refuse_newer
    from hermes.store.trajectory import Turn, save_trajectory, to_sharegpt
    # fmt: on
    # isort: on

__all__ = [
    "ENDED_STATES", "EXECUTABLE_MODE", "HIDDEN_SOURCES", "JSON_COLUMNS", "LEASE_PREFIX",
    "LINK_MODE", "MATCH_NOTES", "PROGRAM_SOURCES", "Activity", "ApprovalRow", "ApprovalStore",
    "CallSum", "ChatLease", "ChatLeases", "ChatRow", "CommitEntry", "Database", "GatewayBeat",
    "GatewayRow", "Git", "GitCommandFailed", "GitHistory", "HistoryOptions", "InboxItem",
    "InboxQueue", "InboxRow", "LogEntry", "LoggedMessage", "OutboxItem", "OutboxQueue", "OutboxRow",
    "Progress", "QuarterHour", "QueueCount", "Record", "ResponseStore", "Run", "RunClaims",
    "SearchHit", "SearchRequest", "SessionFilter", "SessionStore", "StoredJob", "StoredResponse",
    "SuggestWords", "TooManyFiles", "ToolSum", "TreeEntry", "TreeSnapshot", "Turn", "UndoConflict",
    "UsageLine", "as_store_error", "back_up_daily", "clean_title", "copy_database", "from_row",
    "history_lock", "ignore_progress", "is_unspaced", "open_engine", "open_store", "parse_query",
    "refuse_newer", "repair_history", "row_of", "run_git", "safe_git", "save_trajectory",
    "similar_words", "to_sharegpt", "under_lease",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)

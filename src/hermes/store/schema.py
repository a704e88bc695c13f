"""The tables and indexes of the store, declared once for both databases.

JSON is stored as text, so that people can read it. Only messages and projections refer to
`sessions`: model calls, queued messages and the history of a job outlive a deleted session.
Existing stores have these tables as defined here, so a new column goes to the end and needs a
migration.
"""

import msgspec

# Types, as SQLite spells them.
KEY = "INTEGER PRIMARY KEY AUTOINCREMENT"  #: An automatic id that is never reused.
TEXT, MAYBE_TEXT = "TEXT NOT NULL", "TEXT"
NUMBER, MAYBE_NUMBER, COUNT = "INTEGER NOT NULL", "INTEGER", "INTEGER DEFAULT 0"
REAL, MAYBE_REAL = "REAL NOT NULL", "REAL"
SESSION = "TEXT NOT NULL REFERENCES sessions(id)"


class Table(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[tuple[str, str], ...]  #: Types and the names of their columns, in order.
    key: tuple[str, ...] = ()  #: The columns of the primary key, unless a type declares it.

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The name and type of each column."""
        return [(name, kind) for kind, names in self.groups for name in names.split()]


class Index(msgspec.Struct, frozen=True):
    name: str
    on: str
    is_unique: bool = False

    @property
    def statement(self) -> str:
        kind = "UNIQUE INDEX" if self.is_unique else "INDEX"
        return f"CREATE {kind} IF NOT EXISTS {self.name} ON {self.on}"


# Sessions and their log. The first two are documented, as version 6 of the schema.

SESSIONS = Table(
    "sessions",
    (
        ("TEXT PRIMARY KEY", "id"),
        (TEXT, "source"),
        (MAYBE_TEXT, "user_id model model_config system_prompt"),
        ("TEXT REFERENCES sessions(id)", "parent_session_id"),
        (REAL, "started_at"),
        (MAYBE_REAL, "ended_at"),
        (MAYBE_TEXT, "end_reason"),
        (COUNT, "message_count tool_call_count input_tokens output_tokens"),
        (COUNT, "cache_read_tokens cache_write_tokens reasoning_tokens"),
        (MAYBE_TEXT, "billing_provider billing_base_url billing_mode"),
        (MAYBE_REAL, "estimated_cost_usd actual_cost_usd"),
        (MAYBE_TEXT, "cost_status cost_source pricing_version title"),
    ),
)
MESSAGES = Table(
    "messages",
    (
        (KEY, "id"),
        (SESSION, "session_id"),
        (TEXT, "role"),
        (MAYBE_TEXT, "content tool_call_id tool_calls tool_name"),
        (REAL, "timestamp"),
        (MAYBE_NUMBER, "token_count"),
        (MAYBE_TEXT, "finish_reason reasoning reasoning_details codex_reasoning_items"),
    ),
)
PROJECTIONS = Table(
    "projections",
    (
        (KEY, "id"),
        (SESSION, "session_id"),
        (NUMBER, "after_id"),
        (TEXT, "reason basis"),
        (REAL, "created_at"),
    ),
)
MODEL_CALLS = Table(
    "model_calls",
    (
        (KEY, "id"),
        (TEXT, "session_id"),
        (REAL, "timestamp"),
        (TEXT, "task provider model tool"),
        (NUMBER, "input_tokens output_tokens"),
        (NUMBER, "cache_read_tokens cache_write_tokens reasoning_tokens"),
        (MAYBE_REAL, "cost_usd"),
        (REAL, "seconds"),
    ),
)
UNIQUE_TITLES = Index(
    "idx_sessions_title_unique", "sessions(title) WHERE title IS NOT NULL", is_unique=True
)
SESSION_INDEXES = (
    Index("idx_sessions_source", "sessions(source)"),
    Index("idx_sessions_parent", "sessions(parent_session_id)"),
    Index("idx_sessions_started", "sessions(started_at DESC)"),
    UNIQUE_TITLES,
    Index("idx_messages_session", "messages(session_id, timestamp)"),
)
PROJECTIONS_INDEX = Index("idx_projections_session", "projections(session_id)")
CALLS_INDEX = Index("idx_model_calls_session", "model_calls(session_id)")
CALLS_TIME_INDEX = Index("idx_model_calls_time", "model_calls(timestamp)")

# The inbox, the outbox, scheduled runs and API responses.

TABLES = (
    Table(
        "inbox",
        (
            (KEY, "id"),
            (TEXT, "platform account message_key session_key event state"),
            (REAL, "received_at"),
            (TEXT, "session_id"),
            (NUMBER, "log_after answered_by"),
            (MAYBE_REAL, "done_at"),
        ),
    ),
    Table(
        "outbox",
        (
            (KEY, "id"),
            (TEXT, "key platform account target lane body kind"),
            (NUMBER, "inbox_id"),
            (TEXT, "state"),
            (NUMBER, "attempts"),
            (REAL, "due_at created_at"),
            (TEXT, "platform_id after_id error"),
            (MAYBE_REAL, "sent_at"),
        ),
    ),
    Table(
        "chats",
        (
            (TEXT, "session_key session_id origin"),
            (REAL, "started_at last_active"),
            (TEXT, "owner"),
            (REAL, "lease_until"),
            (NUMBER, "fence"),
        ),
        ("session_key",),
    ),
    Table(
        "cron_runs",
        (
            (TEXT, "job_id"),
            (REAL, "instant"),
            (TEXT, "state owner"),
            (REAL, "lease_until"),
            (NUMBER, "fence attempt"),
            (REAL, "claimed_at"),
            (MAYBE_REAL, "started_at ended_at"),
            (TEXT, "session_id output error delivered"),
        ),
        ("job_id", "instant"),
    ),
    Table("cron_jobs", ((TEXT, "id record"), (NUMBER, "version")), ("id",)),
    Table(
        "api_responses",
        ((TEXT, "id body session_id conversation previous_id"), (REAL, "created_at used_at")),
        ("id",),
    ),
)

INDEXES = (
    Index("idx_inbox_message", "inbox(platform, account, message_key)", is_unique=True),
    Index("idx_inbox_waiting", "inbox(state, session_key)"),
    Index("idx_outbox_key", "outbox(key)", is_unique=True),
    Index("idx_outbox_due", "outbox(state, platform, account, lane, id)"),
    Index("idx_outbox_inbox", "outbox(inbox_id)"),
    Index("idx_chats_owner", "chats(owner)"),
    Index("idx_chats_session", "chats(session_id)"),
    Index("idx_cron_runs_state", "cron_runs(state)"),
)

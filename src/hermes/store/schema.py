"""Tables of the inbox, the outbox, scheduled runs and API responses, for both databases.

JSON is stored as text, so that people can read it. No table refers to `sessions`: queued messages
and the history of a job outlive a deleted session. Existing stores have these tables as defined
here, so a new column goes to the end and needs a migration.
"""

import msgspec

KEY = "KEY"  #: An automatic id that is never reused.
TEXT = "TEXT NOT NULL"
NUMBER = "INTEGER NOT NULL"
REAL = "REAL NOT NULL"
MAYBE_REAL = "REAL"


class Table(msgspec.Struct, frozen=True):
    name: str
    columns: tuple[tuple[str, str], ...]  #: Name and type of each; the types are those of SQLite.
    key: tuple[str, ...] = ()  #: The columns of the primary key, if no column is of type `KEY`.


class Index(msgspec.Struct, frozen=True):
    name: str
    on: str
    is_unique: bool = False

    @property
    def statement(self) -> str:
        kind = "UNIQUE INDEX" if self.is_unique else "INDEX"
        return f"CREATE {kind} IF NOT EXISTS {self.name} ON {self.on}"


INBOX = Table(
    "inbox",
    (
        ("id", KEY),
        ("platform", TEXT),
        ("account", TEXT),
        ("message_key", TEXT),
        ("session_key", TEXT),
        ("event", TEXT),
        ("state", TEXT),
        ("received_at", REAL),
        ("session_id", TEXT),
        ("log_after", NUMBER),
        ("answered_by", NUMBER),
        ("done_at", MAYBE_REAL),
    ),
)

OUTBOX = Table(
    "outbox",
    (
        ("id", KEY),
        ("key", TEXT),
        ("platform", TEXT),
        ("account", TEXT),
        ("target", TEXT),
        ("lane", TEXT),
        ("body", TEXT),
        ("kind", TEXT),
        ("inbox_id", NUMBER),
        ("state", TEXT),
        ("attempts", NUMBER),
        ("due_at", REAL),
        ("created_at", REAL),
        ("platform_id", TEXT),
        ("after_id", TEXT),
        ("error", TEXT),
        ("sent_at", MAYBE_REAL),
    ),
)

CHATS = Table(
    "chats",
    (
        ("session_key", TEXT),
        ("session_id", TEXT),
        ("origin", TEXT),
        ("started_at", REAL),
        ("last_active", REAL),
        ("owner", TEXT),
        ("lease_until", REAL),
        ("fence", NUMBER),
    ),
    ("session_key",),
)

CRON_RUNS = Table(
    "cron_runs",
    (
        ("job_id", TEXT),
        ("instant", REAL),
        ("state", TEXT),
        ("owner", TEXT),
        ("lease_until", REAL),
        ("fence", NUMBER),
        ("attempt", NUMBER),
        ("claimed_at", REAL),
        ("started_at", MAYBE_REAL),
        ("ended_at", MAYBE_REAL),
        ("session_id", TEXT),
        ("output", TEXT),
        ("error", TEXT),
        ("delivered", TEXT),
    ),
    ("job_id", "instant"),
)

CRON_JOBS = Table("cron_jobs", (("id", TEXT), ("record", TEXT), ("version", NUMBER)), ("id",))

API_RESPONSES = Table(
    "api_responses",
    (
        ("id", TEXT),
        ("body", TEXT),
        ("session_id", TEXT),
        ("conversation", TEXT),
        ("previous_id", TEXT),
        ("created_at", REAL),
        ("used_at", REAL),
    ),
    ("id",),
)

TABLES = (INBOX, OUTBOX, CHATS, CRON_RUNS, CRON_JOBS, API_RESPONSES)

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

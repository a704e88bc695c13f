-- The tables and indexes of the store for both databases, with the types of SQLite. `schema.py`
-- reads them; `postgres/schema.py` translates them.
--
-- JSON is stored as text, so that people can read it. Only messages and projections refer to
-- `sessions`: model calls, queued messages and the history of a job outlive a deleted session.
-- Existing stores have these tables as defined here, so a new column goes to the end and needs a
-- migration.

-- Sessions and their log, as documented.
-- Section: version 6

CREATE TABLE IF NOT EXISTS schema_version (
    version INTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    user_id TEXT,
    model TEXT,
    model_config TEXT,
    system_prompt TEXT,
    parent_session_id TEXT REFERENCES sessions(id),
    started_at REAL NOT NULL,
    ended_at REAL,
    end_reason TEXT,
    message_count INTEGER DEFAULT 0,
    tool_call_count INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0,
    output_tokens INTEGER DEFAULT 0,
    cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0,
    reasoning_tokens INTEGER DEFAULT 0,
    billing_provider TEXT,
    billing_base_url TEXT,
    billing_mode TEXT,
    estimated_cost_usd REAL,
    actual_cost_usd REAL,
    cost_status TEXT,
    cost_source TEXT,
    pricing_version TEXT,
    title TEXT
);

CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions(id),
    role TEXT NOT NULL,
    content TEXT,
    tool_call_id TEXT,
    tool_calls TEXT,
    tool_name TEXT,
    timestamp REAL NOT NULL,
    token_count INTEGER,
    finish_reason TEXT,
    reasoning TEXT,
    reasoning_details TEXT,
    codex_reasoning_items TEXT
);

CREATE INDEX IF NOT EXISTS idx_sessions_source ON sessions(source);
CREATE INDEX IF NOT EXISTS idx_sessions_parent ON sessions(parent_session_id);
CREATE INDEX IF NOT EXISTS idx_sessions_started ON sessions(started_at DESC);
CREATE UNIQUE INDEX IF NOT EXISTS idx_sessions_title_unique ON sessions(title) WHERE title IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_messages_session ON messages(session_id, timestamp);

-- What this program keeps beyond version 6. The documented tables keep their version, so a program
-- that knows only version 6 still opens the file. Additions have a counter of their own and only ever
-- add: a column, a table, an index.
-- Section: addition 1

CREATE TABLE IF NOT EXISTS additions_version (
    version INTEGER NOT NULL
);

ALTER TABLE sessions ADD COLUMN archived_at REAL;

CREATE TABLE IF NOT EXISTS projections (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions(id),
    after_id INTEGER NOT NULL,
    reason TEXT NOT NULL,
    basis TEXT NOT NULL,
    created_at REAL NOT NULL
);

CREATE INDEX IF NOT EXISTS idx_projections_session ON projections(session_id);

CREATE TABLE IF NOT EXISTS model_calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    timestamp REAL NOT NULL,
    task TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    tool TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cost_usd REAL,
    seconds REAL NOT NULL
);

CREATE INDEX IF NOT EXISTS idx_model_calls_session ON model_calls(session_id);

-- Section: addition 2

CREATE INDEX IF NOT EXISTS idx_model_calls_time ON model_calls(timestamp);

-- The inbox, the outbox, scheduled runs and API responses.
-- Section: addition 3

CREATE TABLE IF NOT EXISTS inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    message_key TEXT NOT NULL,
    session_key TEXT NOT NULL,
    event TEXT NOT NULL,
    state TEXT NOT NULL,
    received_at REAL NOT NULL,
    session_id TEXT NOT NULL,
    log_after INTEGER NOT NULL,
    answered_by INTEGER NOT NULL,
    done_at REAL
);

CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL,
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    target TEXT NOT NULL,
    lane TEXT NOT NULL,
    body TEXT NOT NULL,
    kind TEXT NOT NULL,
    inbox_id INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    due_at REAL NOT NULL,
    created_at REAL NOT NULL,
    platform_id TEXT NOT NULL,
    after_id TEXT NOT NULL,
    error TEXT NOT NULL,
    sent_at REAL
);

CREATE TABLE IF NOT EXISTS chats (
    session_key TEXT NOT NULL,
    session_id TEXT NOT NULL,
    origin TEXT NOT NULL,
    started_at REAL NOT NULL,
    last_active REAL NOT NULL,
    owner TEXT NOT NULL,
    lease_until REAL NOT NULL,
    fence INTEGER NOT NULL,
    PRIMARY KEY (session_key)
);

CREATE TABLE IF NOT EXISTS cron_runs (
    job_id TEXT NOT NULL,
    instant REAL NOT NULL,
    state TEXT NOT NULL,
    owner TEXT NOT NULL,
    lease_until REAL NOT NULL,
    fence INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    claimed_at REAL NOT NULL,
    started_at REAL,
    ended_at REAL,
    session_id TEXT NOT NULL,
    output TEXT NOT NULL,
    error TEXT NOT NULL,
    delivered TEXT NOT NULL,
    PRIMARY KEY (job_id, instant)
);

CREATE TABLE IF NOT EXISTS cron_jobs (
    id TEXT NOT NULL,
    record TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE IF NOT EXISTS api_responses (
    id TEXT NOT NULL,
    body TEXT NOT NULL,
    session_id TEXT NOT NULL,
    conversation TEXT NOT NULL,
    previous_id TEXT NOT NULL,
    created_at REAL NOT NULL,
    used_at REAL NOT NULL,
    PRIMARY KEY (id)
);

CREATE UNIQUE INDEX IF NOT EXISTS idx_inbox_message ON inbox(platform, account, message_key);
CREATE INDEX IF NOT EXISTS idx_inbox_waiting ON inbox(state, session_key);
CREATE UNIQUE INDEX IF NOT EXISTS idx_outbox_key ON outbox(key);
CREATE INDEX IF NOT EXISTS idx_outbox_due ON outbox(state, platform, account, lane, id);
CREATE INDEX IF NOT EXISTS idx_outbox_inbox ON outbox(inbox_id);
CREATE INDEX IF NOT EXISTS idx_chats_owner ON chats(owner);
CREATE INDEX IF NOT EXISTS idx_chats_session ON chats(session_id);
CREATE INDEX IF NOT EXISTS idx_cron_runs_state ON cron_runs(state);

-- Approvals that a gateway asks for, and what became of them: rows of `kind` asked, answer and
-- resolved, at most one of each for a token.
-- Section: addition 4

CREATE TABLE IF NOT EXISTS approvals (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    owner TEXT NOT NULL,
    created_at REAL NOT NULL,
    valid_until REAL NOT NULL
);

CREATE UNIQUE INDEX IF NOT EXISTS idx_approvals_token ON approvals(token, kind);

-- From an older version of the documented tables to the next. Columns that exist are skipped.
-- Section: 2

ALTER TABLE messages ADD COLUMN finish_reason TEXT;

-- Section: 3

ALTER TABLE sessions ADD COLUMN title TEXT;

-- Before titles were unique, sessions could share one; the later ones get their id appended.
-- Section: 4

UPDATE sessions SET title = title || ' (' || id || ')'
WHERE title IS NOT NULL AND EXISTS (
    SELECT 1 FROM sessions AS other
    WHERE other.title = sessions.title
    AND (other.started_at, other.id) < (sessions.started_at, sessions.id)
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_sessions_title_unique ON sessions(title) WHERE title IS NOT NULL;

-- Section: 5

ALTER TABLE sessions ADD COLUMN cache_read_tokens INTEGER DEFAULT 0;
ALTER TABLE sessions ADD COLUMN cache_write_tokens INTEGER DEFAULT 0;
ALTER TABLE sessions ADD COLUMN reasoning_tokens INTEGER DEFAULT 0;
ALTER TABLE sessions ADD COLUMN billing_provider TEXT;
ALTER TABLE sessions ADD COLUMN billing_base_url TEXT;
ALTER TABLE sessions ADD COLUMN billing_mode TEXT;
ALTER TABLE sessions ADD COLUMN estimated_cost_usd REAL;
ALTER TABLE sessions ADD COLUMN actual_cost_usd REAL;
ALTER TABLE sessions ADD COLUMN cost_status TEXT;
ALTER TABLE sessions ADD COLUMN cost_source TEXT;
ALTER TABLE sessions ADD COLUMN pricing_version TEXT;

-- Section: 6

ALTER TABLE messages ADD COLUMN reasoning TEXT;
ALTER TABLE messages ADD COLUMN reasoning_details TEXT;
ALTER TABLE messages ADD COLUMN codex_reasoning_items TEXT;

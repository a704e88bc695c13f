-- What only PostgreSQL needs.
-- Section: tables

ALTER TABLE messages ADD COLUMN IF NOT EXISTS search tsvector;

-- One row for each connection that wrote, updated by each of its transactions (see `backend`). With
-- half-empty pages, the many small updates of a row stay on its page.
CREATE TABLE IF NOT EXISTS writers (
    id TEXT PRIMARY KEY,
    token INTEGER NOT NULL,
    used_at TIMESTAMPTZ
) WITH (fillfactor = 50);

-- Section: indexes

CREATE INDEX IF NOT EXISTS idx_messages_search ON messages USING gin(search);
CREATE INDEX IF NOT EXISTS idx_messages_unindexed ON messages(id) WHERE search IS NULL;

-- Only Hermes can compute a vector. A message that another program writes or changes has none until
-- the next search.
-- Section: triggers

CREATE OR REPLACE FUNCTION messages_search_stale() RETURNS trigger LANGUAGE plpgsql AS
'BEGIN NEW.search := NULL; RETURN NEW; END';

DROP TRIGGER IF EXISTS messages_search_update ON messages;

CREATE TRIGGER messages_search_update BEFORE UPDATE OF content ON messages FOR EACH ROW
WHEN (OLD.content IS DISTINCT FROM NEW.content AND OLD.search IS NOT DISTINCT FROM NEW.search)
EXECUTE FUNCTION messages_search_stale();

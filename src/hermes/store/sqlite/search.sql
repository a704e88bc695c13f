-- The search indexes and the triggers that update them. Neither index has text of its own, so
-- triggers must not be bypassed.
-- Section: words

CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts
USING fts5(content, content=messages, content_rowid=id);

CREATE TRIGGER IF NOT EXISTS messages_fts_insert AFTER INSERT ON messages BEGIN
    INSERT INTO messages_fts(rowid, content) VALUES (new.id, new.content);
END;

CREATE TRIGGER IF NOT EXISTS messages_fts_delete AFTER DELETE ON messages BEGIN
    INSERT INTO messages_fts(messages_fts, rowid, content)
    VALUES ('delete', old.id, old.content);
END;

CREATE TRIGGER IF NOT EXISTS messages_fts_update AFTER UPDATE ON messages BEGIN
    INSERT INTO messages_fts(messages_fts, rowid, content)
    VALUES ('delete', old.id, old.content);
    INSERT INTO messages_fts(rowid, content) VALUES (new.id, new.content);
END;

-- The trigram index finds text in scripts written without spaces.
--
-- Only messages with such text are in it, because indexing all messages would triple the cost of an
-- append. It is an external-content index over a view, so `rebuild` reads only the rows of the view.
--
-- Two spaces follow each text in the index. So every character starts a trigram, and a term of one
-- or two characters is found as the prefix of one, in `messages_trigram_places`.
--
-- All statements are plain SQL of SQLite 3.34, because other programs write to the file too and run
-- the triggers. For the same reason the tokenizer has no options: an older SQLite that does not know
-- an option would fail at every write. `schema.py` replaces IS_UNSPACED by a condition.
-- Section: trigrams

CREATE VIEW IF NOT EXISTS messages_unspaced AS
SELECT id, content || '  ' AS content FROM messages WHERE IS_UNSPACED(content);

CREATE VIRTUAL TABLE IF NOT EXISTS messages_trigram
USING fts5(content, content=messages_unspaced, content_rowid=id, tokenize='trigram');

CREATE VIRTUAL TABLE IF NOT EXISTS messages_trigram_places
USING fts5vocab(messages_trigram, instance);

CREATE TRIGGER IF NOT EXISTS messages_trigram_insert AFTER INSERT ON messages
WHEN IS_UNSPACED(new.content) BEGIN
    INSERT INTO messages_trigram(rowid, content) VALUES (new.id, new.content || '  ');
END;

CREATE TRIGGER IF NOT EXISTS messages_trigram_delete AFTER DELETE ON messages
WHEN IS_UNSPACED(old.content) BEGIN
    INSERT INTO messages_trigram(messages_trigram, rowid, content)
    VALUES ('delete', old.id, old.content || '  ');
END;

CREATE TRIGGER IF NOT EXISTS messages_trigram_update AFTER UPDATE OF id, content ON messages BEGIN
    INSERT INTO messages_trigram(messages_trigram, rowid, content)
    SELECT 'delete', old.id, old.content || '  ' WHERE IS_UNSPACED(old.content);
    INSERT INTO messages_trigram(rowid, content)
    SELECT new.id, new.content || '  ' WHERE IS_UNSPACED(new.content);
END;

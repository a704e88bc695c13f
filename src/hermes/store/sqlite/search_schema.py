"""The trigram index: every three neighbouring characters of the messages that need it.

It finds text in scripts written without spaces. Only messages with such text are in it, because
indexing all of them would triple the cost of an append. It is an external-content index over a
view, so it holds no text, and `rebuild` reads the right rows only.

Two spaces follow each text in the index. So every character starts a trigram, and a term of one
or two characters is found as the start of one, by way of `messages_trigram_places`.

All is plain SQL that SQLite 3.34 knows, since other programs write to the file too and run the
triggers. For the same reason the tokenizer has no options: with an older SQLite an unknown one
would make every write fail.
"""

from collections.abc import Iterator

from hermes.store.search.scripts import RANGES

_LEADS = (
    *((lead, (lead & 0x0F) << 12, (lead & 0x0F) << 12 | 0x0FFF) for lead in range(0xE0, 0xED)),
    (0xED, 0xD000, 0xD7FF),
    (0xEE, 0xE000, 0xEFFF),
    (0xEF, 0xF000, 0xFFFF),
    (0xF0, 0x10000, 0x3FFFF),
)
"""First bytes of characters in UTF-8, with the first and last code point each can stand for."""


def _is_unspaced(text: str) -> str:
    """`scripts.is_unspaced` as a condition on the column `text`.

    GLOB alone would cost more than the word index: it tries each range at each character. Looking
    for the bytes such characters start with is ten times as fast, and where a byte is shared with
    other scripts or emoji only the ranges of that byte are tried. Text with as many bytes as
    characters is ASCII and done at once.
    """
    return f"length(CAST({text} AS BLOB)) > length({text}) AND ({' OR '.join(_tests(text))})"


def _tests(text: str) -> Iterator[str]:
    for lead, low, high in _LEADS:
        inside = [(max(low, a), min(high, b)) for a, b, _ in RANGES if a <= high and low <= b]
        has_lead = f"instr(CAST({text} AS BLOB), x'{lead:02X}')"
        if inside == [(low, high)]:
            yield has_lead
        elif inside:
            characters = "".join(f"{chr(first)}-{chr(last)}" for first, last in inside)
            yield f"({has_lead} AND {text} GLOB '*[{characters}]*')"


_VIEW = f"""
CREATE VIEW IF NOT EXISTS messages_unspaced AS
SELECT id, content || '  ' AS content FROM messages WHERE {_is_unspaced("content")}
"""

_INDEX = """
CREATE VIRTUAL TABLE IF NOT EXISTS messages_trigram
USING fts5(content, content=messages_unspaced, content_rowid=id, tokenize='trigram')
"""

_PLACES = """
CREATE VIRTUAL TABLE IF NOT EXISTS messages_trigram_places
USING fts5vocab(messages_trigram, instance)
"""

_INSERT = f"""
CREATE TRIGGER IF NOT EXISTS messages_trigram_insert AFTER INSERT ON messages
WHEN {_is_unspaced("new.content")} BEGIN
    INSERT INTO messages_trigram(rowid, content) VALUES (new.id, new.content || '  ');
END
"""

_DELETE = f"""
CREATE TRIGGER IF NOT EXISTS messages_trigram_delete AFTER DELETE ON messages
WHEN {_is_unspaced("old.content")} BEGIN
    INSERT INTO messages_trigram(messages_trigram, rowid, content)
    VALUES ('delete', old.id, old.content || '  ');
END
"""

_UPDATE = f"""
CREATE TRIGGER IF NOT EXISTS messages_trigram_update AFTER UPDATE OF id, content ON messages BEGIN
    INSERT INTO messages_trigram(messages_trigram, rowid, content)
    SELECT 'delete', old.id, old.content || '  ' WHERE {_is_unspaced("old.content")};
    INSERT INTO messages_trigram(rowid, content)
    SELECT new.id, new.content || '  ' WHERE {_is_unspaced("new.content")};
END
"""

STATEMENTS = (_VIEW, _INDEX, _PLACES, _INSERT, _DELETE, _UPDATE)
"""Each may be run again without harm. After the first time run `REBUILD`."""

REBUILD = "INSERT INTO messages_trigram(messages_trigram) VALUES ('rebuild')"

OBJECTS = frozenset(
    {
        "messages_unspaced",
        "messages_trigram",
        "messages_trigram_places",
        "messages_trigram_insert",
        "messages_trigram_delete",
        "messages_trigram_update",
    }
)
"""Every named object above."""

"""Which facts hold which words."""

import apsw

MOST_WORDS = 24
"""Of a query; a long message has more than enough."""


def matches(
    connection: apsw.Connection, user: str, words: tuple[str, ...]
) -> dict[int, tuple[str, ...]]:
    """The facts of a user that hold at least one of the words, with those they hold."""
    found: dict[int, tuple[str, ...]] = {}
    for word in words[:MOST_WORDS]:
        quoted = '"' + word.replace('"', '""') + '"'
        rows = connection.execute(
            "SELECT facts.id FROM facts_words JOIN facts ON facts.id = facts_words.rowid"
            " WHERE facts_words MATCH ? AND user = ?",
            (quoted, user),
        )
        for (fact_id,) in rows:
            found[fact_id] = (*found.get(fact_id, ()), word)
    return found

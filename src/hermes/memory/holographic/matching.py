"""Which facts hold which words."""

import apsw

MOST_WORDS = 24
"""Of a query: half of them from its beginning, half from its end."""


def matches(
    connection: apsw.Connection, user: str, words: tuple[str, ...]
) -> dict[int, tuple[str, ...]]:
    """The facts of a user that hold at least one of the words, with those they hold."""
    found: dict[int, tuple[str, ...]] = {}
    if len(words) > MOST_WORDS:
        words = (*words[: MOST_WORDS // 2], *words[-MOST_WORDS // 2 :])
    for word in words:
        quoted = '"' + word.replace('"', '""') + '"'
        rows = connection.execute(
            "SELECT facts.id FROM facts_words JOIN facts ON facts.id = facts_words.rowid"
            " WHERE facts_words MATCH ? AND user = ?",
            (quoted, user),
        )
        for (fact_id,) in rows:
            found[fact_id] = (*found.get(fact_id, ()), word)
    return found

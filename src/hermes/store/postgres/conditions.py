"""From a parsed query to SQL over `messages`."""

from typing import Any, NamedTuple

from hermes.store.postgres.vectors import CLIPPED, Piece, grams, pieces, quoted
from hermes.store.search.language import Group, Query, Term


class Condition(NamedTuple):
    sql: str
    values: tuple[Any, ...] = ()


def condition(query: Query) -> Condition:
    """What a message must fulfil to match."""
    return _joined(" OR ", [_group(group) for group in query.any_of])


def rank_query(query: Query) -> str:
    """The `tsquery` that tells how well a message matches; empty when only single characters and
    pairs are looked for, which have no positions to judge by."""
    groups = [
        " & ".join(f"({_phrase(words, term)})" for term, words in _ranked(group))
        for group in query.any_of
    ]
    return " | ".join(f"({group})" for group in groups if group)


def _ranked(group: Group) -> list[tuple[Term, list[Piece]]]:
    parsed = [(term, _pieces(term)) for term in group.all_of]
    return [(term, found) for term, found in parsed if not any(piece.is_run for piece in found)]


def _group(group: Group) -> Condition:
    wanted = [_term(term) for term in group.all_of]
    unwanted = [_term(term) for term in group.none_of]
    return _joined(" AND ", [*wanted, *(Condition(f"NOT {c.sql}", c.values) for c in unwanted)])


def _term(term: Term) -> Condition:
    found = _pieces(term)
    if any(piece.is_run for piece in found):
        return _unspaced(term, found)
    if len(found) == 1:
        return Condition("(search @@ ?::tsquery)", (_phrase(found, term),))
    # Where positions are missing the text itself is looked at.
    phrase, words = _phrase(found, term), _phrase(found, term, " & ")
    return Condition(
        "(search @@ ?::tsquery AND (search @@ ?::tsquery OR strpos(lower(content), ?) > 0))",
        (f"({phrase}) | ({quoted(CLIPPED)} & {words})", phrase, _lower(term.text)),
    )


def _unspaced(term: Term, found: list[Piece]) -> Condition:
    """Pairs of characters say which messages to look at, the text whether it has them in order."""
    lexemes = [
        quoted(gram)
        for piece in found
        for gram in (grams(piece.text) if piece.is_run else [piece.text])
    ]
    if term.prefix and not found[-1].is_run:
        lexemes[-1] += ":*"
    look = Condition("(search @@ ?::tsquery)", (" & ".join(lexemes),))
    if len(found) == 1 and len(found[0].text) <= 2:
        return look
    checks = [Condition("strpos(lower(content), ?) > 0", (text,)) for text in _needles(term, found)]
    return _joined(" AND ", [look, *checks])


def _needles(term: Term, found: list[Piece]) -> list[str]:
    """Texts that must be there. The server can tell the case of ASCII letters only, so with
    others in the term its runs are looked for one by one."""
    if all(c.isascii() or c.lower() == c.upper() for c in term.text):
        return [_lower(term.text)]
    return [piece.text for piece in found if piece.is_run]


def _phrase(found: list[Piece], term: Term, operator: str = " <-> ") -> str:
    return operator.join(quoted(piece.text) for piece in found) + (":*" if term.prefix else "")


def _pieces(term: Term) -> list[Piece]:
    return list(pieces(term.text)) or list(pieces(" ".join(term.words)))


def _lower(text: str) -> str:
    """As the server does it with the collation "C"."""
    return "".join(c.lower() if c.isascii() else c for c in text)


def _joined(operator: str, conditions: list[Condition]) -> Condition:
    sql = operator.join(one.sql for one in conditions)
    return Condition(f"({sql})", tuple(value for one in conditions for value in one.values))

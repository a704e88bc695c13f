"""From a request to a page of hits, the same for every database."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec

from hermes.core.errors import UsageError
from hermes.store.backend import Backend, Database, Row
from hermes.store.query_language import Query, Term, is_unspaced, parse
from hermes.store.records import Candidate, Neighbour, SearchHit, SearchRequest
from hermes.store.rows import user_text

# Which matches come first.

CANDIDATES = 120
"""How many of the newest matches are ranked, unless a later page is asked for."""

_WEIGHTS = {"user": 1.0, "assistant": 0.8, "system": 0.5, "tool": 0.4}
"""What a person wrote is what a person remembers; tool output is long and repeats itself."""
_OTHER = 0.5

_HALF_LIFE = 30 * 86400.0
_OLD = 0.3
"""An old message keeps this part of its score, so that a good match is never out of reach."""


def rank(candidates: Iterable[Candidate], now: float) -> list[Candidate]:
    """Best first: relevance, weighted by who said it and how long ago. Equals stay in the order
    they come in, which is newest first."""

    def score(candidate: Candidate) -> float:
        _, _, role, timestamp, relevance = candidate
        # From 1.0 for now (or a clock that was ahead) down to `_OLD`.
        age = now - timestamp
        recency = _OLD + (1 - _OLD) * 2.0 ** (-age / _HALF_LIFE) if age > 0 else 1.0
        return relevance * _WEIGHTS.get(role, _OTHER) * recency

    return sorted(candidates, key=score, reverse=True)


# The piece of a message that shows why it was found.
#
# Matches are sought the way the indexes do it: words without regard to case and accents, phrases
# across any signs, text in a script written without spaces anywhere. A huge message is looked at
# in
# slices, up to the first one with a match.

LENGTH = 240
"""Characters of the message in a snippet, about 40 words."""

_SLICE = 1 << 16
_OVERLAP = LENGTH
_MARGIN = 24
"""How far a cut may move to fall between words."""
_MATCHES = 500
"""So many matches are weighed to find the best place."""
_MIN_PIECE = 3

_ACCENTS = re.compile("[\u0300-\u0331]")
_SPACES = re.compile(r"\s+")
Span = tuple[int, int, int]
"""Start, end, and the number of the term."""


class Seeker(msgspec.Struct, frozen=True):
    """How a term is found in folded text: its first word by plain search, which is fast, and then
    the rest where that stands."""

    needles: tuple[str, ...]
    """What must be there; every match begins with the first."""
    word: re.Pattern[str]
    piece: re.Pattern[str]
    """For text with a script written without spaces."""

    def matches(self, folded: str, *, in_pieces: bool) -> Iterator[tuple[int, int]]:
        if not all(needle in folded for needle in self.needles):
            return
        pattern, first = (self.piece if in_pieces else self.word), self.needles[0]
        at = folded.find(first)
        while at >= 0:
            match = pattern.match(folded, at)
            if match:
                yield match.span()
            at = folded.find(first, match.end() if match else at + 1)


def _spans(text: str, seekers: Sequence[Seeker]) -> list[Span]:
    """Every match, in order. Of two at one place the longer counts."""
    folded, in_pieces = fold(text), is_unspaced(text)
    found = [
        (start, -end, number)
        for number, seeker in enumerate(seekers)
        for start, end in islice(seeker.matches(folded, in_pieces=in_pieces), _MATCHES)
    ]
    found.sort()
    spans: list[Span] = []
    for start, negative_end, number in found:
        if not spans or start >= spans[-1][1]:
            spans.append((start, -negative_end, number))
    return spans


def snippet(content: str, query: Query) -> str:
    """About `LENGTH` characters of `content` around the best match, `>>>` and `<<<` around each
    match in it, `…` where something is left out, white space as single spaces. The start of
    `content` when nothing in it matches."""
    return snippet_by(content, seekers(query))


def snippet_by(content: str, seekers: Sequence[Seeker]) -> str:
    """`snippet` for the terms of a query, which are prepared once for many texts."""
    for text, is_first, is_last in _slices(content):
        spans = [
            span
            for span in _spans(text, seekers)
            # At a cut nobody can tell where a word ends; the neighbouring slice has it whole.
            if (is_first or span[0] > 0) and (is_last or span[1] < len(text))
        ]
        if spans:
            return _cut(text, spans, is_first=is_first, is_last=is_last)
    return _cut(content[: 2 * LENGTH], [], is_first=True, is_last=len(content) <= 2 * LENGTH)


def fold(text: str) -> str:
    """`text` in lower case and without accents, character for character. Accents that stand
    apart from their letters must be composed before."""
    if text.isascii():
        return text.lower()
    marked, plain = _folds()
    # The one letter whose lower case is longer than itself.
    lowered = text.replace("\u0130", "i").lower()
    return marked.sub(lambda match: plain[match[0]], lowered)


@cache
def _folds() -> tuple[re.Pattern[str], dict[str, str]]:
    """The lower-case letters that lose something, and what is left of each."""
    plain = {"ς": "σ"}
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00)):
        base = unicodedata.normalize("NFD", chr(code))[0]
        if base.isascii() and base.islower():
            plain[chr(code)] = base
    return re.compile(f"[{''.join(plain)}]"), plain


def _slices(content: str) -> Iterator[tuple[str, bool, bool]]:
    """Pieces of `content` with composed accents, and whether each is the first and the last."""
    for start in range(0, max(len(content), 1), _SLICE):
        end = start + _SLICE + _OVERLAP
        text = content[max(start - _OVERLAP, 0) : end]
        yield _composed(text), start == 0, end >= len(content)
        if end >= len(content):
            return


def _composed(text: str) -> str:
    if text.isascii() or not _ACCENTS.search(text):
        return text
    return unicodedata.normalize("NFC", text)


def seekers(query: Query) -> tuple[Seeker, ...]:
    """What the terms of a query are found by."""
    return tuple(
        Seeker(
            tuple(fold(_composed(word)) for word in _needles(term)),
            re.compile(_word_pattern(term)),
            re.compile(_piece_pattern(term)),
        )
        for term in dict.fromkeys(query.wanted)
    )


def _needles(term: Term) -> tuple[str, ...]:
    return (term.text,) if term.is_unspaced else term.words


def _word_pattern(term: Term) -> str:
    if term.is_unspaced:
        return re.escape(fold(_composed(term.text)))
    words = r"[\W_]+".join(re.escape(fold(_composed(word))) for word in term.words)
    rest = r"[^\W_]*" if term.prefix else ""
    return rf"(?<![^\W_]){words}{rest}(?![^\W_])"


def _piece_pattern(term: Term) -> str:
    if term.is_unspaced or len(term.text) < _MIN_PIECE:
        return _word_pattern(term)
    return f"{_word_pattern(term)}|{re.escape(fold(_composed(term.text)))}"


def _cut(text: str, spans: list[Span], *, is_first: bool, is_last: bool) -> str:
    first, last = _best(spans) if spans else (0, 0)
    room = max(LENGTH - (last - first), 0)
    start = max(first - room // 2, 0)
    end = min(start + LENGTH, len(text))
    start = max(min(start, end - LENGTH), 0)
    start, end = _between_words(text, start, end, first, min(last, end))
    shown = " ".join(_marked(text, spans, start, end).split())
    before = "" if is_first and start == 0 else "…"
    after = "" if is_last and end == len(text) else "…"
    return f"{before}{shown}{after}"


def _best(spans: list[Span]) -> tuple[int, int]:
    """Start and end of the first stretch that fits a snippet and holds the most terms."""
    if len(spans) == 1:
        return spans[0][:2]
    best, most, last = 0, 0, 0
    best_end = spans[0][1]
    for number, (start, _, _) in enumerate(spans):
        last = max(last, number)
        while last + 1 < len(spans) and spans[last + 1][1] - start <= LENGTH:
            last += 1
        terms = len({term for _, _, term in spans[number : last + 1]})
        if terms > most:
            best, most, best_end = number, terms, spans[last][1]
    return spans[best][0], best_end


def _between_words(text: str, start: int, end: int, first: int, last: int) -> tuple[int, int]:
    """The cut moved inwards to the next space, where there is one near and no match in between."""
    if start > 0:
        space = _SPACES.search(text, start, min(start + _MARGIN, first))
        start = space.end() if space else start
    if end < len(text):
        space = _SPACES.search(text, max(end - _MARGIN, last), end)
        end = space.start() if space else end
    return start, end


def _marked(text: str, spans: list[Span], start: int, end: int) -> str:
    parts: list[str] = []
    position = start
    for first, last, _ in spans:
        if start <= first < end:
            stop = min(last, end)
            parts += [text[position:first], ">>>", text[first:stop], "<<<"]
            position = stop
    parts.append(text[position:end])
    return "".join(parts)


CONTEXT_LENGTH = 200

_BATCH = 500
"""So many ids go into one statement."""


def search(
    backend: Backend, database: Database, request: SearchRequest, now: float
) -> tuple[SearchHit, ...]:
    """The page of hits asked for, best first. Raises `UsageError` for a request that makes no
    sense or has nothing to look for."""
    if request.limit < 1 or request.offset < 0:
        raise UsageError(
            f"cannot show {request.limit} hits from number {request.offset}",
            hint="The limit is at least 1 and the offset at least 0.",
        )
    query = parse(request.query)
    if not query.any_of:
        raise UsageError(
            "nothing to search for: the query has no word in it",
            hint='Write words that occur together, "a phrase", this OR that, NOT this, or star*.',
        )
    ranked = rank(backend.find(database, query, request), now)
    return tuple(_hits(database, _page(database, ranked, request), query))


def _page(database: Database, ranked: list[Candidate], request: SearchRequest) -> list[Candidate]:
    """The candidates of the page. A branched session may hold copies of messages: of those with
    the same role, time and text only the best-ranked counts."""
    end = request.offset + request.limit
    times = Counter(map(itemgetter(3), ranked))
    single: list[Candidate] = []
    seen: set[tuple[str, float, str | None]] = set()
    for batch in _batches(ranked, max(request.limit, 20)):
        alike = [id_ for id_, _, _, timestamp, _ in batch if times[timestamp] > 1]
        texts: dict[int, str | None] = dict(_by_id(database, _TEXTS, alike))
        for found in batch:
            id_, _, role, timestamp, _ = found
            if id_ in texts:
                key = (role, timestamp, texts[id_])
                if key in seen:
                    continue
                seen.add(key)
            single.append(found)
        if len(single) >= end:
            break
    return single[request.offset : end]


_TEXTS = "SELECT id, content FROM messages WHERE id IN"

# The neighbours of a message are found by the index on (session_id, timestamp).
_FACTS = """
SELECT m.id, m.content, s.source, s.model, s.started_at, s.title,
    (SELECT n.id FROM messages AS n
     WHERE n.session_id = m.session_id AND (n.timestamp, n.id) < (m.timestamp, m.id)
     ORDER BY n.timestamp DESC, n.id DESC LIMIT 1),
    (SELECT n.id FROM messages AS n
     WHERE n.session_id = m.session_id AND (n.timestamp, n.id) > (m.timestamp, m.id)
     ORDER BY n.timestamp, n.id LIMIT 1)
FROM messages AS m JOIN sessions AS s ON s.id = m.session_id WHERE m.id IN
"""

# Content parts of a user's message must be whole to be read.
_NEIGHBOURS = f"""
SELECT id, role, CASE WHEN role = 'user' AND substr(content, 1, 1) = '[' THEN content
    ELSE substr(content, 1, {CONTEXT_LENGTH}) END
FROM messages WHERE id IN
"""


def _hits(database: Database, page: list[Candidate], query: Query) -> Iterator[SearchHit]:
    facts = {row[0]: row for row in _by_id(database, _FACTS, [found[0] for found in page])}
    beside = {id_ for row in facts.values() for id_ in row[6:] if id_ is not None}
    neighbours = {
        id_: Neighbour(role, _shown(role, content)[:CONTEXT_LENGTH])
        for id_, role, content in _by_id(database, _NEIGHBOURS, sorted(beside))
    }
    terms = seekers(query)
    for id_, session_id, role, timestamp, _ in page:
        if id_ not in facts:
            continue  # deleted since it was found
        _, content, source, model, started, title, *near = facts[id_]
        yield SearchHit(
            id=id_,
            session_id=session_id,
            role=role,
            timestamp=timestamp,
            snippet=snippet_by(_shown(role, content), terms),
            context=tuple(neighbours[one] for one in near if one in neighbours),
            source=source,
            model=model or "",
            session_started=started,
            title=title or "",
        )


def _shown(role: str, content: str | None) -> str:
    """What a person sees of a stored `content`."""
    return user_text(content) if role == "user" else content or ""


def _by_id(database: Database, statement: str, ids: Sequence[int]) -> Iterator[Row]:
    """The rows of `statement`, which ends with `IN`, for `ids`."""
    for batch in _batches(ids, _BATCH):
        yield from database.rows(f"{statement} ({', '.join('?' * len(batch))})", batch)


def _batches(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))

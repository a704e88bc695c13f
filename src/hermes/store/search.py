"""The message search as far as it is the same for both databases: query language, ranking, paging
and snippets."""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import msgspec

from hermes.core.errors import UsageError
from hermes.store.engine import Backend, Database, Row
from hermes.store.records import Candidate, MatchKind, Neighbour, SearchHit, SearchRequest
from hermes.store.rows import user_text
from hermes.util.lazy import late_pattern
from hermes.util.text import clean

# Scripts that do not separate words by spaces. A word index takes a whole Chinese sentence for one
# word, and a Korean word with its particle for another word. Text in these scripts is found by its
# characters instead.

RANGES = (
    (0x0E00, 0x109F, "Thai, Lao, Tibetan, Myanmar"),
    (0x1100, 0x11FF, "Hangul jamo"),
    (0x1780, 0x17FF, "Khmer"),
    (0x3000, 0xA4CF, "kana, bopomofo, Hangul letters, Han with extension A, their signs, Yi"),
    (0xA960, 0xA97F, "Hangul jamo extended A"),
    (0xA9E0, 0xA9FF, "Myanmar extended B"),
    (0xAA60, 0xAA7F, "Myanmar extended A"),
    (0xAC00, 0xD7FF, "Hangul, Hangul jamo extended B"),
    (0xF900, 0xFAFF, "Han compatibility forms"),
    (0xFF66, 0xFFDC, "halfwidth katakana and Hangul"),
    (0x1AFF0, 0x1B16F, "kana supplements"),
    (0x20000, 0x3FFFF, "Han extensions B and later, Han compatibility supplement"),
)
"""First and last code point of each range, and its content, in ascending order."""


@cache
def _character() -> re.Pattern[str]:
    return re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last, _ in RANGES) + "]")


def is_unspaced(text: str) -> bool:
    """Return whether `text` has a character of a script written without spaces."""
    return not text.isascii() and _character().search(text) is not None


# The query language.
#
#     disk error            both words, in any order
#     "disk error"          this phrase
#     disk OR error         either
#     disk NOT error        the first without the second
#     deploy*               words with this prefix
#     chat-send             joined words are a phrase
#
# NOT binds the next term, OR is weakest: `a b OR c NOT d` is (a and b) or (c and not d). The
# operators are upper-case words. Other syntax of a database has no meaning here.
#
# Every text is a valid query. A quote without its partner, an operator without an operand and signs
# that are not part of a word are dropped; the terms of a group with nothing but NOT are searched
# for. Only the first `MAX_TEXT` characters and the first `MAX_TERMS` terms count.

MAX_TEXT = 2000
MAX_TERMS = 64

_QUOTES = str.maketrans("“”„‟＂", '"""""')
_TOKEN = late_pattern(r'"([^"]*)"(\*?)|([^\s"]+)')
# As SQLite's unicode61 sees them: letters, digits and private-use characters, with the combining
# accents that follow. The underscore separates.
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_ACCENT_RANGE = "\u0300-\u0331"
_WORD = late_pattern(f"(?:[^\\W_]|[{_PRIVATE}])(?:[^\\W_]|[{_PRIVATE}{_ACCENT_RANGE}])*")
_ACCENT = late_pattern(f"[{_ACCENT_RANGE}]")


class Term(msgspec.Struct, frozen=True):
    words: tuple[str, ...]  #: One word, or the words of a phrase in order.
    text: str  #: The source text without quotes, star and signs at the ends.
    prefix: bool = False  #: The last word is a prefix.

    @property
    def is_unspaced(self) -> bool:
        """True if the term is found as a substring, not as words."""
        return is_unspaced(self.text)


class Group(msgspec.Struct, frozen=True):
    all_of: tuple[Term, ...]  #: Never empty.
    none_of: tuple[Term, ...] = ()


class Query(msgspec.Struct, frozen=True):
    any_of: tuple[Group, ...]  #: Empty when the text has no term.

    @property
    def wanted(self) -> tuple[Term, ...]:
        """Every term that a match may contain."""
        return tuple(term for group in self.any_of for term in group.all_of)


_Operator = Literal["AND", "OR", "NOT"]
_OPERATORS: dict[str, _Operator] = {"AND": "AND", "OR": "OR", "NOT": "NOT"}


def parse_query(text: str) -> Query:
    groups: list[Group | None] = []
    wanted: list[Term] = []
    unwanted: list[Term] = []
    is_negated = False
    count = 0
    for item in _items(clean(text[:MAX_TEXT]).translate(_QUOTES)):
        if isinstance(item, Term):
            (unwanted if is_negated else wanted).append(item)
            count += 1
        elif item == "OR":
            groups.append(_group(wanted, unwanted))
            wanted, unwanted = [], []
        is_negated = item == "NOT"
        if count == MAX_TERMS:
            break
    groups.append(_group(wanted, unwanted))
    return Query(tuple(group for group in groups if group))


def _group(wanted: list[Term], unwanted: list[Term]) -> Group | None:
    if wanted:
        return Group(tuple(wanted), tuple(unwanted))
    return Group(tuple(unwanted)) if unwanted else None


def _items(text: str) -> Iterator[Term | _Operator | None]:
    """Yield terms and operators in order; None for a token without a word."""
    for phrase, star, token in _TOKEN.findall(text):
        if not token:
            yield _term(phrase, is_prefix=bool(star))
            continue
        start, end = _bounds(token)
        operator = _OPERATORS.get(token[start:end])
        is_prefix = token[end : end + 1] == "*"
        yield operator if operator and not is_prefix else _term(token, is_prefix=is_prefix)


def _term(text: str, *, is_prefix: bool) -> Term | None:
    # Accents are composed with their letters, or dropped where that fails.
    words = tuple(_ACCENT.sub("", _composed(word)) for word in _WORD.findall(text))
    if not words:
        return None
    start, end = _bounds(text)
    return Term(words, text[start:end], is_prefix)


def _bounds(text: str) -> tuple[int, int]:
    """Return start and end of `text` without the signs around it. Marks are not signs: a Thai or
    Burmese word may end with one."""
    start, end = 0, len(text)
    while start < end and _is_sign(text[start]):
        start += 1
    while start < end and _is_sign(text[end - 1]):
        end -= 1
    return start, end


def _is_sign(character: str) -> bool:
    return unicodedata.category(character)[0] not in "LNM" and not _WORD.match(character)


# Ranking

CANDIDATES = 120  #: How many of the newest matches are ranked, unless a later page is requested.


class SqlCondition(NamedTuple):
    """A part of a WHERE clause with its values."""

    sql: str
    values: tuple[Any, ...] = ()

    @property
    def negated(self) -> "SqlCondition":
        return SqlCondition(f"NOT {self.sql}", self.values)


def join_conditions(operator: str, conditions: Iterable[SqlCondition]) -> SqlCondition:
    some = list(conditions)
    sql = operator.join(one.sql for one in some)
    return SqlCondition(f"({sql})", tuple(value for one in some for value in one.values))


_WEIGHTS = {"user": 1.0, "assistant": 0.8, "system": 0.5, "tool": 0.4}
"""People remember what they wrote; tool output is long and repetitive."""
_OTHER = 0.5

_HALF_LIFE = 30 * 86400.0
_OLD = 0.3  #: The share of its score that an old message keeps, so that good matches stay visible.


def rank(candidates: Iterable[Candidate], now: float) -> list[Candidate]:
    """Sort by relevance, weighted by role and age, best first. Equal candidates keep their order,
    which is newest first."""

    def score(candidate: Candidate) -> float:
        _, _, role, timestamp, relevance = candidate
        return relevance * _WEIGHTS.get(role, _OTHER) * _recency(timestamp, now)

    return sorted(candidates, key=score, reverse=True)


def _recency(timestamp: float, now: float) -> float:
    """Return 1.0 for now (or a clock that was ahead), and down to `_OLD` for the past."""
    age = now - timestamp
    return _OLD + (1 - _OLD) * 2.0 ** (-age / _HALF_LIFE) if age > 0 else 1.0


# Snippets: the part of a message that shows why it was found.
#
# Matches are found as the indexes do it: words regardless of case and accents, phrases across
# punctuation, and text in a script written without spaces anywhere. A huge message is searched in
# slices, up to the first one with a match.

LENGTH = 240  #: Characters of the message in a snippet, about 40 words.

_SLICE = 1 << 16
_OVERLAP = LENGTH
_MARGIN = 24  #: How far a cut may move to fall between words.
_MATCHES = 500  #: Limit of the matches per term that are compared to find the best place.
_MIN_PIECE = 3

_SPACES = late_pattern(r"\s+")
Span = tuple[int, int, int]  #: Start, end, and the number of the term.


class TermMatcher(msgspec.Struct, frozen=True):
    """Finds a term in folded text: its first word by plain search, which is fast, and then the rest
    of it at that position."""

    needles: tuple[str, ...]
    """Words that the text must contain; every match begins with the first."""
    word: re.Pattern[str]
    piece: re.Pattern[str]  #: For text with a script written without spaces.

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


def _spans(text: str, matchers: Sequence[TermMatcher]) -> list[Span]:
    """Return all matches in order; of two at one position, the longer one."""
    folded, in_pieces = fold(text), is_unspaced(text)
    found = [
        (start, -end, number)
        for number, matcher in enumerate(matchers)
        for start, end in islice(matcher.matches(folded, in_pieces=in_pieces), _MATCHES)
    ]
    found.sort()
    spans: list[Span] = []
    for start, negative_end, number in found:
        if not spans or start >= spans[-1][1]:
            spans.append((start, -negative_end, number))
    return spans


def snippet(content: str, matchers: Sequence[TermMatcher]) -> str:
    """Return about `LENGTH` characters of `content` around the best match, or its start if nothing
    matches. Matches are marked with `>>>` and `<<<`, omissions with `…`."""
    for text, is_first, is_last in _slices(content):
        spans = [
            span
            for span in _spans(text, matchers)
            # At a cut the end of a word is unknown; the neighbouring slice has the whole word.
            if (is_first or span[0] > 0) and (is_last or span[1] < len(text))
        ]
        if spans:
            return _cut(text, spans, is_first=is_first, is_last=is_last)
    return _cut(content[: 2 * LENGTH], [], is_first=True, is_last=len(content) <= 2 * LENGTH)


def fold(text: str) -> str:
    """Return `text` in lower case and without accents; its length stays the same. Accents must be
    composed with their letters before."""
    if text.isascii():
        return text.lower()
    marked, plain = _folds()
    # The one letter whose lower case is longer than itself.
    lowered = text.replace("\u0130", "i").lower()
    return marked.sub(lambda match: plain[match[0]], lowered)


@cache
def _folds() -> tuple[re.Pattern[str], dict[str, str]]:
    """Return a pattern of the lower-case letters with accents, and their plain letters."""
    plain = {"ς": "σ"}
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00)):
        base = unicodedata.normalize("NFD", chr(code))[0]
        if base.isascii() and base.islower():
            plain[chr(code)] = base
    return re.compile(f"[{''.join(plain)}]"), plain


def _slices(content: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield slices of `content` with composed accents, and whether each is first and last."""
    for start in range(0, max(len(content), 1), _SLICE):
        end = start + _SLICE + _OVERLAP
        text = content[max(start - _OVERLAP, 0) : end]
        yield _composed(text), start == 0, end >= len(content)
        if end >= len(content):
            return


def _composed(text: str) -> str:
    if text.isascii() or not _ACCENT.search(text):
        return text
    return unicodedata.normalize("NFC", text)


def matchers(terms: Iterable[Term]) -> tuple[TermMatcher, ...]:
    """Return a matcher for each term."""
    return tuple(
        TermMatcher(
            tuple(
                fold(_composed(word)) for word in ((term.text,) if term.is_unspaced else term.words)
            ),
            re.compile(_word_pattern(term)),
            re.compile(_piece_pattern(term)),
        )
        for term in dict.fromkeys(terms)
    )


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
    """Return the first stretch that fits into a snippet and has the most terms."""
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
    """Move the cut inwards to the next space, if one is near and no match is in between."""
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


# Words that are nearly the same: other endings and typing errors. They are compared with the words
# that occur in messages, so no index of stems or trigrams is needed, and writing costs nothing.

_SHORTEST = 4  #: Characters of a word that is compared.
ENDING_CHARS = 6  #: Two words with the same stem differ in length by fewer characters.
_ONE_ERROR, _TWO_ERRORS = 5, 8  #: Characters of words in which errors are assumed.
_MOST_VARIANTS = 24
_ENDINGS_TEXT = """
    s es d ed ing er ers est ly y ies ied ion ions al ment ments ness e able ity
    n en ern em t te ten tet et st end ende ung ungen lich ig ige igen
    a as o os i ar ir ado ada ez ent ons ait ee ees re ato ata are ere ire ando endo
    а я у ю ы и е ой ей ою ам ям ами ями ах ях ов ев ий ый ая ое ые ого ому
    ть л ла ло ли ет ит ут ют ят им ем
    """
_ENDINGS = frozenset(("", *_ENDINGS_TEXT.split()))
"""Endings of words in some languages, without accents."""
_SHORT_ENDINGS = frozenset(("", "s", "e", "ed", "ing", "y", "ies", "en"))
"""Endings after a stem of three characters."""
_LEAVES = ({"f", "ves"}, {"fe", "ves"})  #: As in `leaf` and `knife`.


def similar_words(word: str, vocabulary: Iterable[str], *, typos: bool = True) -> list[str]:
    """Return words of `vocabulary` that differ from `word` by their ending or else, with `typos`,
    by the fewest typing errors. All words are folded."""
    others = [other for other in vocabulary if other != word]
    found = sorted((other for other in others if _same_stem(word, other)), key=len)
    limit = 2 if len(word) >= _TWO_ERRORS else 1 if len(word) >= _ONE_ERROR else 0
    if not found and typos and limit:
        errors = {other: _typing_errors(word, other, limit) for other in others}
        least = min(errors.values(), default=limit + 1)
        found = [other for other, count in errors.items() if count == least <= limit]
    return found[:_MOST_VARIANTS]


def _same_stem(word: str, other: str) -> bool:
    shared = next(
        (at for at, (one, two) in enumerate(zip(word, other, strict=False)) if one != two),
        min(len(word), len(other)),
    )
    for at in range(shared, 2, -1):
        allowed = _ENDINGS if at > 3 else _SHORT_ENDINGS
        first, second = word[at:], other[at:]
        # A consonant may be doubled before the ending, as in `plan` and `planning`.
        doubled = [each[1:] if each[:1] == word[at - 1] else each for each in (first, second)]
        ends = {first, second}
        if ends <= allowed or set(doubled) <= allowed or ends in _LEAVES:
            return True
    return False


def _typing_errors(word: str, other: str, limit: int) -> int:
    """Return how many characters are missing, added, wrong or swapped with the next one, or
    `limit + 1` if there are more errors than that."""
    if abs(len(word) - len(other)) > limit or len(set(word) ^ set(other)) > 2 * limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, one in enumerate(word, 1):
        previous, row = row, [at]
        for place, two in enumerate(other, 1):
            cost = min(previous[place] + 1, row[-1] + 1, previous[place - 1] + (one != two))
            if at > 1 and place > 1 and (one, word[at - 2]) == (other[place - 2], two):
                cost = min(cost, before[place - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
        before = previous
    return row[-1]


# The tolerant search: conversations that have the words of a query in any of their messages, with
# other endings or typing errors, or that have only some of the words.

_MOST_TERMS = 24
_COMMON = 0.05
"""Part of all messages that have a common word. `CANDIDATES` are enough, and 20 are needed."""
_COMMON_WEIGHT = 0.1
_ENDING_WEIGHT, _TYPO_WEIGHT = 0.9, 0.6
"""Parts of the weight of a word that one with another ending or spelling has."""
_FUNCTION_WORDS_TEXT = """
    a about after all also an and any are as at be been before but by can could did do does done
    for from get had has have he her here him his how i if in into is it its just let me more most
    my no not of off on one or other our out over she should so some than that the their them then
    there these they this those to too up us was we were what when where which who why will with
    would you your aber als am auch auf aus bei bin bist da das dass dem den der des die doch du
    ein eine einem einen einer er es für habe haben hat hatte ich ihr im ist ja kann mein meine
    mir mit nach nicht noch nur ob oder ohne sein sich sie sind um und uns unser vom von war warum
    wenn wer wie wir wird wo zu zum zur au aux avec ce cette dans de elle en est et il ils je la
    le les leur lui mais nous ou par pas pour qu que qui sa se ses son sur un une vous al con del
    el ella ellos era esta este ha las los lo mas mi muy para pero por si sin su sus una y ya como
    cuando donde
    """
_FUNCTION_WORDS = frozenset(_FUNCTION_WORDS_TEXT.split())
"""Words that say nothing about a topic. In a small store they may be as rare as others."""
_ALSO_WEIGHT = 0.5
_LEAST_SHARE = 0.35  #: Part of the best score that a conversation needs.
_PER_SESSION = 3  #: Messages of a conversation that are returned.


class _Evidence(msgspec.Struct):
    """The terms that a message or a conversation has, with their weights."""

    weights: dict[int, float] = {}

    def add(self, term: int, weight: float) -> None:
        self.weights[term] = max(self.weights.get(term, 0.0), weight)

    @property
    def score(self) -> float:
        return sum(self.weights.values())


class _Relaxed(NamedTuple):
    candidates: list[Candidate]  #: Best first.
    matches: dict[int, tuple[MatchKind, float]]  #: The match and the share of each candidate.
    terms: tuple[Term, ...]  #: What to mark in the messages.


class _TolerantSearch:
    def __init__(self, backend: Backend, database: Database, request: SearchRequest) -> None:
        self._backend, self._database = backend, database
        self._request = msgspec.structs.replace(request, offset=0, limit=CANDIDATES)
        self._messages: dict[int, Candidate] = {}
        self._by_message: defaultdict[int, _Evidence] = defaultdict(_Evidence)
        self._by_session: defaultdict[str, _Evidence] = defaultdict(_Evidence)
        self._terms: list[Term] = []
        newest = database.rows("SELECT coalesce(max(id), 0) FROM messages")[0][0]
        self._common = min(max(int(newest * _COMMON), 20), CANDIDATES)

    def run(self, terms: Sequence[Term], now: float) -> _Relaxed:
        weights = [
            self._add(number, term, 1.0)
            for number, term in enumerate(self._split(dict.fromkeys(terms)))
        ]
        other = parse_query(" ".join(f'"{text}"' for text in self._request.also)).wanted
        also = [
            self._add(number, term, _ALSO_WEIGHT)
            for number, term in enumerate(other[:_MOST_TERMS], len(weights))
        ]
        telling = {n for n, weight in enumerate((*weights, *also)) if weight > _COMMON_WEIGHT}
        telling = telling or set(range(len(weights)))
        best = max((each.score for each in self._by_session.values()), default=0.0)
        wanted = telling & set(range(len(weights)))
        ranked = sorted(self._messages.values(), key=lambda one: self._score(one, now))[::-1]
        kept: list[Candidate] = []
        matches: dict[int, tuple[MatchKind, float]] = {}
        counts: Counter[str] = Counter()
        for candidate in ranked:
            id_, session = candidate[:2]
            held = self._by_session[session]
            is_full = counts[session] == _PER_SESSION and not self._request.sessions
            # Common words alone say nothing about a conversation.
            is_telling = not telling.isdisjoint(held.weights)
            if is_full or not is_telling or held.score < _LEAST_SHARE * best:
                continue
            counts[session] += 1
            kept.append(candidate)
            own = sum(held.weights.get(number, 0.0) for number in range(len(weights)))
            is_whole = wanted <= held.weights.keys()
            matches[id_] = "similar" if is_whole else "some", round(own / sum(weights), 2)
        return _Relaxed(kept, matches, tuple(self._terms))

    def _score(self, candidate: Candidate, now: float) -> float:
        id_, session, role, timestamp, _ = candidate
        words = self._by_session[session].score + self._by_message[id_].score / 2
        # Only a little: what the conversation is about matters most here.
        return words * (1 + 0.1 * _WEIGHTS.get(role, _OTHER) + 0.1 * _recency(timestamp, now))

    def _split(self, terms: Iterable[Term]) -> Iterator[Term]:
        """Yield the terms. A run of a script without spaces that no message has is split into
        pairs of characters, because it may be a whole sentence."""
        for term in islice(terms, _MOST_TERMS):
            pairs = [term.text[at : at + 2] for at in range(len(term.text) - 1)]
            if term.is_unspaced and len(pairs) > 1 and not self._find([term]):
                yield from (Term((pair,), pair) for pair in dict.fromkeys(pairs[:_MOST_TERMS]))
            else:
                yield term

    def _add(self, number: int, term: Term, factor: float) -> float:
        """Find a term and words similar to it, and return the weight of the term."""
        exact = self._find([term])
        variants = self._variants(term, typos=not exact)
        near = self._find(variants) if variants else []
        self._terms += [term, *variants]
        count = len({found[0] for found in (*exact, *near)})
        rarity = math.log(1 + CANDIDATES / max(count, 1))
        is_common = count >= self._common or term.text.lower() in _FUNCTION_WORDS
        weight = factor * (_COMMON_WEIGHT if is_common else rarity)
        # All variants differ by their ending, or all by a typing error.
        is_ending = variants and _same_stem(fold(term.words[0]), variants[0].text)
        similar = _ENDING_WEIGHT if is_ending else _TYPO_WEIGHT
        for candidates, part in ((exact, weight), (near, weight * similar)):
            for candidate in candidates:
                id_, session = candidate[:2]
                self._messages.setdefault(id_, candidate)
                self._by_message[id_].add(number, part)
                self._by_session[session].add(number, part)
        return weight

    def _variants(self, term: Term, *, typos: bool) -> list[Term]:
        word = fold(term.words[0])
        is_plain = len(term.words) == 1 and not term.prefix and not term.is_unspaced
        is_plain = is_plain and word not in _FUNCTION_WORDS
        if not is_plain or len(word) < _SHORTEST or any(map(str.isdigit, word)):
            return []
        known = self._backend.vocabulary(self._database, word, typos=typos)
        return [Term((other,), other) for other in similar_words(word, known, typos=typos)]

    def _find(self, terms: Iterable[Term]) -> list[Candidate]:
        query = Query(tuple(Group((term,)) for term in terms))
        return self._backend.find(self._database, query, self._request)


CONTEXT_LENGTH = 200

_BATCH = 500  #: Maximum number of ids in one statement.


def search(
    backend: Backend, database: Database, request: SearchRequest, now: float
) -> tuple[SearchHit, ...]:
    """Return the requested page of hits, best first. Raises `UsageError` for an invalid page and
    for a query without a term."""
    if request.limit < 1 or request.offset < 0:
        raise UsageError(
            f"cannot show {request.limit} hits from number {request.offset}",
            hint="The limit is at least 1 and the offset at least 0.",
        )
    query = parse_query(request.query)
    if not query.any_of:
        raise UsageError(
            "nothing to search for: the query has no word in it",
            hint='Write words that occur together, "a phrase", this OR that, NOT this, or star*.',
        )
    ranked = rank(backend.find(database, query, request), now)
    terms, matches = query.wanted, dict[int, tuple[MatchKind, float]]()
    is_plain = len(query.any_of) == 1 and not query.any_of[0].none_of
    if request.tolerant and is_plain and len(ranked) < request.offset + request.limit:
        relaxed = _TolerantSearch(backend, database, request).run(terms, now)
        terms, matches = (*terms, *relaxed.terms), dict(relaxed.matches)
        for found in ranked:
            matches.pop(found[0], None)
        # Beside messages with all words, those with only some would be noise.
        wanted = ("similar",) if ranked and not request.also else ("similar", "some")
        ranked += [one for one in relaxed.candidates if matches.get(one[0], ("",))[0] in wanted]
    page = _page(database, ranked, request)
    return tuple(_hits(database, page, terms, matches))


def _page(database: Database, ranked: list[Candidate], request: SearchRequest) -> list[Candidate]:
    """Return the candidates of the page. A branched session may have copies of messages: of those
    with the same role, time and text only the best-ranked one counts."""
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

# Content parts of a user message can only be decoded completely.
_NEIGHBOURS = f"""
SELECT id, role, CASE WHEN role = 'user' AND substr(content, 1, 1) = '[' THEN content
    ELSE substr(content, 1, {CONTEXT_LENGTH}) END
FROM messages WHERE id IN
"""


def _hits(
    database: Database,
    page: list[Candidate],
    wanted: Sequence[Term],
    matches: dict[int, tuple[MatchKind, float]],
) -> Iterator[SearchHit]:
    facts = {row[0]: row for row in _by_id(database, _FACTS, [found[0] for found in page])}
    adjacent = {id_ for row in facts.values() for id_ in row[6:] if id_ is not None}
    neighbours = {
        id_: Neighbour(role, _visible_text(role, content)[:CONTEXT_LENGTH])
        for id_, role, content in _by_id(database, _NEIGHBOURS, sorted(adjacent))
    }
    terms = matchers(wanted)
    for id_, session_id, role, timestamp, _ in page:
        if id_ not in facts:
            continue  # deleted since it was found
        _, content, source, model, started, title, *near = facts[id_]
        match, share = matches.get(id_, ("exact", 1.0))
        yield SearchHit(
            id=id_,
            session_id=session_id,
            role=role,
            timestamp=timestamp,
            snippet=snippet(_visible_text(role, content), terms),
            context=tuple(neighbours[one] for one in near if one in neighbours),
            source=source,
            model=model or "",
            session_started=started,
            title=title or "",
            match=match,
            share=share,
        )


def _visible_text(role: str, content: str | None) -> str:
    """Return the visible text of a stored `content`."""
    return user_text(content) if role == "user" else content or ""


def _by_id(database: Database, statement: str, ids: Sequence[int]) -> Iterator[Row]:
    """Yield the rows of `statement`, which ends with `IN`, for `ids`."""
    for batch in _batches(ids, _BATCH):
        yield from database.rows(f"{statement} ({', '.join('?' * len(batch))})", batch)


def _batches(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))

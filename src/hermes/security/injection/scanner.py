"""One scanner for SOUL.md, context files, memory writes, cron prompts and skills.

What it promises is modest: known wordings are found in many disguises, and ordinary documents of
developers pass. An attack in words of its own passes too; the scan is one wall among several.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import islice
from typing import Final, Literal

import msgspec

from hermes.security.injection import Finding, mention
from hermes.security.injection.exfiltration import commands
from hermes.security.injection.mention import spoken_of
from hermes.security.injection.normalize import fold, invisible
from hermes.security.injection.phrases import (
    BYPASS_RESTRICTIONS,
    DECEPTION_DEEDS,
    DECEPTION_HIDE,
    DISREGARD_RULES,
    OTHER_LANGUAGES,
    PROMPT_INJECTION,
    SYS_PROMPT_OVERRIDE,
    TRANSLATE_EXECUTE,
)

# A text as a chain of words, in which phrases are looked for.
#
# Words stand with one space between them, whatever stood there before; a dot stands where a
# sentence, a paragraph or a list item ends. A piece of one or two words ends nothing: `Ignore.
# All.
# Previous.` is one phrase cut up.

_WORD = re.compile(r"[^\W_]+")
_END = re.compile(
    r"""[.!?。]+["')\]*_`]*(?=\s)|\n\s*\n|\n[ \t]*(?=(?:[-+*]|\#{1,6}|\d{1,3}[.)])[ \t]|\|)"""
)
_RUN = re.compile(r"(?<![a-z])[a-z]{18,}+")
_IN_CHAIN = re.compile(r"[^ .]+")
_SENTENCE: Final = 3
"""Words of two letters or more that make a piece a sentence."""
_LEET = re.compile(r"(?<![a-z0-9@$!|])[a-z@!|]{0,14}[0134578@$|][a-z0-9@$!|]{0,14}")
_READINGS = tuple(str.maketrans("01345789@$!|", f"o{one}eastbgasi{one}") for one in "il")


class Words:
    """The words of a plain (folded) text."""

    def __init__(self, plain: str, known: frozenset[str]) -> None:
        self.plain = _unleet(plain, known)
        chain: list[str] = []
        at = 0
        for end in (*(match.end() for match in _END.finditer(self.plain)), len(self.plain)):
            words = _WORD.findall(self.plain, at, end)
            at = end
            chain += words
            if sum(len(word) > 1 for word in words) >= _SENTENCE:
                chain.append(".")
        self.chain = " ".join(chain)
        self._squeezed = "".join(chain)
        self._held: dict[str, bool] = {}

    def holds(self, word: str) -> bool:
        """Whether the word stands anywhere, cut up or not, or as a part of another."""
        known = self._held.get(word)
        if known is None:
            known = self._held[word] = word in self._squeezed
        return known

    def sentences(self, words: Iterable[str]) -> list[int]:
        """The numbers of the sentences in which one of the words stands."""
        dots = self._dots[0]
        return sorted(
            {
                bisect_right(dots, match.start())
                for word in words
                if self.holds(word)
                for match in re.finditer(re.escape(word), self._squeezed)
            }
        )

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Where the sentences from `first` to `last` stand in the chain."""
        dots = self._dots[1]
        start = dots[first - 1] + 2 if first > 0 else 0
        return start, dots[last] + 1 if last < len(dots) else len(self.chain)

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """Sentences with a word too long to be one: `ignoreallpreviousinstructions`."""
        dots = self._dots[1]
        numbers = {bisect_right(dots, match.start()) for match in _RUN.finditer(self.chain)}
        return [self.span(number, number) for number in sorted(numbers)]

    @cached_property
    def _dots(self) -> tuple[list[int], list[int]]:
        """Where sentences end, in the squeezed text and in the chain."""
        both = (self._squeezed, self.chain)
        squeezed, chain = ([m.start() for m in re.finditer(r"\.", text)] for text in both)
        return squeezed, chain

    @cached_property
    def _spans(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Where each word starts in the chain, and its span in the plain text."""
        starts = [match.start() for match in _IN_CHAIN.finditer(self.chain)]
        return starts, [match.span() for match in _WORD.finditer(self.plain)]

    def in_plain(self, start: int, end: int) -> tuple[int, int]:
        """Where the words between two places of the chain stand in the plain text."""
        starts, spans = self._spans
        first = bisect_right(starts, start) - 1
        last = bisect_right(starts, max(start, end - 1)) - 1
        return spans[max(first, 0)][0], spans[max(last, 0)][1]


def _unleet(plain: str, known: frozenset[str]) -> str:
    """`1gn0r3` as `ignore`; only what becomes a word some rule looks for is changed."""

    def read(match: re.Match[str]) -> str:
        bare = match[0].rstrip("!|")
        for reading in _READINGS:
            word = bare.translate(reading)
            if word in known:
                return word + match[0][len(bare) :]
        return match[0]

    return _LEET.sub(read, plain)


# The phrases made into rules: what is searched for, and when it is worth searching.
#
# Compiling all phrases takes longer than scanning a file, so each is compiled when a text first
# holds a word for every part of it that must be there.

_SOME = re.compile(r"<(\d+)>")
_LETTER = re.compile(r"[^\W\d_]|(?<=[a-z])\d+|\\\.")
_SOME_WORDS: Final = "(?<= )(?:[a-z0-9 ]{0,%d}(?<= ))?"
_WORD_LENGTH: Final = 9
"""Characters that one word of any kind may take, its space included."""
_LITERAL = re.compile(r"[^\W\d_]+")
_PIECE = re.compile(r"(?P<open>\(\?[:!])|(?P<close>\)(?:\?|\{(?P<least>\d)[^}]*\})?)|(?P<bar>\|)|.")

Negation = Literal["none", "before", "sentence"]
_SOURCES: Final[tuple[tuple[str, tuple[str, ...], Negation], ...]] = (
    ("prompt_injection", PROMPT_INJECTION, "before"),
    ("prompt_injection", OTHER_LANGUAGES, "before"),
    ("deception_hide", DECEPTION_HIDE, "none"),
    ("deception_hide", DECEPTION_DEEDS, "sentence"),
    ("sys_prompt_override", SYS_PROMPT_OVERRIDE, "before"),
    ("disregard_rules", DISREGARD_RULES, "before"),
    ("bypass_restrictions", BYPASS_RESTRICTIONS, "before"),
    ("translate_execute", TRANSLATE_EXECUTE, "before"),
)


class Rule(msgspec.Struct, frozen=True):
    id: str
    phrase: str
    needs: tuple[tuple[str, ...], ...]
    """One word of each of these must stand somewhere in the text; the rarest part first."""
    negation: Negation
    """Where a `never` or `do not` makes it harmless: nowhere, right before, or in the sentence."""

    def matches(self, words: Words) -> Iterator[re.Match[str]]:
        """The phrase wherever it stands, looked for only in sentences that hold its rarest part."""
        if not all(any(map(words.holds, part)) for part in self.needs):
            return
        across = r"\." in self.phrase
        done = 0
        for number in words.sentences(self.needs[0]):
            first = max(done, number - 1) if across else number
            start, end = words.span(first, number + across)
            done = number + 1
            yield from _compiled(self.phrase).finditer(words.chain, start, end)
        for start, end in words.runs:
            yield from _compiled(self.phrase, inside=True).finditer(words.chain, start, end)


@cache
def rules() -> tuple[Rule, ...]:
    return tuple(
        Rule(name, folded, tuple(sorted(_needs(folded), key=_commonness)), negation)
        for name, texts, negation in _SOURCES
        for folded in map(fold, texts)
    )


@cache
def known_words() -> frozenset[str]:
    """Every word some phrase looks for."""
    return frozenset(word for rule in rules() for word in _LITERAL.findall(rule.phrase))


@cache
def _compiled(phrase: str, *, inside: bool = False) -> re.Pattern[str]:
    """`ignore all` as `i ?g ?n ?o ?r ?e ?a ?l ?l ?`: spaces may stand anywhere or be missing.

    The phrase starts and ends with whole words, unless it is looked for `inside` a long one.
    """
    spread = _LETTER.sub(r"\g<0> ?", phrase.replace(" ", ""))
    some = "[a-z0-9]{0,%d}" if inside else _SOME_WORDS
    loose = _SOME.sub(lambda match: some % (_WORD_LENGTH * int(match[1])), spread)
    return re.compile(loose if inside else f"(?<![a-z0-9])(?:{loose})(?![a-z0-9])")


def _needs(phrase: str) -> Iterator[tuple[str, ...]]:
    """For each part of the phrase that must be there, one word of every form it may take."""
    for part in _parts(phrase):
        words = [_words(form) for form in part]
        if all(words):
            every = {word for form in words for word in form}
            yield tuple(w for w in sorted(every) if not any(o in w for o in every - {w}))


def _commonness(part: tuple[str, ...]) -> int:
    """Short words are common, and one common form makes the part common."""
    return -min(map(len, part))


def _words(form: str) -> list[str]:
    """Words of which every text of this form holds one; none when that cannot be said."""
    parts = list(_parts(form))
    plain = [word for part in parts if len(part) == 1 for word in _LITERAL.findall(part[0])]
    if plain:
        return [max(plain, key=len)]
    nested = [[_words(inner) for inner in part] for part in parts if len(part) > 1]
    whole = next((words for words in nested if all(words)), [])
    return [word for words in whole for word in words]


def _parts(phrase: str) -> Iterator[list[str]]:
    """The outermost parts that must be there, each as the list of its forms."""
    depth, start, bars, plain = 0, 0, [0], 0
    for piece in _PIECE.finditer(phrase):
        if piece["open"]:
            if depth == 0:
                yield [phrase[plain : piece.start()]]
                start, bars = piece.end(), [piece.end()]
            depth += 1
        elif piece["bar"] and depth == 1:
            bars.append(piece.end())
        elif piece["close"]:
            depth -= 1
            if depth:
                continue
            plain = piece.end()
            optional = piece[0] == ")?" or piece["least"] == "0" or phrase[start - 1] == "!"
            if not optional:
                ends = [*(bar - 1 for bar in bars[1:]), piece.start()]
                yield [phrase[at:end] for at, end in zip(bars, ends, strict=True)]
    yield [phrase[plain:]]


# Orders where only a machine reads them: HTML comments and hidden elements.
#
# Comments and hidden elements are everyday things; what is said in them decides.

_LONGEST: Final = 4_000
"""Characters of a comment or element that are read."""
_ADDRESSED = re.compile(
    r"\b(?:ai|a\.i\.|assistants?|agents?|llms?|language models?|claude|chatgpt|gpt(?:-\d)?|"
    r"copilot|cursor|"
    r"gemini|hermes|codex|bots?|you|your|system|admin|model)\b"
)
_ORDER = re.compile(
    r"(?P<verb>\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}\b(?:instructions?|"
    r"prompts?|rules?|"
    r"guidelines?|polic(?:y|ies)|everything|safety|above|user|restrictions?|visible)"
    r"|\bexfiltrate|\b(?:send|upload|post|forward|e-?mail|leak|append|"
    r"submit)\b[^.\n]{0,60}(?:https?://|secret|"
    r"api.?key|tokens?\b|\.env|credential|password|private key|environment variable|history)"
    r"|\b(?:curl|wget)\s+(?:-\S+\s+){0,4}['\"]?https?://"
    r"|\brm\s+-rf|\b(?:reveal|print|output|leak)\b[^.\n]{0,40}(?:secrets?|system prompt|"
    r"api.?keys?|passwords?)"
    r"|\b(?:hidden|secret) instructions?|\byou are now\b|\bnew instructions?\b"
    r"|\b(?:run|execute|install|download|fetch)\b[^.\n]{0,80}(?:https?://|\|\s*(?:ba)?sh\b|"
    r"silently|secretly|"
    r"without (?:asking|telling|informing|confirm)))"
)
_DECEIT = re.compile(
    r"\b(?:do not|don't|never) (?:tell|mention|inform|reveal|alert|notify)\b[^.\n]{0,40}(?:users?|"
    r"human|anyone)"
    r"|\bwithout (?:telling|informing|notifying|alerting)\b"
)
_FORBIDDEN = re.compile(r"(?:\bnot|n't|\bnever|\bavoid|\bwithout|\bdon.t)\s+(?:\w+\s+)?$")
_OPENING = re.compile(r"<([a-z][a-z0-9]{0,20})\b([^<>]{0,600})>", re.IGNORECASE)
_HIDDEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|opacity\s*:\s*0(?:\.0+)?\s*(?:[;\"'!]|$)|"
    r"font-size\s*:\s*(?:0|1px|0\.\d+)|(?:^|\s)hidden(?=[\s=\"'/]|$)|"
    r"(?<![-\w])color\s*:\s*(?:transparent|white|#fff(?:fff)?\b)|"
    r"(?:left|top|text-indent)\s*:\s*-\d{3,}|(?:height|width|max-height)\s*:\s*0(?:px)?\s*[;\"']|"
    r"clip\s*:\s*rect\(\s*0|transform\s*:\s*scale\(\s*0",
    re.IGNORECASE,
)
_TO_A_MACHINE = re.compile(
    r"\b(?:ai|assistants?|llms?|claude|chatgpt|gpt|copilot|hermes|codex)\b[^.\n]{0,30}(?:[:,]|"
    r"\b(?:must|should|"
    r"will|please|reading|read this)\b)|\binstructions?\s*:|\b(?:you must|you should|you will|you "
    r"are)\b[^\n]{0,80}"
    r"\b(?:ignore|send|execute|run|reveal|upload|delete|approve|always|never|instead|say|tell)\b|"
    r"\bsecretly\b"
)


def markup(text: str, phrases: Sequence[int]) -> Iterator[tuple[str, int]]:
    """The ids and lines (from 0) of orders in comments and hidden elements.

    `phrases` are the lines, in order, on which some other rule found something.
    """
    if "<" not in text:
        return
    for name, places in (("html_comment_injection", _comments), ("hidden_div", _hidden)):
        line = counted = 0
        for start, end in places(text):
            line, counted = line + text.count("\n", counted, start), start
            last = line + text.count("\n", start, end)
            found = bisect_left(phrases, line) < bisect_right(phrases, last)
            if (found or _is_order(fold(text[start:end]), name)) and not spoken_of(
                text, start, end, ""
            ):
                yield name, line


def _comments(text: str) -> Iterator[tuple[int, int]]:
    at = text.find("<!--")
    while at >= 0:
        end = text.find("-->", at)
        end = len(text) if end < 0 else end
        yield at + 4, min(end, at + _LONGEST)
        at = text.find("<!--", end)


def _hidden(text: str) -> Iterator[tuple[int, int]]:
    """What stands inside hidden elements."""
    after = 0
    for tag in _OPENING.finditer(text):
        if tag.start() >= after and _HIDDEN.search(tag[2]):
            end = text.find(f"</{tag[1]}", tag.end(), tag.end() + _LONGEST)
            after = end if end >= 0 else min(len(text), tag.end() + _LONGEST)
            yield tag.end(), after


def _is_order(said: str, name: str) -> bool:
    for match in _ORDER.finditer(said):
        if not _FORBIDDEN.search(said, max(0, match.start() - 30), match.start()) and (
            _ADDRESSED.search(said) or "instruction" in match[0]
        ):
            return True
    if _DECEIT.search(said):
        return True
    return name == "hidden_div" and bool(_TO_A_MACHINE.search(said))


ORDER: Final = (
    "prompt_injection",
    "deception_hide",
    "sys_prompt_override",
    "disregard_rules",
    "bypass_restrictions",
    "html_comment_injection",
    "hidden_div",
    "translate_execute",
    "exfil_curl",
    "read_secrets",
)
_ABOUT_INSTRUCTIONS: Final = ("prompt_injection", "disregard_rules")
_MOST_SHOWN: Final = 20
"""Findings of one id that `explain` lists."""
_EXCERPT: Final = 160
_CONTEXT: Final = 160
"""Characters of the chain before and after a phrase that decide whether it is excused."""


def scan(text: str) -> tuple[str, ...]:
    """The ids of what was found, invisible characters first, each once; empty when clean."""
    return tuple(sorted({name for name, _ in _found(text)}, key=_rank))


def explain(text: str) -> list[Finding]:
    """Each finding with the line it starts on, in the order of `scan`; twenty of one id at most."""
    lines = text.split("\n")
    shown: dict[str, dict[int, Finding]] = {}
    for name, line in _found(text):
        listed = shown.setdefault(name, {})
        if len(listed) < _MOST_SHOWN:
            listed[line] = Finding(name, line + 1, lines[line].strip()[:_EXCERPT])
    return [finding for name in sorted(shown, key=_rank) for finding in shown[name].values()]


def _rank(name: str) -> int:
    """Invisible characters by code point, then the classes in their fixed order."""
    _, _, code_point = name.partition("U+")
    return int(code_point, 16) if code_point else 0x110000 + ORDER.index(name)


def _found(text: str) -> Iterator[tuple[str, int]]:
    """Ids and lines (from 0)."""
    line = counted = 0
    for name, place in invisible(text):
        line, counted = line + text.count("\n", counted, place), place
        yield name, line
    plain = fold(text)
    said = list(_phrases(plain))
    yield from said
    yield from commands(plain)
    yield from markup(text, sorted(line for _, line in said))


def _phrases(plain: str) -> Iterator[tuple[str, int]]:
    words = Words(plain, known_words())
    lines: list[int] = []
    for rule in rules():
        spans = (match.span() for match in rule.matches(words))
        said = (span for span in spans if not _excused(rule, words, *span))
        for span in islice(said, _MOST_SHOWN):
            lines = lines or [0, *(match.end() for match in re.finditer("\n", words.plain))]
            yield rule.id, bisect_right(lines, words.in_plain(*span)[0]) - 1


def _excused(rule: Rule, words: Words, start: int, end: int) -> bool:
    chain = words.chain
    stop = chain.rfind(".", max(0, start - _CONTEXT), start)
    before = chain[stop + 2 if stop >= 0 else max(0, start - _CONTEXT) : start]
    after = chain[end : end + _CONTEXT].partition(".")[0]
    place = words.in_plain(start, end)
    if rule.negation == "before" and mention.negated(before, words.plain, place[0]):
        return True
    if rule.negation == "sentence" and mention.denied(before):
        return True
    if rule.id in _ABOUT_INSTRUCTIONS and (
        mention.from_outside(after) or mention.permitted(before, chain[start:end], after)
    ):
        return True
    return mention.spoken_of(words.plain, *place, before)

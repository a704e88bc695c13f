"""One scanner for SOUL.md, context files, memory writes, cron prompts and skills.

It finds known wordings in many disguises, and ordinary documents of developers pass. An attack in
new words passes too; the scan is one of several defences.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Final, Literal

import msgspec

from hermes.security.injection import InjectionFinding
from hermes.security.injection.exfiltration import scan_commands
from hermes.security.injection.wording import (
    concerns_external_text,
    find_invisible,
    fold,
    is_denied,
    is_mention,
    is_negated,
    is_permitted,
)
from hermes.security.tables import read_patterns
from hermes.util.lazy import late_pattern

# A text as a chain of words, in which phrases are searched.
#
# Words are separated by one space, whatever was there before; a dot marks the end of a sentence, a
# paragraph or a list item. A piece of one or two words is not a sentence: `Ignore. All. Previous.`
# is one phrase split up.

_WORD = late_pattern(r"[^\W_]+")
_END = late_pattern(
    r"""[.!?。]+["')\]*_`]*(?=\s)|\n\s*\n|\n[ \t]*(?=(?:[-+*]|\#{1,6}|\d{1,3}[.)])[ \t]|\|)"""
)
_RUN = late_pattern(r"(?<![a-z])[a-z]{18,}+")
_IN_CHAIN = late_pattern(r"[^ .]+")
_SENTENCE: Final = 3  #: Words of two letters or more that make a piece a sentence.
_LEET = late_pattern(r"(?<![a-z0-9@$!|])[a-z@!|]{0,14}[0134578@$|][a-z0-9@$!|]{0,14}")
_READINGS = tuple(str.maketrans("01345789@$!|", f"o{one}eastbgasi{one}") for one in "il")


class WordChain:
    """The words of a folded text."""

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
        """Return whether the word occurs anywhere, split up or not, or as a part of another."""
        known = self._held.get(word)
        if known is None:
            known = self._held[word] = word in self._squeezed
        return known

    def sentences(self, words: Iterable[str]) -> list[int]:
        """Return the numbers of the sentences that contain one of the words."""
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
        """Return the span of the sentences from `first` to `last` in the chain."""
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
        """Where each word starts in the chain, and its span in the folded text."""
        starts = [match.start() for match in _IN_CHAIN.finditer(self.chain)]
        return starts, [match.span() for match in _WORD.finditer(self.plain)]

    def in_plain(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the folded text of the words between two positions of the chain."""
        starts, spans = self._spans
        first = bisect_right(starts, start) - 1
        last = bisect_right(starts, max(start, end - 1)) - 1
        return spans[max(first, 0)][0], spans[max(last, 0)][1]


def _unleet(plain: str, known: frozenset[str]) -> str:
    """Return `1gn0r3` as `ignore`; only what becomes a known word is changed."""

    def read(match: re.Match[str]) -> str:
        bare = match[0].rstrip("!|")
        for reading in _READINGS:
            word = bare.translate(reading)
            if word in known:
                return word + match[0][len(bare) :]
        return match[0]

    return _LEET.sub(read, plain)


# Rules made from the phrases: what to search for, and when it is worth searching.
#
# Compiling all phrases takes longer than scanning a file, so each is compiled when a text first
# contains a word for every required part.

_SOME = late_pattern(r"<(\d+)>")
_LETTER = late_pattern(r"[^\W\d_]|(?<=[a-z])\d+|\\\.")
_SOME_WORDS: Final = "(?<= )(?:[a-z0-9 ]{0,%d}(?<= ))?"
_WORD_LENGTH: Final = 9  #: Characters that one word of any kind may take, including its space.
_LITERAL = late_pattern(r"[^\W\d_]+")
_PIECE = late_pattern(
    r"(?P<open>\(\?[:!])|(?P<close>\)(?:\?|\{(?P<least>\d)[^}]*\})?)|(?P<bar>\|)|[^()|]+"
)


class PhraseRule(msgspec.Struct, frozen=True):
    id: str
    phrase: str
    needs: tuple[tuple[str, ...], ...]
    """One word of each of these must occur in the text; the rarest part first."""
    parts: tuple[tuple[str, ...], ...]  #: The same in the order of the phrase.
    negation: str  #: `none`, `before` or `sentence`: where a `never` makes the phrase harmless.

    def matches(self, words: WordChain) -> Iterator[re.Match[str]]:
        """Yield the phrase wherever it occurs; only sentences with its rarest part are searched."""
        if not all(any(map(words.holds, part)) for part in self.needs):
            return
        across = r"\." in self.phrase
        done = 0
        for number in words.sentences(self.needs[0]):
            first = max(done, number - 1) if across else number
            span = words.span(first, number + across)
            done = number + 1
            if self._may_be_in(words.chain[slice(*span)]):
                yield from _compile_phrase(self.phrase).finditer(words.chain, *span)
        for span in words.runs:
            if self._may_be_in(words.chain[slice(*span)]):
                yield from _compile_phrase(self.phrase, inside=True).finditer(words.chain, *span)

    def _may_be_in(self, chain: str) -> bool:
        """Return whether the required words are there, one part after the other."""
        squeezed, at = chain.replace(" ", ""), 0
        for part in self.parts:
            ends = [place + len(word) for word in part if (place := squeezed.find(word, at)) >= 0]
            if not ends:
                return False
            at = min(ends)
        return True


@cache
def phrase_rules() -> tuple[PhraseRule, ...]:
    return tuple(
        PhraseRule(name, folded, tuple(sorted(parts, key=_commonness)), parts, negation)
        for heading, text in read_patterns(Path(__file__).with_name("phrases.txt"))
        for name, negation in [heading.split(", ")]
        for folded in [text if text.isascii() else fold(text)]  # in ASCII they are written folded
        for parts in [tuple(_required_words(folded))]
    )


@cache
def known_words() -> frozenset[str]:
    """Return every word that some phrase contains."""
    return frozenset(word for rule in phrase_rules() for word in _LITERAL.findall(rule.phrase))


@cache
def _compile_phrase(phrase: str, *, inside: bool = False) -> re.Pattern[str]:
    """Compile `ignore all` as `i ?g ?n ?o ?r ?e ?a ?l ?l ?`: spaces may be anywhere or missing.

    The phrase starts and ends with whole words, unless it is searched `inside` a long one.
    """
    spread = _LETTER.sub(r"\g<0> ?", phrase.replace(" ", ""))
    some = "[a-z0-9]{0,%d}" if inside else _SOME_WORDS
    loose = _SOME.sub(lambda match: some % (_WORD_LENGTH * int(match[1])), spread)
    return re.compile(loose if inside else f"(?<![a-z0-9])(?:{loose})(?![a-z0-9])")


def _required_words(phrase: str) -> Iterator[tuple[str, ...]]:
    """Yield, for each required part of the phrase, one word of every form it may take."""
    yield from filter(None, map(_part_words, map(tuple, _phrase_parts(phrase))))


@cache  # many phrases share a part
def _part_words(forms: tuple[str, ...]) -> tuple[str, ...]:
    words = [_form_words(form) for form in forms]
    if not all(words):
        return ()
    every = {word for form in words for word in form}
    return tuple(w for w in sorted(every) if not any(o in w for o in every - {w}))


def _commonness(part: tuple[str, ...]) -> int:
    """Short words are common, and one common form makes the part common."""
    return -min(map(len, part))


def _form_words(form: str) -> list[str]:
    """Return words of which every text of this form contains one; empty if unknown."""
    if "(" not in form:
        return [max(words, key=len)] if (words := _LITERAL.findall(form)) else []
    parts = list(_phrase_parts(form))
    plain = [word for part in parts if len(part) == 1 for word in _LITERAL.findall(part[0])]
    if plain:
        return [max(plain, key=len)]
    nested = [[_form_words(inner) for inner in part] for part in parts if len(part) > 1]
    whole = next((words for words in nested if all(words)), [])
    return [word for words in whole for word in words]


def _phrase_parts(phrase: str) -> Iterator[list[str]]:
    """Yield the outermost required parts, each as the list of its forms."""
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


# Instructions that only a machine reads: HTML comments and hidden elements.
#
# Both are common, so their text decides.

_LONGEST: Final = 4_000  #: Characters of a comment or element that are read.
_ADDRESSED = late_pattern(
    r"\b(?:ai|a\.i\.|assistants?|agents?|llms?|language models?|claude|chatgpt|gpt(?:-\d)?|copilot|"
    r"cursor|gemini|hermes|codex|bots?|you|your|system|admin|model)\b"
)
_ORDER = late_pattern(
    r"(?P<verb>\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}\b(?:instructions?|"
    r"prompts?|rules?|guidelines?|polic(?:y|ies)|everything|safety|above|user|restrictions?|"
    r"visible)|\bexfiltrate|\b(?:send|upload|post|forward|e-?mail|leak|append|"
    r"submit)\b[^.\n]{0,60}(?:https?://|secret|api.?key|tokens?\b|\.env|credential|password|"
    r"private key|environment variable|history)|\b(?:curl|wget)\s+(?:-\S+\s+){0,4}['\"]?https?://|"
    r"\brm\s+-rf|\b(?:reveal|print|output|leak)\b[^.\n]{0,40}(?:secrets?|system prompt|api.?keys?|"
    r"passwords?)|\b(?:hidden|secret) instructions?|\byou are now\b|\bnew instructions?\b|\b(?:run|"
    r"execute|install|download|fetch)\b[^.\n]{0,80}(?:https?://|\|\s*(?:ba)?sh\b|silently|secretly|"
    r"without (?:asking|telling|informing|confirm)))"
)
_DECEIT = late_pattern(
    r"\b(?:do not|don't|never) (?:tell|mention|inform|reveal|alert|notify)\b[^.\n]{0,40}(?:users?|"
    r"human|anyone)|\bwithout (?:telling|informing|notifying|alerting)\b"
)
_FORBIDDEN = late_pattern(r"(?:\bnot|n't|\bnever|\bavoid|\bwithout|\bdon.t)\s+(?:\w+\s+)?$")
_OPENING = late_pattern(r"<([a-z][a-z0-9]{0,20})\b([^<>]{0,600})>", re.IGNORECASE)
_SURELY_HIDDEN = late_pattern(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|(?:^|\s)hidden(?=[\s=\"'/]|$)|"
    r"font-size\s*:\s*(?:0(?:\.[0-3]\d*)?(?![.\d])|[.][0-3]\d*|1px)",
    re.IGNORECASE,
)
_PERHAPS_HIDDEN = late_pattern(
    r"opacity\s*:\s*0(?:\.0+)?\s*(?:[;\"'!]|$)|aria-hidden\s*=\s*[\"']?true|"
    r"(?<![-\w])color\s*:\s*(?:transparent|white|#fff(?:fff)?\b)|"
    r"(?:left|top|text-indent)\s*:\s*-\d{3,}|(?:height|width|max-height)\s*:\s*0(?:px)?\s*"
    r"(?:[;\"']|$)|clip(?:-path)?\s*:\s*(?:rect\(\s*[01]|inset\(\s*(?:50|100)%)|"
    r"transform\s*:\s*scale\(\s*0",
    re.IGNORECASE,
)
_SPOKEN = late_pattern(
    r"(?<![-\w])(?:alt|title|aria-label|aria-description|placeholder|summary|content|data-[\w-]{1,30})"
    r"\s*=\s*(?:\"([^\"]{12,2000})\"|'([^']{12,2000})')",
    re.IGNORECASE,
)
"""Attributes whose text most readers never see."""
_MARKDOWN_COMMENT = late_pattern(
    r"^[ ]{0,3}\[[^\]\n]{1,40}\]:[ ]*(?:\#|<>)[ ]+[(\"'](.{1,2000})[)\"'][ ]*$", re.MULTILINE
)
"""A link definition to nowhere, such as `[//]: # (text)`, which renders as nothing."""
_LEAK = late_pattern(
    r"\b(?:send|upload|post|put|forward|e-?mail|append|submit|report|copy)\b[^.\n]{0,60}"
    r"(?:\benv\b|\.env\b|environment|secret|api.?key|tokens?\b|credential|password|private key|"
    r"history)[^\n]{0,60}https?://"
)
_TO_A_MACHINE = late_pattern(
    r"\b(?:ai|assistants?|llms?|claude|chatgpt|gpt|copilot|hermes|codex)\b[^.\n]{0,30}(?:[:,]|"
    r"\b(?:must|should|will|please|reading|read this)\b)|\binstructions?\s*:|\b(?:you must|"
    r"you should|you will|you are)\b[^\n]{0,80}\b(?:ignore|send|execute|run|reveal|upload|delete|"
    r"approve|always|never|instead|say|tell)\b|\bsecretly\b"
)


def scan_markup(text: str, phrases: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Yield the ids and lines (from 0) of instructions in comments, hidden elements and attributes.

    `phrases` are the lines, in order, on which another rule found something.
    """
    if "<" not in text and "]:" not in text:
        return
    for name, places in (
        ("html_comment_injection", _find_comments),
        ("hidden_div", _find_hidden),
        ("hidden_div", _find_attributes),
    ):
        line = counted = 0
        for start, end in places(text):
            line, counted = line + text.count("\n", counted, start), start
            last = line + text.count("\n", start, end)
            found = bisect_left(phrases, line) < bisect_right(phrases, last)
            if (found or _is_order(fold(text[start:end]), name)) and not is_mention(
                text, start, end, ""
            ):
                yield name, line


def _find_comments(text: str) -> Iterator[tuple[int, int]]:
    at = text.find("<!--")
    while at >= 0:
        end = text.find("-->", at)
        end = len(text) if end < 0 else end
        yield at + 4, min(end, at + _LONGEST)
        at = text.find("<!--", end)
    for match in _MARKDOWN_COMMENT.finditer(text):
        yield match.span(1)


def hidden_kind(attributes: str) -> Literal["", "perhaps", "surely"]:
    """Return whether readers of a page see an element with these attributes."""
    if _SURELY_HIDDEN.search(attributes):
        return "surely"
    return "perhaps" if _PERHAPS_HIDDEN.search(attributes) else ""


def _find_hidden(text: str) -> Iterator[tuple[int, int]]:
    """Yield the contents of hidden elements."""
    after = 0
    for tag in _OPENING.finditer(text):
        if tag.start() >= after and hidden_kind(tag[2]):
            end = text.find(f"</{tag[1]}", tag.end(), tag.end() + _LONGEST)
            after = end if end >= 0 else min(len(text), tag.end() + _LONGEST)
            yield tag.end(), after


def _find_attributes(text: str) -> Iterator[tuple[int, int]]:
    """Yield the texts of attributes."""
    for tag in _OPENING.finditer(text):
        if "=" in tag[2]:
            for match in _SPOKEN.finditer(tag[2]):
                start, end = match.span(1) if match[1] else match.span(2)
                yield tag.start(2) + start, tag.start(2) + end


def _is_order(text: str, name: str) -> bool:
    if _LEAK.search(text):
        return True
    for match in _ORDER.finditer(text):
        if not _FORBIDDEN.search(text, max(0, match.start() - 30), match.start()) and (
            _ADDRESSED.search(text) or "instruction" in match[0]
        ):
            return True
    if _DECEIT.search(text):
        return True
    return name == "hidden_div" and bool(_TO_A_MACHINE.search(text))


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
_MOST_SHOWN: Final = 20  #: Findings of one id that `explain` lists.
_EXCERPT: Final = 160
_CONTEXT: Final = 160
"""Characters of the chain before and after a phrase that decide whether it is excused."""


def scan(text: str) -> tuple[str, ...]:
    """Return the ids of what was found, invisible characters first, each once; empty if clean."""
    return tuple(sorted({name for name, _ in _find_all(text)}, key=_rank))


def explain(text: str) -> list[InjectionFinding]:
    """Return each finding with the line it starts on, in the order of `scan`, at most 20 per id."""
    lines = text.split("\n")
    shown: dict[str, dict[int, InjectionFinding]] = {}
    for name, line in _find_all(text):
        listed = shown.setdefault(name, {})
        if len(listed) < _MOST_SHOWN:
            listed[line] = InjectionFinding(name, line + 1, lines[line].strip()[:_EXCERPT])
    return [finding for name in sorted(shown, key=_rank) for finding in shown[name].values()]


def _rank(name: str) -> int:
    """Order: invisible characters by code point, then the classes in their fixed order."""
    _, _, code_point = name.partition("U+")
    return int(code_point, 16) if code_point else 0x110000 + ORDER.index(name)


def _find_all(text: str) -> Iterator[tuple[str, int]]:
    """Yield ids and lines (from 0)."""
    line = counted = 0
    for name, place in find_invisible(text):
        line, counted = line + text.count("\n", counted, place), place
        yield name, line
    plain = fold(text)
    findings = list(_find_phrases(plain))
    yield from findings
    yield from scan_commands(plain)
    yield from scan_markup(text, sorted(line for _, line in findings))


def _find_phrases(plain: str) -> Iterator[tuple[str, int]]:
    words = WordChain(plain, known_words())
    lines: list[int] = []
    for rule in phrase_rules():
        spans = (match.span() for match in rule.matches(words))
        matches = (span for span in spans if not _is_excused(rule, words, *span))
        for span in islice(matches, _MOST_SHOWN):
            lines = lines or [0, *(match.end() for match in re.finditer("\n", words.plain))]
            yield rule.id, bisect_right(lines, words.in_plain(*span)[0]) - 1


def _is_excused(rule: PhraseRule, words: WordChain, start: int, end: int) -> bool:
    chain = words.chain
    stop = chain.rfind(".", max(0, start - _CONTEXT), start)
    before = chain[stop + 2 if stop >= 0 else max(0, start - _CONTEXT) : start]
    after = chain[end : end + _CONTEXT].partition(".")[0]
    place = words.in_plain(start, end)
    if rule.negation == "before" and is_negated(before, words.plain, place[0]):
        return True
    if rule.negation == "sentence" and is_denied(before):
        return True
    if rule.id in _ABOUT_INSTRUCTIONS and (
        concerns_external_text(after) or is_permitted(before, chain[start:end], after)
    ):
        return True
    return is_mention(words.plain, *place, before)

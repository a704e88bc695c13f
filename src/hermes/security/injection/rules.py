"""The phrases made into rules: what is searched for, and when it is worth searching.

Compiling all phrases takes longer than scanning a file, so each is compiled when a text first
holds a word for every part of it that must be there.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal

import msgspec

from hermes.security.injection.folding import fold
from hermes.security.injection.phrases.deceit import DECEPTION_DEEDS, DECEPTION_HIDE
from hermes.security.injection.phrases.decoding import TRANSLATE_EXECUTE
from hermes.security.injection.phrases.freedom import BYPASS_RESTRICTIONS
from hermes.security.injection.phrases.languages import OTHER_LANGUAGES
from hermes.security.injection.phrases.override import PROMPT_INJECTION
from hermes.security.injection.phrases.rules import DISREGARD_RULES
from hermes.security.injection.phrases.system import SYS_PROMPT_OVERRIDE
from hermes.security.injection.words import Words

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

"""Characters nobody sees: what they are there for, judged by how they stand together."""

import re
from collections.abc import Iterator
from typing import Final

from hermes.security.injection import Finding
from hermes.skills.scanner.lines import Lines
from hermes.skills.scanner.report import Category
from hermes.skills.scanner.rule import Hit, Rule

_C: Final = Category.HIDDEN_CHARACTERS
SMUGGLED = Rule("smuggled_text", _C, "critical", "a text is hidden in characters nobody sees")
TURNED = Rule("turned_text", _C, "high", "text is turned around, so that it reads differently")
TURNED_CODE = Rule("turned_code", _C, "critical", "code is turned around to read differently")
ACCIDENT = Rule("turned_text", _C, "low", "text is turned around, as some scripts need it")
SPLIT_WORDS = Rule("split_words", _C, "high", "words are split by characters nobody sees")
STRAY = Rule("stray_character", _C, "low", "a character nobody sees, perhaps by accident")
TERMINAL = Rule("terminal_codes", _C, "high", "codes that change what a terminal shows")

_RUN = re.compile(
    "(?:[\U000e0020-\U000e007f](?<!\U0001f3f4)){8,}|[\u200b-\u200d\u2060-\u2064\ufeff]{6,}"
    "|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}|[\u3164\uffa0\u115f\u1160]{6,}"
)
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_RIGHT_TO_LEFT = re.compile("[\u05d0-\u08ff]")
_IN_WORD = re.compile("[A-Za-z][\u200b-\u200d\u2060\ufeff\u00ad][A-Za-z]")
_TERMINAL = re.compile("\x1b\\[|\x1b\\]|\x08{2,}")
_MANY: Final = 3


def hidden(text: str, *, code: bool) -> Iterator[Hit]:
    """`code`: the text is run, so what a reader sees must be what a machine reads."""
    if text.isascii() and "\x1b" not in text and "\b" not in text:
        return
    lines = Lines(text)
    for rule, pattern, least in (
        (SMUGGLED, _RUN, 1),
        (TURNED_CODE if code else ACCIDENT if _RIGHT_TO_LEFT.search(text) else TURNED, _TURNS, 1),
        (SPLIT_WORDS, _IN_WORD, _MANY),
        (TERMINAL, _TERMINAL, 1),
    ):
        places = [
            match.start() for match, _ in zip(pattern.finditer(text), range(least), strict=False)
        ]
        if len(places) == least:
            yield Hit(rule, lines.at(places[0]))


def stray(found: list[Finding]) -> Iterator[Hit]:
    """Of what the injection scan found."""
    for finding in found:
        if finding.id.startswith("invisible"):
            yield Hit(STRAY, finding.line - 1)

"""One scanner for SOUL.md, context files, memory writes, cron prompts and skills.

What it promises is modest: known wordings are found in many disguises, and ordinary documents of
developers pass. An attack in words of its own passes too; the scan is one wall among several.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import Final

from hermes.security.injection import mention
from hermes.security.injection.commands import commands
from hermes.security.injection.finding import Finding
from hermes.security.injection.folding import fold
from hermes.security.injection.invisible import invisible
from hermes.security.injection.markup import markup
from hermes.security.injection.rules import Rule, known_words, rules
from hermes.security.injection.words import Words

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

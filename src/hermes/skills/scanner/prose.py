"""What a skill tells the agent in words, beyond what the injection scan knows."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from hermes.security.injection import Finding, explain
from hermes.skills.scanner.lines import Lines
from hermes.skills.scanner.orders import INJECTION, ORDERS
from hermes.skills.scanner.rule import Hit, softened
from hermes.skills.scanner.warning import warns

_OWN_NEGATION: Final = frozenset({"never_asks", "hides_deeds", "claims_safety"})
"""Rules that forbid something themselves: a `never` before them is part of the order."""
_WRAPPED = re.compile(r"(?<=\S)\n(?![\s#>|*-]|\d+[.)]\s|```)")
_NEGATED = re.compile(
    r"\b(?:never|not|n['’]t|avoid|without|refuse|unless|cannot)\b[^.!?\n]{0,60}\Z", re.IGNORECASE
)
_SENTENCE = re.compile(r"[.!?]\s|\n\s*\n|\n[-*|>#\d]")
_COMPOUND = re.compile(
    r"\b(?:instruction|rule|prompt|guideline|message|restriction)s?-[A-Za-z]+", re.I
)
_CONFIG_GIVEN = re.compile(r"\s(?:-K|--config)[ =]?-(?:\s|$)")
"""Curl reads its options, with the password among them, from its input."""
_SAID: Final = 200
_MOST: Final = 50
"""Places of one order that are looked at."""


def prose(text: str) -> Iterator[Hit]:
    """Orders in words. Line breaks inside a paragraph count as blanks."""
    flat = _WRAPPED.sub(" ", text)
    lines = Lines(text)
    for order in ORDERS:
        rule = order.rule
        for start in islice(order.places(flat), _MOST):
            said = _SENTENCE.split(text[max(0, start - _SAID) : start])[-1]
            negated = rule.id not in _OWN_NEGATION and bool(_NEGATED.search(said))
            row = text[text.rfind("\n", 0, start) + 1 : start].lstrip().startswith("|")
            if not negated and not row and not warns(said):
                yield Hit(rule, lines.at(start))
                break


def injections(text: str, found: list[Finding]) -> Iterator[Hit]:
    """What the injection scan found in `text`. It does not see hyphens: `ignore all
    instructions-only changes` is no order, and what depends on such a word counts less."""
    known = [finding for finding in found if finding.id in INJECTION]
    if not known:
        return
    plain = _COMPOUND.sub("x", text)
    sure = {(each.id, each.line) for each in (explain(plain) if plain != text else known)}
    for finding in known:
        rule = INJECTION[finding.id]
        if (finding.id, finding.line) not in sure:
            rule = softened(rule, "medium")
        if finding.id == "exfil_curl" and _CONFIG_GIVEN.search(finding.excerpt):
            rule = softened(rule, "low")
        yield Hit(rule, finding.line - 1)

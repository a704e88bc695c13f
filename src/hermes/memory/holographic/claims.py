"""What a fact claims: that something has some attribute with some value. Of two claims about the
same, the newer counts."""

import re
from collections.abc import Callable

import msgspec

from hermes.memory.holographic.words import folded

USER = "user"

YES, NO = "yes", "no"

LONGEST = 300
"""Characters of a sentence that may claim something."""


class Claim(msgspec.Struct, frozen=True):
    subject: str
    attribute: str
    value: str


_ME = r"(?:i|we|the user|user)"
_MINE = r"(?:my|our|the user['’]s|user['’]s)"
_THING = r"(?P<subject>[\w.@/+#-]+(?: [A-Z][\w+#-]*)*)"
_ATTRIBUTE = r"(?P<attribute>[\w-]+(?: [\w-]+){0,3}?)"
_IS = r"(?:is|are|was|=) (?:now |currently |called |named )?"
_DOES = (
    r"(?P<attribute>lives? in|works? (?:at|for|as|on)|runs? on|listens? on(?: port)?|deploys? to|"
    r"is hosted (?:on|at)|is written in|is called|is named|speaks?|studies|moved to)"
)

Read = Callable[[re.Match[str]], Claim]


def _plain(match: re.Match[str]) -> Claim:
    named = match.groupdict()
    subject = folded(named.get("subject") or USER) or USER
    return Claim(_same(subject), _root(named["attribute"]), folded(named["value"]))


def _choice(match: re.Match[str]) -> Claim:
    better, worse = folded(match["value"]), folded(match["other"])
    return Claim(USER, f"choice {' / '.join(sorted((better, worse)))}", better)


def _taste(match: re.Match[str]) -> Claim:
    against = match["not"] is not None or match["verb"].casefold().startswith(("hate", "dislike"))
    return Claim(USER, f"likes {folded(match['value'])}", NO if against else YES)


def _named(match: re.Match[str]) -> Claim:
    return Claim(USER, "name", folded(match["value"]))


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(rf"{text}$", re.IGNORECASE)


_FORMS: tuple[tuple[re.Pattern[str], Read], ...] = (
    (_pattern(r"(?:please )?call me (?P<value>.+)"), _named),
    (_pattern(rf"{_MINE} {_ATTRIBUTE} {_IS}(?P<value>.+)"), _plain),
    (_pattern(rf"the {_ATTRIBUTE} (?:of|for) {_THING} {_IS}(?P<value>.+)"), _plain),
    (_pattern(rf"{_THING}['’]s {_ATTRIBUTE} {_IS}(?P<value>.+)"), _plain),
    (
        _pattern(
            rf"{_ME} prefers? (?P<value>.+?) (?:over|to|instead of|rather than) (?P<other>.+)"
        ),
        _choice,
    ),
    (_pattern(rf"{_ME} uses? (?P<value>.+?) (?P<attribute>(?:for|as) .+)"), _plain),
    (
        _pattern(
            rf"{_ME} (?P<not>don['’]t |do not |doesn['’]t |does not |no longer )?(?:really )?"
            r"(?P<verb>likes?|loves?|enjoys?|hates?|dislikes?) (?P<value>.+)"
        ),
        _taste,
    ),
    (_pattern(rf"{_ME} {_DOES} (?P<value>.+)"), _plain),
    (_pattern(rf"{_THING} {_DOES} (?P<value>.+)"), _plain),
)


def claim_in(text: str) -> Claim | None:
    """What the text claims, if it is one plain sentence of a known form."""
    plain = " ".join(text.split()).rstrip(" .!")
    if len(plain) > LONGEST:
        return None
    for pattern, read in _FORMS:
        match = pattern.match(plain)
        if match is not None:
            claim = read(match)
            return claim if claim.value and claim.attribute else None
    return None


def _same(subject: str) -> str:
    return USER if subject in ("i", "we", "the user", "user") else subject


def _root(attribute: str) -> str:
    """`lives in` and `live in` are one attribute."""
    first, _, rest = folded(attribute).partition(" ")
    stem = first.removesuffix("s") if len(first) > 3 and first not in ("address", "is") else first
    return f"{stem} {rest}".strip()

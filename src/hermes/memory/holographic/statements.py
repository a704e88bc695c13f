"""What a user says that is worth keeping, as far as that can be told without a model: what they ask
to be remembered, and plain statements about themselves. Everything else is left alone."""

import re
from collections.abc import Iterator

import msgspec

ASKED = 0.8
STATED = 0.55
"""How far a fact is trusted at first."""

MOST_TEXT = 6000
"""Characters of a message that are looked at: longer ones are mostly pasted."""
SHORTEST, LONGEST = 8, 300
"""Characters of a statement."""
MOST_STATEMENTS = 10


class Statement(msgspec.Struct, frozen=True):
    text: str
    trust: float


_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_QUOTED_LINE = re.compile(r"^\s*[>|].*$", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n+")
_ASIDE = "and|also|but|so|btw|by the way|fyi|hi|hello|ok|okay"
_LEAD = re.compile(rf"^(?:[-*•]\s*|(?:{_ASIDE}),?\s+)+|,\s*(?:btw|by the way|fyi)(?=[.!]?$)", re.I)

_ASKED = re.compile(
    r"""(?:please\s+|can\s+you\s+|could\s+you\s+|always\s+)?
    (?:remember|memori[sz]e|(?:take\s+)?note(?=\s+that|\s*:)|keep\s+in\s+mind|don['’]t\s+forget|do\s+not\s+forget
      |for\s+(?:the\s+)?future(?:\s+reference)?|from\s+now\s+on
      |merk(?:e)?\s+dir|denk\s+daran|vergiss\s+nicht
      |retiens|souviens-toi|n['’]oublie\s+pas|recuerda|acuérdate\s+de|no\s+olvides
      |ricorda(?:ti)?|non\s+dimenticare|lembre-se(?:\s+de)?|não\s+esqueça|onthoud|zapamiętaj
      |запомни)
    (?:[,:]?\s+(?:this|that|dass|que|che|de\s+que|dat|że|что)\b)?\s*[,:–-]?\s+(?P<text>\S.+)
    |(?:请)?(?:记住|記住|覚えて(?:おいて)?|기억해(?:\s*줘)?)[，,：:、\s]*(?P<unspaced>\S.+)""",
    re.VERBOSE | re.IGNORECASE,
)
_NOT_ASKED = re.compile(r"(?:when|how|the\s+time|what|where|who|why|if)\b", re.IGNORECASE)

_OWN = (
    "name nickname pronouns birthday age email address city country timezone language job role "
    "title profession company employer team manager boss wife husband partner girlfriend boyfriend "
    "sister brother mother father mom dad son daughter child children kids dog cat pet editor ide "
    "shell terminal os distro laptop phone desktop keyboard github username handle stack"
)
_KINDS = "|".join(_OWN.split())
_FAMILY = r"(?:cats?|dogs?|kids?|child(?:ren)?|sons?|daughters?|brothers?|sisters?|allerg\w+)"
_HABITS = "use|write|want|prefer|run|deploy|work|commit|code|eat|drink"
_TRAITS = r"from|based\s+in|allergic\s+to|married\s+to|vegetarian|vegan|colou?r-?blind|left-handed"
_VAGUE = r"(?!(?:this|that|it|these|those|your|the\s+(?:way|idea|first|second|last|new|other))\b)"
_PASSING = r"(?!(?:bit|little|lot|few|idiot|mess|fan\s+of\s+(?:this|that))\b)"
_WE = r"(?:i|we)"
_AM = r"i\s*['’]?\s*a?m"
_STATED = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"(?:my|our)\s+(?:\w+\s+)?(?:{_KINDS}|time\s+zone|operating\s+system)\s+(?:is|are)\s+\S",
        r"(?:my|our)\s+(?:favou?rite|preferred|default|native)\s+[\w ]+?\s+(?:is|are)\s+\S",
        r"(?:please\s+)?call\s+me\s+\w+[.!]?$",
        rf"{_WE}\s+(?:really\s+|strongly\s+|generally\s+|usually\s+)?prefer\s+{_VAGUE}\w",
        rf"{_WE}\s+(?:don['’]t\s+|do\s+not\s+|really\s+)?(?:like|love|hate|dislike)\s+(?!to\s){_VAGUE}\w",
        rf"{_AM}\s+(?:an?|the)\s+{_PASSING}\w",
        rf"{_AM}\s+(?:{_TRAITS})\b",
        rf"{_WE}\s+(?:live|work)\s+(?:in|at|for|as|on)\s+\S",
        rf"{_WE}\s+(?:always|never|usually|mostly|only)\s+(?:{_HABITS})\b",
        rf"{_WE}\s+use\s+{_VAGUE}[\w./+#-]+(?:\s+[\w./+#-]+){{0,6}}[.!]?$",
        rf"{_WE}\s+(?:speak|study|moved\s+to|switched\s+to)\s+{_VAGUE}\w",
        rf"i\s+have\s+(?:an?|two|three|four|\d+)\s+{_FAMILY}\b",
    )
)
_UNSURE = re.compile(
    r"\?\s*$|\b(?:if|maybe|perhaps|might|would|could|should|imagine|suppose|pretend|hypothetically"
    r"|for\s+example|e\.g\.|let['’]s\s+say|today|tonight|right\s+now|at\s+the\s+moment)\b",
    re.IGNORECASE,
)


def stated(message: str) -> tuple[Statement, ...]:
    """What is worth keeping of a user's message, in its own words."""
    found: dict[str, Statement] = {}
    for sentence in _sentences(message):
        statement = _asked(sentence) or _plain(sentence)
        if statement is not None:
            found.setdefault(statement.text, statement)
    return tuple(found.values())[:MOST_STATEMENTS]


def _sentences(message: str) -> Iterator[str]:
    prose = _QUOTED_LINE.sub("", _CODE.sub("\n", message[:MOST_TEXT]))
    for sentence in _SENTENCE_END.split(prose):
        plain = _LEAD.sub("", " ".join(sentence.split()))
        if len(plain) <= LONGEST:
            yield plain


def _asked(sentence: str) -> Statement | None:
    match = _ASKED.match(sentence)
    if match is None or sentence.endswith("?"):
        return None
    text = (match["text"] or match["unspaced"] or "").strip(" \"'")
    if _NOT_ASKED.match(text) or len(text) < 3:
        return None
    return Statement(_capital(text), ASKED)


def _plain(sentence: str) -> Statement | None:
    if len(sentence) < SHORTEST or _UNSURE.search(sentence):
        return None
    if any(form.match(sentence) for form in _STATED):
        return Statement(_capital(sentence), STATED)
    return None


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

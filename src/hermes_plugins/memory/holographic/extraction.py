"""Extracting statements, claims and entities from text with patterns, without a model.

Statements are what users ask to be remembered and plain sentences about themselves. A claim says
that a subject has an attribute with a value; of two claims about the same attribute the newer one
counts. Entities (names, paths, addresses, quoted terms) link the facts that mention them.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator

import msgspec

from hermes.sdk import is_unspaced

ASKED_TRUST = 0.8
STATED_TRUST = 0.55  #: Initial trust of requested and of plain statements.

MAX_MESSAGE_CHARS = 6000
"""Only this much of a message is read: the rest of longer ones is usually pasted."""
MIN_STATEMENT_CHARS, MAX_STATEMENT_CHARS = 8, 300  #: Length of a statement.
MAX_STATEMENTS = 10


class Statement(msgspec.Struct, frozen=True):
    text: str
    trust: float

    @property
    def is_about_work(self) -> bool:
        """True for a wish about how to work, which concerns the project it was made in; False for
        facts, and for wishes about how to answer."""
        return bool(_WORK_WISH.match(self.text)) and not _ANSWER_WISH.search(self.text)


_WORK_WISH = re.compile(
    r"""(?:please[,\s]+|bitte[,\s]+)*(?:
    (?:don['’]t|do\s+not|never|always|only|avoid|stop|use|run|make\s+sure|keep|put|write|commit|push
      |deploy|test|format|name|ask\s+before|work|nie|niemals|immer|nur|benutze|verwende|mach|lass
      |führe|schreib|teste)\b
    |we\s+(?:use|write|deploy|commit|test|run|never|always|only)\b
    |.*\b(?:here|in\s+this\s+(?:project|repo(?:sitory)?|folder|codebase)|in\s+diesem\s+projekt)[.!]?$)""",
    re.VERBOSE | re.IGNORECASE,
)
_ANSWER_WISH = re.compile(
    r"\b(?:answer|reply|replies|respond|speak|talk|explain|tell\s+me|call\s+me|address\s+me|ask\s+me"
    r"|emoji|tone|antwort|sprich|rede|erklär|nenn|duze?|sieze?)",
    re.IGNORECASE,
)


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
    (?:[,:]?\s+(?:this|that|(?P<verb_last>dass|dat)|que|che|de\s+que|że|что)\b)?\s*[,:–-]?\s+(?P<text>\S.+)
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


def extract_statements(message: str) -> tuple[Statement, ...]:
    """Return the statements of a user's message, in its own words."""
    found: dict[str, Statement] = {}
    for sentence in _sentences(message):
        statement = _parse_request(sentence) or _parse_statement(sentence)
        if statement is not None:
            found.setdefault(statement.text, statement)
    return tuple(found.values())[:MAX_STATEMENTS]


def _sentences(message: str) -> Iterator[str]:
    prose = _QUOTED_LINE.sub("", _CODE.sub("\n", message[:MAX_MESSAGE_CHARS]))
    for sentence in _SENTENCE_END.split(prose):
        plain = _LEAD.sub("", " ".join(sentence.split()))
        if len(plain) <= MAX_STATEMENT_CHARS:
            yield plain


def _parse_request(sentence: str) -> Statement | None:
    match = _ASKED.match(sentence)
    if match is None or sentence.endswith("?"):
        return None
    text = (match["text"] or match["unspaced"] or "").strip(" \"'")
    if _NOT_ASKED.match(text) or len(text) < 3:
        return None
    if match["verb_last"]:
        text = _main_clause(text) or f"{match['verb_last']} {text}"
    return Statement(_capitalize(text), ASKED_TRUST)


# A German or Dutch clause after `dass` or `dat` has its verb at the end: a pronoun, or a noun with
# its article, followed by the rest and the verb.
_VERB_LAST = re.compile(
    r"""(?P<subject>(?i:ich|du|er|sie|es|wir|ihr|man|ik|hij|zij|ze|wij|we|het)
      |(?i:der|die|das|den|mein\w*|dein\w*|unser\w*|sein\w*|ihr\w*|ein|eine|kein\w*)
       (?:\s+[a-zäöüß]\w*)*\s+[A-ZÄÖÜ]\w*)
    (?P<rest>(?:\s+[^\s,;:]+)*?)\s+(?P<verb>\w+)(?P<end>[.!]*)""",
    re.VERBOSE,
)


def _main_clause(clause: str) -> str:
    """Return a clause with its last word, the verb, after the subject; "" if it is not so simple
    that this is right."""
    match = _VERB_LAST.fullmatch(clause)
    return f"{match['subject']} {match['verb']}{match['rest']}{match['end']}" if match else ""


def _parse_statement(sentence: str) -> Statement | None:
    if len(sentence) < MIN_STATEMENT_CHARS or _UNSURE.search(sentence):
        return None
    if any(form.match(sentence) for form in _STATED):
        return Statement(_capitalize(sentence), STATED_TRUST)
    return None


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


# Words, by which facts are compared and searched.

_STOP = """
    a about above after again all also always am an and any are aren't as at be because been before
    being but by can can't cannot could did didn't do does doesn't doing don't done each else etc
    ever every few for from get gets getting give go going good got had has hasn't have haven't
    having he help her here hers him his how i i'd i'll i'm i've if in into is isn't it it's its
    just kind know less let let's like likes look lot made make makes many may me might mine more
    most much must my need needs never new no not nothing now of off ok okay on once one only or
    other our ours out over own please prefer prefers put really remember said same say see she
    should show so some something still such sure take tell than thank thanks that that's the
    their theirs them then there there's these they thing things this those through to too try up
    us use used user uses using very want wants was way we well were what what's when where which
    while who whom whose why will with without won't work works would yes yet you you're your yours
"""

STOP_WORDS = frozenset(_STOP.split())  #: Words without information about the subject of a text.

_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)*|_")


def split_words(text: str) -> tuple[str, ...]:
    """Return the words in order; scripts without spaces are split into pairs of characters."""
    found: list[str] = []
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text).casefold()):
        word = match[0].replace("’", "'")
        if word == "_":
            continue
        found.extend(_character_pairs(word) if is_unspaced(word) else (word.removesuffix("'s"),))
    return tuple(word for word in found if word)


def significant_words(text: str) -> tuple[str, ...]:
    """Return the distinct words that are not stop words."""
    return tuple(dict.fromkeys(word for word in split_words(text) if word not in STOP_WORDS))


def normalize(text: str) -> str:
    """Return a form that is equal for texts that differ only in case, punctuation and spaces."""
    return " ".join(split_words(text))


def _character_pairs(run: str) -> tuple[str, ...]:
    if len(run) == 1:
        return (run,)
    return tuple(run[at : at + 2] for at in range(len(run) - 1))


# Claims: a subject has an attribute with a value.

USER = "user"

YES, NO = "yes", "no"

MAX_CLAIM_CHARS = 300  #: Longer sentences are not parsed for claims.


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


def _attribute_claim(match: re.Match[str]) -> Claim:
    named = match.groupdict()
    subject = normalize(named.get("subject") or USER) or USER
    return Claim(
        USER if subject in ("i", "we", "the user", "user") else subject,
        _normalize_attribute(named["attribute"]),
        normalize(named["value"]),
    )


def _preference_claim(match: re.Match[str]) -> Claim:
    better, worse = normalize(match["value"]), normalize(match["other"])
    return Claim(USER, f"choice {' / '.join(sorted((better, worse)))}", better)


def _taste_claim(match: re.Match[str]) -> Claim:
    against = match["not"] is not None or match["verb"].casefold().startswith(("hate", "dislike"))
    return Claim(USER, f"likes {normalize(match['value'])}", NO if against else YES)


def _name_claim(match: re.Match[str]) -> Claim:
    return Claim(USER, "name", normalize(match["value"]))


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(rf"{text}$", re.IGNORECASE)


_CLAIM_FORMS: tuple[tuple[re.Pattern[str], Read], ...] = (
    (_pattern(r"(?:please )?call me (?P<value>.+)"), _name_claim),
    (_pattern(rf"{_MINE} {_ATTRIBUTE} {_IS}(?P<value>.+)"), _attribute_claim),
    (_pattern(rf"the {_ATTRIBUTE} (?:of|for) {_THING} {_IS}(?P<value>.+)"), _attribute_claim),
    (_pattern(rf"{_THING}['’]s {_ATTRIBUTE} {_IS}(?P<value>.+)"), _attribute_claim),
    (
        _pattern(
            rf"{_ME} prefers? (?P<value>.+?) (?:over|to|instead of|rather than) (?P<other>.+)"
        ),
        _preference_claim,
    ),
    (_pattern(rf"{_ME} uses? (?P<value>.+?) (?P<attribute>(?:for|as) .+)"), _attribute_claim),
    (
        _pattern(
            rf"{_ME} (?P<not>don['’]t |do not |doesn['’]t |does not |no longer )?(?:really )?"
            r"(?P<verb>likes?|loves?|enjoys?|hates?|dislikes?) (?P<value>.+)"
        ),
        _taste_claim,
    ),
    (_pattern(rf"{_ME} {_DOES} (?P<value>.+)"), _attribute_claim),
    (_pattern(rf"{_THING} {_DOES} (?P<value>.+)"), _attribute_claim),
)


def parse_claim(text: str) -> Claim | None:
    """Return the claim of a text that is one plain sentence of a known form, or None."""
    plain = " ".join(text.split()).rstrip(" .!")
    if len(plain) > MAX_CLAIM_CHARS:
        return None
    for pattern, read in _CLAIM_FORMS:
        match = pattern.match(plain)
        if match is not None:
            claim = read(match)
            return claim if claim.value and claim.attribute else None
    return None


def _normalize_attribute(attribute: str) -> str:
    """Return one form for variants such as `lives in` and `live in`."""
    first, _, rest = normalize(attribute).partition(" ")
    stem = first.removesuffix("s") if len(first) > 3 and first not in ("address", "is") else first
    return f"{stem} {rest}".strip()


# Entities: names, projects, paths, addresses and quoted terms. Facts that share one are linked.

MAX_ENTITIES = 8  #: Maximum number of entities of one fact.
MAX_ENTITY_CHARS = 80

_QUOTED = re.compile(r'"([^"\n]{2,80})"|“([^”\n]{2,80})”|`([^`\n]{2,80})`')
_PATH = re.compile(r"(?<![\w/])(?:~|\.{0,2})/[\w.@+-]+(?:/[\w.@+-]+)*/?|\b[\w-]+(?:/[\w.-]+)+")
_FILE = re.compile(r"\b[\w-]+\.(?:[a-z]{1,4}\d?|toml|yaml|json|lock)\b")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|https?://[^\s<>\"')]+|(?<!\w)@\w{2,}")
_ENTITIES_KINDS = (
    "project|repo|repository|service|server|host|database|app|team|company|package|branch"
)
_AFTER_KIND = re.compile(
    rf"\b(?i:{_ENTITIES_KINDS})\s+(?:called\s+|named\s+)?([A-Za-z][\w.-]{{2,}})"
)
_CALLED = re.compile(r"\b(?:called|named)\s+([\w.-]{3,})")
_NAME = re.compile(r"\b[A-Z][\w+#-]*(?:\s+(?:of\s+)?[A-Z][\w+#-]*)*")
_NO_NAMES = STOP_WORDS | set(_ENTITIES_KINDS.split("|"))
_SAYS_SOMETHING = re.compile(r"(?:['’]s)?\s+(?:is|was|has|can|will|\w+s)\b|['’]s\b")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;]\s+|\n\s*)(?:[-*•]\s*)?$")


def extract_entities(text: str) -> tuple[str, ...]:
    """Return the entities as written; spellings that normalize to the same text count once."""
    found: dict[str, str] = {}
    for name in (*_marked_entities(text), *_capitalized_names(text)):
        tidy = name.strip(" .,;:!?'\"`")
        key = normalize(tidy)
        if key and key not in _NO_NAMES and len(tidy) <= MAX_ENTITY_CHARS:
            found.setdefault(key, tidy)
    return tuple(found.values())[:MAX_ENTITIES]


def _marked_entities(text: str) -> list[str]:
    """Return entities that are recognised by their form."""
    quoted = ["".join(groups) for groups in _QUOTED.findall(text)]
    addresses = _ADDRESS.findall(text)
    rest = _ADDRESS.sub(" ", text)
    paths = [match[0] for form in (_PATH, _FILE) for match in form.finditer(rest)]
    return [*quoted, *addresses, *paths, *_AFTER_KIND.findall(rest), *_CALLED.findall(rest)]


def _capitalized_names(text: str) -> list[str]:
    """Return capitalised words. The first word of a sentence is always capitalised, so it counts
    only before a verb, as in `Ada likes tea`."""
    names: list[str] = []
    for match in _NAME.finditer(text):
        name = match[0]
        if not _SENTENCE_START.search(text, 0, match.start()):
            names.append(name)
            continue
        first, _, rest = name.partition(" ")
        if first.casefold() in _NO_NAMES:
            names.append(rest)
        elif rest or not name[1:].islower() or _SAYS_SOMETHING.match(text, match.end()):
            names.append(name)
    return names

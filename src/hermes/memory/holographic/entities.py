"""What a fact is about: names, projects, paths, addresses and quoted terms. Facts that share one
are linked."""

import re

from hermes.memory.holographic.words import STOP_WORDS, folded

MOST = 8
"""Entities of one fact."""
LONGEST = 80

_QUOTED = re.compile(r'"([^"\n]{2,80})"|“([^”\n]{2,80})”|`([^`\n]{2,80})`')
_PATH = re.compile(r"(?<![\w/])(?:~|\.{0,2})/[\w.@+-]+(?:/[\w.@+-]+)*/?|\b[\w-]+(?:/[\w.-]+)+")
_FILE = re.compile(r"\b[\w-]+\.(?:[a-z]{1,4}\d?|toml|yaml|json|lock)\b")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|https?://[^\s<>\"')]+|(?<!\w)@\w{2,}")
_KINDS = "project|repo|repository|service|server|host|database|app|team|company|package|branch"
_AFTER_KIND = re.compile(rf"\b(?i:{_KINDS})\s+(?:called\s+|named\s+)?([A-Za-z][\w.-]{{2,}})")
_CALLED = re.compile(r"\b(?:called|named)\s+([\w.-]{3,})")
_NAME = re.compile(r"\b[A-Z][\w+#-]*(?:\s+(?:of\s+)?[A-Z][\w+#-]*)*")
_NO_NAMES = STOP_WORDS | set(_KINDS.split("|"))
_SAYS_SOMETHING = re.compile(r"(?:['’]s)?\s+(?:is|was|has|can|will|\w+s)\b|['’]s\b")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;]\s+|\n\s*)(?:[-*•]\s*)?$")


def entities(text: str) -> tuple[str, ...]:
    """As they are written, each once however it is written."""
    found: dict[str, str] = {}
    for name in (*_marked(text), *_names(text)):
        tidy = name.strip(" .,;:!?'\"`")
        key = folded(tidy)
        if key and key not in _NO_NAMES and len(tidy) <= LONGEST:
            found.setdefault(key, tidy)
    return tuple(found.values())[:MOST]


def _marked(text: str) -> list[str]:
    """What its form gives away."""
    quoted = ["".join(groups) for groups in _QUOTED.findall(text)]
    addresses = _ADDRESS.findall(text)
    rest = _ADDRESS.sub(" ", text)
    paths = [match[0] for form in (_PATH, _FILE) for match in form.finditer(rest)]
    return [*quoted, *addresses, *paths, *_AFTER_KIND.findall(rest), *_CALLED.findall(rest)]


def _names(text: str) -> list[str]:
    """Words with a capital. The first word of a sentence has one anyway: it counts as a name when
    something is said of it, as in `Ada likes tea`."""
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

"""What a server says when it does not let us in: the header `WWW-Authenticate`."""

import re

LONGEST = 4_000
LONGEST_SCOPE = 1_000
_PARAMETER = re.compile(
    r"""([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))"""
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(?=[\s,]|$)")
_GAP, _OTHER = re.compile(r"[\s,]*"), re.compile(r"[^\s,]*")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def bearer(header: str) -> dict[str, str]:
    """The parameters of the first challenge of the kind `Bearer`, by their names in lower case."""
    text, position, scheme = header[:LONGEST], 0, ""
    found: dict[str, str] = {}
    while (position := _end(_GAP, text, position)) < len(text):
        if parameter := _PARAMETER.match(text, position):
            if scheme == "bearer":
                name, quoted, plain = parameter.groups()
                value = re.sub(r"\\(.)", r"\1", quoted) if plain is None else plain
                found.setdefault(name.lower(), value)
            position = parameter.end()
        elif word := _SCHEME.match(text, position):
            if scheme == "bearer":
                break
            scheme, position = word[1].lower(), word.end()
        else:
            position = _end(_OTHER, text, position)
    return found


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def scopes(*texts: str) -> str:
    """The scopes of all texts, each once, in the order they came; what cannot be one is dropped."""
    words = [word for text in texts for word in text.split() if _SCOPE.fullmatch(word)]
    joined = ""
    for word in dict.fromkeys(words):
        if len(joined) + len(word) < LONGEST_SCOPE:
            joined = f"{joined} {word}".lstrip()
    return joined

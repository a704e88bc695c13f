"""What a text would have started later, at login or by itself."""

import re
from collections.abc import Callable, Iterator

from hermes.skills.scanner import shell_rules as rules
from hermes.skills.scanner.lines import Lines
from hermes.skills.scanner.places import STARTUP as PLACES
from hermes.skills.scanner.recipes import scheduled
from hermes.skills.scanner.rule import Hit

_WRITES = re.compile(r"^[^\n]*(?:>>?|\btee\b|\bcp\b|\bmv\b|\bln\b)[^\n]*$", re.MULTILINE)
_DOCUMENT = re.compile(r"<<-?\s*[\"']?(\w{1,40})")
_ODD = re.compile(
    r"(?:/tmp|/var/tmp|/dev/shm)/\.?\w|\bnohup\b|\balias\s+(?:sudo|su|ssh|passwd|git|gpg)=|"
    r"\bbase64\b|\bpython3?\s+-c|\bnc\s|LD_PRELOAD|/\.[\w-]+/?\.?[\w-]*\s*(?:&|>\s*/dev/null)|"
    r"\bread\s+-\w*s"
)
_QUOTED = re.compile(r"\b(?:echo|printf)\s+(?:-\w+\s+)?([\"'])([^\n]{3,600}?)\1")
STARTUP = re.compile(rf"{PLACES.pattern}|\.git/hooks/")
_KEY = re.compile(r"(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S{1,20})\s+AAAA[A-Za-z0-9+/]{40,}")
_FALSE_NAME = re.compile(
    r"(?<![\d.])(?!127\.|0\.0\.|10\.|192\.168\.)\d{1,3}(?:\.\d{1,3}){3}[ \t][^\n]{0,200}?"
    r"\b(?:pypi|pythonhosted|npmjs|github|githubusercontent|google|microsoft|apple|docker|debian|"
    r"ubuntu|openai|anthropic|crates|rubygems)\.(?:org|com|io)\b"
)
_ROOT_FOR_ALL = re.compile(r"\bALL\s*=\s*\([^)\n]{1,20}\)\s*NOPASSWD:\s*ALL\b")
_LONGEST = 4_000
"""Characters of a here-document that are looked at."""


def startup_hits(text: str, dangers: Callable[[str], list[Hit]]) -> Iterator[Hit]:
    """`dangers` says what is suspicious in a command line."""
    lines = Lines(text)
    if "authorized_keys" in text and (key := _KEY.search(text)):
        yield Hit(rules.KEY_ADDED, lines.at(key.start()))
    if "/etc/hosts" in text and (name := _FALSE_NAME.search(text)):
        yield Hit(rules.FALSE_NAMES, lines.at(name.start()))
    if "sudoers" in text and (grant := _ROOT_FOR_ALL.search(text)):
        yield Hit(rules.SUDOERS, lines.at(grant.start()))
    for line, command in scheduled(text):
        if dangers(command):
            yield Hit(rules.BAD_STARTUP, line)
        elif _ODD.search(command):
            yield Hit(rules.ODD_STARTUP, line)
    if STARTUP.search(text):
        yield from _written(text, lines, dangers)


def _written(text: str, lines: Lines, dangers: Callable[[str], list[Hit]]) -> Iterator[Hit]:
    """What goes into a file that is run by itself."""
    for match in _WRITES.finditer(text):
        if STARTUP.search(match[0]) is None:
            continue
        written = match[0] + _document(text, match)
        quoted = "\n".join(inner for _, inner in _QUOTED.findall(match[0]))
        if dangers(quoted or _document(text, match)):
            yield Hit(rules.BAD_STARTUP, lines.at(match.start()))
        elif _ODD.search(written):
            yield Hit(rules.ODD_STARTUP, lines.at(match.start()))


def _document(text: str, line: re.Match[str]) -> str:
    """The here-document that begins on this line; "" when there is none."""
    opening = _DOCUMENT.search(line[0])
    if opening is None:
        return ""
    rest = text[line.end() : line.end() + _LONGEST]
    return re.split(rf"\n[ \t]*{opening[1]}[ \t]*(?:\n|\Z)", rest, maxsplit=1)[0]

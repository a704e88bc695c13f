"""Paths that lead out of the skill's folder."""

import re
from collections.abc import Iterator
from typing import Final

from hermes.skills.scanner.lines import Lines
from hermes.skills.scanner.places import OWN, is_env_file, is_store
from hermes.skills.scanner.report import Category
from hermes.skills.scanner.rule import Hit, Rule

_C: Final = Category.PATH_TRAVERSAL
TO_SECRETS = Rule("link_to_secrets", _C, "critical", "a link leads to keys, settings or the system")
OUTSIDE = Rule("outside", _C, "high", "a path leads out to keys, settings or the system")
CREDENTIAL_FILE = Rule(
    "foreign_credential", _C, "critical", "asks for a key file that is not the skill's own"
)

_LINK = re.compile(r"\]\(\s{0,3}<?([^()\s<>]{1,400})")
_UPWARD = re.compile(r"(?:\.\.[/\\]){2,40}[\w.~$-][\w./\\~$-]{0,200}")
_FROM_SKILL = re.compile(r"HERMES_SKILL_DIR\}?[\"']?(?:/\.\.){2,20}(/[\w./-]{1,200})?")
_DECLARED = re.compile(
    r"^required_credential_files:[ \t]*\n((?:[ \t]+[^\n]*\n|-[^\n]*\n|\n){1,60})", re.MULTILINE
)
_PATH = re.compile(
    r"\bpath:\s*[\"']?([^\s\"',}]{1,300})|^\s*-\s+[\"']?([\w~./\\$-]{1,300})[\"']?\s*$",
    re.MULTILINE,
)
_SYSTEM = re.compile(
    r"(?:\.\./)+(?:etc|proc|root|home|Users|var|dev)/|\.\.[/\\](?:Windows|System32)"
)


def links(text: str) -> Iterator[Hit]:
    """In any file: paths that climb, and links of Markdown."""
    lines = Lines(text)
    for match in _LINK.finditer(text):
        target = match[1]
        if target.startswith(("/", "~", "file:")) and (
            is_store(target) or target.startswith("/etc/")
        ):
            yield Hit(TO_SECRETS, lines.at(match.start()))
    for match in _UPWARD.finditer(text):
        if _climbs(match[0].replace("\\", "/")):
            linked = text[max(0, match.start() - 2) : match.start()] == "]("
            yield Hit(TO_SECRETS if linked else OUTSIDE, lines.at(match.start()))
    for match in _FROM_SKILL.finditer(text):
        yield Hit(OUTSIDE, lines.at(match.start()))


def declared(text: str) -> Iterator[Hit]:
    """In the head of SKILL.md: key files lie in our home, below their own names."""
    block = _DECLARED.search(text)
    if block is None:
        return
    lines = Lines(text)
    for match in _PATH.finditer(block[1]):
        path = (match[1] or match[2]).replace("\\", "/")
        leaves = path.startswith(("/", "~", "$")) or ".." in path.split("/")
        if leaves or is_store(path):
            yield Hit(CREDENTIAL_FILE, lines.at(block.start(1) + match.start()))


def _climbs(path: str) -> bool:
    """Whether a path that goes up ends where no skill has business."""
    rest = path.replace("../", "")
    far = is_env_file(rest) and path.count("../") > 2
    return far or is_store(rest) or bool(OWN.search(path) or _SYSTEM.match(path))

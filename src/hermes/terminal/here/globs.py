"""Globs and .gitignore rules as regular expressions over `/`-separated relative paths."""

import os
import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

_CLASS = re.compile(r"\[(!?)(\]?[^\]/]*)\]")


@lru_cache(maxsize=512)
def glob_pattern(glob: str) -> re.Pattern[str]:
    """`*` and `?` stop at a slash, `**` does not; `[a-z]` and `{a,b}` as in a shell."""
    return re.compile(_translate(glob) + r"\Z", re.DOTALL)


def _translate(glob: str) -> str:
    parts: list[str] = []
    position = depth = 0
    while position < len(glob):
        rest = glob[position:]
        taken, piece, depth = _piece(rest, at_start=position == 0, depth=depth)
        parts.append(piece)
        position += taken
    return "".join(parts) + ")" * depth


_LITERAL = {"?": "[^/]", "*": "[^/]*"}


def _piece(rest: str, *, at_start: bool, depth: int) -> tuple[int, str, int]:
    """How many characters the next piece takes, its expression, and the depth of braces after."""
    if rest.startswith("/**/"):
        return 4, "/(?:.*/)?", depth
    if at_start and rest.startswith("**/"):
        return 3, "(?:.*/)?", depth
    if rest.startswith("**"):
        return 2, ".*", depth
    if rest[0] in _LITERAL:
        return 1, _LITERAL[rest[0]], depth
    if rest[0] == "\\" and len(rest) > 1:
        return 2, re.escape(rest[1]), depth
    if found := _CLASS.match(rest):
        body = found[2].replace("\\", "\\\\").replace("[", "\\[")
        return found.end(), f"[{'^' if found[1] else ''}{body}]", depth
    return 1, *_brace(rest, depth)


def _brace(rest: str, depth: int) -> tuple[str, int]:
    if rest[0] == "{" and "}" in rest:
        return "(?:", depth + 1
    if depth and rest[0] == "}":
        return ")", depth - 1
    if depth and rest[0] == ",":
        return "|", depth
    return re.escape(rest[0]), depth


class NameGlob:
    """The glob of a search, as models write it: `*.py`, `.py`, `py`, `src/**/*.py`, `./src/*`."""

    def __init__(self, glob: str) -> None:
        glob = _without_braces(glob.strip().removeprefix("./"))
        self.whole_path = "/" in glob
        """Matched against the path below the folder, not against the name alone."""
        self.globs = [glob]
        if not self.whole_path and not re.search(r"[*?\[{]", glob):
            # A bare ending or word: `.py` means `*.py`, `conf` means `*conf*`.
            self.globs.append(f"*{glob}" if glob.startswith(".") else f"*{glob}*")
        self.hidden = any(part.startswith(".") for part in glob.split("/"))
        """The glob itself names hidden files."""

    def matches(self, relative: str) -> bool:
        folder, _, name = relative.rpartition("/")
        if not self.whole_path and re.search(r"(^|/)\.", folder):
            return False  # a name alone does not reach into hidden folders
        subject = relative if self.whole_path else name
        return any(glob_pattern(glob).match(subject) for glob in self.globs)


def _without_braces(glob: str) -> str:
    """A glob with unbalanced braces, taken literally."""
    if glob.count("{") == glob.count("}"):
        return glob
    return glob.replace("{", "\\{").replace("}", "\\}")


class IgnoreRule(msgspec.Struct, frozen=True):
    pattern: re.Pattern[str]
    negated: bool
    folders_only: bool
    base: str
    """Folder of the .gitignore, relative to the root of the walk, "" or ending in a slash."""

    def matches(self, relative: str, is_folder: bool) -> bool:
        if (self.folders_only and not is_folder) or not relative.startswith(self.base):
            return False
        return self.pattern.match(relative[len(self.base) :]) is not None


def parse_gitignore(text: str, base: str) -> list[IgnoreRule]:
    rules = []
    for raw in text.splitlines():
        line = raw if raw.endswith("\\ ") else raw.rstrip()
        if not line or line.startswith("#"):
            continue
        negated = line.startswith("!")
        line = line[1:] if negated else line
        folders_only = line.endswith("/")
        line = line.rstrip("/")
        # A slash at the start or in the middle ties the rule to its own folder.
        glob = line.lstrip("/") if "/" in line else f"**/{line}"
        if glob:
            # git knows no braces
            pattern = glob_pattern(glob.replace("{", "\\{").replace("}", "\\}"))
            rules.append(IgnoreRule(pattern, negated, folders_only, base))
    return rules


def ignored(rules: Sequence[IgnoreRule], relative: str, *, is_folder: bool) -> bool | None:
    """The last rule that matches decides; None when none does."""
    for rule in reversed(rules):
        if rule.matches(relative, is_folder):
            return not rule.negated
    return None


def relative_to(path: str, folder: str) -> str:
    """`path` below `folder` with slashes, or unchanged when it is elsewhere."""
    prefix = folder if folder.endswith(os.sep) else folder + os.sep
    return path[len(prefix) :].replace(os.sep, "/") if path.startswith(prefix) else path

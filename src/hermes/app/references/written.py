"""Finding references in a text. Whether what they name is there is looked up later."""

import re
from typing import Literal, cast

import msgspec

Kind = Literal["file", "folder", "url", "git", "diff", "staged", "bare"]

BEFORE = r"(?<![A-Za-z0-9_@/\\.`-])"
"""Not inside a word or an address, and not behind a backslash."""
QUOTED = r""""[^"\n]+"|'[^'\n]+'"""
PLAIN = r"""(?!["'])(?:\\[ \t]|\S)+"""
_LINES = r":\d+(?:-\d+)?"
_REFERENCE = re.compile(
    rf"""{BEFORE}@(?:
        (?P<kind>file|folder|url|git):(?P<value>(?:{QUOTED})(?:{_LINES})?|{PLAIN})
      | (?P<word>diff|staged)(?![\w/-]|[.:][\w/])
      | (?P<bare>(?:{QUOTED})(?:{_LINES})?|{PLAIN})
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_CODE = re.compile(
    r"^[ ]{0,3}(?P<fence>```+|~~~+).*?(?:^[ ]{0,3}(?P=fence)|\Z)"
    r"|(?<!`)(?P<tick>`+)(?!`)[^\n]+?(?<!`)(?P=tick)(?!`)",
    re.MULTILINE | re.DOTALL,
)
_QUOTES = re.compile(rf"""(?P<quoted>{QUOTED})(?P<lines>{_LINES})?""")
_RANGE = re.compile(r"(?P<path>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.DOTALL)
_TRAILING = ".,;:!?)]}>'\"*_…，。、；：！？）】」』》"
_WIDE = re.compile("[，。、；：！？（）【】「」『』《》]")
"""Marks of scripts that put no blanks around a path."""


MOST_MARKS = 4
"""Behind a path that are tried as a part of it."""


class Reference(msgspec.Struct, frozen=True):
    written: str
    """As it stands in the text."""
    kind: Kind
    value: str = ""
    """What is behind the colon, without quotes."""
    quoted: bool = False

    def shorter(self, value: str) -> "Reference":
        """When only `value`, the beginning of its value, is meant."""
        end = len(self.written) - (len(self.value) - len(value))
        return msgspec.structs.replace(self, written=self.written[:end], value=value)


class Lines(msgspec.Struct, frozen=True):
    """Of a file, from 1, both included."""

    first: int
    last: int


def references(text: str) -> list[Reference]:
    """In the order of the text, each once. Code in backticks is left alone."""
    prose = _CODE.sub(lambda code: " " * len(code[0]), text)
    return list(dict.fromkeys(map(_reference, _REFERENCE.finditer(prose))))


def _reference(match: re.Match[str]) -> Reference:
    if word := match["word"]:
        return Reference(match[0], cast("Kind", word.lower()))
    kind = cast("Kind", (match["kind"] or "bare").lower())
    value = match["value"] or match["bare"]
    if kind == "bare" and re.match(r"https?://", value, re.IGNORECASE):
        kind = "url"
    if quotes := _QUOTES.fullmatch(value):
        return Reference(match[0], kind, quotes["quoted"][1:-1] + (quotes["lines"] or ""), True)
    return Reference(match[0], kind, re.sub(r"\\([ \t])", r"\1", value))


def spellings(reference: Reference) -> list[str]:
    """What the value may mean, the likeliest first: a sentence goes on behind a path."""
    value = reference.value
    if reference.quoted:
        return [value]
    bare = value.rstrip(_TRAILING)
    ends = range(len(value), max(len(bare), len(value) - MOST_MARKS) - 1, -1)
    before_wide = _WIDE.split(value, maxsplit=1)[0]
    found = dict.fromkeys([*(value[:end] for end in ends), bare, before_wide])
    return [each for each in found if each]


def with_lines(value: str) -> tuple[str, Lines | None]:
    """`path:10-20` as path and lines; None without lines."""
    if found := _RANGE.fullmatch(value):
        first = int(found["first"])
        return found["path"], Lines(first, int(found["last"] or first))
    return value, None


def address(value: str) -> str:
    """A URL without the marks of the sentence around it."""
    value = _WIDE.split(value, maxsplit=1)[0]
    while value and (
        value[-1] in ".,;:!?'\"*>" or (value[-1] == ")" and value.count("(") < value.count(")"))
    ):
        value = value[:-1]
    return value

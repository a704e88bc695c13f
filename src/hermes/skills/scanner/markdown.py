"""The code in a Markdown text: blocks, commands inside sentences, and what is said before them."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from hermes.skills.scanner.lines import Lines
from hermes.skills.scanner.warning import warns

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*(?:\{?[ \t]*\.?([\w+#-]*))?")
_HEADING = re.compile(r"#{1,6}\s")
_SPAN = re.compile(r"(!?)(`{1,2})(?!`)([^`\n]{3,1000})\2(?!`)")
_RUNS = re.compile(
    r"\b(?:run|runs|running|execute|start|type|paste|enter|call|invoke|use|launch|issue|export|"
    r"set|then|via|do|with|by)\b[^.!?\n]{0,120}\Z",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"(?<![\w`/.-])(?:sudo\s+)?(?:curl|wget|bash|sh|rm|dd|nc|ncat|eval|base64|python3?|powershell|"
    r"iwr|irm|chmod|crontab|echo|npm|pip3?)\s+(?=[^\n`]{0,200}(?:\||\s-[a-zA-Z]|https?://|\$\())"
    r"[^\n`]{4,300}"
)
"""A command line in the middle of a sentence, without any marks."""
_PIPED = re.compile(r"(\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b)\s+[A-Za-z].*")
"""Where the sentence goes on after a command."""
_SENTENCE = re.compile(r"[.!?]\s|\n\s*\n|\n[-*|\d]")
_PARAGRAPH: Final = 6
"""Lines before a block that say what it is for."""
_SAID: Final = 240


class Block(msgspec.Struct, frozen=True):
    language: str
    """In small letters; "" when the block does not say."""
    text: str
    line: int
    warned: bool


class Span(msgspec.Struct, frozen=True):
    """A command inside a sentence."""

    text: str
    line: int
    warned: bool
    inline: bool
    """Marked to be run while the skill is loaded: an exclamation mark before it."""


def blocks(text: str) -> Iterator[Block | Span]:
    lines = text.split("\n")
    prose: list[str] = []
    heading = ""
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if opening is None:
            if _HEADING.match(lines[at]):
                heading = lines[at]
            prose.append(lines[at])
            at += 1
            continue
        end = _end(lines, at + 1, opening[1])
        inside = "\n".join(lines[at + 1 : end])
        warned = warns(f"{heading}\n{_before(lines, at)}")
        yield Block((opening[2] or "").lower(), inside, at + 1, warned)
        prose += [""] * (min(end + 1, len(lines)) - at)
        at = end + 1
    yield from _spans("\n".join(prose))


def _end(lines: list[str], at: int, fence: str) -> int:
    """The line that closes the block, or the end of the text."""
    for number in range(at, len(lines)):
        line = lines[number].strip("> \t")
        if line.startswith(fence) and not line.strip(fence[0]):
            return number
    return len(lines)


def _before(lines: list[str], at: int) -> str:
    """The paragraph right before a block."""
    end = at
    while end > 0 and at - end < 2 and not lines[end - 1].strip():
        end -= 1
    start = end
    while start > 0 and end - start < _PARAGRAPH and lines[start - 1].strip():
        start -= 1
        if _FENCE.match(lines[start]):
            return "\n".join(lines[start + 1 : end])
    return "\n".join(lines[start:end])


def _is_line(prose: str, span: re.Match[str]) -> bool:
    """Whether a line holds nothing else: a block by another name."""
    start = prose.rfind("\n", 0, span.start()) + 1
    before, after = prose[start : span.start()], prose[span.end() :].partition("\n")[0]
    return not before.strip(" \t>*-+0123456789.)") and not after.strip()


def _spans(prose: str) -> Iterator[Span]:
    lines = Lines(prose)
    for match in _SPAN.finditer(prose):
        said = _SENTENCE.split(prose[max(0, match.start() - _SAID) : match.start()])[-1]
        inline = bool(match[1])
        told = _RUNS.search(said) or _is_line(prose, match)
        if inline or (re.search("[ =]", match[3]) and told):
            yield Span(match[3], lines.at(match.start()), warns(said) and not inline, inline)
    for match in _BARE.finditer(prose):
        said = _SENTENCE.split(prose[max(0, match.start() - _SAID) : match.start()])[-1]
        if "|" not in said:  # no row of a table
            yield Span(
                _PIPED.sub(r"\1", match[0]), lines.at(match.start()), warns(said), inline=False
            )

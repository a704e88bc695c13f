"""Turns an answer of the agent into messages within the limits of the platform.

The rendered text is measured, so every part really fits. A code block that is cut is closed in one
part and opened again, with its language, in the next. Apart from that, and from white space at the
cuts, the parts are the text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from wcwidth import iter_graphemes

from hermes.sdk.platforms.contract import Capabilities, Media, OutgoingMessage
from hermes.sdk.platforms.dialects import convert
from hermes.sdk.platforms.markdown import FENCE, closes_fence, find_open_fence
from hermes.util.text import clean

Counts = Literal["characters", "utf16", "bytes"]
_SENTENCE_END = re.compile(r"[.!?…。！？][\"')\]”’]*\s+")
MAX_LANGUAGE = 32
_MIN_FILL = 0.4
"""A cut that fills less than this share of a part is used only if there is no better one."""


_MEASURES: dict[Counts, Callable[[str], int]] = {
    "characters": len,
    "utf16": lambda text: len(text) + sum(character > "\uffff" for character in text),
    "bytes": lambda text: len(text.encode()),
}


def measure(text: str, counts: Counts) -> int:
    """Return the length of a text as the platform counts it."""
    return _MEASURES[counts](text)


def split_text(
    text: str,
    limit: int,
    counts: Counts = "characters",
    convert: Callable[[str], str] = str,
) -> list[str]:
    """Split Markdown into parts of at most `limit` after `convert`. Parts without visible text are
    dropped. A single grapheme is a part even when it is too long."""
    measured = _MEASURES[counts]
    parts = _split(clean(text), lambda part: measured(convert(part)) <= limit)
    return [part for part in parts if convert(part).strip()]


def compose(
    text: str, capabilities: Capabilities, files: Sequence[Media] = ()
) -> list[OutgoingMessage]:
    """Return messages in the platform's dialect within its limit, then one for each file. Blank
    text without files gives no message."""

    def dialect(part: str) -> str:
        return convert(part, capabilities.dialect)

    parts = split_text(text, capabilities.max_chars, capabilities.counts, dialect)
    messages = [OutgoingMessage(dialect(part), plain=convert(part, "plain")) for part in parts]
    return messages + [OutgoingMessage(media=(media,)) for media in files]


def _split(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
    opener = ""  # the line that reopens a code block that was cut
    rest = text.strip("\n")
    while rest.strip():
        whole = (opener + rest).rstrip()
        if fits(whole):
            yield whole
            return
        end = _find_cut(rest, opener, fits)
        part, following = _close_code(opener + rest[:end])
        if rest[:end].strip():
            yield part
        opener, rest = _after_cut(following, rest[end:])


def _after_cut(opener: str, rest: str) -> tuple[str, str]:
    """Return what follows a cut, without the line end at the cut. In code, blanks are significant.
    A code block cut just before its end is not opened again."""
    if not opener:
        return "", rest.lstrip("\n").removeprefix(" ")
    rest = rest.removeprefix("\n")
    line, _, after = rest.partition("\n")
    opened = FENCE.match(opener.rstrip("\n"))
    if opened and closes_fence(line, opened):
        return "", after.lstrip("\n")
    return opener, rest


def _close_code(part: str) -> tuple[str, str]:
    """Return the part with its code block closed, and the line that opens it again."""
    opened = find_open_fence(part)
    if opened is None:
        return part.rstrip(), ""
    mark = opened["indent"] + opened["mark"]
    body = part.rstrip("\n")
    language = opened["language"].strip().partition(" ")[0][:MAX_LANGUAGE]
    return f"{body}\n{mark}", f"{mark}{language}\n"


def _find_cut(rest: str, opener: str, fits: Callable[[str], bool]) -> int:
    """Return how many characters go into the next part; at least one."""
    longest = _longest_fitting(rest, opener, fits)
    for end in _cut_candidates(rest, longest):
        if not _in_opening_line(rest, end) and fits(_close_code(opener + rest[:end])[0]):
            return end
    end = longest
    while end > 1 and not fits(_close_code(opener + rest[:end])[0]):
        end -= max(1, end // 8)
    return max(_grapheme_boundary(rest, end), 1)


def _in_opening_line(rest: str, end: int) -> bool:
    """A cut inside a fence line would turn the language into code."""
    line = rest.rfind("\n", 0, end) + 1
    return line > 0 and rest[end : end + 1] != "\n" and FENCE.match(rest[line:end]) is not None


def _longest_fitting(rest: str, opener: str, fits: Callable[[str], bool]) -> int:
    """Return the longest prefix that fits, by bisection. Approximate, because rendered text need
    not grow with its source."""
    low, high = 0, 64
    while high < len(rest) and fits(_close_code(opener + rest[:high])[0]):
        low, high = high, high * 2
    high = min(high, len(rest))
    while high - low > 1:
        middle = (low + high) // 2
        if fits(_close_code(opener + rest[:middle])[0]):
            low = middle
        else:
            high = middle
    return max(low, 1)


def _cut_candidates(rest: str, longest: int) -> Iterator[int]:
    """Yield cuts, best first: after a paragraph, a line, a sentence, a word, a grapheme."""
    head = rest[:longest]
    least = int(longest * _MIN_FILL)
    sentences = [match.end() for match in _SENTENCE_END.finditer(head)] or [-1]
    for found in (_paragraph_end(head), head.rfind("\n"), sentences[-1], head.rfind(" ") + 1):
        if found > least and head[:found].strip():
            yield found
    for found in (head.rfind("\n"), head.rfind(" ") + 1):
        if found > 0 and head[:found].strip():
            yield found
    yield _grapheme_boundary(rest, longest)


def _paragraph_end(head: str) -> int:
    """Return the position of the last empty line outside code; -1 for none."""
    position = len(head)
    while (position := head.rfind("\n\n", 0, position)) > 0:
        if find_open_fence(head[:position]) is None:
            return position
    return -1


def _grapheme_boundary(rest: str, end: int) -> int:
    """Return `end`, or a position shortly before it, that splits no grapheme. A grapheme longer
    than the limit is split."""
    start = max(0, end - 64)
    window = rest[start : end + 64]
    position = start
    for sign in iter_graphemes(window):
        if position + len(sign) > end:
            return position if position > start or start > 0 else end
        position += len(sign)
    return end

"""Where the text a model wants to replace stands in a file: exactly, or as good as exactly.

The exact text comes first. Nine looser looks follow, from strict to loose; the first that finds
anything decides. More than one place is an error unless all are to be replaced, so a looser look
never picks one of several.

    line numbers            `12|` of read_file's output in front of every line
    spaces at line ends
    blank lines around      before the first and after the last line
    quotes and dashes       typographic ones, odd spaces
    escapes                 `\\n`, `\\t`, `\\"` written out
    the amount of spaces    inside a line
    indentation             shifted as a whole; the new text is shifted along
    lines in between        first and last line the same, the rest alike
    a line of context       one in five may differ, but not by a word of its own
"""

import difflib
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.tools.editing.document import Edit, TextLines, for_model
from hermes.tools.editing.lines import (
    INDENTATION,
    SPACING,
    TRAILING,
    TYPOGRAPHY,
    Alignment,
    Look,
    as_typed,
    bare,
    merged,
    places_of,
)

# Blocks of lines that are alike but not the same. Used last, and only where one place is meant.
#
# What the change touches must be in the file word for word (but for spaces and quotes); only lines
# quoted around it may differ, and those stay as the file has them.

CLOSE = 80.0
"""Least likeness, of 100, of a block between its first and its last line."""
LINE_CLOSE = 70.0
"""Least likeness of a single line."""
RIVAL = 15.0
"""A second block that is less alike by no more than this makes the first one uncertain."""
MOST_WORK = 5_000_000
"""Comparisons of lines; beyond that a look is not worth the time."""
SHOWN = 12
"""Lines shown of the closest block."""


class Block(msgspec.Struct, frozen=True):
    first: int
    last: int
    """The line after its end."""
    new: list[str]
    score: float


def anchored(lines: Sequence[str], old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """Blocks with the same first and last line and much the same between them."""
    keys, wanted = [bare(line) for line in lines], [bare(line) for line in old]
    if len(wanted) < 3 or len(re.findall(r"\w", wanted[0])) < 3 or not wanted[-1]:
        return []
    slack = max(1, len(wanted) // 4)
    blocks: list[Block] = []
    for start in places_of(wanted[0], keys):
        ends = range(start + max(2, len(wanted) - slack), start + len(wanted) + slack + 1)
        found = [
            block
            for end in ends
            if end <= len(keys) and keys[end - 1] == wanted[-1]
            if (block := _block(lines, keys, (start, end), old, wanted, new))
        ]
        if found:
            blocks.append(max(found, key=lambda block: block.score))
    return _certain(blocks)


def _block(
    lines: Sequence[str],
    keys: Sequence[str],
    span: tuple[int, int],
    old: Sequence[str],
    wanted: Sequence[str],
    new: Sequence[str],
) -> Block | None:
    first, last = span
    score = _ratio("\n".join(wanted), "\n".join(keys[first:last]))
    places = _same(wanted, keys[first:last])
    if score < CLOSE or len(places) * 2 < len(wanted):
        return None
    result = merged(Alignment(old, lines[first:last], places), new)
    return None if result is None else Block(first, last, result, score)


def _same(wanted: Sequence[str], keys: Sequence[str]) -> dict[int, int]:
    blocks = difflib.SequenceMatcher(None, wanted, keys, autojunk=False).get_matching_blocks()
    return {block.a + n: block.b + n for block in blocks for n in range(block.size)}


def alike(lines: Sequence[str], old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """Blocks of the same length in which hardly a line differs, and none by a name or a number."""
    size = len(old)
    if size < 4 or len(lines) * size > MOST_WORK:
        return []
    keys, wanted = [bare(line) for line in lines], [bare(line) for line in old]
    allowed = max(1, size // 5)
    blocks: list[Block] = []
    for first in range(len(keys) - size + 1):
        here = keys[first : first + size]
        differing = [n for n in range(size) if wanted[n] != here[n]]
        if len(differing) > allowed or not all(_kin(wanted[n], here[n]) for n in differing):
            continue
        places = {n: n for n in range(size) if n not in differing}
        result = merged(Alignment(old, lines[first : first + size], places), new)
        if result is not None:
            score = _ratio("\n".join(wanted), "\n".join(here))
            blocks.append(Block(first, first + size, result, score))
    return _certain(blocks)


def _kin(one: str, other: str) -> bool:
    """One line says what the other says and something more; neither has a word of its own."""
    words, others = set(re.findall(r"\w+", one)), set(re.findall(r"\w+", other))
    return (words <= others or others <= words) and _ratio(one, other) >= LINE_CLOSE


def _certain(blocks: list[Block]) -> list[Block]:
    """The best block alone when no other comes near, else all that do."""
    best = max((block.score for block in blocks), default=0.0)
    return [block for block in blocks if block.score >= best - RIVAL]


def closest(lines: Sequence[str], old: Sequence[str]) -> tuple[int, int] | None:
    """The lines (first, and the one after the last) most like `old`, if any are."""
    wanted = [bare(line) for line in old]
    telling = max(range(len(wanted)), key=lambda n: len(wanted[n]))
    if not wanted[telling]:
        return None
    keys = [bare(line) for line in lines]
    process, fuzz = import_module("rapidfuzz.process"), import_module("rapidfuzz.fuzz")
    near: list[Any] = process.extract(
        wanted[telling], keys, scorer=fuzz.ratio, limit=20, score_cutoff=50
    )
    text = "\n".join(wanted)
    spans = {
        (start, min(start + len(wanted), len(keys)))
        for _, _, place in near
        for start in [max(place - telling, 0)]
    }
    scores = {span: _ratio(text, "\n".join(keys[span[0] : span[1]])) for span in sorted(spans)}
    best = max(scores, key=lambda span: scores[span], default=None)
    return best if best is not None and scores[best] >= 50 else None


def _ratio(one: str, other: str) -> float:
    return float(import_module("rapidfuzz.fuzz").ratio(one, other))


MOST_LISTED = 20
"""Line numbers listed when a text is found more than once."""


class Wanted(msgspec.Struct, frozen=True):
    """What to replace and with what."""

    old: str
    new: str

    @property
    def old_lines(self) -> list[str]:
        return _lines(self.old)

    @property
    def new_lines(self) -> list[str]:
        return [] if not self.new and self.old.endswith("\n") else _lines(self.new)


class Located(msgspec.Struct, frozen=True):
    edits: list[Edit]
    past: str = ""
    """What was looked past to find it; "" when the text is there exactly."""


Strategy = Callable[[TextLines, Wanted], list[Edit]]


def locate(text: str, old: str, new: str, *, replace_all: bool = False) -> Located:
    """The edits that replace `old` by `new` in `text`. Raises `ToolError` when it is not clear."""
    if not old.strip("\n"):
        raise ToolArgumentsInvalid(
            "old_string is empty", hint="write_file makes a new file or replaces a whole one"
        )
    if old == new:
        raise ToolArgumentsInvalid("old_string and new_string are the same")
    target, wanted = TextLines(text), Wanted(old, new)
    found = _exact(target, wanted)
    past, choice = "", True
    for step in () if found else STEPS:
        prepared = step.prepare(wanted)
        if prepared is wanted and step.prepare is not _as_it_is:
            continue
        wanted = prepared
        found, past, choice = step.find(target, wanted), step.name, step.several
        if found:
            break
    if not found:
        raise _missing(target, wanted)
    if len(found) > 1 and not (replace_all and choice):
        raise _ambiguous(target, found, past)
    return Located(_apart(found), past)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


def _exact(target: TextLines, wanted: Wanted) -> list[Edit]:
    return _everywhere(target.text, wanted.old, wanted.new)


def _everywhere(text: str, old: str, new: str) -> list[Edit]:
    found: list[Edit] = []
    start = text.find(old) if old else -1
    while start >= 0:
        found.append(Edit(start, start + len(old), new))
        start = text.find(old, start + len(old))
    return found


def _by_lines(look: Look) -> Strategy:
    def find(target: TextLines, wanted: Wanted) -> list[Edit]:
        old, new = wanted.old_lines, wanted.new_lines
        edits: list[Edit] = []
        for start in look.windows(target.lines, old):
            end = start + len(old)
            result = merged(Alignment.one_to_one(old, target.lines[start:end]), new)
            if result is not None:
                edits.append(target.replaced(start, end, result))
        return edits

    return find


def _typography(target: TextLines, wanted: Wanted) -> list[Edit]:
    if target.text.isascii() and wanted.old.isascii():
        return []
    if "\n" in wanted.old.rstrip("\n"):
        found = _by_lines(TYPOGRAPHY)(target, wanted)
        if found:
            return found
    # Within a line: what old and new have in common at both ends stays as the file has it.
    head = _common(wanted.old, wanted.new)
    tail = _common(wanted.old[head:][::-1], wanted.new[head:][::-1])
    new = wanted.new[head : len(wanted.new) - tail]
    within = [
        Edit(edit.start + head, edit.end - tail, new)
        for edit in _everywhere(as_typed(target.text), as_typed(wanted.old), "")
    ]
    return within or _by_lines(TYPOGRAPHY)(target, wanted)


def _common(one: str, other: str) -> int:
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length


_ESCAPE = re.compile(r"\\([ntr\"'\\])")
_MEANING = {"n": "\n", "t": "\t", "r": ""}


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _MEANING.get(match[1], match[1]), text)


def _escapes(target: TextLines, wanted: Wanted) -> list[Edit]:
    meant = Wanted(_unescaped(wanted.old), _unescaped(wanted.new))
    if meant.old == wanted.old:
        return []
    return _exact(target, meant) or _by_lines(TRAILING)(target, meant)


def _spacing(target: TextLines, wanted: Wanted) -> list[Edit]:
    found = _by_lines(SPACING)(target, wanted)
    if found or "\n" in wanted.old:
        return found
    words = as_typed(wanted.old).split()
    if len(words) < 2:
        return []
    pattern = re.compile(r"[ \t]+".join(map(re.escape, words)))
    return [
        Edit(match.start(), match.end(), wanted.new.strip())
        for match in pattern.finditer(as_typed(target.text))
    ]


def _by_blocks(find: Callable[..., list[Block]]) -> Strategy:
    def blocks(target: TextLines, wanted: Wanted) -> list[Edit]:
        return [
            target.replaced(block.first, block.last, block.new)
            for block in find(target.lines, wanted.old_lines, wanted.new_lines)
        ]

    return blocks


_NUMBERED = re.compile(r"^ *(\d+)\|", re.MULTILINE)


def _unnumbered(wanted: Wanted) -> Wanted:
    """Without the line numbers of read_file, when every line has one and they count up."""
    numbers = [_NUMBERED.match(line) for line in wanted.old_lines]
    counted = [int(match[1]) for match in numbers if match]
    if len(counted) != len(numbers) or counted != list(
        range(counted[0], counted[0] + len(counted))
    ):
        return wanted
    return Wanted(_NUMBERED.sub("", wanted.old), _NUMBERED.sub("", wanted.new))


def _unpadded(wanted: Wanted) -> Wanted:
    """Without blank lines around; the new text loses no more of them than the old one did."""
    old, new = wanted.old_lines, wanted.new_lines
    head = next((n for n, line in enumerate(old) if line.strip()), 0)
    tail = next((n for n, line in enumerate(reversed(old)) if line.strip()), 0)
    if not head and not tail:
        return wanted
    while head and new and not new[0].strip():
        new, old, head = new[1:], old[1:], head - 1
    while tail and new and not new[-1].strip():
        new, old, tail = new[:-1], old[:-1], tail - 1
    kept = old[head : len(old) - tail]
    return Wanted("\n".join(kept) + "\n", "".join(f"{line}\n" for line in new))


def _as_it_is(wanted: Wanted) -> Wanted:
    return wanted


class Step(msgspec.Struct, frozen=True):
    name: str
    find: Strategy
    prepare: Callable[[Wanted], Wanted] = _as_it_is
    """Takes off what is not part of the text, for this step and all that follow."""
    several: bool = True
    """Good enough to replace several places at once."""


STEPS: Sequence[Step] = (
    Step("line numbers", _by_lines(TRAILING), _unnumbered),
    Step(TRAILING.name, _by_lines(TRAILING)),
    Step("blank lines around it", _by_lines(TRAILING), _unpadded),
    Step(TYPOGRAPHY.name, _typography),
    Step("escapes such as \\n", _escapes),
    Step(SPACING.name, _spacing),
    Step(INDENTATION.name, _by_lines(INDENTATION)),
    Step("lines in between", _by_blocks(anchored), several=False),
    Step("a line of context", _by_blocks(alike), several=False),
)


def _apart(edits: list[Edit]) -> list[Edit]:
    """Without those that reach into the one before."""
    kept: list[Edit] = []
    for edit in sorted(edits, key=lambda edit: edit.start):
        if not kept or edit.start >= kept[-1].end:
            kept.append(edit)
    return kept


def _ambiguous(target: TextLines, found: Sequence[Edit], past: str) -> ToolError:
    numbers = [str(target.number_at(edit.start)) for edit in found]
    more = f" and {len(numbers) - MOST_LISTED} more" if len(numbers) > MOST_LISTED else ""
    looked = f", looking past {past}" if past else ""
    return ToolError(
        f"old_string is there {len(numbers)} times{looked}: at lines "
        f"{', '.join(numbers[:MOST_LISTED])}{more}",
        hint="add lines before or after it that only the right place has"
        + ("" if past else ", or set replace_all=true"),
    )


def _missing(target: TextLines, wanted: Wanted) -> ToolError:
    made = target.text.find(wanted.new) if len(wanted.new.strip()) > 9 else -1
    if made >= 0:
        return ToolError(
            f"old_string is not in the file, but new_string is, at line {target.number_at(made)}",
            hint="the change may be there already; read the file",
        )
    span = closest(target.lines, wanted.old_lines)
    if span is None:
        return ToolError("old_string is not in the file", hint="read the file first")
    return ToolError(
        f"old_string is not in the file; the closest is\n{numbered(target.lines, *span)}",
        hint="copy the text to replace from the file as it is",
    )


def numbered(lines: Sequence[str], first: int, last: int) -> str:
    shown = [
        f"{number}|{for_model(line)[:300]}"
        for number, line in enumerate(lines[first : min(last, first + SHOWN)], first + 1)
    ]
    return "\n".join(shown)

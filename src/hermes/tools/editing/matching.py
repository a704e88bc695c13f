"""Finding the text that a model wants to replace in a file, exactly or nearly so.

The exact text is tried first, then nine looser steps, from strict to loose; the first step that
finds anything decides. More than one place is an error unless all are to be replaced, so a looser
step never picks one of several.

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
import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.tools.editing.document import Edit, TextLines, display_text
from hermes.util.lazy import late_pattern

# Comparing and merging lines, ignoring what models get wrong: spaces, quotes, indentation.
#
# The model sends old and new lines; the file has lines similar to the old ones. Only what differs
# between old and new is changed. Every other line stays as it is in the file, so that a mistake of
# the model in a context line never reaches the file.


class IndentShift:
    """Maps the indentation of the old lines to that of the file, and applies it to new lines."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        """`pairs` are lines of the old text and the corresponding lines of the file."""
        self._known: dict[str, str] = {}
        self.consistent = True
        for old, found in pairs:
            if not old.strip():
                continue
            before, after = indentation(old), indentation(found)
            self.consistent &= self._known.setdefault(before, after) == after
        widths = sorted((len(before), len(after)) for before, after in self._known.items())
        self.consistent &= [after for _, after in widths] == sorted(after for _, after in widths)
        self._steps = self._find_steps(sorted(self._known, key=len))

    def apply(self, line: str) -> str:
        if not line.strip():
            return line
        before = indentation(line)
        return self._map_indentation(before) + line[len(before) :]

    def _map_indentation(self, before: str) -> str:
        if before in self._known:
            return self._known[before]
        bases = [known for known in self._known if before.startswith(known)]
        if bases:
            base = max(bases, key=len)
            return self._known[base] + self._scale(before[len(base) :])
        deeper = [known for known in self._known if known.startswith(before)]
        if not deeper:
            return before
        base = min(deeper, key=len)
        away = self._scale(base[len(before) :])
        return self._known[base].removesuffix(away)

    def _scale(self, rest: str) -> str:
        old, new = self._steps
        if old and len(rest) % len(old) == 0 and rest == old * (len(rest) // len(old)):
            return new * (len(rest) // len(old))
        return rest

    def _find_steps(self, known: Sequence[str]) -> tuple[str, str]:
        """Return one level of indentation in the old text and in the file, or two empty strings."""
        for less, more in itertools.pairwise(known):
            low, high = self._known[less], self._known[more]
            if more.startswith(less) and high.startswith(low) and high != low:
                return more[len(less) :], high[len(low) :]
        if len(known) == 1 and known[0] and self._known[known[0]]:
            return self._single_step(known[0], self._known[known[0]])
        return "", ""

    @staticmethod
    def _single_step(old: str, new: str) -> tuple[str, str]:
        """Derive the level from a single line, where one text has tabs and the other has spaces."""
        if set(old) == set(new) or len(set(old)) > 1 or len(set(new)) > 1:
            return "", ""
        tabs, spaces = (old, new) if "\t" in old else (new, old)
        if len(spaces) % len(tabs):
            return "", ""
        unit = " " * (len(spaces) // len(tabs))
        return ("\t", unit) if old is tabs else (unit, "\t")


def indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


class LineAlignment(msgspec.Struct, frozen=True):
    """Which line of the file corresponds to which old line."""

    old: Sequence[str]
    found: Sequence[str]
    places: dict[int, int]  #: Index of the old line → index of the line of the file.

    @classmethod
    def one_to_one(cls, old: Sequence[str], found: Sequence[str]) -> "LineAlignment":
        return cls(old, found, {index: index for index in range(len(old))})


def merge_change(alignment: LineAlignment, new: Sequence[str]) -> list[str] | None:
    """Return the lines of the file with the change, or None when its place is uncertain.

    Every old line that the change touches must be aligned, without a gap.
    """
    old, found, places = alignment.old, alignment.found, alignment.places
    shift = IndentShift([(old[one], found[other]) for one, other in places.items()])
    result: list[str] = []
    done = 0
    changes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for kind, first, last, start, end in changes:
        if kind == "equal":
            continue
        reach = _replaced_span(places, first, last)
        if reach is None or reach[0] < done:
            return None
        result += found[done : reach[0]]
        result += [shift.apply(line) for line in new[start:end]]
        done = reach[1]
    return [*result, *found[done:]]


def _replaced_span(places: dict[int, int], first: int, last: int) -> tuple[int, int] | None:
    """Return the lines of the file that correspond to the old lines `first` to `last`."""
    if last > first:
        touched = [places.get(index, -1) for index in range(first, last)]
        if -1 in touched or touched != list(range(touched[0], touched[0] + len(touched))):
            return None
        return touched[0], touched[-1] + 1
    sides = {places[first - 1] + 1} if first - 1 in places else set()
    if first in places:
        sides.add(places[first])
    return (only := sides.pop(), only) if len(sides) == 1 else None


Key = Callable[[str], str]

_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
_INVISIBLE = late_pattern("[\u200b\u200c\u200d\u2060\ufeff]")
_SPACES = late_pattern(r"[ \t]+")


def plain_typography(text: str) -> str:
    """Replace typographic quotes, dashes and spaces by ASCII; the length stays the same."""
    return text if text.isascii() else text.translate(_TYPOGRAPHY)


def strip_trailing(line: str) -> str:
    return line.rstrip()


def normalize_typography(line: str) -> str:
    line = line.rstrip()
    if line.isascii():
        return line
    line = _INVISIBLE.sub("", plain_typography(line)).replace("…", "...")
    return unicodedata.normalize("NFC", line).rstrip()


def normalize_spacing(line: str) -> str:
    """Collapse runs of spaces after the indentation."""
    line = normalize_typography(line)
    start = indentation(line)
    return start + _SPACES.sub(" ", line[len(start) :])


def normalize_line(line: str) -> str:
    """Collapse runs of spaces and remove the indentation."""
    return _SPACES.sub(" ", normalize_typography(line).strip())


class LineMatcher(msgspec.Struct, frozen=True):
    """One way to compare lines."""

    name: str  #: The ignored difference, as shown to the model.
    key: Key
    shifted: bool = False  #: The indentation may differ, if it does so consistently for all lines.

    def find_all(self, lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
        """Return the index of the first line of each place where `wanted` is found."""
        if not wanted or len(wanted) > len(lines):
            return []
        keys = [self.key(line) for line in lines]
        target = [self.key(line) for line in wanted]
        if not any(target):
            return []
        size = len(target)
        return [
            start
            for start in indexes_of(target[0], keys[: len(keys) - size + 1])
            if keys[start : start + size] == target
            and (
                not self.shifted
                or IndentShift([*zip(wanted, lines[start : start + size], strict=True)]).consistent
            )
        ]


def indexes_of(key: str, keys: Sequence[str]) -> list[int]:
    found: list[int] = []
    start = 0
    while True:
        try:
            start = keys.index(key, start)
        except ValueError:
            return found
        found.append(start)
        start += 1


TRAILING = LineMatcher("spaces at line ends", strip_trailing)
TYPOGRAPHY = LineMatcher("quotes and dashes", normalize_typography)
SPACING = LineMatcher("the amount of spaces", normalize_spacing)
INDENTATION = LineMatcher("indentation", normalize_line, shifted=True)
LINE_MATCHERS = (TRAILING, TYPOGRAPHY, SPACING, INDENTATION)
"""From strict to loose; each ignores all that the previous one does."""


# Similar blocks are the last steps, and only for a single place. The lines that the change touches
# must be in the file word for word (except spaces and quotes); only context lines may differ, and
# those stay as they are in the file.
MIN_BLOCK_SCORE = 80.0  #: Minimum similarity, of 100, of a block with equal first and last lines.
MIN_LINE_SCORE = 70.0  #: Minimum similarity of a single line.
RIVAL_MARGIN = 15.0  #: A second block within this margin makes the best one ambiguous.
MAX_COMPARISONS = 5_000_000  #: Line comparisons; a step that needs more is skipped.
SHOWN_LINES = 12  #: For the closest block in an error.


class SimilarBlock(msgspec.Struct, frozen=True):
    first: int
    last: int  #: Exclusive.
    new: list[str]
    score: float


def find_anchored(
    lines: Sequence[str], old: Sequence[str], new: Sequence[str]
) -> list[SimilarBlock]:
    """Return blocks with the same first and last line and similar lines between them."""
    keys, wanted = [normalize_line(line) for line in lines], [normalize_line(line) for line in old]
    if len(wanted) < 3 or len(re.findall(r"\w", wanted[0])) < 3 or not wanted[-1]:
        return []
    slack = max(1, len(wanted) // 4)
    blocks: list[SimilarBlock] = []
    for start in indexes_of(wanted[0], keys):
        ends = range(start + max(2, len(wanted) - slack), start + len(wanted) + slack + 1)
        found = [
            block
            for end in ends
            if end <= len(keys) and keys[end - 1] == wanted[-1]
            if (block := _score_block(lines, keys, (start, end), old, wanted, new))
        ]
        if found:
            blocks.append(max(found, key=lambda block: block.score))
    return _best_blocks(blocks)


def _score_block(
    lines: Sequence[str],
    keys: Sequence[str],
    span: tuple[int, int],
    old: Sequence[str],
    wanted: Sequence[str],
    new: Sequence[str],
) -> SimilarBlock | None:
    first, last = span
    score = _ratio("\n".join(wanted), "\n".join(keys[first:last]))
    matcher = difflib.SequenceMatcher(None, wanted, keys[first:last], autojunk=False)
    matching = matcher.get_matching_blocks()
    places = {block.a + n: block.b + n for block in matching for n in range(block.size)}
    if score < MIN_BLOCK_SCORE or len(places) * 2 < len(wanted):
        return None
    result = merge_change(LineAlignment(old, lines[first:last], places), new)
    return None if result is None else SimilarBlock(first, last, result, score)


def find_similar(
    lines: Sequence[str], old: Sequence[str], new: Sequence[str]
) -> list[SimilarBlock]:
    """Return blocks of the same length in which few lines differ, none by a word or number."""
    size = len(old)
    if size < 4 or len(lines) * size > MAX_COMPARISONS:
        return []
    keys, wanted = [normalize_line(line) for line in lines], [normalize_line(line) for line in old]
    allowed = max(1, size // 5)
    blocks: list[SimilarBlock] = []
    for first in range(len(keys) - size + 1):
        here = keys[first : first + size]
        differing = [n for n in range(size) if wanted[n] != here[n]]
        if len(differing) > allowed or not all(
            _is_similar_line(wanted[n], here[n]) for n in differing
        ):
            continue
        places = {n: n for n in range(size) if n not in differing}
        result = merge_change(LineAlignment(old, lines[first : first + size], places), new)
        if result is not None:
            score = _ratio("\n".join(wanted), "\n".join(here))
            blocks.append(SimilarBlock(first, first + size, result, score))
    return _best_blocks(blocks)


def _is_similar_line(one: str, other: str) -> bool:
    """True when the words of one line contain those of the other, and the lines are similar."""
    words, others = set(re.findall(r"\w+", one)), set(re.findall(r"\w+", other))
    return (words <= others or others <= words) and _ratio(one, other) >= MIN_LINE_SCORE


def _best_blocks(blocks: list[SimilarBlock]) -> list[SimilarBlock]:
    """Return the best block and all within `RIVAL_MARGIN` of it."""
    best = max((block.score for block in blocks), default=0.0)
    return [block for block in blocks if block.score >= best - RIVAL_MARGIN]


def closest_block(lines: Sequence[str], old: Sequence[str]) -> tuple[int, int] | None:
    """Return the span of lines most similar to `old`, or None."""
    wanted = [normalize_line(line) for line in old]
    telling = max(range(len(wanted)), key=lambda n: len(wanted[n]))
    if not wanted[telling]:
        return None
    keys = [normalize_line(line) for line in lines]
    from rapidfuzz import fuzz, process  # slow to load, and most texts match exactly

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
    from rapidfuzz import fuzz  # slow to load, and most texts match exactly

    return float(fuzz.ratio(one, other))


MAX_LISTED = 20  #: Line numbers in the error for an ambiguous text.


class Replacement(msgspec.Struct, frozen=True):
    """The text to replace and the new text."""

    old: str
    new: str

    @property
    def old_lines(self) -> list[str]:
        return _lines(self.old)

    @property
    def new_lines(self) -> list[str]:
        return [] if not self.new and self.old.endswith("\n") else _lines(self.new)


class LocatedEdits(msgspec.Struct, frozen=True):
    edits: list[Edit]
    ignored: str = ""  #: The difference that was ignored to find the text; "" for an exact match.


Strategy = Callable[[TextLines, Replacement], list[Edit]]


def locate(text: str, old: str, new: str, *, replace_all: bool = False) -> LocatedEdits:
    """Return the edits that replace `old` by `new`; raise `ToolError` when the place is unclear."""
    if not old.strip("\n"):
        raise ToolArgumentsInvalid(
            "old_string is empty", hint="write_file creates a new file or replaces a whole one"
        )
    if old == new:
        raise ToolArgumentsInvalid("old_string and new_string are the same")
    target, wanted = TextLines(text), Replacement(old, new)
    found = _exact(target, wanted)
    ignored, choice = "", True
    for step in () if found else STEPS:
        prepared = step.prepare(wanted)
        if prepared is wanted and step.prepare is not _unchanged:
            continue
        wanted = prepared
        found, ignored, choice = step.find(target, wanted), step.name, step.several
        if found:
            break
    if not found:
        raise _not_found_error(target, wanted)
    if len(found) > 1 and not (replace_all and choice):
        raise _ambiguous_error(target, found, ignored)
    return LocatedEdits(_drop_overlaps(found), ignored)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


def _exact(target: TextLines, wanted: Replacement) -> list[Edit]:
    return _find_all(target.text, wanted.old, wanted.new)


def _find_all(text: str, old: str, new: str) -> list[Edit]:
    found: list[Edit] = []
    start = text.find(old) if old else -1
    while start >= 0:
        found.append(Edit(start, start + len(old), new))
        start = text.find(old, start + len(old))
    return found


def _by_lines(look: LineMatcher, target: TextLines, wanted: Replacement) -> list[Edit]:
    old, new = wanted.old_lines, wanted.new_lines
    edits: list[Edit] = []
    for start in look.find_all(target.lines, old):
        end = start + len(old)
        result = merge_change(LineAlignment.one_to_one(old, target.lines[start:end]), new)
        if result is not None:
            edits.append(target.replace_lines(start, end, result))
    return edits


def _typography(target: TextLines, wanted: Replacement) -> list[Edit]:
    if target.text.isascii() and wanted.old.isascii():
        return []
    if "\n" in wanted.old.rstrip("\n"):
        found = _by_lines(TYPOGRAPHY, target, wanted)
        if found:
            return found
    # Within a line, the common start and end of old and new stay as they are in the file.
    head = _common_length(wanted.old, wanted.new)
    tail = _common_length(wanted.old[head:][::-1], wanted.new[head:][::-1])
    new = wanted.new[head : len(wanted.new) - tail]
    within = [
        Edit(edit.start + head, edit.end - tail, new)
        for edit in _find_all(plain_typography(target.text), plain_typography(wanted.old), "")
    ]
    return within or _by_lines(TYPOGRAPHY, target, wanted)


def _common_length(one: str, other: str) -> int:
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length


_ESCAPE = late_pattern(r"\\([ntr\"'\\])")
_ESCAPE_VALUES = {"n": "\n", "t": "\t", "r": ""}


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPE_VALUES.get(match[1], match[1]), text)


def _escapes(target: TextLines, wanted: Replacement) -> list[Edit]:
    meant = Replacement(_unescape(wanted.old), _unescape(wanted.new))
    if meant.old == wanted.old:
        return []
    return _exact(target, meant) or _by_lines(TRAILING, target, meant)


def _spacing(target: TextLines, wanted: Replacement) -> list[Edit]:
    found = _by_lines(SPACING, target, wanted)
    if found or "\n" in wanted.old:
        return found
    words = plain_typography(wanted.old).split()
    if len(words) < 2:
        return []
    pattern = re.compile(r"[ \t]+".join(map(re.escape, words)))
    return [
        Edit(match.start(), match.end(), wanted.new.strip())
        for match in pattern.finditer(plain_typography(target.text))
    ]


def _by_blocks(
    find: Callable[..., list[SimilarBlock]], target: TextLines, wanted: Replacement
) -> list[Edit]:
    return [
        target.replace_lines(block.first, block.last, block.new)
        for block in find(target.lines, wanted.old_lines, wanted.new_lines)
    ]


_NUMBERED = late_pattern(r"^ *(\d+)\|", re.MULTILINE)


def _strip_line_numbers(wanted: Replacement) -> Replacement:
    """Remove the line numbers of read_file, if every line has one and they are consecutive."""
    numbers = [_NUMBERED.match(line) for line in wanted.old_lines]
    counted = [int(match[1]) for match in numbers if match]
    if len(counted) != len(numbers) or counted != list(
        range(counted[0], counted[0] + len(counted))
    ):
        return wanted
    return Replacement(_NUMBERED.sub("", wanted.old), _NUMBERED.sub("", wanted.new))


def _strip_blank_lines(wanted: Replacement) -> Replacement:
    """Remove blank lines around the old text, and at most as many around the new text."""
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
    return Replacement("\n".join(kept) + "\n", "".join(f"{line}\n" for line in new))


def _unchanged(wanted: Replacement) -> Replacement:
    return wanted


class MatchStep(msgspec.Struct, frozen=True):
    name: str
    find: Strategy
    prepare: Callable[[Replacement], Replacement] = _unchanged
    """Removes what is not part of the text, for this step and all later ones."""
    several: bool = True  #: The step may replace several places at once.


STEPS: Sequence[MatchStep] = (
    MatchStep("line numbers", partial(_by_lines, TRAILING), _strip_line_numbers),
    MatchStep(TRAILING.name, partial(_by_lines, TRAILING)),
    MatchStep("blank lines around it", partial(_by_lines, TRAILING), _strip_blank_lines),
    MatchStep(TYPOGRAPHY.name, _typography),
    MatchStep("escapes such as \\n", _escapes),
    MatchStep(SPACING.name, _spacing),
    MatchStep(INDENTATION.name, partial(_by_lines, INDENTATION)),
    MatchStep("lines in between", partial(_by_blocks, find_anchored), several=False),
    MatchStep("a line of context", partial(_by_blocks, find_similar), several=False),
)


def _drop_overlaps(edits: list[Edit]) -> list[Edit]:
    """Drop edits that overlap the previous one."""
    kept: list[Edit] = []
    for edit in sorted(edits, key=lambda edit: edit.start):
        if not kept or edit.start >= kept[-1].end:
            kept.append(edit)
    return kept


def _ambiguous_error(target: TextLines, found: Sequence[Edit], ignored: str) -> ToolError:
    numbers = [str(target.number_at(edit.start)) for edit in found]
    more = f" and {len(numbers) - MAX_LISTED} more" if len(numbers) > MAX_LISTED else ""
    looked = f", looking past {ignored}" if ignored else ""
    return ToolError(
        f"old_string is there {len(numbers)} times{looked}: at lines "
        f"{', '.join(numbers[:MAX_LISTED])}{more}",
        hint="add lines before or after it that only the right place has"
        + ("" if ignored else ", or set replace_all=true"),
    )


def _not_found_error(target: TextLines, wanted: Replacement) -> ToolError:
    made = target.text.find(wanted.new) if len(wanted.new.strip()) > 9 else -1
    if made >= 0:
        return ToolError(
            f"old_string is not in the file, but new_string is, at line {target.number_at(made)}",
            hint="the change may be there already; read the file",
        )
    span = closest_block(target.lines, wanted.old_lines)
    if span is None:
        return ToolError("old_string is not in the file", hint="read the file first")
    return ToolError(
        f"old_string is not in the file; the closest is\n{number_lines(target.lines, *span)}",
        hint="copy the text to replace from the file as it is",
    )


def number_lines(lines: Sequence[str], first: int, last: int) -> str:
    shown = [
        f"{number}|{display_text(line)[:300]}"
        for number, line in enumerate(lines[first : min(last, first + SHOWN_LINES)], first + 1)
    ]
    return "\n".join(shown)

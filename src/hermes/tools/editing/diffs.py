"""What an edit changed, as a unified diff of bounded size."""

import difflib
from collections.abc import Sequence

from hermes.tools.editing.document import Document, for_model, is_binary

MOST_LINES = 80
MOST_CHARS = 6_000
LONGEST = 300
"""Characters of a line that are shown."""
CONTEXT = 3
MOST_COMPARED = 20_000
"""Changed lines that are worth comparing."""


def unified(before: bytes, after: bytes) -> str:
    """The diff without its two header lines; "" when only line ends differ."""
    if is_binary(before) or is_binary(after):
        return ""
    old, new = (Document(data).text.splitlines() for data in (before, after))
    head = _same(old, new)
    tail = _same(old[head:][::-1], new[head:][::-1])
    changed = max(len(old), len(new)) - head - tail
    if not changed:
        return ""
    if changed > MOST_COMPARED:
        return f"[{len(old)} lines became {len(new)}]"
    first = max(head - CONTEXT, 0)
    cut = max(tail - CONTEXT, 0)
    return _bounded(_hunks(old[first : len(old) - cut], new[first : len(new) - cut], first))


def _same(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines at the start are the same."""
    for count, (one, other) in enumerate(zip(old, new, strict=False)):
        if one != other:
            return count
    return min(len(old), len(new))


def _hunks(old: Sequence[str], new: Sequence[str], above: int) -> list[str]:
    lines: list[str] = []
    for group in difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT):
        (_, start, _, begin, _), (_, _, end, _, finish) = group[0], group[-1]
        lines.append(
            f"@@ -{above + start + 1},{end - start} +{above + begin + 1},{finish - begin} @@"
        )
        for kind, i, j, k, m in group:
            if kind == "equal":
                lines += [f" {line}" for line in old[i:j]]
                continue
            lines += [f"-{line}" for line in old[i:j]]
            lines += [f"+{line}" for line in new[k:m]]
    return lines


def _bounded(lines: list[str]) -> str:
    shown: list[str] = []
    room = MOST_CHARS
    for line in lines[:MOST_LINES]:
        text = for_model(line)
        text = text if len(text) <= LONGEST else f"{text[:LONGEST]} […]"
        room -= len(text)
        if room < 0:
            break
        shown.append(text)
    if len(shown) < len(lines):
        shown.append(f"[… {len(lines) - len(shown)} more lines of the diff]")
    return "\n".join(shown)

"""What is typed, as the input shows it.

Terminals do not agree on how wide some signs are: emoji of several parts, flags, keycaps. A wrong
guess puts everything behind them into wrong columns. They are shown here by their parts, of which
every terminal makes the same; the message keeps what was typed.
"""

import re
from collections.abc import Callable
from itertools import accumulate

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from hermes.tui.cells import cut, width

_FLAG, _LETTER = 0x1F1E6, ord("A")
_HIDDEN = re.compile(
    "[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"  # parts of emoji
    "\u202a-\u202e\u2066-\u2069"  # what turns the direction, also of what stands behind it
    "\u200b\u200e\u200f\u2060\ufeff\u00ad]"
)
_JOINER = "\u200d"
_FIRST_EMOJI = "\u2190"


class Plain(Processor):
    """Shows signs by their parts, and of a suggestion what fits into the row."""

    def __init__(self, margin: Callable[[], int]) -> None:
        self._margin = margin
        """Columns of what stands before a row."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        given = transformation_input
        fragments = self._with_short_suggestion(given.fragments, given.width)
        if all(text.isascii() for _, text, *_ in fragments):
            return Transformation(fragments)
        signs = explode_text_fragments(fragments)
        shown: StyleAndTextTuples = []
        lengths = [0]
        before = ""
        for style, sign, *_ in signs:
            part = _shown(sign, before)
            shown.append((style, part))
            lengths.append(len(part))
            before = sign
        if all(lengths[1:]):
            return Transformation(shown)
        positions = list(accumulate(lengths))
        return Transformation(
            [each for each in shown if each[1]],
            lambda at: positions[min(at, len(positions) - 1)] + max(0, at - len(positions) + 1),
            lambda at: _source(positions, at),
        )

    def _with_short_suggestion(
        self, fragments: StyleAndTextTuples, columns: int
    ) -> StyleAndTextTuples:
        if not fragments or "auto-suggestion" not in fragments[-1][0] or not fragments[-1][1]:
            return fragments
        style, suggestion, *_ = fragments[-1]
        row = max(1, columns - self._margin())
        used = sum(width(text) for _, text, *_ in fragments[:-1])
        return [*fragments[:-1], (style, cut(suggestion, row - used % row - 1))]


def _shown(sign: str, before: str) -> str:
    if sign.isascii() or sign < "\u00ad":
        return sign
    if _FLAG <= ord(sign) < _FLAG + 26:
        return chr(ord(sign) - _FLAG + _LETTER)
    if sign == _JOINER:
        return "" if before >= _FIRST_EMOJI or _HIDDEN.match(before) else sign
    return "" if _HIDDEN.match(sign) else sign


def _source(positions: list[int], at: int) -> int:
    return next((number for number, each in enumerate(positions) if each >= at), at)

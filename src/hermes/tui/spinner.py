"""The line that tells that the agent is at work."""

import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from hermes.tui.cells import cut, width
from hermes.tui.paint import Paint
from hermes.tui.skin import Skin
from hermes.tui.status_bar import duration
from hermes.util.text import many

Phase = Literal["waiting", "thinking", "writing", "tools"]

WORDS: Mapping[Phase, str] = MappingProxyType({"writing": "writing", "tools": "working"})
"""What is done in a phase; in the others it is one of the skin's verbs."""
FAST, SLOW = 0.1, 0.6
"""Seconds of a frame: of one or two columns, which turns, and of a face, which looks around."""
FLAP = 0.6
"""Seconds of a pair of wings."""
STOPS = "ctrl-c stops"


class SpinnerLine:
    """Its faces are all of one width, so that nothing beside them moves."""

    def __init__(self, skin: Skin, paint: Paint, chance: random.Random) -> None:
        spinner = skin.spinner
        self._paint, self._chance = paint, chance
        self._verbs = spinner.thinking_verbs or ("thinking",)
        waiting = len(spinner.waiting_faces)
        faces = _even((*spinner.waiting_faces, *spinner.thinking_faces))
        self._waiting, self._thinking = faces[:waiting], faces[waiting:] or faces
        lefts, rights = (_even([wings[side] for wings in spinner.wings]) for side in (0, 1))
        self._wings = tuple(zip(lefts, rights, strict=True))
        self._turn: float | None = None
        self._verb = ""

    def text(self, now: float, began: float, phase: Phase, tokens: int, columns: int) -> str:
        """One line; what matters least is left out where there is no room. `began` is when the turn
        did: each has a verb of its own."""
        if began != self._turn:
            self._turn, self._verb = began, self._chance.choice(self._verbs)
        passed = max(0.0, now - began)
        face = _frame(self._thinking if phase == "thinking" else self._waiting, passed)
        word = f"{WORDS.get(phase, self._verb)}…"
        left, right = (
            self._wings[int(passed / FLAP) % len(self._wings)] if self._wings else ("", "")
        )
        winged = " ".join(filter(None, (left, word, right)))
        numbers = [duration(int(passed)) if passed >= 60 else f"{int(passed)} s"]
        count = [many(tokens, "token")] if tokens else []
        choices = (
            (face, winged, [*numbers, *count, STOPS]),
            (face, winged, [*numbers, STOPS]),
            (face, word, [*numbers, STOPS]),
            (face, word, numbers),
            ("", word, numbers),
        )
        for parts in choices:
            if sum(map(width, parts[:2])) + width(" · ".join(parts[2])) + 2 <= columns:
                return self._dressed(*parts)
        return cut(word, columns)

    def _dressed(self, face: str, word: str, more: Sequence[str]) -> str:
        paint = self._paint
        words = (paint("accent", face), paint("reasoning", word), paint("dim", " · ".join(more)))
        return " ".join(filter(None, words))


def _even(frames: Sequence[str]) -> tuple[str, ...]:
    """All as wide as the widest."""
    widest = max(map(width, frames), default=0)
    return tuple(frame + " " * (widest - width(frame)) for frame in frames)


def _frame(frames: Sequence[str], passed: float) -> str:
    if not frames:
        return ""
    seconds = FAST if width(frames[0]) <= 2 else SLOW
    return frames[int(passed / seconds) % len(frames)]

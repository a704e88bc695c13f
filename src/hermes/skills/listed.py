"""The list for the prompt, kept from one process to the next: most begin where another began."""

import hashlib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from hermes.skills import index, ranking, visibility, words
from hermes.skills.collection import Skills
from hermes.skills.ranking import used
from hermes.skills.shelf import Shelf
from hermes.skills.skill import Circle
from hermes.skills.usage import Use, Uses

MOST = 8
"""Lists that are kept: of the folders and platforms that were used last."""


def _made_by() -> list[float]:
    """Which code makes lists; it may be another after an update that changed no version."""
    makers = (str(module.__file__) for module in (index, ranking, visibility, words))
    return [Path(file).stat().st_mtime if Path(file).exists() else 0.0 for file in makers]


MADE_BY = _made_by()
"""From the start on: what is loaded stays, whatever becomes of the files."""

_texts = msgspec.json.Decoder(dict[str, str])

log = logging.getLogger(__name__)


class ListedSkills:
    """`file` may be missing, damaged or unwritable: then the list is made each time."""

    def __init__(self, skills: Skills, uses: Uses, file: Path) -> None:
        self._skills, self._uses, self._file = skills, uses, file
        self._last = ("", "")

    def text(self, circle: Circle, budget: int, now: float, hints: Iterable[str] = ()) -> str:
        """See `skills_index`."""
        shelf, uses, named = self._skills.shelf(), self._uses.all(), tuple(hints)
        key = _key(shelf, circle, uses, budget, now, named)
        if key != self._last[0]:
            kept = self._kept()
            text = kept.get(key)
            if text is None:
                text = index.skills_index(shelf, circle, uses, budget, now, named)
                self._keep({key: text, **kept})
            self._last = key, text
        return self._last[1]

    def _kept(self) -> dict[str, str]:
        try:
            return _texts.decode(self._file.read_bytes())
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}

    def _keep(self, texts: Mapping[str, str]) -> None:
        """Not for sure: what comes out damaged is made again."""
        newest = dict(list(texts.items())[:MOST])
        try:
            if self._file.parent.is_dir():
                self._file.write_bytes(msgspec.json.encode(newest))
        except OSError as error:
            log.debug("the list of skills is not kept: %s", error)


def _key(
    shelf: Shelf,
    circle: Circle,
    uses: Mapping[str, Use],
    budget: int,
    now: float,
    hints: tuple[str, ...],
) -> str:
    """All that makes a list what it is, our own code included."""
    made_of = (
        shelf.made_for,
        shelf.rows_sum,
        shelf.categories,
        circle.system,
        [sorted(each) for each in (circle.tools, circle.toolsets, circle.disabled)],
        [(name, used(use, now)) for name, use in uses.items() if use.count],
        budget,
        hints,
        MADE_BY,
    )
    return hashlib.sha256(msgspec.json.encode(made_of)).hexdigest()

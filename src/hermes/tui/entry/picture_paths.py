"""Paths of pictures, while one is being typed."""

import os
from itertools import islice
from pathlib import Path

from hermes.tui.entry.offers import Offer

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
MOST_ENTRIES = 5_000
"""Of a folder that are looked at."""


def pictures_in(place: str, folder: Path) -> list[Offer]:
    """Folders and pictures in `place`, which is relative to `folder`, ends with `/` unless it is
    empty, and stands before each of them. Hidden ones are left out."""
    try:
        with os.scandir(folder / Path(place).expanduser()) as entries:
            found = [
                (not entry.is_dir(), entry.name)
                for entry in islice(entries, MOST_ENTRIES)
                if (entry.name.lower().endswith(SUFFIXES) or entry.is_dir())
                and not entry.name.startswith(".")
                and entry.name.isprintable()
            ]
    except (OSError, RuntimeError, ValueError):  # no such folder, the home of nobody
        return []
    return [Offer(f"{place}{name}{'' if file else '/'}") for file, name in sorted(found)]

"""What somebody may have meant by a path that is not there."""

import difflib
import os
from itertools import islice
from pathlib import Path

from hermes.app.references.blocks import one_line
from hermes.app.references.places import at_home, holds_secrets
from hermes.security import PathGuard

MOST_NAMES = 5_000


def similar_name(path: str, folder: Path, guard: PathGuard) -> str:
    """The nearest name in the same folder, written like `path`; "" when none is near."""
    head, _, name = path.rpartition("/")
    start = Path(folder, at_home(f"{head}/" if head or path.startswith("/") else "", guard))
    try:
        with os.scandir(start) as entries:
            names = [entry.name for entry in islice(entries, MOST_NAMES)]
    except OSError:
        return ""
    by_lower = {each.lower(): each for each in names if not holds_secrets((each.casefold(),))}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return one_line(f"{head}/{by_lower[near[0]]}" if head else by_lower[near[0]]) if near else ""

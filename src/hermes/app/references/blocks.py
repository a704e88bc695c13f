"""How what is attached is written down, so that nothing in it can pretend to be something else."""

import re

HEADING = "--- Attached Context ---"
_RUNS = re.compile("`{3,}")
_SUFFIX = re.compile(r"\.([A-Za-z0-9+]{1,12})")


def fenced_text(text: str, suffix: str = "") -> str:
    """`text` in a fence that is longer than any in it; `suffix` (`.py`) names the language."""
    fence = "`" * max([3, *(len(run) + 1 for run in _RUNS.findall(text))])
    language = found[1].lower() if (found := _SUFFIX.fullmatch(suffix)) else ""
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def one_line(text: str) -> str:
    """A name as text on one line: a line break or an undecodable byte in it as an escape."""
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown
    )

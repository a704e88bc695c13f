"""Text with the roles it is painted in."""

from collections.abc import Iterable

from hermes.tui.paint import Depth, Paint
from hermes.tui.wrapping import Range

Roles = tuple[str, ...]
Run = tuple[str, Roles]
"""A piece of text and its roles, the outermost first."""

STRIKE = "strike"


def plain(runs: Iterable[Run]) -> str:
    return "".join([text for text, _ in runs])


def add(runs: list[Run], text: str, roles: Roles) -> None:
    """Put `text` behind the runs, into the last one if it looks the same."""
    if not text:
        return
    if runs and runs[-1][1] == roles:
        runs[-1] = (runs[-1][0] + text, roles)
    else:
        runs.append((text, roles))


def dress(paint: Paint, text: str, roles: Roles) -> str:
    """Each line is dressed on its own, so that nothing of it reaches the next one."""
    if not text or paint.depth is Depth.NONE:
        return text
    for role in reversed(roles):
        text = f"\x1b[9m{text}\x1b[0m" if role == STRIKE else paint(role, text)
    return text


def painted(paint: Paint, runs: list[Run], ranges: list[Range]) -> list[str]:
    """The ranges of the text of `runs`, which follow each other, as painted lines."""
    lines = []
    index = at = 0  # the run that the line begins in, and where that run begins
    for start, end in ranges:
        line = []
        while at < end:
            text, roles = runs[index]
            line.append(dress(paint, text[max(0, start - at) : end - at], roles))
            if at + len(text) > end:
                break
            at += len(text)
            index += 1
        lines.append("".join(line))
    return lines


def without(runs: list[Run], count: int) -> list[Run]:
    """The runs without their first `count` characters."""
    for index, (text, roles) in enumerate(runs):
        if count < len(text):
            return [(text[count:], roles), *runs[index + 1 :]]
        count -= len(text)
    return []

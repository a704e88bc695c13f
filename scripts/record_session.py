"""Records a conversation as pictures, docs/images/session*.svg.

The program runs for real, in a pseudo-terminal and in a folder made for it; its tools
really run. Only the model is scripted, and text that differs between runs is replaced.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyte

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, StepLike

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SHAPES = {
    "session": (92, 46, "dark"),
    "session-wide": (120, 35, "dark"),
    "session-wide-light": (120, 35, "light"),
    "session-narrow": (60, 20, "dark"),
    "session-narrow-light": (60, 20, "light"),
}
"""Columns, rows and background of each picture."""

PRICES = """\
def total(prices, discount=0):
    return sum(prices) - discount / 100
"""
CHECK = """\
import sys
from prices import total

for discount, wanted in {0: 50, 10: 45}.items():
    if (found := total([20, 30], discount)) != wanted:
        sys.exit(f"a discount of {discount} % gives {found}, not {wanted}")
print("2 checks passed")
"""
ANSWER = """\
The discount was divided by 100 but never applied to the sum. Now it is a share of it:

- `total([20, 30], 10)` gives **45.0**
- both checks in `check.py` pass
"""
SETTINGS = "sessions: {{auto_title: false}}\ndisplay: {{background: {background}}}\n"


def call(number: int, tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"call_{number}", tool, json.dumps(arguments))


SCRIPT: tuple[StepLike, ...] = (
    [Text("I run the check first."), call(1, "terminal", command="python3 check.py")],
    call(2, "read_file", path="prices.py"),
    call(
        3,
        "patch",
        path="prices.py",
        old_string="sum(prices) - discount / 100",
        new_string="sum(prices) * (1 - discount / 100)",
    ),
    call(4, "terminal", command="python3 check.py"),
    ANSWER,
    call(5, "terminal", command="rm -rf build dist"),
)
QUESTIONS = ("the check fails, find out why and fix it", "good, now remove the build folders")

STEADY = (
    (re.compile(r"\d{8}_\d{6}_[0-9a-f]{8}"), "20260101_120000_1a2b3c4d"),
    (re.compile(r"\b\d\.\d s\b"), "0.1 s"),
    (re.compile(r"committed [0-9a-f]{7}"), "committed 1a2b3c4"),
    (re.compile(r"cache \d+%"), "cache 83%"),
)
"""Text that differs between runs, and its replacement."""


def record(columns: int, rows: int, background: str) -> list[list[Any]]:
    """Return the cells of the screen, row by row, when approval is requested."""
    with tempfile.TemporaryDirectory() as folder, ModelServer(list(SCRIPT)) as server:
        work, home = Path(folder, "shop"), Path(folder, "home")
        for path in (work, home, work / "build"):
            path.mkdir()
        (work / "prices.py").write_text(PRICES)
        (work / "check.py").write_text(CHECK)
        (home / "config.yaml").write_text(SETTINGS.format(background=background))
        (work / ".git").mkdir()
        (work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        given = ["--base-url", f"{server.url}/v1", "--model", "demo-model"]
        chat = import_module("tests.screens.chat").Chat(
            ["chat", *given], work, columns=columns, rows=rows,
            HOME=folder, HERMES_HOME=str(home), COLORTERM="truecolor",
        )  # fmt: skip
        try:
            chat.ready()
            chat.ask(QUESTIONS[0], "both checks")
            chat.say(QUESTIONS[1])
            chat.sees("[o] once")
            return cells(chat.settled(0.05).screen)
        finally:
            chat.close()


def cells(screen: pyte.Screen) -> list[list[Any]]:
    """Return the cells of the screen, row by row, without the empty rows at its end."""
    rows = [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]
    while rows and not "".join(cell.data for cell in rows[-1]).strip():
        rows.pop()
    return [steady(row) for row in rows]


def steady(row: list[Any]) -> list[Any]:
    """Return the row with the text that differs between runs replaced."""
    for pattern, instead in STEADY:
        text = "".join(cell.data or "\0" for cell in row)  # the second half of a wide sign is empty
        found = pattern.search(text)
        if found:
            look = row[found.start()]
            put = [look._replace(data=sign) for sign in instead]
            row = [*row[: found.start()], *put, *row[found.end() :]]
    return row


WIDE, HIGH, MARGIN, BAR = 8.4, 18, 18, 34
"""Sizes of a cell, of the margin and of the bar above the screen, in pixels."""
THEMES = {"dark": ("#16161e", "#c8ccd8", "#7b8094"), "light": ("#fbfbf8", "#2b2f36", "#6a6f78")}
"""The colours of the background, of text and of faint text."""
NAMED = {
    "black": "#414868", "red": "#f7768e", "green": "#9ece6a", "brown": "#e0af68",
    "blue": "#7aa2f7", "magenta": "#bb9af7", "cyan": "#7dcfff", "white": "#c8ccd8",
    "brightblack": "#7b8094",
}  # fmt: skip
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" \
viewBox="0 0 {width:g} {height:g}" role="img" aria-label="A conversation with Hermes in a terminal">
<rect width="100%" height="100%" rx="10" fill="{paper}"/>
<g fill="#414868"><circle cx="20" cy="18" r="6"/><circle cx="40" cy="18" r="6"/>\
<circle cx="60" cy="18" r="6"/></g>
<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" \
font-size="14" fill="{ink}">
"""


def svg(rows: list[list[Any]], columns: int, background: str) -> str:
    width, height = columns * WIDE + 2 * MARGIN, len(rows) * HIGH + MARGIN + BAR
    theme = THEMES[background]
    head = HEAD.format(width=round(width), height=height, paper=theme[0], ink=theme[1])
    places = ((row, BAR + (y + 1) * HIGH) for y, row in enumerate(rows))
    lines = (piece for row, y in places for piece in drawn(row, y, theme))
    return head + "\n".join(lines) + "\n</g>\n</svg>\n"


Theme = tuple[str, str, str]


def drawn(row: list[Any], y: int, theme: Theme) -> Iterator[str]:
    """Yield the texts of a row by style, each with its place and width, because fonts differ."""
    paper, ink, _ = theme
    at = 0
    for look, held in groupby(row, key=lambda cell: cell._replace(data="")):
        run = list(held)
        text, columns = "".join(cell.data for cell in run), len(run)
        start, at = at, at + columns
        if look.bg != "default" or look.reverse:
            box = f'x="{MARGIN + start * WIDE:g}" y="{y - 14}" height="{HIGH}"'
            fill = colour(look.fg, ink) if look.reverse else colour(look.bg, paper)
            yield f'<rect {box} width="{columns * WIDE:g}" fill="{fill}"/>'
        kept = text.rstrip()
        if not kept.strip():
            continue
        lead = len(kept) - len(kept.lstrip())
        taken = columns - (len(text) - len(kept)) - lead
        place = f'x="{MARGIN + (start + lead) * WIDE:.5g}" y="{y}"'
        size = f'textLength="{taken * WIDE:.5g}" lengthAdjust="spacingAndGlyphs"'
        shown = escape(kept.strip().replace(" ", "\N{NO-BREAK SPACE}"))  # others are joined
        yield f"<text {place} {size}{dress(look, theme)}>{shown}</text>"


def dress(look: Any, theme: Theme) -> str:
    paper, ink, faint = theme
    fill = colour(look.fg, faint if look.strikethrough else ink)
    if look.reverse:
        fill = colour(look.bg, paper)
    parts = [f' fill="{fill}"'] if fill != ink else []
    parts += [' font-weight="bold"'] if look.bold else []
    parts += [' font-style="italic"'] if look.italics else []
    parts += [' text-decoration="underline"'] if look.underscore else []
    return "".join(parts)


def colour(name: str, usual: str) -> str:
    if name == "default":
        return usual
    return NAMED.get(name) or (f"#{name}" if re.fullmatch("[0-9a-f]{6}", name) else usual)


def main() -> int:
    parser = argparse.ArgumentParser(description="Record docs/images/session*.svg.")
    parser.add_argument("--to", type=Path, default=IMAGES, metavar="FOLDER", help="write there")
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT))  # for the emulated terminal of the tests
    args.to.mkdir(parents=True, exist_ok=True)
    for name, (columns, rows, background) in SHAPES.items():
        picture = svg(record(columns, rows, background), columns, background)
        (args.to / f"{name}.svg").write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

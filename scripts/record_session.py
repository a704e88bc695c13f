"""Records a conversation as a picture, docs/images/session.svg.

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
PICTURE = ROOT / "docs" / "images" / "session.svg"
COLUMNS, ROWS = 92, 46

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
SETTINGS = "sessions: {auto_title: false}\n"


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
    (re.compile(r"^.{5,10} +working… \d+ s"), "(◕‿◕✿) working… 0 s"),
    (re.compile(r"· \d+ s"), "· 0 s"),
    (re.compile(r"[█░]{8} +\d+%"), "█░░░░░░░ 6%"),
    (re.compile(r"cache \d+%"), "cache 83%"),
)
"""Text that differs between runs, and its replacement."""


def record() -> list[list[Any]]:
    """Return the cells of the screen, row by row, when approval is requested."""
    with tempfile.TemporaryDirectory() as folder, ModelServer(list(SCRIPT)) as server:
        work, home = Path(folder, "shop"), Path(folder, "home")
        for path in (work, home, work / "build"):
            path.mkdir()
        (work / "prices.py").write_text(PRICES)
        (work / "check.py").write_text(CHECK)
        (home / "config.yaml").write_text(SETTINGS)
        given = ["--base-url", f"{server.url}/v1", "--model", "demo-model"]
        chat = import_module("tests.screens.chat").Chat(
            ["chat", *given], work, columns=COLUMNS, rows=ROWS,
            HOME=folder, HERMES_HOME=str(home), COLORTERM="truecolor",
        )  # fmt: skip
        try:
            chat.ready()
            chat.ask(QUESTIONS[0], "both checks")
            chat.say(QUESTIONS[1])
            chat.sees("[o] once")
            while chat.look(0.05):  # until the frame is complete
                pass
            return cells(bytes(chat.raw))
        finally:
            chat.close()


def cells(raw: bytes) -> list[list[Any]]:
    """Return the cells that a screen shows for `raw`. pyte does not support faint text, so it gets
    struck-out text instead, which the program never writes."""
    faint = re.compile(rb"\x1b\[2(?=[;m])")
    screen = pyte.Screen(COLUMNS, ROWS)
    pyte.ByteStream(screen).feed(faint.sub(b"\x1b[9", raw))
    rows = [[screen.buffer[y][x] for x in range(COLUMNS)] for y in range(ROWS)]
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
PAPER, INK, FAINT = "#16161e", "#c8ccd8", "#7b8094"
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


def svg(rows: list[list[Any]]) -> str:
    width, height = COLUMNS * WIDE + 2 * MARGIN, len(rows) * HIGH + MARGIN + BAR
    head = HEAD.format(width=round(width), height=height, paper=PAPER, ink=INK)
    lines = (piece for y, row in enumerate(rows) for piece in drawn(row, BAR + (y + 1) * HIGH))
    return head + "\n".join(lines) + "\n</g>\n</svg>\n"


def drawn(row: list[Any], y: int) -> Iterator[str]:
    """Yield the texts of a row by style, each with its place and width, because fonts differ."""
    at = 0
    for look, held in groupby(row, key=lambda cell: cell._replace(data="")):
        run = list(held)
        text, columns = "".join(cell.data for cell in run), len(run)
        start, at = at, at + columns
        if look.bg != "default" or look.reverse:
            box = f'x="{MARGIN + start * WIDE:g}" y="{y - 14}" height="{HIGH}"'
            paper = colour(look.fg, INK) if look.reverse else colour(look.bg, PAPER)
            yield f'<rect {box} width="{columns * WIDE:g}" fill="{paper}"/>'
        kept = text.rstrip()
        if not kept.strip():
            continue
        lead = len(kept) - len(kept.lstrip())
        taken = columns - (len(text) - len(kept)) - lead
        place = f'x="{MARGIN + (start + lead) * WIDE:.5g}" y="{y}"'
        size = f'textLength="{taken * WIDE:.5g}" lengthAdjust="spacingAndGlyphs"'
        shown = escape(kept.strip().replace(" ", "\N{NO-BREAK SPACE}"))  # others are joined
        yield f"<text {place} {size}{dress(look)}>{shown}</text>"


def dress(look: Any) -> str:
    ink = colour(look.fg, FAINT if look.strikethrough else INK)
    if look.reverse:
        ink = colour(look.bg, PAPER)
    parts = [f' fill="{ink}"'] if ink != INK else []
    parts += [' font-weight="bold"'] if look.bold else []
    parts += [' font-style="italic"'] if look.italics else []
    parts += [' text-decoration="underline"'] if look.underscore else []
    return "".join(parts)


def colour(name: str, usual: str) -> str:
    if name == "default":
        return usual
    return NAMED.get(name) or (f"#{name}" if re.fullmatch("[0-9a-f]{6}", name) else usual)


def main() -> int:
    parser = argparse.ArgumentParser(description="Record docs/images/session.svg.")
    parser.add_argument("--to", type=Path, default=PICTURE, metavar="FILE", help="write it here")
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT))  # for the emulated terminal of the tests
    args.to.parent.mkdir(parents=True, exist_ok=True)
    args.to.write_text(svg(record()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

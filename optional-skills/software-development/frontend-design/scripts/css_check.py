"""Check the style of a page: contrast of colours, tokens, sizes, and habits that look machine-made.

  css_check.py style.css page.html
  css_check.py --contrast "#6b7280" "#ffffff"

Reads CSS files and <style> of HTML files. Contrast is computed as WCAG 2 does: 4.5 for text, 3 for
large text and controls. Exit code: 0 nothing found, 1 findings, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import colorsys
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

NAMED = {
    "white": "#ffffff", "black": "#000000", "gray": "#808080", "grey": "#808080", "red": "#ff0000",
    "blue": "#0000ff", "green": "#008000", "silver": "#c0c0c0", "navy": "#000080",
    "yellow": "#ffff00", "orange": "#ffa500", "purple": "#800080", "whitesmoke": "#f5f5f5",
}  # fmt: skip
COLOR = re.compile(
    r"#[0-9a-fA-F]{3,8}\b|rgba?\([^)]*\)|hsla?\([^)]*\)|\b(?:" + "|".join(NAMED) + r")\b"
)
RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,[^()]*)?\)")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
TEXT, LARGE = 4.5, 3.0
MOST_COLORS, MOST_SIZES = 24, 10

Color = tuple[float, float, float]


class Problem(Exception):
    """Something the user has to correct."""


def parse(text: str) -> Color | None:
    """Red, green and blue from 0 to 1; None for what is transparent or not known."""
    value = NAMED.get(text.strip().lower(), text.strip().lower())
    digits = value.removeprefix("#")
    if value.startswith("#") and re.fullmatch(r"[0-9a-f]+", digits):
        if len(digits) in (3, 4):
            digits = "".join(2 * digit for digit in digits)
        if len(digits) == 8 and digits[6:] != "ff":
            return None
        if len(digits) in (6, 8):
            return tuple(int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))  # type: ignore[return-value]  # three
        return None
    found = re.findall(r"-?\d+(?:\.\d+)?%?", value)
    if len(found) == 4 and found[3] not in ("1", "100%", "1.0"):
        return None
    if value.startswith("rgb") and len(found) >= 3:
        return tuple(  # type: ignore[return-value]  # three
            float(each.rstrip("%")) / (100 if each.endswith("%") else 255) for each in found[:3]
        )
    if value.startswith("hsl") and len(found) >= 3:
        hue, full, light = (float(each.rstrip("%")) for each in found[:3])
        return colorsys.hls_to_rgb(hue / 360 % 1, light / 100, full / 100)
    return None


def luminance(color: Color) -> float:
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(first: Color, second: Color) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def css_of(file: Path) -> str:
    text = file.read_text("utf-8-sig")
    if file.suffix.lower() in (".html", ".htm", ".vue", ".svelte"):
        text = "\n".join(re.findall(r"(?is)<style[^>]*>(.*?)</style>", text))
    return COMMENT.sub("", text)


def declarations(body: str) -> dict[str, str]:
    pairs = (each.partition(":") for each in body.split(";"))
    return {name.strip().lower(): value.strip() for name, sign, value in pairs if sign}


class Sheet:
    """All rules of some files; variables are replaced by what they stand for."""

    def __init__(self, css: str) -> None:
        self.css = css
        self.rules = [(" ".join(s.split()), declarations(body)) for s, body in RULE.findall(css)]
        self.variables = {
            name: value
            for _, body in self.rules
            for name, value in body.items()
            if name.startswith("--")
        }

    def resolved(self, value: str, depth: int = 0) -> str:
        def known(found: re.Match[str]) -> str:
            return self.resolved(self.variables.get(found[1], found[0]), depth + 1)

        return VARIABLE.sub(known, value) if depth < 8 else value

    def color(self, body: dict[str, str], *names: str) -> Color | None:
        for name in names:
            found = COLOR.search(self.resolved(body.get(name, "")))
            if found:
                return parse(found[0])
        return None


def contrast_findings(sheet: Sheet) -> Iterator[str]:
    page = next((body for name, body in sheet.rules if name in ("body", "html", ":root")), {})
    for selector, body in sheet.rules:
        ink = sheet.color(body, "color")
        paper = sheet.color(body, "background-color", "background")
        paper = paper or sheet.color(page, "background-color", "background") or (1.0, 1.0, 1.0)
        if ink is None or "gradient" in body.get("background", ""):
            continue
        ratio = contrast(ink, paper)
        size = re.match(r"([\d.]+)(px|rem)", sheet.resolved(body.get("font-size", "")))
        pixels = float(size[1]) * (16 if size[2] == "rem" else 1) if size else 16.0
        if ratio < (LARGE if pixels >= 24 else TEXT):
            yield f"contrast {ratio:.1f} is too low: {selector[:60]}"


def habit_findings(sheet: Sheet) -> Iterator[str]:
    css = sheet.css.lower()
    used = Counter(found.lower() for found in COLOR.findall(VARIABLE.sub("", css)))
    if len(used) > MOST_COLORS:
        yield f"{len(used)} colours: choose a palette and use variables"
    sizes = set(re.findall(r"font-size:\s*([^;}]+)", css))
    if len(sizes) > MOST_SIZES:
        yield f"{len(sizes)} font sizes: take a scale of six or seven"
    if len(sheet.rules) > 15 and not sheet.variables:
        yield "no custom properties (--name): colours and spaces cannot be changed in one place"
    if re.search(r"outline:\s*(?:none|0)\b", css) and ":focus-visible" not in css:
        yield "outline is removed and :focus-visible is not styled: keyboard users are lost"
    if re.search(r"transition|animation", css) and "prefers-reduced-motion" not in css:
        yield "motion without prefers-reduced-motion"
    if sheet.rules and "@media" not in css and "clamp(" not in css and "grid" not in css:
        yield "nothing adapts to the width of the window"
    purple = re.findall(r"linear-gradient\([^)]*#(?:667eea|764ba2|8b5cf6|6366f1)", css)
    if purple:
        yield "the purple gradient of every generated page: choose colours of the subject"
    small = re.findall(r"font-size:\s*(\d+(?:\.\d+)?)px", css)
    if any(float(each) < 12 for each in small):
        yield "text below 12 pixels"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help="CSS or HTML")
    parser.add_argument("--contrast", nargs=2, metavar=("TEXT", "BACKGROUND"))
    options = parser.parse_args()
    if not options.files and not options.contrast:
        parser.error("name a file, or two colours with --contrast")
    return options


def main() -> int:
    options = arguments()
    try:
        if options.contrast:
            colors = [parse(each) for each in options.contrast]
            if None in colors:
                raise Problem(f"not a colour: {options.contrast[colors.index(None)]}")
            ratio = contrast(*colors)  # type: ignore[arg-type]
            words = (
                "text" if ratio >= TEXT else "large text only" if ratio >= LARGE else "not for text"
            )
            print(f"{ratio:.2f}: {words}")
            return 0 if ratio >= TEXT else 1
        sheet = Sheet("\n".join(map(css_of, options.files)))
    except UnicodeError:
        print("error: a file is no UTF-8 text", file=sys.stderr)
        return 2
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found = [*contrast_findings(sheet), *habit_findings(sheet)]
    for finding in found:
        print(f"!! {finding}")
    print(f"{len(sheet.rules)} rules, {len(sheet.variables)} variables, {len(found)} finding(s)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())

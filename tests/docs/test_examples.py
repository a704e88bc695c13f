"""The examples in README.md and docs/ run and print what the pages say they print.

- A ```python block is a program of its own; it must end without an error.
- A ```console block holds `$ hermes ...` lines, each followed by what it prints (both streams);
  `...` stands for any text. The lines of one block share a home and a working folder.
- A block with `<!-- not run: reason -->` on the line above is left alone.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cases import cases

CASES = cases(__file__)

REPO = Path(__file__).parents[2]
BLOCK = re.compile(
    r"(?P<marker><!-- not run: (?P<reason>[^>]+?) -->\n\s*)?"
    r"^(?P<indent> *)```(?P<language>python|console)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
OURS = re.compile(r"^(\./)?hermes\b")


@dataclass(frozen=True)
class Example:
    """One block of a page that is to be run."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str, text: str) -> Iterator[Example]:
    """The blocks of a page that are not marked as not run."""
    for found in BLOCK.finditer(text):
        if found["marker"] is None:
            line = text.count("\n", 0, found.start("text")) + 1
            lines = (part.removeprefix(found["indent"]) for part in found["text"].splitlines(True))
            yield Example(page, line, found["language"], "".join(lines))


def examples(language: str) -> list[Example]:
    pages = [REPO / "README.md", *sorted((REPO / "docs").rglob("*.md"))]
    return [
        example
        for page in pages
        if page.exists()
        for example in blocks(page.relative_to(REPO).as_posix(), page.read_text("utf-8"))
        if example.language == language
    ]


def matches(expected: str, printed: str) -> bool:
    """Whether `printed` is `expected`, where `...` stands for any text, also over lines."""
    parts = [re.escape(part.strip("\n")) for part in expected.strip().split("...")]
    return re.fullmatch(r"\s*.*\s*".join(parts), printed.strip(), re.DOTALL) is not None


@pytest.mark.parametrize("example", examples("python"), ids=lambda e: e.place)
def test_python_block_runs(example: Example, tmp_path: Path) -> None:
    padded = "\n" * (example.line - 1) + example.text  # so that errors name the page's line
    launch = f"exec(compile({padded!r}, {example.page!r}, 'exec'), {{'__name__': '__main__'}})"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", launch],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert result.returncode == 0, f"{example.place}\n{result.stderr}"


@pytest.mark.parametrize("example", examples("console"), ids=lambda e: e.place)
def test_console_block_prints_what_the_page_says(example: Example, tmp_path: Path) -> None:
    commands = list(COMMAND.finditer(example.text))
    assert commands, f"{example.place}: no `$ ` line"
    for found in commands:
        command, expected = found["command"], found["output"]
        assert OURS.match(command), f"{example.place}: only hermes is run; mark the block not run"
        shell = OURS.sub(f"'{sys.executable}' -m hermes", command)
        result = subprocess.run(
            ["sh", "-c", shell],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        assert matches(expected, result.stdout), f"{example.place}: $ {command}\n{result.stdout}"


PAGE = Path(__file__).with_name("page.md").read_text()


def test_blocks_are_found_unless_marked() -> None:
    assert [(e.line, e.language, e.text) for e in blocks("p.md", PAGE)] == [
        (2, "python", "first = 1\n"),
        (13, "console", "$ hermes --version\nhermes ...\n"),
    ]


@pytest.mark.parametrize(("expected", "printed", "same"), CASES["dots"])
def test_dots_stand_for_any_text(expected: str, printed: str, same: bool) -> None:
    assert matches(expected, printed) is same

"""Readers of the data files: programs and their options, and lists of phrases."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec


class Launcher(msgspec.Struct, frozen=True):
    """How a program names the one it starts; see programs.toml."""

    takes_value: str = ""
    long_values: str = ""
    operands: int = 0
    flags: str = ""


class ProgramTables(msgspec.Struct, frozen=True):
    """The content of programs.toml, which explains each table."""

    words: dict[str, str]
    output_options: dict[str, str]
    text_options: dict[str, str]
    command_options: dict[str, str]
    code_letters: dict[str, str]
    value_options: dict[str, str]
    recipe_files: dict[str, str]
    variables: dict[str, str]
    writes_with: dict[str, str]
    reads_only_if: dict[str, str]
    writes_if: dict[str, str]
    git_reads_only_if: dict[str, str]
    plain_subcommands: dict[str, str]
    launchers: dict[str, Launcher]


@cache
def program_tables() -> ProgramTables:
    data = Path(__file__).with_name("programs.toml").read_bytes()
    return msgspec.toml.decode(data, type=ProgramTables)


def word_list(name: str) -> frozenset[str]:
    """Return a list of `[words]` in programs.toml."""
    return frozenset(program_tables().words[name].split())


def split_values(table: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Return a table of options with each value split into words."""
    return {name: tuple(options.split()) for name, options in table.items()}


def join_lines(table: dict[str, str]) -> dict[str, str]:
    """Return a table of patterns without the line breaks in them."""
    return {name: pattern.replace("\n", "") for name, pattern in table.items()}


def read_patterns(file: Path) -> Iterator[tuple[str, str]]:
    """Yield each regular expression of a text file, with the heading above it.

    `= …` is a heading, `# …` a comment. `NAME: …` defines a list, for which `<NAME>` stands. A line
    that begins with four spaces continues the line before it. Groups do not capture.
    """
    lists: dict[str, str] = {}
    heading = ""
    for line in file.read_text("utf-8").replace("\n    ", "").splitlines():
        if not line or line.startswith("#"):
            continue
        expression = re.sub(r"(?<!\\)\((?!\?)", "(?:", line)
        expression = re.sub(r"<([A-Z_]+)>", lambda found: lists[found[1]], expression)
        if line.startswith("= "):
            heading = line.removeprefix("= ")
        elif listed := re.match(r"([A-Z_]+): ", expression):
            lists[listed[1]] = expression[listed.end() :]
        else:
            yield heading, expression

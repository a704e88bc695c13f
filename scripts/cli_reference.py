"""Writes docs/reference/cli.md from the parsers of the command line. `--check` only compares."""

import argparse
import sys
from collections.abc import Iterator

from generated_page import row, write_or_check

from hermes.cli.main import COMMANDS

HEAD = """\
# Command line

Written by `make docs` from the commands themselves; edit those instead. `hermes` without a command
is `hermes chat`, and so is `hermes "PROMPT"`: a first argument with a space in it is a prompt.
Before the command: `-p NAME` uses a profile's home, `-V` shows the version. `hermes help COMMAND`
is `hermes COMMAND --help`; `hermes help --all` lists all commands.
"""


def reference() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for command in COMMANDS:
        parser = command.parser(description=command.summary)
        parser.read_texts()
        parts += section(parser, parser.description or command.summary, level=2)
    return "\n".join(parts)


def section(parser: argparse.ArgumentParser, summary: str, level: int) -> Iterator[str]:
    """Return the heading, description, arguments and subcommands of a command."""
    yield f"{'#' * level} `{parser.prog}`\n"
    yield f"{summary.strip()}\n"
    # argparse has no public list of what was added to a parser.
    actions = [a for a in parser._actions if a.help != argparse.SUPPRESS]  # noqa: SLF001
    groups = [a for a in actions if isinstance(a, argparse._SubParsersAction)]  # noqa: SLF001
    plain = [a for a in actions if a not in groups and a.dest != "help"]
    if plain:
        yield "| argument | meaning |\n|---|---|"
        yield "\n".join(line(action) for action in plain) + "\n"
    for group in groups:
        summaries = {choice.dest: choice.help for choice in group._choices_actions}  # noqa: SLF001
        shown: set[int] = set()
        for name, child in group.choices.items():
            if id(child) in shown:  # another name for the same
                continue
            shown.add(id(child))
            yield from section(child, summaries.get(name) or child.description or "", level + 1)


def line(action: argparse.Action) -> str:
    value = action.metavar or (action.dest.upper() if takes_value(action) else "")
    if action.choices and action.metavar is None:
        value = ",".join(str(choice) for choice in action.choices)
    names = ", ".join(action.option_strings)
    return row(f"`{' '.join(part for part in (names, str(value)) if part)}`", meaning(action))


def takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0


def meaning(action: argparse.Action) -> str:
    """Return the help text with its `%(name)s` placeholders filled in."""
    return (action.help or "") % {**vars(action), "prog": "hermes"}


if __name__ == "__main__":
    sys.exit(write_or_check("cli.md", reference))

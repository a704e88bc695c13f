"""`hermes setup tools`: which toolsets the agent has in the terminal."""

import argparse

from hermes.app.tool_listing import ToolRow, tool_rows
from hermes.app.tools import find_toolsets, switch
from hermes.cli.commands.setup.asking import fresh
from hermes.cli.context import Cli
from hermes.config import edit
from hermes.core.errors import UsageError
from hermes.tools import switch_toolsets

PLATFORM = "cli"


def ask(cli: Cli) -> None:
    while True:
        sets = _by_toolset(cli)
        for number, (name, rows) in enumerate(sets.items(), start=1):
            mark = "✓" if _is_on(rows) else "·"
            cli.say(f"  {number:>2} {mark} {name:<16} {rows[0].purpose}")
        said = cli.ask("  switch which, by number or name, with commas (Enter keeps): ").strip()
        if not said:
            return
        try:
            _switch([_named(one.strip(), list(sets)) for one in said.split(",")], sets, cli)
        except UsageError as error:
            cli.say(f"  {error}")


def apply(args: argparse.Namespace, cli: Cli) -> bool:
    if args.toolsets is None:
        return False
    names = [name.strip() for name in args.toolsets.split(",") if name.strip()]
    known = find_toolsets(fresh(cli).load()).known
    plain = [name for name in names if not name.startswith("-")]
    now = switch_toolsets((), plain, known, on=True)
    now = switch_toolsets(now, [name[1:] for name in names if name not in plain], known, on=False)
    edit.set_value(cli.home, ("platform_toolsets", PLATFORM), now)
    cli.say(f"tools: {', '.join(now) or 'none'}")
    return True


def _by_toolset(cli: Cli) -> dict[str, list[ToolRow]]:
    sets: dict[str, list[ToolRow]] = {}
    for row in tool_rows(fresh(cli).load(), cli.home, PLATFORM):
        sets.setdefault(row.toolset, []).append(row)
    return sets


def _is_on(rows: list[ToolRow]) -> bool:
    return any(row.on for row in rows)


def _named(said: str, names: list[str]) -> str:
    return names[int(said) - 1] if said.isdigit() and 1 <= int(said) <= len(names) else said


def _switch(names: list[str], sets: dict[str, list[ToolRow]], cli: Cli) -> None:
    for name in names:
        on = not _is_on(sets.get(name, []))
        switch(fresh(cli).load(), cli.home, PLATFORM, [name], on=on)

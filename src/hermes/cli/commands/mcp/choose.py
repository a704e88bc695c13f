"""`hermes mcp configure`: which tools of a server the agent has, and how long things may take."""

import argparse
import math
import re
from collections.abc import Collection
from importlib import import_module
from typing import Any

from hermes.cli.actions import Actions
from hermes.cli.commands.mcp.access import cache_of, server_named
from hermes.cli.commands.mcp.look import known_or_asked
from hermes.cli.commands.mcp.wording import examples, tool_rows
from hermes.cli.context import Cli
from hermes.config.settings.abilities import McpServer
from hermes.core.errors import UsageError
from hermes.mcp import RemoteTool, offered_tools

SECONDS = ("timeout", "connect_timeout", "idle_timeout")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def add_actions(actions: Actions) -> None:
    configure = actions.add(
        "configure",
        _configure,
        "choose the tools of a server, switch it on and off",
        aliases=["config"],
        description="Choose which tools of a server the agent has, switch it on and off, and set\n"
        "how long things may take. Without options, on a terminal, a numbered list.",
        epilog=examples(
            "hermes mcp configure github",
            "hermes mcp configure github --include list_issues,create_issue",
            "hermes mcp configure github --timeout 300 --disable",
        ),
    )
    configure.add_argument("name", metavar="NAME")
    tools = configure.add_mutually_exclusive_group()
    tools.add_argument("--include", type=_names, metavar="TOOLS", help="only these, with commas")
    tools.add_argument("--exclude", type=_names, metavar="TOOLS", help="all but these")
    tools.add_argument("--all", action="store_true", help="all of them")
    for what in ("resources", "prompts"):
        configure.add_argument(
            f"--{what}", action=argparse.BooleanOptionalAction, help=f"offer its {what}"
        )
    for setting, words in zip(
        SECONDS, ("a call", "to connect", "idle before it ends"), strict=True
    ):
        flag = f"--{setting.replace('_', '-')}"
        configure.add_argument(flag, type=float, metavar="S", help=f"seconds for {words}")
    switch = configure.add_mutually_exclusive_group()
    switch.add_argument("--enable", action="store_true", help="use it")
    switch.add_argument("--disable", action="store_true", help="keep it, but do not use it")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _configure(args: argparse.Namespace, cli: Cli) -> int:
    settings = server_named(cli, args.name)
    changes = _changes(args, cli, settings)
    if not changes:
        if not cli.interactive:
            raise UsageError(
                "say what to change, for example --include TOOLS",
                hint=f"`hermes mcp configure --help` shows what; `hermes mcp tools {args.name}`"
                " lists the tools",
            )
        chosen = _menu(cli, args.name, settings)
        if chosen is None:
            cli.say("nothing was changed")
            return 0
        changes = chosen
    _write(cli, args.name, changes)
    cli.say(f"{args.name}: {', '.join(_worded(changes))}")
    return 0


def _changes(args: argparse.Namespace, cli: Cli, settings: McpServer) -> dict[str, Any]:
    """Keys below the server and their new values; None takes one out."""
    changes: dict[str, Any] = {}
    for which in ("include", "exclude"):
        wanted = getattr(args, which)
        if wanted is not None:
            _check_known(cli, args.name, settings, wanted)
            changes |= {"tools.include": None, "tools.exclude": None, f"tools.{which}": wanted}
    if args.all:
        changes |= {"tools.include": None, "tools.exclude": None}
    for what in ("resources", "prompts"):
        if getattr(args, what) is not None:
            changes[f"tools.{what}"] = getattr(args, what)
    for setting in SECONDS:
        seconds = getattr(args, setting)
        if seconds is None:
            continue
        if not math.isfinite(seconds) or seconds < 0:
            raise UsageError(f"--{setting.replace('_', '-')} takes a number of seconds, or 0")
        changes[setting] = int(seconds) if seconds.is_integer() else seconds
    if args.enable or args.disable:
        changes["enabled"] = args.enable
    return changes


def _check_known(cli: Cli, name: str, settings: McpServer, wanted: Collection[str]) -> None:
    if not wanted:
        raise UsageError("name at least one tool", hint="--all means all, --disable none")
    catalog = cache_of(cli).load(name, settings)
    if catalog is None:
        cli.note(f"note: the tools of {name} are not known yet, so the names were not checked")
        return
    known = [tool.name for tool in catalog.tools]
    strange = [each for each in wanted if each not in known]
    if strange:
        raise UsageError(
            f"{name} has no tool {', '.join(map(repr, strange))}",
            hint=f"it has: {', '.join(known) or 'none'}",
        )


def _menu(cli: Cli, name: str, settings: McpServer) -> dict[str, Any] | None:
    """What the user chose from a numbered list; None to change nothing."""
    catalog = known_or_asked(cli, name, settings)
    tools = catalog.tools
    if not tools:
        raise UsageError(f"{name} has no tools to choose from")
    chosen = {tool.name for tool in offered_tools(settings, catalog)}
    while True:
        for number, (tool, line) in enumerate(zip(tools, tool_rows(tools), strict=True), 1):
            cli.say(f"{number:>4} {'✓' if tool.name in chosen else '·'} {line}")
        said = cli.ask("numbers to switch, `all`, `none`; empty saves, `q` leaves: ").strip()
        match said.lower():
            case "q":
                return None
            case "all":
                chosen = {tool.name for tool in tools}
            case "none":
                chosen = set()
            case "" if chosen:
                names = [tool.name for tool in tools if tool.name in chosen]
                keys: dict[str, Any] = {"tools.include": None, "tools.exclude": None}
                return keys if len(names) == len(tools) else {**keys, "tools.include": names}
            case "":
                cli.say(f"none is left; `hermes mcp configure {name} --disable` switches it off")
            case _:
                _switch(cli, tools, chosen, said)


def _switch(cli: Cli, tools: tuple[RemoteTool, ...], chosen: set[str], said: str) -> None:
    for word in said.replace(",", " ").split():
        found = _RANGE.fullmatch(word)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= len(tools):
            cli.say(f"{word!r} is not in the list")
            continue
        for tool in tools[first - 1 : last]:
            chosen ^= {tool.name}


def _write(cli: Cli, name: str, changes: dict[str, Any]) -> None:
    edit = import_module("hermes.config.edit")
    for key, value in changes.items():
        parts = ("mcp_servers", name, *key.split("."))
        if value is None:
            edit.unset_value(cli.home, parts)
        else:
            edit.set_value(cli.home, parts, value)


def _worded(changes: dict[str, Any]) -> list[str]:
    words = []
    for key, value in changes.items():
        if key == "enabled":
            words.append("switched on" if value else "switched off")
        elif isinstance(value, list):
            which = "only" if key == "tools.include" else "all but"
            words.append(f"{which} {', '.join(value)}")
        elif value is not None:
            words.append(f"{key.removeprefix('tools.')} {_plain(value)}")
    if changes.get("tools.include", 0) is None and changes.get("tools.exclude", 0) is None:
        words.append("all tools")
    return words


def _plain(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, "") if isinstance(value, bool) else f"{value} s"

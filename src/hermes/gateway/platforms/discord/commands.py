"""Our slash commands in Discord's own menu."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hermes.gateway.platforms.discord.options import SyncPolicy

MOST = 100
"""Commands that Discord takes."""
ARGUMENTS = "arguments"
CHAT_INPUT = 1
STRING = 3
_NAME = re.compile(r"[\w-]{1,32}")
_KEPT = ("id", "type", "name", "description", "options")
"""Of commands that are not ours; what Discord adds by itself it does not take back."""

Command = Mapping[str, Any]


def described(commands: Sequence[tuple[str, str]]) -> list[Command]:
    """As Discord wants them: each takes what follows it as one text."""
    names: dict[str, Command] = {}
    for name, does in commands:
        name = name.removeprefix("/").lower()
        if not _NAME.fullmatch(name) or len(names) == MOST:
            continue
        names[name] = {
            "type": CHAT_INPUT,
            "name": name,
            "description": (does.strip() or name)[:100],
            "options": [
                {
                    "type": STRING,
                    "name": ARGUMENTS,
                    "description": "What the command is to work on",
                }
            ],
        }
    return list(names.values())


def replacement(
    there: Sequence[Command], ours: Sequence[Command], policy: SyncPolicy
) -> list[Command] | None:
    """What Discord's list is to be replaced with; None when it is left alone. `safe` keeps the
    commands that are not ours and writes only when something of ours differs; `bulk` leaves ours
    alone."""
    if policy == "off":
        return None
    if policy == "bulk":
        return list(ours)
    names = {command["name"] for command in ours}
    known = {command["name"]: _essence(command) for command in there}
    if all(known.get(command["name"]) == _essence(command) for command in ours):
        return None
    others = [command for command in there if command["name"] not in names]
    kept = [{key: command[key] for key in _KEPT if key in command} for command in others]
    return [*ours[: MOST - len(kept)], *kept]


def as_text(data: Mapping[str, Any]) -> str:
    """A command that somebody used, as if it had been written."""
    values = [str(option.get("value", "")) for option in data.get("options") or ()]
    return " ".join([f"/{data.get('name', '')}", *values]).strip()


def _essence(command: Command) -> tuple[Any, ...]:
    options = [
        (option["type"], option["name"], option.get("description"), bool(option.get("required")))
        for option in command.get("options") or ()
    ]
    return (command.get("type", CHAT_INPUT), command.get("description"), options)

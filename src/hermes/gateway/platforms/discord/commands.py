"""Our slash commands in Discord's own menu."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hermes.gateway.platforms.discord.options import SyncPolicy

MOST = 100
"""Commands that Discord takes."""
ARGUMENTS = "arguments"
OUR_OPTION = "What the command is to work on"
"""By this a command is known to be ours, also when we do not have it any more."""
CHAT_INPUT = 1
STRING = 3
_NAME = re.compile(r"[\w-]{1,32}")
_KEPT = (
    "id",
    "type",
    "name",
    "name_localizations",
    "description",
    "description_localizations",
    "options",
    "default_member_permissions",
    "dm_permission",
    "nsfw",
    "integration_types",
    "contexts",
    "handler",
)
"""Of commands that are not ours: above all who may use them. What Discord adds by itself it does
not take back."""

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
            "options": [{"type": STRING, "name": ARGUMENTS, "description": OUR_OPTION}],
        }
    return list(names.values())


def replacement(
    there: Sequence[Command], ours: Sequence[Command], policy: SyncPolicy
) -> list[Command] | None:
    """What Discord's list is to be replaced with; None when it is left alone. `safe` keeps the
    commands that are not ours and writes only when something of ours differs, or is there and ours
    no more; `bulk` leaves ours alone."""
    if policy == "off":
        return None
    if policy == "bulk":
        return list(ours)
    names = {command["name"] for command in ours}
    known = {command["name"]: _essence(command) for command in there}
    others = [command for command in there if command["name"] not in names]
    old = [command for command in others if _was_ours(command)]
    others = [command for command in others if command not in old]
    wanted = ours[: MOST - len(others)]
    if not old and all(known.get(each["name"]) == _essence(each) for each in wanted):
        return None
    kept = [{key: command[key] for key in _KEPT if key in command} for command in others]
    return [*wanted, *kept]


def as_text(data: Mapping[str, Any]) -> str:
    """A command that somebody used, as if it had been written."""
    values = [str(option.get("value", "")) for option in data.get("options") or ()]
    return " ".join([f"/{data.get('name', '')}", *values]).strip()


def _was_ours(command: Command) -> bool:
    options = command.get("options") or ()
    return [(each.get("name"), each.get("description")) for each in options] == [
        (ARGUMENTS, OUR_OPTION)
    ]


def _essence(command: Command) -> tuple[Any, ...]:
    options = [
        (option["type"], option["name"], option.get("description"), bool(option.get("required")))
        for option in command.get("options") or ()
    ]
    return (command.get("type", CHAT_INPUT), command.get("description"), options)

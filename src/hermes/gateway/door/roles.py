"""What a role may do: which toolsets its conversations have, and which slash commands.

Owners may do everything. Members have all tools, but not the commands that change things for
others. Guests can ask and look things up. `gateway.role_toolsets` and `gateway.role_commands` say
otherwise.
"""

from collections.abc import Mapping

from hermes.app.commands.registry import Where, resolve_command
from hermes.config.settings.platforms import GatewaySettings, Role

ALL = frozenset({"all", "*"})

TOOLSETS: Mapping[Role, tuple[str, ...]] = {"guest": ("web", "clarify", "todo", "vision")}
"""Roles that are not here have everything the platform has."""

OWNERS_ONLY = frozenset({
    "yolo", "restart", "update", "reload", "reload-mcp", "sethome", "debug", "pair", "insights",
    "model --global", "approve always",
})  # fmt: skip
"""With a word behind it, a command is the owner's only when the word stands in it."""

OWNERS = "Owners are named in the setting `gateway.owners`, as PLATFORM:USER-ID."

GUESTS = frozenset({
    "help", "commands", "status", "stop", "new", "usage", "retry", "undo", "title", "queue",
    "steer", "deny",
})  # fmt: skip

_ALIASES: Mapping[str, str] = {"set-home": "sethome"}


def toolsets_for(role: Role, settings: GatewaySettings) -> tuple[str, ...] | None:
    """The only toolsets a role's conversations may have; None for all of the platform's."""
    wanted = settings.role_toolsets.get(role, TOOLSETS.get(role))
    return None if wanted is None or ALL.intersection(wanted) else wanted


def may(role: Role, command: str, settings: GatewaySettings) -> str:
    """Why a role may not use a command, in one line; "" when it may. `command` is the whole line:
    `/model gpt-5 --global`."""
    name, words = _taken_apart(command)
    if not name:
        return ""
    if role in settings.role_commands:
        allowed = frozenset(_normal(each) for each in settings.role_commands[role])
        needed = _restricted(name, words) or name
        return "" if ALL & allowed or needed in allowed else _refusal(role, needed)
    if role == "owner":
        return ""
    owners = _restricted(name, words) or (name if name in OWNERS_ONLY else "")
    if owners:
        return f"Only an owner may use /{owners}. {OWNERS}"
    return _refusal(role, name) if role == "guest" and name not in GUESTS else ""


def _refusal(role: Role, name: str) -> str:
    return f"A {role} may not use /{name}. /commands lists what there is."


def _restricted(name: str, words: list[str]) -> str:
    """`model --global` when that is what is asked for. Dashes of any kind count: telephones turn
    two into one long one."""
    options = {word.lower().lstrip("-\u2012\u2013\u2014\u2015\u2212") for word in words}
    for each in OWNERS_ONLY:
        command, _, option = each.partition(" ")
        if option and command == name and option.lstrip("-") in options:
            return each
    return ""


def _taken_apart(line: str) -> tuple[str, list[str]]:
    """The name of a command as the registry has it, and the words behind it. `/yol@our_bot` is
    `yolo`: what the name will be resolved to counts, not what was typed."""
    words = line.split()
    if not words:
        return "", []
    typed = words[0].lstrip("/").partition("@")[0]
    known = resolve_command(typed, Where.CHATS)
    return (known.name if known else _normal(typed)), words[1:]


def _normal(text: str) -> str:
    name, space, rest = text.strip().removeprefix("/").lower().partition(" ")
    name = name.replace("_", "-")
    return f"{_ALIASES.get(name, name)}{space}{rest}"

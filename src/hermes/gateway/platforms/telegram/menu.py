"""Our slash commands in Telegram's own menu, whose names have no hyphens."""

import re
from collections.abc import Mapping, Sequence

from telegram import BotCommand

MOST = 100
MAX_DESCRIPTION = 256
_NAME = re.compile(r"[a-z0-9_]{1,32}")


def menu(commands: Sequence[tuple[str, str]]) -> list[BotCommand]:
    """As many as Telegram takes; those whose names it would refuse are left out."""
    shown: dict[str, str] = {}
    for name, description in commands:
        telegram_name = _telegram_name(name)
        if _NAME.fullmatch(telegram_name):
            shown.setdefault(telegram_name, description.strip()[:MAX_DESCRIPTION] or name)
    return [BotCommand(name, description) for name, description in list(shown.items())[:MOST]]


def real_names(commands: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Our names by those of Telegram's menu."""
    names: dict[str, str] = {}
    for name, _ in commands:
        names.setdefault(_telegram_name(name), name.removeprefix("/"))
    return names


def real_command(word: str, names: Mapping[str, str]) -> str:
    """`/reload-mcp` of `/reload_mcp`; a command that is not ours stays as it is."""
    return f"/{names.get(word[1:].lower(), word[1:])}"


def _telegram_name(name: str) -> str:
    return name.removeprefix("/").lower().replace("-", "_")

"""Our slash commands in Telegram's own menu, whose names have no hyphens."""

import re
from collections.abc import Mapping, Sequence

import msgspec
from telegram import Bot, BotCommand
from telegram.error import BadRequest

from hermes.gateway.platforms.telegram.failures import says

MOST = 100
MAX_DESCRIPTION = 256
MAX_BYTES = 7_000
"""Of the whole menu as JSON. Telegram names no such limit, and refuses a little more than this."""
DESCRIPTIONS = (MAX_DESCRIPTION, 100, 60, 40, 24)
"""Characters that descriptions are cut to, until all of the menu fits."""
_NAME = re.compile(r"[a-z0-9_]{1,32}")


def menu(commands: Sequence[tuple[str, str]]) -> list[BotCommand]:
    """As many as Telegram takes; those whose names it would refuse are left out."""
    shown: dict[str, str] = {}
    for name, description in commands:
        telegram_name = _telegram_name(name)
        if _NAME.fullmatch(telegram_name):
            shown.setdefault(telegram_name, description.strip() or name)
    named = list(shown.items())[:MOST]
    made: list[BotCommand] = []
    for most in DESCRIPTIONS:
        made = [BotCommand(name, _cut(description, most)) for name, description in named]
        if _size(made) <= MAX_BYTES:
            break
    return made


async def set_menu(bot: Bot, commands: Sequence[tuple[str, str]]) -> None:
    """Raises `TelegramError`. A menu that is too large after all is made shorter: without one
    Telegram would go on showing an old one."""
    shown = menu(commands)
    while shown:
        try:
            await bot.set_my_commands(shown)
        except BadRequest as error:
            if not says(error, "bot_commands_too_much") or len(shown) == 1:
                raise
            shown = shown[: len(shown) * 3 // 4]
        else:
            return


def real_names(commands: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Our names by those of Telegram's menu."""
    names: dict[str, str] = {}
    for name, _ in commands:
        names.setdefault(_telegram_name(name), name.removeprefix("/"))
    return names


def real_command(word: str, names: Mapping[str, str]) -> str:
    """`/reload-mcp` of `/reload_mcp`; a command that is not ours stays as it is."""
    return f"/{names.get(word[1:].lower(), word[1:])}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _size(commands: Sequence[BotCommand]) -> int:
    return len(msgspec.json.encode([each.to_dict() for each in commands]))


def _telegram_name(name: str) -> str:
    return name.removeprefix("/").lower().replace("-", "_")

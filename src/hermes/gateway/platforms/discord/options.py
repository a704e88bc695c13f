"""How the agent behaves on Discord, from settings and variables."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec

from hermes.config.settings.platforms import DiscordSettings
from hermes.core.errors import ConfigError
from hermes.gateway.platforms.base import AdapterContext
from hermes.gateway.platforms.discord.batches import Pace

Bots = Literal["none", "mentions", "all"]
SyncPolicy = Literal["safe", "bulk", "off"]

BASE_URL = "https://discord.com/api/v10"
BATCH = "HERMES_DISCORD_TEXT_BATCH"
LONGEST_BATCH = 10.0
"""Seconds; nobody waits longer for an answer to begin."""
NO = frozenset({"false", "0", "no", "off"})


class Options(msgspec.Struct, frozen=True):
    token: str
    settings: DiscordSettings = DiscordSettings()
    bots: Bots = "none"
    """Which messages of other programs are heard."""
    ignore_others: bool = True
    """A message that mentions others and not us is not for us."""
    wants_roles: bool = False
    """Somebody may be let in for a role, so roles are asked for where a message lacks them."""
    sync: SyncPolicy = "safe"
    pace: Pace = Pace()
    proxy: str | None = None
    quotes: bool = True
    """Answers point to the message they answer."""
    base_url: str = BASE_URL
    identify_pause: float = 5.0
    """Seconds before a new session after the first; Discord takes one in five seconds."""


def options_of(context: AdapterContext) -> Options:
    """Raises `ConfigError`."""
    variable = context.variable
    token = variable("DISCORD_BOT_TOKEN") or getattr(context.connection, "token", "") or ""
    settings = context.settings
    return Options(
        token=str(token).strip(),
        settings=settings if isinstance(settings, DiscordSettings) else DiscordSettings(),
        bots=_word(variable, "DISCORD_ALLOW_BOTS", Bots, "none"),
        ignore_others=(variable("DISCORD_IGNORE_NO_MENTION") or "").strip().lower() not in NO,
        wants_roles=bool((variable("DISCORD_ALLOWED_ROLES") or "").strip()),
        sync=_word(variable, "DISCORD_COMMAND_SYNC_POLICY", SyncPolicy, "safe"),
        pace=_pace(variable),
        proxy=(variable("DISCORD_PROXY") or "").strip() or None,
        quotes=getattr(context.connection, "reply_to_mode", "first") != "off",
        base_url=str(context.extra.get("base_url") or BASE_URL).rstrip("/"),
        identify_pause=float(context.extra.get("identify_pause", 5.0)),
    )


def _pace(variable: Callable[[str], str | None]) -> Pace:
    return Pace(
        delay=_seconds(variable, f"{BATCH}_DELAY_SECONDS", Pace().delay),
        split_delay=_seconds(variable, f"{BATCH}_SPLIT_DELAY_SECONDS", Pace().split_delay),
    )


def _seconds(variable: Callable[[str], str | None], name: str, default: float) -> float:
    said = (variable(name) or variable(name.removesuffix("_SECONDS")) or "").strip()
    try:
        seconds = float(said or default)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_BATCH:
        raise ConfigError(f"{name} is {said!r}", hint=f"Use seconds, from 0 to {LONGEST_BATCH:g}.")
    return seconds


def _word(variable: Callable[[str], str | None], name: str, words: Any, default: str) -> Any:
    said = (variable(name) or "").strip().lower() or default
    if said not in get_args(words):
        raise ConfigError(f"{name} is {said!r}", hint=f"Use one of: {', '.join(get_args(words))}.")
    return said

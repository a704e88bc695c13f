"""The agent's Markdown in the dialect of a platform. Whatever comes in, something readable comes
out: what is no Markdown is text, what is not closed yet is closed, and all text is escaped."""

from collections.abc import Callable

from hermes.gateway.platforms.base import Dialect
from hermes.gateway.platforms.kit.markdown import discord, lines, matrix, plain, slack, telegram
from hermes.gateway.platforms.kit.markdown.blocks import closed, parse
from hermes.util.text import clean


def _lined(style: lines.Style) -> Callable[[str], str]:
    return lambda text: lines.render(parse(text), style)


_CONVERSIONS: dict[Dialect, Callable[[str], str]] = {
    "plain": _lined(plain.PLAIN),
    "email": _lined(plain.EMAIL),
    "telegram": _lined(telegram.STYLE),
    "slack": _lined(slack.STYLE),
    "discord": _lined(discord.STYLE),
    "matrix": lambda text: matrix.render(parse(text)),
    "markdown": closed,
}


def convert(text: str, dialect: Dialect) -> str:
    """Markdown in a dialect. Text that says nothing becomes ""."""
    return _CONVERSIONS[dialect](clean(text))

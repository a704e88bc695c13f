"""Which messages of groups are for us. Pure rules; the adapter only says what it sees."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hermes.core.errors import ConfigError
from hermes.gateway.events import MessageEvent


class GroupRules(msgspec.Struct, frozen=True):
    """How a platform's groups are answered. Channels are named by chat id or by thread id."""

    require_mention: bool = False
    """Only what is addressed to us is answered."""
    mention_patterns: tuple[str, ...] = ()
    """Regular expressions; text that has one of them is addressed to us."""
    free_response: frozenset[str] = frozenset()
    """Channels where everything is answered."""
    ignored: frozenset[str] = frozenset()
    """Channels where nothing is."""
    allowed: frozenset[str] = frozenset()
    """The only channels where anything is; empty is all."""


def rules_from(settings: Any) -> GroupRules:
    """The rules that a platform's section of config.yaml has, under whichever names it has them."""
    names: Mapping[str, Sequence[str]] = {
        "free_response": ("free_response_channels", "free_response_rooms"),
        "ignored": ("ignored_channels", "ignored_threads"),
        "allowed": ("allowed_channels",),
    }
    lists = {
        field: frozenset(str(value) for key in keys for value in getattr(settings, key, ()))
        for field, keys in names.items()
    }
    return GroupRules(
        require_mention=bool(getattr(settings, "require_mention", False)),
        mention_patterns=tuple(getattr(settings, "mention_patterns", ())),
        **lists,
    )


def compile_patterns(patterns: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """Raises `ConfigError` for one that is no regular expression."""
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern, re.IGNORECASE))
        except re.error as error:
            raise ConfigError(
                f"mention_patterns: {pattern!r} is no regular expression: {error}",
                hint="correct it with `hermes config edit`",
            ) from error
    return tuple(compiled)


def is_addressed(event: MessageEvent, rules: GroupRules) -> bool:
    """Mentioned, answered, in private, by a button, or by one of the patterns."""
    if event.addressed or event.button or event.source.chat_type == "dm":
        return True
    return any(pattern.search(event.text) for pattern in compile_patterns(rules.mention_patterns))


def is_for_us(event: MessageEvent, rules: GroupRules) -> bool:
    """Whether a message is to be answered at all."""
    source = event.source
    if source.chat_type == "dm":
        return True
    places = {source.chat_id, source.chat_now, source.thread_id} - {""}
    if places & rules.ignored or (rules.allowed and not places & rules.allowed):
        return False
    if not rules.require_mention or places & rules.free_response:
        return True
    return is_addressed(event, rules)


def mentions(text: str, names: Sequence[str]) -> bool:
    """Whether `@name` of one of the names is in the text, as a word of its own."""
    return any(_mention(name).search(text) for name in names if name)


def without_mention(text: str, names: Sequence[str]) -> str:
    """The text without `@name` at its beginning or end, where it is only an address."""
    for name in filter(None, names):
        text = without_address(text, _mention(name).pattern)
    return text


def without_address(text: str, pattern: str) -> str:
    """The text without what matches `pattern` at its beginning or end."""
    text = re.sub(rf"\A\s*{pattern}[,:]?\s*", "", text, flags=re.IGNORECASE)
    # No pattern that begins with blanks: it takes minutes for a message of blanks.
    last = re.search(rf"{pattern}\Z", text.rstrip(), flags=re.IGNORECASE)
    return text[: last.start()].rstrip() if last else text


def _mention(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w@])@{re.escape(name.removeprefix('@'))}(?!\w)", re.IGNORECASE)

"""Slack's marks in what people write, as they read them on their screens."""

import re
from collections.abc import Mapping

import msgspec

from hermes.gateway.platforms.kit.mentions import without_address

_MARK = re.compile(r"<([^<>]*)>")
_KINDS = {"@": "user", "#": "channel", "!": "special"}
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}
_ENTITY = re.compile("|".join(_ENTITIES))


class Names(msgspec.Struct, frozen=True):
    """What ids stand for, as far as it is known."""

    users: Mapping[str, str] = {}
    channels: Mapping[str, str] = {}


NO_NAMES = Names()


def mentions(text: str, user: str) -> bool:
    """Whether somebody is mentioned. What people write themselves has `<` as `&lt;`."""
    return f"<@{user}>" in text or f"<@{user}|" in text


def ids_in(text: str) -> tuple[set[str], set[str]]:
    """The users and channels that a text speaks of without saying their names."""
    users: set[str] = set()
    channels: set[str] = set()
    for found in _MARK.findall(text):
        target, _, label = found.partition("|")
        if not label and target[:1] in "@#":
            (users if target[:1] == "@" else channels).add(target[1:])
    return users, channels


def readable(text: str, names: Names = NO_NAMES, me: str = "") -> str:
    """Text without marks. A mention of ours at its beginning or end is only an address."""
    if me:
        ours = rf"<@{re.escape(me)}(?:\|[^<>]*)?>"
        text = without_address(text, ours)
    pieces, end = [], 0
    for found in _MARK.finditer(text):
        pieces += [unescaped(text[end : found.start()]), _said(found[1], names)]
        end = found.end()
    return "".join([*pieces, unescaped(text[end:])])


def escaped(text: str) -> str:
    """Plain text for Slack."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescaped(text: str) -> str:
    return _ENTITY.sub(lambda found: _ENTITIES[found[0]], text)


def _said(mark: str, names: Names) -> str:
    target, _, label = mark.partition("|")
    label = unescaped(label)
    kind = _KINDS.get(target[:1], "link")
    if kind == "user":
        return f"@{label or names.users.get(target[1:]) or target[1:]}"
    if kind == "channel":
        return f"#{label or names.channels.get(target[1:]) or target[1:]}"
    if kind == "special":
        return label or f"@{target[1:].partition('^')[0]}"
    return _link(unescaped(target), label)


def _link(url: str, label: str) -> str:
    shown = url.removeprefix("mailto:").removeprefix("tel:")
    if not label or label == shown:
        return shown
    if shown.partition("://")[2].rstrip("/") == label.rstrip("/"):
        return label  # Slack made a link of what was written
    return f"[{label}]({url})"

"""Settings that differ from the defaults, as far as they may be shown to anybody.

Numbers, switches and words from a list are shown; of free text only what names a model, a provider
or a tool. Of everything else it is said that it is set.
"""

import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_origin
from urllib.parse import urlsplit

import msgspec

from hermes.config.keys import Parts, join_key
from hermes.config.masking import is_secret_setting
from hermes.config.schema import locate, members
from hermes.config.settings import Settings

SET = "(set)"
SHOWN = frozenset(
    {"default", "provider", "model", "engine", "backend", "skin", "personality", "timezone",
     "toolsets", "enabled", "disabled", "always", "docker_image", "modal_image", "daytona_image",
     "singularity_image", "quantizations", "order", "only", "ignore"}
)  # fmt: skip
"""Last parts of keys whose text tells nothing of anybody."""
ADDRESSES = frozenset({"base_url", "endpoint"})
ELSEWHERE = frozenset({"mcp_servers"})
"""Blocks of which another line names the members."""
LONGEST = 80


def changed_settings(settings: Settings) -> dict[str, str]:
    """By key."""
    now, usual = msgspec.to_builtins(settings), msgspec.to_builtins(Settings())
    leaves = _differences(now, usual, ())
    return {join_key(parts): _shown(parts, value) for parts, value in leaves}


def _differences(now: Any, usual: Any, parts: Parts) -> Iterator[tuple[Parts, Any]]:
    if parts and parts[0] in ELSEWHERE:
        return
    if isinstance(now, Mapping):
        below = usual if isinstance(usual, Mapping) else {}
        for key, value in now.items():
            if value != below.get(key, msgspec.UNSET):
                yield from _differences(value, below.get(key), (*parts, str(key)))
    elif isinstance(now, list) and any(isinstance(each, Mapping) for each in now):
        for at, each in enumerate(now):
            default = usual[at] if isinstance(usual, list) and at < len(usual) else {}
            yield from _differences(each, default, (*parts, str(at)))
    elif now not in ("", [], None) or usual not in ("", [], None):
        yield parts, now


def _shown(parts: Parts, value: Any) -> str:
    name = next((part for part in reversed(parts) if not part.isdigit()), "")
    if is_secret_setting(parts):
        return SET if value else "(none)"
    if name in ADDRESSES and isinstance(value, str):
        return urlsplit(value).hostname or SET
    if isinstance(value, bool | int | float) or value in ("", [], None) or name in SHOWN:
        return _brief(value)
    return _brief(value) if _is_word(parts) else SET


def _is_word(parts: Parts) -> bool:
    """One of a few words, which the settings themselves list."""
    place = locate(parts)
    kinds = members(place.type) if place else ()
    return bool(kinds) and all(
        get_origin(kind) is Literal or kind in (bool, int, float, types.NoneType) for kind in kinds
    )


def _brief(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST else f"({len(text)} characters)"

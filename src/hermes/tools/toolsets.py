"""Toolsets: named groups of tools, and which of them each platform has.

`toolsets.json` (description, tools, included toolsets, rare) also lists documented names of tools
that do not exist here yet, so that settings which name them stay valid.
"""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from hermes.config.schema import bundled_platforms
from hermes.config.settings import CustomToolset, Settings
from hermes.core.errors import UsageError


class Toolset(NamedTuple):
    description: str
    tools: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    rare: bool = False  #: Rarely needed: left out of requests, found by `tool_search`.


TOOLSETS = msgspec.json.decode(
    Path(__file__).with_name("toolsets.json").read_bytes(), type=dict[str, Toolset]
)

_CLI = (
    "browser", "clarify", "code_execution", "cronjob", "delegation", "file", "image_gen", "memory",
    "messaging", "rl", "session_search", "skills", "terminal", "todo", "tts", "vision", "web",
)  # fmt: skip
_CHATS = (
    *bundled_platforms(), "whatsapp", "signal", "mattermost", "sms",
    "bluebubbles", "dingtalk", "feishu", "qqbot", "wecom", "wecom-callback", "weixin", "webhook",
)  # fmt: skip


def _without(*names: str) -> tuple[str, ...]:
    return tuple(name for name in _CLI if name not in names)


PRESETS: dict[str, Toolset] = {
    "hermes-cli": Toolset("for the terminal", includes=_CLI),
    "hermes-acp": Toolset(
        "for editors", includes=_without("clarify", "cronjob", "image_gen", "messaging", "tts")
    ),
    "hermes-api-server": Toolset(
        "for the API server", includes=_without("clarify", "messaging", "tts")
    ),
    "hermes-cron": Toolset("for scheduled jobs", includes=_without("clarify", "cronjob")),
    **{f"hermes-{chat}": Toolset(f"for {chat}", includes=_CLI) for chat in _CHATS},
    "hermes-homeassistant": Toolset("for Home Assistant", includes=(*_CLI, "homeassistant")),
    "hermes-gateway": Toolset("for every chat", includes=(*_CLI, "homeassistant")),
}
"""The default toolset of each platform."""

DEFAULT = "hermes-cli"
ALL_TOOLS = ("all", "*")
_LEGACY_ENDING = "_tools"
MCP_TOOLSET_PREFIX = "mcp-"  #: Prefix of the toolset of an MCP server.
MCP_PREFIXES = (MCP_TOOLSET_PREFIX, "mcp_")
"""Prefixes of the toolsets and of the tools of MCP servers."""

ToolsetMap = Mapping[str, Toolset]


def all_toolsets(
    custom: ToolsetMap | None = None, found: ToolsetMap | None = None
) -> dict[str, Toolset]:
    """Return the built-in toolsets, those found at run time, and those of the user by name."""
    return {**TOOLSETS, **PRESETS, **(found or {}), **(custom or {})}


def expand(names: Iterable[str], known: ToolsetMap) -> list[str]:
    """Return the tools that names of toolsets and tools stand for, in order, without duplicates.

    `-name` removes a toolset or a tool, wherever it is in the list. Raises `UsageError` for an
    unknown name.
    """
    wanted: dict[str, None] = {}
    unwanted: set[str] = set()
    for name in names:
        if name.startswith("-"):
            unwanted |= set(_resolve(name[1:], known, set()))
        else:
            wanted |= dict.fromkeys(_resolve(name, known, set()))
    return [tool for tool in wanted if tool not in unwanted]


def drop_gone_names(names: Iterable[str], known: ToolsetMap) -> list[str]:
    """Return `names` without those of MCP servers and plugins that are not there any more.

    A `-name` of a disabled plugin has nothing to remove. A name that looks like a spelling mistake
    stays, so that `expand` reports it.
    """
    return [name for name in names if not _is_gone(name, known)]


def _is_gone(name: str, known: ToolsetMap) -> bool:
    plain = name.removeprefix("-")
    try:
        _resolve(plain, known, set())
    except UsageError:
        return plain.startswith(MCP_PREFIXES) or (
            name != plain and plain != "" and not _similar_names(plain, known)
        )
    return False


def _similar_names(name: str, known: ToolsetMap) -> list[str]:
    every = [*known, *(tool for each in known.values() for tool in each.tools)]
    return difflib.get_close_matches(name, every, n=1)


def _resolve(name: str, known: ToolsetMap, above: set[str]) -> list[str]:
    if name in ALL_TOOLS:
        return [tool for toolset in known.values() for tool in toolset.tools]
    if name not in known and name.endswith(_LEGACY_ENDING):
        name = name.removesuffix(_LEGACY_ENDING)
    toolset = known.get(name)
    if toolset is None:
        if any(name in each.tools for each in known.values()):
            return [name]
        close = _similar_names(name, known)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(
            f"there is no toolset or tool {name!r}{meant}",
            hint="`hermes tools list` shows all of them",
        )
    if name in above:  # toolsets that include each other
        return []
    found = list(toolset.tools)
    for each in toolset.includes:
        found += _resolve(each, known, above | {name})
    return found


def preset_of(platform: str) -> str:
    """Return the default toolset of a platform; unknown platforms get that of the terminal."""
    name = f"hermes-{platform}"
    return name if name in PRESETS else DEFAULT


def is_rare(tool: str, toolset: str, known: ToolsetMap) -> bool:
    group = known.get(toolset)
    return group is not None and group.rare and tool in group.tools


def selected_toolsets(settings: Settings, platform: str) -> tuple[str, ...]:
    """Return the names of toolsets and tools that the settings enable for `platform`."""
    name = platform_key(settings, platform)
    if name in settings.platform_toolsets:
        return settings.platform_toolsets[name]
    preset = preset_of(name)
    return settings.toolsets if preset == DEFAULT else (preset,)


def platform_key(settings: Settings, platform: str) -> str:
    """Return the key of `platform` in the settings; `api-server` and `api_server` are the same."""
    if platform in settings.platform_toolsets:
        return platform
    plain = platform.replace("_", "-")
    same = (name for name in settings.platform_toolsets if name.replace("_", "-") == plain)
    return next(same, plain)


def with_added(names: Iterable[str], added: Iterable[str]) -> tuple[str, ...]:
    """Return `names` with the toolsets of plugins and MCP servers, if a preset is among them.

    Users who list toolsets one by one get only those.
    """
    listed = tuple(names)
    return (*listed, *added) if any(name in PRESETS for name in listed) else listed


def custom_toolsets(settings: Settings) -> dict[str, Toolset]:
    """Return the toolsets that the user defined in the settings."""
    return {
        name: Toolset(given.description, given.tools, given.includes)
        if isinstance(given, CustomToolset)
        else Toolset("one of your own", given)
        for name, given in settings.custom_toolsets.items()
    }


def switch_toolsets(
    current: Iterable[str],
    names: Iterable[str],
    known: ToolsetMap,
    *,
    on: bool,
    added: Iterable[str] = (),
) -> list[str]:
    """Return `current` with toolsets or tools switched on or off, as a list as short as possible.

    `added` are the toolsets of plugins and MCP servers. Raises `UsageError` for an unknown name.
    """
    result, more = list(current), tuple(added)
    for name in names:
        tools = set(expand([name], known))  # raises for an unknown name
        result = [each for each in result if each not in (name, f"-{name}")]
        usual = with_added(result, more)
        there = tools & set(expand(drop_gone_names(usual, known), known))
        # The tools of a server may be unknown before its first connection: compare its name.
        if on and (there != tools if tools else name not in usual):
            result.append(name)
        elif not on and (there or (not tools and name in usual)):
            result.append(f"-{name}")
    return result

"""Which tools a platform has, and how that is changed."""

from collections.abc import Iterable

from hermes.config.settings import Settings
from hermes.config.settings.abilities import CustomToolset
from hermes.tools.toolsets import (
    DEFAULT,
    PRESETS,
    Known,
    Toolset,
    expand,
    preset_of,
    still_there,
)


def chosen(settings: Settings, platform: str) -> tuple[str, ...]:
    """The names of toolsets and tools that the settings switch on for `platform`."""
    name = as_written(settings, platform)
    if name in settings.platform_toolsets:
        return settings.platform_toolsets[name]
    preset = preset_of(name)
    return settings.toolsets if preset == DEFAULT else (preset,)


def as_written(settings: Settings, platform: str) -> str:
    """The name by which the settings know `platform`: `api-server` and `api_server` are one."""
    if platform in settings.platform_toolsets:
        return platform
    plain = platform.replace("_", "-")
    same = (name for name in settings.platform_toolsets if name.replace("_", "-") == plain)
    return next(same, plain)


def with_brought(names: Iterable[str], brought: Iterable[str]) -> tuple[str, ...]:
    """What plugins and MCP servers brought belongs to every preset; who lists toolsets one by one
    gets no more than these. `-name` takes one away."""
    listed = tuple(names)
    return (*listed, *brought) if any(name in PRESETS for name in listed) else listed


def custom_toolsets(settings: Settings) -> dict[str, Toolset]:
    """Those of the user."""
    return {
        name: Toolset(given.description, given.tools, given.includes)
        if isinstance(given, CustomToolset)
        else Toolset("one of your own", given)
        for name, given in settings.custom_toolsets.items()
    }


def switched(
    current: Iterable[str],
    names: Iterable[str],
    known: Known,
    *,
    on: bool,
    brought: Iterable[str] = (),
) -> list[str]:
    """`current` with toolsets or tools switched on or off, in as few words as possible. `brought`
    are the toolsets of plugins and MCP servers."""
    result, more = list(current), tuple(brought)
    for name in names:
        tools = set(expand([name], known))  # an unknown name ends here
        result = [each for each in result if each not in (name, f"-{name}")]
        usual = with_brought(result, more)
        there = tools & set(expand(still_there(usual, known), known))
        # The tools of a server may not be known yet: then its name has to do.
        if on and (there != tools if tools else name not in usual):
            result.append(name)
        elif not on and (there or (not tools and name in usual)):
            result.append(f"-{name}")
    return result

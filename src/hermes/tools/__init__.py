"""The tools of the agent, and the rules under which their calls run.

`ToolRegistry` knows every tool, `assemble` makes those of a session from `ToolDeps`, `Toolbox`
checks their arguments, and `Approvals` decides whether a call may run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.tools.approval import ApprovalRules, Approvals, ModelJudge
    from hermes.tools.registry import (
        Assembled,
        SessionServices,
        ToolDeps,
        ToolEntry,
        ToolRegistry,
        assemble,
        discover_builtin,
        result_text,
        schema_chars,
    )
    from hermes.tools.toolbox import (
        LocalResultStore,
        RemoteResultStore,
        Toolbox,
        coerce_arguments,
    )
    from hermes.tools.toolsets import (
        ALL_TOOLS,
        MCP_PREFIXES,
        MCP_TOOLSET_PREFIX,
        PRESETS,
        TOOLSETS,
        Toolset,
        ToolsetMap,
        all_toolsets,
        custom_toolsets,
        drop_gone_names,
        expand,
        platform_key,
        selected_toolsets,
        switch_toolsets,
        with_added,
    )

__all__ = [
    "ALL_TOOLS",
    "MCP_PREFIXES",
    "MCP_TOOLSET_PREFIX",
    "PRESETS",
    "TOOLSETS",
    "ApprovalRules",
    "Approvals",
    "Assembled",
    "LocalResultStore",
    "ModelJudge",
    "RemoteResultStore",
    "SessionServices",
    "ToolDeps",
    "ToolEntry",
    "ToolRegistry",
    "Toolbox",
    "Toolset",
    "ToolsetMap",
    "all_toolsets",
    "assemble",
    "coerce_arguments",
    "custom_toolsets",
    "discover_builtin",
    "drop_gone_names",
    "expand",
    "platform_key",
    "result_text",
    "schema_chars",
    "selected_toolsets",
    "switch_toolsets",
    "with_added",
]

# The object `registry` of the module of that name is not here: the two names would collide.
_MODULES = {
    "approval": ("ApprovalRules", "Approvals", "ModelJudge"),
    "registry": (
        "Assembled", "SessionServices", "ToolDeps", "ToolEntry", "ToolRegistry", "assemble",
        "discover_builtin", "result_text", "schema_chars",
    ),
    "toolbox": ("LocalResultStore", "RemoteResultStore", "Toolbox", "coerce_arguments"),
    "toolsets": (
        "ALL_TOOLS", "MCP_PREFIXES", "MCP_TOOLSET_PREFIX", "PRESETS", "TOOLSETS", "Toolset",
        "ToolsetMap", "all_toolsets", "custom_toolsets", "drop_gone_names", "expand",
        "platform_key", "selected_toolsets", "switch_toolsets", "with_added",
    ),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import on first use: a command that only needs the toolsets must not load the registry."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

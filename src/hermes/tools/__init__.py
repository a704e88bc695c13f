"""The tools of the agent, and the rules under which their calls run.

`ToolRegistry` knows every tool, `assemble` makes those of a session from `ToolDeps`, `Toolbox`
checks their arguments, and `Approvals` decides whether a call may run.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

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
    from hermes.tools.toolbox import LocalResultStore, RemoteResultStore, Toolbox, coerce_arguments
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

# The object `registry` of the module of that name is not here: the two names would collide.

__all__ = [
    "ALL_TOOLS", "MCP_PREFIXES", "MCP_TOOLSET_PREFIX", "PRESETS", "TOOLSETS", "ApprovalRules",
    "Approvals", "Assembled", "LocalResultStore", "ModelJudge", "RemoteResultStore",
    "SessionServices", "ToolDeps", "ToolEntry", "ToolRegistry", "Toolbox", "Toolset",
    "ToolsetMap", "all_toolsets", "assemble", "coerce_arguments", "custom_toolsets",
    "discover_builtin", "drop_gone_names", "expand", "platform_key", "result_text",
    "schema_chars", "selected_toolsets", "switch_toolsets", "with_added",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)

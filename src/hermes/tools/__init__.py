"""The tools of the agent, and the rules under which their calls run.

`tool` defines a tool, `ToolRegistry` knows all of them, `assemble` makes those of a session from
`ToolDeps`, `Toolbox` checks their arguments, and `Approvals` decides whether a call may run.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.tools.approval import PERMISSION_MODES, ApprovalRules, Approvals, ModelJudge
    from hermes.tools.builtin.cronjob import HARMLESS_FIELDS, JobActions
    from hermes.tools.builtin.delegate_task import (
        ChildReport, StopReason, allowed_tools, background_report, child_prompt, lost_reports,
    )
    from hermes.tools.builtin.session_search import suggest_words
    from hermes.tools.builtin.todo import TodoList
    from hermes.tools.builtin.web_extract import url_guard
    from hermes.tools.editing.files import FileReads
    from hermes.tools.registry import (
        Assembled, SessionServices, ToolDeps, ToolEntry, ToolRegistry, ToolUsage, assemble,
        discover_builtin, result_text, schema_chars, tool,
    )
    from hermes.tools.toolbox import LocalResultStore, RemoteResultStore, Toolbox, coerce_arguments
    from hermes.tools.toolsets import (
        ALL_TOOLS, MCP_PREFIXES, MCP_TOOLSET_PREFIX, PRESETS, TOOLSETS, Toolset, ToolsetMap,
        all_toolsets, custom_toolsets, drop_gone_names, expand, platform_key, selected_toolsets,
        switch_toolsets, with_added,
    )
    from hermes.tools.web_pages import PageFetcher, fence_untrusted, install_page_readers, read_page
    # fmt: on
    # isort: on

# The object `registry` of the module of that name is not here: the two names would collide.

__all__ = [
    "ALL_TOOLS", "HARMLESS_FIELDS", "MCP_PREFIXES", "MCP_TOOLSET_PREFIX", "PERMISSION_MODES",
    "PRESETS", "TOOLSETS", "ApprovalRules", "Approvals", "Assembled", "ChildReport", "FileReads",
    "JobActions", "LocalResultStore", "ModelJudge", "PageFetcher", "RemoteResultStore",
    "SessionServices", "StopReason", "TodoList", "ToolDeps", "ToolEntry", "ToolRegistry",
    "ToolUsage", "Toolbox", "Toolset",
    "ToolsetMap", "all_toolsets", "allowed_tools", "assemble", "background_report",
    "child_prompt", "coerce_arguments", "custom_toolsets", "discover_builtin", "drop_gone_names",
    "expand", "fence_untrusted", "install_page_readers", "lost_reports", "platform_key",
    "read_page", "result_text", "schema_chars", "selected_toolsets", "suggest_words",
    "switch_toolsets", "tool", "url_guard", "with_added",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)

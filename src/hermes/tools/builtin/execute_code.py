"""execute_code, which names the tools that scripts may call."""

import sys

from hermes.core.tool import Tool
from hermes.tools.bench import Bench
from hermes.tools.code.execute_code import CodeOptions, execute_code_tool
from hermes.tools.registry import ToolEntry


def make(bench: Bench) -> Tool:
    settings = bench.settings.code_execution
    always = bench.settings.terminal.env_passthrough
    options = CodeOptions(
        settings.mode,
        settings.timeout,
        settings.max_tool_calls,
        lambda: (*always, *bench.place.given()),
        sys.executable if bench.place.name == "local" else "",
        isolated=bench.place.isolated,
    )
    return execute_code_tool(bench.place.shell, bench.others, options, bench.guard)


ENTRY = ToolEntry("execute_code", "code_execution", make, names_others=True, emoji="🐍")

"""process over the session's background processes."""

from hermes.core.tool import Tool
from hermes.tools.bench import Bench
from hermes.tools.process import process_tool
from hermes.tools.registry import ToolEntry


def make(bench: Bench) -> Tool:
    return process_tool(
        bench.processes, bench.guard, isolated=bench.place.isolated, limits=bench.limits
    )


ENTRY = ToolEntry("process", "terminal", make, emoji="⏳")

"""terminal over the session's shell."""

from hermes.core.tool import Tool
from hermes.tools.bench import Bench
from hermes.tools.registry import ToolEntry
from hermes.tools.terminal import terminal_tool


def make(bench: Bench) -> Tool:
    return terminal_tool(
        bench.place.shell,
        bench.processes,
        bench.guard,
        timeout=int(bench.settings.terminal.timeout),
        isolated=bench.place.isolated,
        transform=bench.transform_output,
        limits=bench.limits,
    )


ENTRY = ToolEntry("terminal", "terminal", make, emoji="💻")

"""clarify, put to whoever is there."""

from hermes.core.tool import Tool
from hermes.tools.bench import Bench
from hermes.tools.clarify import clarify_tool
from hermes.tools.registry import ToolEntry


def make(bench: Bench) -> Tool:
    return clarify_tool(bench.clarifier, max(bench.settings.clarify.timeout, bench.patience))


ENTRY = ToolEntry("clarify", "clarify", make, emoji="❓")

"""patch over the session's files."""

from hermes.core.tool import Tool
from hermes.tools.bench import Bench
from hermes.tools.patch import patch_tool
from hermes.tools.registry import ToolEntry


def make(bench: Bench) -> Tool:
    return patch_tool(
        bench.place.files,
        bench.guard,
        bench.reads,
        isolated=bench.place.isolated,
    )


ENTRY = ToolEntry("patch", "file", make, emoji="🩹")

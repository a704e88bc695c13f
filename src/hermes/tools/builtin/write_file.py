"""write_file over the session's files."""

from hermes.core.tool import Tool
from hermes.tools.bench import Bench
from hermes.tools.registry import ToolEntry
from hermes.tools.write_file import write_file_tool


def make(bench: Bench) -> Tool:
    return write_file_tool(
        bench.place.files,
        bench.guard,
        bench.reads,
        isolated=bench.place.isolated,
    )


ENTRY = ToolEntry("write_file", "file", make, emoji="✍️")

"""read_file over the session's files."""

from hermes.core.tool import Tool
from hermes.tools.bench import Bench
from hermes.tools.read_file import read_file_tool
from hermes.tools.registry import ToolEntry


def make(bench: Bench) -> Tool:
    return read_file_tool(
        bench.place.files,
        bench.guard,
        bench.reads,
        bench.limits,
        bench.settings.file_read_max_chars,
        isolated=bench.place.isolated,
    )


ENTRY = ToolEntry("read_file", "file", make, emoji="📖")

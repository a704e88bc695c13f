"""search_files over the session's files."""

from hermes.core.tool import Tool
from hermes.tools.bench import Bench
from hermes.tools.registry import ToolEntry
from hermes.tools.search_files import search_files_tool


def make(bench: Bench) -> Tool:
    return search_files_tool(
        bench.place.files,
        bench.guard,
        lambda: bench.place.shell.cwd,
        bench.limits,
        isolated=bench.place.isolated,
    )


ENTRY = ToolEntry("search_files", "file", make, emoji="🔎")

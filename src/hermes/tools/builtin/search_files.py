"""The tool `search_files`: find lines by regex, or files by name."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.core.tool import Effect, ToolContext
from hermes.terminal import GrepLine, GrepQuery, GrepResult, relative_to
from hermes.tools.builtin.read_file import read_concern
from hermes.tools.editing.files import display_path, file_error, plural
from hermes.tools.registry import ToolDeps, tool


class ResultPage(msgspec.Struct, frozen=True):
    """The requested page of a result, with paths shown relative to `folder`."""

    offset: int
    limit: int
    folder: str

    def cut(self, items: Sequence[str]) -> list[str]:
        return list(items[self.offset : self.offset + self.limit])

    def note(self, total: int) -> list[str]:
        """Return a line that says how to get the next page, if there is one."""
        end = self.offset + self.limit
        if total <= end and not self.offset:
            return []
        following = f"; go on with offset={end}" if total > end else ""
        return [f"[shown: {min(self.offset + 1, total)}-{min(end, total)} of {total}{following}]"]

    def name(self, path: str) -> str:
        return display_path(relative_to(path, self.folder))


@tool(
    toolset="file",
    effect=Effect.READ,
    examine=lambda deps, arguments: read_concern(deps, str(arguments.get("path") or ".")),
    emoji="🔎",
)
async def search_files(
    deps: ToolDeps,
    call: ToolContext,
    pattern: str,
    target: Literal["content", "files"] = "content",
    path: str = ".",
    file_glob: str = "",
    limit: int = 50,
    offset: int = 0,
    output_mode: Literal["content", "files_only", "count"] = "content",
    context: int = 0,
) -> str:
    """Search below a folder: lines by regex, or files by name. The first line says how many.

    pattern: regex for content; glob such as *.py for files
    file_glob: search only files with such names
    context: lines shown around a match
    """
    files, longest = deps.place.files, deps.limits.max_line_length
    page = ResultPage(max(offset, 0), max(limit, 1), deps.place.shell.cwd)
    try:
        root = await files.locate(path or ".")
        if await files.stat(root) is None:
            raise ToolError(f"there is no folder or file {display_path(path)}")
        if target == "files":
            return _format_files(await files.find(pattern, root, call.cancel), pattern, path, page)
        if not pattern:
            raise ToolArgumentsInvalid("pattern is empty")
        query = GrepQuery(
            pattern, root, file_glob, min(max(context, 0), 20), page.offset, page.limit, longest
        )
        grepped = await files.grep(query, call.cancel)
    except OSError as error:
        raise file_error("search", path, error) from error
    return _format_matches(grepped, query, output_mode, page)


def _format_files(found: list[str], pattern: str, path: str, page: ResultPage) -> str:
    if not found:
        return f"0 files match {pattern} in {display_path(path)}"
    names = [page.name(name) for name in page.cut(found)]
    verb = "matches" if len(found) == 1 else "match"
    head = f"{plural(len(found), 'file')} {verb} {pattern} in {display_path(path)}:"
    return "\n".join([head, *names, *page.note(len(found))])


def _format_matches(grepped: GrepResult, query: GrepQuery, mode: str, page: ResultPage) -> str:
    counts = grepped.counts
    total = sum(counts.values())
    head = f"{plural(total, 'match')} in {plural(len(counts), 'file')}"
    if not total:
        where = f" ({query.file_glob})" if query.file_glob else ""
        return f"{head} for {query.pattern!r}{where}"
    if mode == "content":
        return "\n".join([f"{head}:", *_format_hits(grepped.hits, query, page), *page.note(total)])
    names = [
        page.name(path) + (f": {count}" if mode == "count" else "")
        for path, count in counts.items()
    ]
    return "\n".join([f"{head}:", *page.cut(names), *page.note(len(names))])


def _format_hits(hits: Sequence[GrepLine], query: GrepQuery, page: ResultPage) -> list[str]:
    """Format like grep: `path:line:text` for matches, `path-line-text` for context, `--` gaps."""
    lines: list[str] = []
    last: GrepLine | None = None
    for hit in hits:
        distant = last is not None and (last.path != hit.path or hit.line > last.line + 1)
        if query.context and distant:
            lines.append("--")
        sign = ":" if hit.match else "-"
        lines.append(f"{page.name(hit.path)}{sign}{hit.line}{sign}{hit.text}")
        last = hit
    return lines

"""The tool `search_files`: find lines by regex, or files by name."""

import os
from collections.abc import Sequence
from typing import Literal

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.core.tool import Effect, StructuredText, ToolContext
from hermes.security import (
    CREDENTIAL_STORES,
    OWN_FILES,
    SYSTEM_CREDENTIALS,
    PathGuard,
    is_below,
)
from hermes.terminal import GrepLine, GrepQuery, GrepResult, relative_to
from hermes.tools.builtin.read_file import read_concern
from hermes.tools.editing.files import display_path, file_error, plural
from hermes.tools.registry import ToolDeps, tool


class ProtectedFiles:
    """The files with keys below a folder: a search leaves them out.

    The note about them does not depend on the pattern, or a search would tell what is in them.
    """

    def __init__(self, guard: PathGuard, root: str) -> None:
        self._guard = guard
        home = guard.resolve(str(guard.home), "/")
        places = [*(f"{home}/{name}" for name in CREDENTIAL_STORES), *SYSTEM_CREDENTIALS]
        for own in guard.own:
            places += [f"{guard.resolve(str(own), '/')}/{name}" for name in OWN_FILES]
        inside = dict.fromkeys(place for place in places if is_below(place, root))
        self.places = [place for place in inside if not guard.here or os.path.lexists(place)]

    def __contains__(self, path: str) -> bool:
        """A file elsewhere can be protected only if it is a link."""
        if not self.places and self._guard.here and not os.path.islink(path):  # noqa: PTH114
            return False
        return self._guard.check_read(path, self._guard.resolve(path, "/")) is not None

    def note(self) -> list[str]:
        if not self.places:
            return []
        names = ", ".join(map(display_path, self.places[:3]))
        more = f" and {len(self.places) - 3} more" if len(self.places) > 3 else ""
        return [f"[not searched, because they hold keys or settings of Hermes: {names}{more}]"]


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
        following = f"; continue with offset={end}" if total > end else ""
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
    """Search a folder and its subfolders: lines by regex, or files by name.

    pattern: regex for content; glob such as *.py for files
    file_glob: search only files whose names match
    context: lines shown before and after a match
    """
    files, longest = deps.place.files, deps.limits.max_line_length
    page = ResultPage(max(offset, 0), max(limit, 1), deps.place.shell.cwd)
    try:
        root = await files.locate(path or ".")
        if await files.stat(root) is None:
            raise ToolError(f"there is no folder or file {display_path(path)}")
        protected = protected_files(deps, root)
        if target == "files":
            found = await files.find(pattern, root, call.cancel)
            found = [name for name in found if protected is None or name not in protected]
            text = _with_note(_format_files(found, pattern, path, page), protected)
            names = [page.name(name) for name in page.cut(found)]
            return StructuredText(text, matches=[], files=names, total_count=len(found))
        if not pattern:
            raise ToolArgumentsInvalid("pattern is empty")
        query = GrepQuery(
            pattern,
            root,
            file_glob,
            min(max(context, 0), 20),
            page.offset,
            page.limit,
            longest,
            None if protected is None else protected.__contains__,
        )
        grepped = await files.grep(query, call.cancel)
    except OSError as error:
        raise file_error("search", path, error) from error
    text = _with_note(_format_matches(grepped, query, output_mode, page), protected)
    matches = [
        {"path": page.name(hit.path), "line": hit.line, "content": hit.text}
        for hit in grepped.hits
        if hit.match
    ]
    counts = {page.name(name): count for name, count in grepped.counts.items()}
    shown = {} if output_mode != "count" else {"counts": counts}
    return StructuredText(
        text,
        matches=matches if output_mode == "content" else [],
        files=[*counts],
        total_count=sum(counts.values()),
        **shown,
    )


def protected_files(deps: ToolDeps, root: str) -> ProtectedFiles | None:
    """Return the files to leave out; None in an isolated place, and if the user allowed a search of
    the protected place itself."""
    if deps.place.isolated or deps.guard.check_read(root, root) is not None:
        return None
    return ProtectedFiles(deps.guard, root)


def _with_note(text: str, protected: ProtectedFiles | None) -> str:
    return "\n".join([text, *(protected.note() if protected else ())])


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

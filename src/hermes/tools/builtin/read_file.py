"""The tool `read_file`: read a page of a text file with line numbers."""

import difflib
import errno
import os
from pathlib import PurePath

from hermes.core.errors import ToolError
from hermes.core.tool import Concern, Effect, StructuredText
from hermes.terminal import FileInfo, Files, TextPage
from hermes.tools.editing.files import ReadPage, display_path, file_error
from hermes.tools.registry import ToolDeps, tool

MAX_NAMES = 2_000  #: Names of a folder that are searched for a suggestion.


async def read_concern(deps: ToolDeps, path: str) -> Concern | None:
    """Return why reading `path` needs approval; never in an isolated backend."""
    if deps.place.isolated:
        return None
    try:
        return deps.guard.check_read(path, await deps.place.files.locate(path))
    except OSError:
        return None  # the call fails too, and reports why


@tool(
    toolset="file",
    effect=Effect.READ,
    examine=lambda deps, arguments: read_concern(deps, str(arguments.get("path", ""))),
    emoji="📖",
)
async def read_file(deps: ToolDeps, path: str, offset: int = 1, limit: int = 500) -> str:
    """Read a text file. Lines are returned as LINE|CONTENT.

    offset: first line, starting at 1
    limit: number of lines
    """
    files, limits, max_chars = deps.place.files, deps.limits, deps.settings.file_read_max_chars
    offset, limit = max(offset, 1), min(max(limit, 1), limits.max_lines)
    try:
        real = await files.locate(path)
        info = await _require_file(files, path, real)
        page = await files.lines(real, offset=offset, limit=limit, longest=limits.max_line_length)
    except OSError as error:
        raise file_error("read", path, error) from error
    if page.binary:
        raise ToolError(
            f"{display_path(path)} is a binary file",
            hint="use the terminal tool to look at it, for example with `file` or `xxd`",
        )
    text = "\n".join(f"{number}|{line}" for number, line in enumerate(page.lines, offset))
    if len(text) > max_chars:
        lines = max(1, limit * max_chars // len(text) * 4 // 5)
        raise ToolError(
            f"{len(page.lines)} lines of {display_path(path)} are {len(text)} characters, "
            f"the limit is {max_chars}",
            hint=f"read fewer lines at once, for example offset={offset}, limit={lines}",
        )
    deps.reads.record(real, info)
    result = "\n".join([text, *_notes(page, offset)])
    if not text and page.total == 0:
        result = "[the file is empty]"
    elif not text:
        result = f"[the file has {page.total} lines; line {offset} is past its end]"
    last = offset + len(page.lines) - 1
    if deps.reads.is_repeat(ReadPage(real, offset, limit), result):
        result = f"[unchanged since you read it (lines {offset}-{last}); read again to see it]"
    return StructuredText(
        result,
        content=text,
        total_lines=page.total,
        file_size=info.size,
        truncated=last < page.total or not page.complete,
    )


async def _require_file(files: Files, path: str, real: str) -> FileInfo:
    info = await files.stat(real)
    if info is None:
        similar = await _similar_names(files, real)
        hint = f"did you mean {', '.join(similar)}?" if similar else "search_files finds files"
        raise ToolError(f"there is no file {display_path(path)}", hint=hint)
    if info.kind == "folder":
        raise ToolError(
            f"{display_path(path)} is a folder",
            hint=f"list its files with search_files(pattern='*', target='files', path={path!r})",
        )
    if info.kind == "other":
        raise OSError(errno.EINVAL, "it is a device, pipe or socket, not a file")
    return info


async def _similar_names(files: Files, real: str) -> list[str]:
    """Return up to three names in the same folder that are similar to the missing one."""
    wanted = PurePath(real)
    folder = str(wanted.parent)
    info = await files.stat(folder)
    if info is None or info.kind != "folder":
        return []
    names = (await files.names(folder))[:MAX_NAMES]
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(wanted.name.lower(), by_lower, n=3, cutoff=0.6)
    same_stem = [name for name in names if PurePath(name).stem == wanted.stem]
    found = dict.fromkeys([*(by_lower[name] for name in close), *same_stem])
    return [display_path(os.path.join(folder, name)) for name in list(found)[:3]]  # noqa: PTH118 - text


def _notes(page: TextPage, offset: int) -> list[str]:
    notes = []
    last = offset + len(page.lines) - 1
    if last < page.total or not page.complete:
        total = str(page.total) if page.complete else f"more than {page.total}"
        notes.append(f"[lines {offset}-{last} of {total}; continue with offset={last + 1}]")
    if page.crlf:
        notes.append("[lines end with CRLF]")
    if page.undecodable:
        notes.append("[some bytes are not UTF-8 and are shown as �]")
    return notes

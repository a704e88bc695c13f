"""Searching file contents with `rg`, where it is installed."""

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.terminal.base import Grep, Grepped, Hit
from hermes.terminal.here.globs import NameGlob, relative_to
from hermes.terminal.here.walk import repository_of
from hermes.terminal.output import cut_line

OPTIONS = (
    "--json", "--sort=path", "--no-config", "--no-require-git", "--no-messages", "--glob=!.git",
    "--no-ignore-dot", "--no-ignore-global",
)  # fmt: skip
"""Only what git ignores is left out, as by our own walk."""
LINE_LIMIT = 64 * 1_048_576
"""Bytes of one JSON line; a longer one would be a file that is one huge line, and is left out."""


async def grep_with_ripgrep(program: str, query: Grep, cancel: CancelToken) -> Grepped:
    names = NameGlob(query.file_glob) if query.file_glob else None
    alone = [] if repository_of(query.path) else ["--no-ignore-parent"]
    arguments = [*OPTIONS, *alone, f"--context={query.context}", *only(names)]
    with cancel.scope():
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            "--",
            query.pattern,
            query.path,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            return await _collect(process, Page(query, names))
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()  # what it left unread would keep it from being gone


def only(names: NameGlob | None) -> list[str]:
    """Files by name as a type of our own: `--glob` would bring back what git ignores."""
    if names is None:
        return []
    hidden = ["--hidden"] if names.hidden else []
    if names.whole_path:
        return hidden
    return [*hidden, *(f"--type-add=wanted:{glob}" for glob in names.globs), "--type=wanted"]


async def _collect(process: asyncio.subprocess.Process, page: "Page") -> Grepped:
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("rg was started without pipes")
    errors = asyncio.ensure_future(process.stderr.read(10_000))
    try:
        async for line in _lines(process.stdout):
            page.add(msgspec.json.decode(line))
        complaint = (await errors).decode("utf-8", "replace").strip()
    finally:
        # Not awaited here: who stops us has not ended rg yet, which still waits for a reader.
        errors.cancel()
    if await process.wait() == 2 and not page.counts and complaint:
        raise search_failure(page.query.pattern, complaint)
    return Grepped(page.counts, tuple(page.hits))


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Piece by piece, so that others get their turn however much comes."""
    kept: list[bytes] = []
    size = 0
    while piece := await stream.read(65_536):
        first, *more = piece.split(b"\n")
        size += len(first)
        kept = [*kept, first] if size <= LINE_LIMIT else []
        if not more:
            continue
        if size <= LINE_LIMIT:
            yield b"".join(kept)
        for line in more[:-1]:
            yield line
        kept, size = [more[-1]], len(more[-1])


def search_failure(pattern: str, complaint: str) -> ToolError:
    reason = complaint.splitlines()[-1].removeprefix("error: ")
    if "regex" in complaint or "escape" in complaint:
        return ToolArgumentsInvalid(
            f"{pattern!r} is not a valid regular expression: {reason}",
            hint="escape special characters with a backslash to search for them as they are",
        )
    return ToolError(f"the search failed: {reason}")


class Page:
    """Counts every match and keeps the page that was asked for."""

    def __init__(self, query: Grep, names: NameGlob | None) -> None:
        self.query, self._names = query, names
        self._skip = False
        self._seen = 0
        self._last_wanted = 0
        self._before: list[Hit] = []
        self.counts: dict[str, int] = {}
        self.hits: list[Hit] = []

    def add(self, event: dict[str, Any]) -> None:
        data = event["data"]
        match event["type"]:
            case "begin":
                self._before, self._last_wanted = [], 0
                self._skip = not self._wanted(os.fsdecode(_bytes(data["path"])))
            case "context" if not self._skip:
                self._context(self._hit(data, match=False))
            case "match" if not self._skip:
                self._match(self._hit(data))

    def _wanted(self, path: str) -> bool:
        if self._names is None:
            return True
        alone = path == self.query.path
        relative = path.rpartition("/")[2] if alone else relative_to(path, self.query.path)
        return self._names.matches(relative)

    def _match(self, hit: Hit) -> None:
        self.counts[hit.path] = self.counts.get(hit.path, 0) + 1
        wanted = 0 <= self._seen - self.query.offset < self.query.limit
        self._seen += 1
        if not wanted:
            self._context(Hit(hit.path, hit.line, hit.text, match=False))
            return
        first = hit.line - self.query.context
        self.hits += [line for line in self._before if line.line >= first]
        self.hits.append(hit)
        self._before, self._last_wanted = [], hit.line

    def _context(self, line: Hit) -> None:
        """A line around a match, shown when a match of the page is near enough."""
        if not self.query.context:
            return
        if self._last_wanted and line.line <= self._last_wanted + self.query.context:
            self.hits.append(line)
        else:
            self._before = [*self._before[-self.query.context :], line]

    def _hit(self, data: dict[str, Any], *, match: bool = True) -> Hit:
        text = _bytes(data["lines"]).decode("utf-8", "replace").rstrip("\r\n")
        path = os.fsdecode(_bytes(data["path"]))
        return Hit(path, data["line_number"], cut_line(text, self.query.longest), match)


def _bytes(value: dict[str, str]) -> bytes:
    """rg writes `{"text": …}`, or `{"bytes": base64}` for what is not UTF-8."""
    return value["text"].encode() if "text" in value else base64.b64decode(value["bytes"])

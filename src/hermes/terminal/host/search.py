"""Searching the files of a host: with `rg` where it is installed there, else with find and grep.

The rules of .gitignore files are applied here, as our own walk does, so that it needs no git.
"""

import asyncio
import base64
import os
import re
from collections.abc import Callable
from typing import Any

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.terminal.base import Grep, Grepped, Host
from hermes.terminal.here.globs import IgnoreRule, NameGlob, ignored, parse_gitignore
from hermes.terminal.here.ripgrep import OPTIONS, Page, only, search_failure
from hermes.terminal.here.walk import SNIFF
from hermes.terminal.host.call import Answer, call
from hermes.terminal.host.files_scripts import FILES, GREP, NO_RIPGREP, RIPGREP

_NUMBERED = re.compile(rb"(\d+)([:-])(.*)", re.DOTALL)


class HostSearch:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._has_ripgrep = True
        """Until it turns out that it is not there."""

    async def find(self, glob: str, folder: str) -> list[str]:
        return await self._files(folder, NameGlob(glob))

    async def grep(self, query: Grep) -> Grepped:
        if self._has_ripgrep:
            found = await self._with_ripgrep(query)
            if found is not None:
                return found
            self._has_ripgrep = False
        return await self._with_grep(query)

    async def _with_ripgrep(self, query: Grep) -> Grepped | None:
        """None when it is not installed there."""
        names = NameGlob(query.file_glob) if query.file_glob else None
        page = Page(query, names)
        pieces = Pieces(b"\n", lambda line: page.add(msgspec.json.decode(line)))
        options = [*OPTIONS, f"--context={query.context}", *only(names)]
        answer = await call(
            self._host,
            RIPGREP,
            query.path,
            *options,
            "--",
            query.pattern,
            query.path,
            on_output=pieces.feed,
        )
        if answer.code == NO_RIPGREP:
            return None
        complaint = answer.errors.decode("utf-8", "replace").strip()
        if answer.code == 2 and not page.counts and complaint:
            raise search_failure(query.pattern, complaint)
        return Grepped(page.counts, tuple(page.hits))

    async def _with_grep(self, query: Grep) -> Grepped:
        _check(query.pattern)
        names = NameGlob(query.file_glob) if query.file_glob else None
        paths = await self._files(query.path, names)
        page = Page(query, None)
        if paths:
            texts = (
                query.pattern,
                extended(query.pattern),
                query.context,
                query.longest * 4,
                SNIFF,
            )
            answer = await call(
                self._host,
                GREP,
                *map(str, texts),
                data=b"\0".join(map(os.fsencode, [*paths, ""])),
                on_output=Pieces(b"\0", _Matches(page).add).feed,
            )
            _require_found(answer, query.pattern)
        return Grepped(page.counts, tuple(page.hits))

    async def _files(self, folder: str, names: NameGlob | None) -> list[str]:
        """The files below `folder` in the order of their paths, without what git ignores."""
        hidden = names is not None and names.hidden
        answer = await call(self._host, FILES, folder, "hidden" if hidden else "")
        listing = _Listing(answer.output, folder)
        if not hidden and listing.shows_hidden:
            answer = await call(self._host, FILES, folder, "hidden")
            listing = _Listing(answer.output, folder)
        return await asyncio.to_thread(listing.wanted, names, hidden=hidden)


class Pieces:
    """Cuts a stream at `end`; a piece may come in any number of chunks."""

    def __init__(self, end: bytes, on_piece: Callable[[bytes], None]) -> None:
        self._end, self._on_piece = end, on_piece
        self._begun: list[bytes] = []

    def feed(self, data: bytes) -> None:
        first, *rest = data.split(self._end)
        self._begun.append(first)
        for piece in rest:
            self._on_piece(b"".join(self._begun))
            self._begun = [piece]


class _Matches:
    """Takes in turn a path and the lines `grep -n` found there."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._path: dict[str, str] | None = None

    def add(self, piece: bytes) -> None:
        if self._path is None:
            self._path = _packed(piece)
            self._page.add({"type": "begin", "data": {"path": self._path}})
            return
        for line in piece.split(b"\n"):
            if found := _NUMBERED.fullmatch(line):
                data: dict[str, Any] = {
                    "path": self._path,
                    "lines": _packed(found[3]),
                    "line_number": int(found[1]),
                }
                kind = "match" if found[2] == b":" else "context"
                self._page.add({"type": kind, "data": data})
        self._path = None


def _packed(data: bytes) -> dict[str, str]:
    return {"bytes": base64.b64encode(data).decode()}


class _Ignoring:
    """What git ignores in a tree, as `walk.Walk` sees it; paths are relative to its top."""

    def __init__(self, *, hidden: bool) -> None:
        self._hidden = hidden
        self._own: dict[str, list[IgnoreRule]] = {}
        self._repositories: set[str] = set()
        self._rules: dict[str, list[IgnoreRule]] = {}
        self._skipped: dict[str, bool] = {}

    def read(self, file: str, text: str) -> None:
        """A .git with the text of its info/exclude, or a .gitignore, which has the last word."""
        folder, _, name = file.rpartition("/")
        rules, own = (
            parse_gitignore(text, f"{folder}/" if folder else ""),
            self._own.get(folder, []),
        )
        self._own[folder] = rules + own if name == ".git" else own + rules
        if name == ".git":
            self._repositories.add(folder)

    def enter(self, root: str) -> None:
        """Nothing above `root` is left out, whatever the rules say about it."""
        parts = root.split("/") if root else []
        self._skipped |= {"/".join(parts[:count]): False for count in range(len(parts) + 1)}

    def skips(self, path: str, *, is_folder: bool = False) -> bool:
        folder, _, name = path.rpartition("/")
        if self._skips_folder(folder):
            return True
        verdict = ignored(self._rules_in(folder), path, is_folder=is_folder)
        return name.startswith(".") and not self._hidden if verdict is None else verdict

    def _skips_folder(self, folder: str) -> bool:
        if folder not in self._skipped:
            self._skipped[folder] = self.skips(folder, is_folder=True)
        return self._skipped[folder]

    def _rules_in(self, folder: str) -> list[IgnoreRule]:
        if folder not in self._rules:
            alone = not folder or folder in self._repositories
            above = [] if alone else self._rules_in(folder.rpartition("/")[0])
            self._rules[folder] = above + self._own.get(folder, [])
        return self._rules[folder]


class _Listing:
    """What `FILES` told about the folder `root`."""

    def __init__(self, listing: bytes, root: str) -> None:
        self._root = root.rstrip("/")
        self._rules: list[tuple[str, str]] = []
        self._found: list[bytes] | None = None
        if not listing:
            return  # not a folder
        top, *fields = listing.split(b"\0")
        self._top = os.fsdecode(top).rstrip("/")
        middle = next(index for index in range(0, len(fields), 2) if not fields[index])
        for index in range(0, middle, 2):
            text = fields[index + 1].decode("utf-8", "replace")
            self._rules.append((self._below_top(os.fsdecode(fields[index])), text))
        self._found = fields[middle + 1 : -1]

    @property
    def shows_hidden(self) -> bool:
        """Whether a rule such as `!.github` may bring back what is hidden."""
        return any(_SHOWN.search(text) for _, text in self._rules)

    def wanted(self, names: NameGlob | None, *, hidden: bool) -> list[str]:
        if self._found is None:
            alone = self._root.rpartition("/")[2]
            return [self._root] if names is None or names.matches(alone) else []
        ignoring = _Ignoring(hidden=hidden)
        for file, text in self._rules:
            ignoring.read(file, text)
        below = self._below_top("./")
        ignoring.enter(below.rstrip("/"))
        paths = [os.fsdecode(field)[2:] for field in self._found]
        kept = [
            path
            for path in paths
            if (names is None or names.matches(path)) and not ignoring.skips(below + path)
        ]
        kept.sort(key=lambda path: path.split("/"))
        return [f"{self._root}/{path}" for path in kept]

    def _below_top(self, path: str) -> str:
        whole = f"{self._root}/{path[2:]}" if path.startswith("./") else path
        return whole.removeprefix(self._top).removeprefix("/")


_SHOWN = re.compile(r"^!(?:.*/)?[.*?\[]", re.MULTILINE)


def _check(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise _invalid(pattern, str(error)) from error


_CLASSES = {"d": "[0-9]", "D": "[^0-9]", "s": "[[:space:]]", "S": "[^[:space:]]"}
_CLASSES |= {"w": "[[:alnum:]_]", "W": "[^[:alnum:]_]"}
_ONLY_PERL = re.compile(r"\(\?|[*+?}][?+]|\\[AzZGKQEpPx0-9]")
_BRACKETED = re.compile(r"\[\^?\]?(?:\[:\w+:\]|[^\]])*\]|\\.", re.DOTALL)


def extended(pattern: str) -> str:
    """The expression for `grep -E`, or "" when that has no such thing."""
    brackets = [text for text in _BRACKETED.findall(pattern) if text.startswith("[")]
    if _ONLY_PERL.search(pattern) or any("\\" in text for text in brackets):
        return ""
    return _BRACKETED.sub(lambda found: _CLASSES.get(found[0][1:], found[0]), pattern)


def _require_found(answer: Answer, pattern: str) -> None:
    complaint = answer.errors.decode("utf-8", "replace").strip()
    if complaint == "!ENOSYS":
        raise ToolError(
            f"{pattern!r} needs a regular expression that the grep of that machine does not know",
            hint="use a simpler expression, or install ripgrep there",
        )
    if answer.code == 2:
        raise _invalid(pattern, complaint.removeprefix("grep: "))


def _invalid(pattern: str, reason: str) -> ToolArgumentsInvalid:
    return ToolArgumentsInvalid(
        f"{pattern!r} is not a valid regular expression: {reason}",
        hint="escape special characters with a backslash to search for them as they are",
    )

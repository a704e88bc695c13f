"""Files of any host that has a POSIX shell; each operation is one small script there."""

import asyncio
import codecs
import errno
import os
import re
import secrets
import stat
from typing import Literal

import msgspec

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolError
from hermes.terminal.base import FileInfo, GrepQuery, GrepResult, Host, Sink, TextPage
from hermes.terminal.host_shell import HostScriptResult, HostShell, OutputTooLong, call_script
from hermes.terminal.local.files import MAX_COUNTED_BYTES, RawLine, line_text
from hermes.terminal.local.search import (
    RIPGREP_OPTIONS,
    SNIFF_BYTES,
    GrepPage,
    IgnoreRule,
    NameGlob,
    RipgrepReader,
    glob_options,
    invalid_pattern,
    is_ignored,
    parse_gitignore,
    search_failure,
)
from hermes.util.files import unescaped

# Search: with `rg` where the host has it, else with find and grep.
#
# The rules of .gitignore files are applied on this side, as in the local walk, so the host needs no
# git.

_NUMBERED = re.compile(rb"(\d+)([:-])(.*)", re.DOTALL)


NO_RIPGREP = 97  #: Exit code of `ripgrep.sh`.


class HostSearch:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._has_ripgrep = True  #: False once `rg` was not found there.

    async def find(self, glob: str, folder: str) -> list[str]:
        return await self._files(folder, NameGlob(glob))

    async def grep(self, query: GrepQuery) -> GrepResult:
        if self._has_ripgrep:
            found = await self._with_ripgrep(query)
            if found is not None:
                return found
            self._has_ripgrep = False
        return await self._with_grep(query)

    async def _with_ripgrep(self, query: GrepQuery) -> GrepResult | None:
        """Return None if it is not installed there."""
        names = NameGlob(query.file_glob) if query.file_glob else None
        page = GrepPage(query)
        reader = RipgrepReader(page, names)
        pieces = StreamSplitter(b"\n", lambda line: reader.add(msgspec.json.decode(line)))
        options = [*RIPGREP_OPTIONS, f"--context={query.context}", *glob_options(names)]
        answer = await call_script(
            self._host,
            "ripgrep",
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
        return page.result()

    async def _with_grep(self, query: GrepQuery) -> GrepResult:
        try:
            re.compile(query.pattern)
        except re.error as error:
            raise invalid_pattern(query.pattern, str(error)) from error
        names = NameGlob(query.file_glob) if query.file_glob else None
        page = GrepPage(query)
        paths = [path for path in await self._files(query.path, names) if page.begin_file(path)]
        if paths:
            texts = (
                query.pattern,
                to_extended_regex(query.pattern),
                query.context,
                query.longest * 4,
                SNIFF_BYTES,
            )
            answer = await call_script(
                self._host,
                "grep",
                *map(str, texts),
                data=b"\0".join(map(os.fsencode, [*paths, ""])),
                on_output=StreamSplitter(b"\0", _GrepOutput(page).add).feed,
            )
            _raise_on_grep_failure(answer, query.pattern)
        return page.result()

    async def _files(self, folder: str, names: NameGlob | None) -> list[str]:
        """Return the files below `folder` in path order, without those that git ignores."""
        hidden = names is not None and names.hidden
        answer = await call_script(self._host, "files", folder, "hidden" if hidden else "")
        listing = _FolderListing(answer.output, folder)
        if not hidden and listing.shows_hidden:
            answer = await call_script(self._host, "files", folder, "hidden")
            listing = _FolderListing(answer.output, folder)
        return await asyncio.to_thread(listing.wanted, names, hidden=hidden)


class StreamSplitter:
    """Splits a stream at `end`; a piece may arrive in any number of chunks."""

    def __init__(self, end: bytes, on_piece: Sink) -> None:
        self._end, self._on_piece = end, on_piece
        self._begun: list[bytes] = []

    def feed(self, data: bytes) -> None:
        first, *rest = data.split(self._end)
        self._begun.append(first)
        for piece in rest:
            self._on_piece(b"".join(self._begun))
            self._begun = [piece]


class _GrepOutput:
    """Takes alternately a path and the lines that `grep -n` found there."""

    def __init__(self, page: GrepPage) -> None:
        self._page = page
        self._path = ""

    def add(self, piece: bytes) -> None:
        if not self._path:
            self._path = os.fsdecode(piece)
            self._page.begin_file(self._path)
            return
        for line in piece.split(b"\n"):
            if found := _NUMBERED.fullmatch(line):
                text = found[3].decode("utf-8", "replace").rstrip("\r\n")
                self._page.add(self._path, int(found[1]), text, match=found[2] == b":")
        self._path = ""


class _IgnoreTree:
    """What git ignores in a tree, by the rules of `FileWalk`; paths are relative to its top."""

    def __init__(self, *, hidden: bool) -> None:
        self._hidden = hidden
        self._own: dict[str, list[IgnoreRule]] = {}
        self._repositories: set[str] = set()
        self._rules: dict[str, list[IgnoreRule]] = {}
        self._skipped: dict[str, bool] = {}

    def read(self, file: str, text: str) -> None:
        """Add a .git with the text of its info/exclude, or a .gitignore, which takes precedence."""
        folder, _, name = file.rpartition("/")
        rules, own = (
            parse_gitignore(text, f"{folder}/" if folder else ""),
            self._own.get(folder, []),
        )
        self._own[folder] = rules + own if name == ".git" else own + rules
        if name == ".git":
            self._repositories.add(folder)

    def enter(self, root: str) -> None:
        """Never skip `root` or a folder above it, whatever the rules say."""
        parts = root.split("/") if root else []
        self._skipped |= {"/".join(parts[:count]): False for count in range(len(parts) + 1)}

    def skips(self, path: str, *, is_folder: bool = False) -> bool:
        folder, _, name = path.rpartition("/")
        if self._skips_folder(folder):
            return True
        verdict = is_ignored(self._rules_in(folder), path, is_folder=is_folder)
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


class _FolderListing:
    """The output of `files.sh` for the folder `root`."""

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
        """Whether a rule such as `!.github` may include hidden files."""
        return any(_UNHIDING_RULE.search(text) for _, text in self._rules)

    def wanted(self, names: NameGlob | None, *, hidden: bool) -> list[str]:
        if self._found is None:
            alone = self._root.rpartition("/")[2]
            return [self._root] if names is None or names.matches(alone) else []
        ignoring = _IgnoreTree(hidden=hidden)
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


_UNHIDING_RULE = re.compile(r"^!(?:.*/)?[.*?\[]", re.MULTILINE)


_CLASSES = {"d": "[0-9]", "D": "[^0-9]", "s": "[[:space:]]", "S": "[^[:space:]]"}
_CLASSES |= {"w": "[[:alnum:]_]", "W": "[^[:alnum:]_]"}
_ONLY_PERL = re.compile(r"\(\?|[*+?}][?+]|\\[AzZGKQEpPx0-9]")
_BRACKETED = re.compile(r"\[\^?\]?(?:\[:\w+:\]|[^\]])*\]|\\.", re.DOTALL)


def to_extended_regex(pattern: str) -> str:
    """Return the expression for `grep -E`, or "" if it cannot be expressed."""
    brackets = [text for text in _BRACKETED.findall(pattern) if text.startswith("[")]
    if _ONLY_PERL.search(pattern) or any("\\" in text for text in brackets):
        return ""
    return _BRACKETED.sub(lambda found: _CLASSES.get(found[0][1:], found[0]), pattern)


def _raise_on_grep_failure(answer: HostScriptResult, pattern: str) -> None:
    complaint = answer.errors.decode("utf-8", "replace").strip()
    if complaint == "!ENOSYS":
        raise ToolError(
            f"{pattern!r} needs a regular expression that the grep of that machine does not know",
            hint="use a simpler expression, or install ripgrep there",
        )
    if answer.code == 2:
        raise invalid_pattern(pattern, complaint.removeprefix("grep: "))


_BOM = codecs.BOM_UTF8
_KINDS: dict[int, Literal["file", "folder"]] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}


class HostFiles:
    """`Files` of a host.

    `shell` provides the base of relative paths. It is kept from closing when idle during a call.
    """

    def __init__(self, host: Host, shell: HostShell) -> None:
        self._host, self._shell = host, shell
        self._search = HostSearch(host)

    async def locate(self, path: str) -> str:
        if "\0" in path:
            raise OSError(errno.EINVAL, "a path cannot contain a null byte")
        other = unescaped(path) if "\\x" in path else ""
        answer = await self._call("locate", self._shell.cwd, path, other)
        return os.fsdecode(answer.output)

    async def stat(self, path: str) -> FileInfo | None:
        answer = await self._call("stat", path)
        _raise_on_failure(answer, path)
        if not answer.output:
            return None
        mode, size, modified = answer.output.decode().split()
        kind = stat.S_IFMT(int(mode, 16))
        return FileInfo(_KINDS.get(kind, "other"), int(size), _parse_mtime(modified))

    async def names(self, folder: str) -> list[str]:
        answer = await self._call("names", folder)
        _raise_on_failure(answer, folder)
        return sorted(os.fsdecode(name) for name in answer.output.split(b"\0")[:-1])

    async def lines(self, path: str, *, offset: int, limit: int, longest: int) -> TextPage:
        keep = longest * 4
        counts = (offset, offset + limit - 1, keep + len(_BOM), MAX_COUNTED_BYTES, SNIFF_BYTES)
        answer = await self._call("lines", path, *map(str, counts))
        _raise_on_failure(answer, path)
        if answer.output == b"binary":
            return TextPage((), 0, binary=True)
        head, _, body = answer.output.partition(b"\0")
        total, complete = head.decode().split()
        raw = body.split(b"\n")[:-1]
        if offset == 1 and raw:
            raw[0] = raw[0].removeprefix(_BOM)
        page = [_raw_line(line, keep) for line in raw]
        texts = [line_text(line, longest) for line in page]
        return TextPage(
            tuple(text for text, _ in texts),
            int(total),
            complete=complete == "yes",
            crlf=any(line.crlf for line in page),
            undecodable=not all(whole for _, whole in texts),
        )

    async def read(self, path: str, *, most: int) -> bytes:
        try:
            answer = await self._call("read", path, str(most), most=most)
        except OutputTooLong:
            raise OSError(errno.EFBIG, f"it has more than {most} bytes", path) from None
        _raise_on_failure(answer, path)
        return answer.output

    async def write(self, path: str, data: bytes) -> None:
        _require_absolute(path)
        name = f".hermes-{secrets.token_hex(8)}.tmp"
        _raise_on_failure(await self._call("write", path, str(len(data)), name, data=data), path)

    async def remove(self, path: str) -> None:
        _require_absolute(path)
        _raise_on_failure(await self._call("remove", path), path)

    async def find(self, glob: str, folder: str, cancel: CancelToken) -> list[str]:
        with cancel.scope():
            async with self._shell.keep_open():
                return await self._search.find(glob, folder)

    async def grep(self, query: GrepQuery, cancel: CancelToken) -> GrepResult:
        with cancel.scope():
            async with self._shell.keep_open():
                return await self._search.grep(query)

    async def _call(
        self, script: str, *arguments: str, data: bytes | None = None, most: int | None = None
    ) -> HostScriptResult:
        async with self._shell.keep_open():
            return await call_script(self._host, script, *arguments, data=data, most=most)


def _raw_line(raw: bytes, keep: int) -> RawLine:
    """The end of a truncated line is unknown, so its CRLF is not detected."""
    return RawLine(raw[:keep].rstrip(b"\r"), cut=len(raw) >= keep, crlf=raw.endswith(b"\r"))


def _parse_mtime(text: str) -> int:
    seconds, _, fraction = text.partition(".")
    return int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9] or 0)


def _require_absolute(path: str) -> None:
    if not path.startswith("/") or path.endswith("/") or ".." in path.split("/"):
        raise OSError(errno.EINVAL, "not an absolute path of a file", path)


_ERRNO_NAME = re.compile(rb"!(E[A-Z]+)\Z")
_ERRNO_BY_TEXT = {
    os.strerror(number): number
    for number in (
        errno.ENOENT, errno.EACCES, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ENOSPC,
        errno.EROFS, errno.EDQUOT, errno.ELOOP, errno.EIO, errno.EPERM, errno.ETXTBSY,
    )
}  # fmt: skip
_REASONS = {
    errno.EINVAL: "it is a device, pipe or socket, not a file",
    errno.ELOOP: "a part of the path has become a link",
    errno.EFBIG: "it is too big",
    errno.EIO: "not all of it arrived",
}


def _raise_on_failure(answer: HostScriptResult, path: str) -> None:
    """Raise the failure of the script; `OSError` selects the right subclass by its number."""
    if answer.code == 0:
        return
    if name := _ERRNO_NAME.search(answer.errors):
        number = getattr(errno, name[1].decode())
        raise OSError(number, _REASONS.get(number) or os.strerror(number), path)
    message = answer.errors.decode("utf-8", "replace").strip()
    for text, number in _ERRNO_BY_TEXT.items():
        if text in message:
            raise OSError(number, text, path)
    last = message.splitlines()[-1] if message else f"exit code {answer.code}"
    raise ToolError(f"the host could not do it: {last}")

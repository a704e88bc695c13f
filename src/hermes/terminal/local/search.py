"""Search of local files: globs, .gitignore rules, a walk in Python, and ripgrep.

The Python search runs in a worker thread and is used where ripgrep is not installed.
"""

import asyncio
import base64
import contextlib
import itertools
import os
import re
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.terminal.base import GrepLine, GrepQuery, GrepResult
from hermes.terminal.output import cut_line
from hermes.util.lazy import late_pattern

# Globs and .gitignore rules as regular expressions over `/`-separated relative paths.

_CLASS = late_pattern(r"\[(!?)(\]?[^\]/]*)\]")


@lru_cache(maxsize=512)
def glob_pattern(glob: str) -> re.Pattern[str]:
    """Compile a glob: `*`, `?` stop at a slash, `**` does not; `[a-z]`, `{a,b}` as in a shell."""
    return re.compile(_translate(glob) + r"\Z", re.DOTALL)


def _translate(glob: str) -> str:
    parts: list[str] = []
    position = depth = 0
    while position < len(glob):
        rest = glob[position:]
        taken, piece, depth = _translate_piece(rest, at_start=position == 0, depth=depth)
        parts.append(piece)
        position += taken
    return "".join(parts) + ")" * depth


_LITERAL = {"?": "[^/]", "*": "[^/]*"}


def _translate_piece(rest: str, *, at_start: bool, depth: int) -> tuple[int, str, int]:
    """Return the length of the next piece, its expression, and the brace depth after it."""
    if rest.startswith("/**/"):
        return 4, "/(?:.*/)?", depth
    if at_start and rest.startswith("**/"):
        return 3, "(?:.*/)?", depth
    if rest.startswith("**"):
        return 2, ".*", depth
    if rest[0] in _LITERAL:
        return 1, _LITERAL[rest[0]], depth
    if rest[0] == "\\" and len(rest) > 1:
        return 2, re.escape(rest[1]), depth
    if found := _CLASS.match(rest):
        body = found[2].replace("\\", "\\\\").replace("[", "\\[")
        return found.end(), f"[{'^' if found[1] else ''}{body}]", depth
    return 1, *_translate_brace(rest, depth)


def _translate_brace(rest: str, depth: int) -> tuple[str, int]:
    if rest[0] == "{" and "}" in rest:
        return "(?:", depth + 1
    if depth and rest[0] == "}":
        return ")", depth - 1
    if depth and rest[0] == ",":
        return "|", depth
    return re.escape(rest[0]), depth


class NameGlob:
    """The glob of a search as models write it: `*.py`, `.py`, `py`, `src/**/*.py`, `./src/*`."""

    def __init__(self, glob: str) -> None:
        glob = _escape_unbalanced_braces(glob.strip().removeprefix("./"))
        self.whole_path = "/" in glob  #: True: match the path below the folder instead of the name.
        self.globs = [glob]
        if not self.whole_path and not re.search(r"[*?\[{]", glob):
            # A plain suffix or word: `.py` means `*.py`, `conf` means `*conf*`.
            self.globs.append(f"*{glob}" if glob.startswith(".") else f"*{glob}*")
        self.hidden = any(part.startswith(".") for part in glob.split("/"))
        """The glob itself names hidden files."""

    def matches(self, relative: str) -> bool:
        folder, _, name = relative.rpartition("/")
        if not self.whole_path and re.search(r"(^|/)\.", folder):
            return False  # a name does not match inside hidden folders
        subject = relative if self.whole_path else name
        return any(glob_pattern(glob).match(subject) for glob in self.globs)


def _escape_unbalanced_braces(glob: str) -> str:
    """Escape the braces of a glob if they are unbalanced."""
    if glob.count("{") == glob.count("}"):
        return glob
    return glob.replace("{", "\\{").replace("}", "\\}")


class IgnoreRule(msgspec.Struct, frozen=True):
    pattern: re.Pattern[str]
    negated: bool
    folders_only: bool
    base: str
    """Folder of the .gitignore, relative to the root of the walk; "" or ending in a slash."""

    def matches(self, relative: str, is_folder: bool) -> bool:
        if (self.folders_only and not is_folder) or not relative.startswith(self.base):
            return False
        return self.pattern.match(relative[len(self.base) :]) is not None


def parse_gitignore(text: str, base: str) -> list[IgnoreRule]:
    rules = []
    for raw in text.splitlines():
        line = raw if raw.endswith("\\ ") else raw.rstrip()
        if not line or line.startswith("#"):
            continue
        negated = line.startswith("!")
        line = line[1:] if negated else line
        folders_only = line.endswith("/")
        line = line.rstrip("/")
        # A slash at the start or in the middle anchors the rule to its folder.
        glob = line.lstrip("/") if "/" in line else f"**/{line}"
        if glob:
            # git does not support braces
            pattern = glob_pattern(glob.replace("{", "\\{").replace("}", "\\}"))
            rules.append(IgnoreRule(pattern, negated, folders_only, base))
    return rules


def is_ignored(rules: Sequence[IgnoreRule], relative: str, *, is_folder: bool) -> bool | None:
    """Return the decision of the last matching rule; None if none matches."""
    for rule in reversed(rules):
        if rule.matches(relative, is_folder):
            return not rule.negated
    return None


def relative_to(path: str, folder: str) -> str:
    """Return `path` relative to `folder` with slashes, or unchanged if it is elsewhere."""
    prefix = folder if folder.endswith(os.sep) else folder + os.sep
    return path[len(prefix) :].replace(os.sep, "/") if path.startswith(prefix) else path


SNIFF_BYTES = 8_192  #: Bytes inspected to distinguish text from binary.
MAX_LINE_BYTES = 1_048_576
"""Bytes of a line that are searched; the rest of a longer one counts as a new line."""
STOP_CHECK_LINES = 2_000  #: Lines between two checks of the stop flag.


class SearchStopped(Exception):
    """The caller stopped the search."""


class FileWalk:
    """Yields the files under `root` in path order, without those that git ignores."""

    def __init__(self, root: str, stop: threading.Event, *, hidden: bool = False) -> None:
        self._root, self._stop, self._hidden = root, stop, hidden

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield the absolute and relative path of each file."""
        if not Path(self._root).is_dir():
            yield self._root, Path(self._root).name
            return
        yield from self._folder(self._root, "", self._parent_rules())

    def _folder(
        self, folder: str, relative: str, rules: list[IgnoreRule]
    ) -> Iterator[tuple[str, str]]:
        if self._stop.is_set():
            raise SearchStopped
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            return  # skip folders that cannot be read
        names = {entry.name for entry in entries}
        if ".git" in names and relative:
            rules = []  # a nested repository: rules from above do not apply
        if not names.isdisjoint({".git", ".gitignore"}):
            rules = rules + _read_ignore_rules(folder, relative)
        for entry in entries:
            path = relative + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if self._is_skipped(entry.name, is_ignored(rules, path, is_folder=is_folder)):
                continue
            if is_folder:
                yield from self._folder(entry.path, path + "/", rules)
            elif entry.is_file():
                yield entry.path, path

    def _is_skipped(self, name: str, verdict: bool | None) -> bool:
        """A rule such as `!.github` also includes hidden files, as in ripgrep."""
        if verdict is None:
            return name == ".git" or (name.startswith(".") and not self._hidden)
        return verdict or name == ".git"

    def _parent_rules(self) -> list[IgnoreRule]:
        """Return the rules of folders above `root`, up to the top of its git repository."""
        top = find_repository(self._root)
        rules: list[IgnoreRule] = []
        above = [] if top in (None, self._root) else list(Path(self._root).parents)
        for folder in reversed(above):
            if not f"{folder}/".startswith(f"{top}/"):
                continue
            inside = relative_to(self._root, str(folder)) + "/"
            rules += [
                _ParentIgnoreRule(rule.pattern, rule.negated, rule.folders_only, inside)
                for rule in _read_ignore_rules(str(folder), "")
            ]
        return rules


def find_repository(folder: str) -> str | None:
    """Return the top of the git repository that contains `folder`."""
    path = Path(folder)
    return next((str(each) for each in (path, *path.parents) if (each / ".git").exists()), None)


class _ParentIgnoreRule(IgnoreRule, frozen=True):
    """A rule of a folder above: `base` is the path from there to the root of the walk."""

    def matches(self, relative: str, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        return self.pattern.match(self.base + relative) is not None


def _read_ignore_rules(folder: str, base: str) -> list[IgnoreRule]:
    """Read .git/info/exclude, then .gitignore, whose rules take precedence."""
    rules: list[IgnoreRule] = []
    for name in (".git/info/exclude", ".gitignore"):
        with contextlib.suppress(OSError):
            text = Path(folder, name).read_text("utf-8", "replace")
            rules += parse_gitignore(text, base)
    return rules


def find_files(glob: str, folder: str, stop: threading.Event) -> list[str]:
    names = NameGlob(glob)
    walk = FileWalk(folder, stop, hidden=names.hidden)
    return [path for path, relative in walk.files() if names.matches(relative)]


def grep_files(query: GrepQuery, stop: threading.Event) -> GrepResult:
    try:
        pattern = re.compile(query.pattern)
    except re.error as error:
        raise invalid_pattern(query.pattern, str(error)) from error
    names = NameGlob(query.file_glob) if query.file_glob else None
    page = GrepPage(query)
    for path, relative in FileWalk(query.path, stop, hidden=bool(names and names.hidden)).files():
        if names is None or names.matches(relative):
            with contextlib.suppress(OSError):  # skip files that are gone or cannot be read
                _search_file(path, page, pattern, stop)
    return page.result()


class GrepPage:
    """Counts every match and keeps the requested page, with its context lines."""

    def __init__(self, query: GrepQuery) -> None:
        self.query = query
        self._match_count = 0
        self._last_wanted = 0
        self._before: list[GrepLine] = []
        self.counts: dict[str, int] = {}
        self.hits: list[GrepLine] = []

    def begin_file(self, path: str) -> bool:
        """Begin the lines of a file; False if it must not be in the result."""
        self._before, self._last_wanted = [], 0
        return self.query.is_protected is None or not self.query.is_protected(path)

    def add(self, path: str, number: int, text: str, *, match: bool) -> None:
        """Add the next line of the file that is a match or may be context of one."""
        if match:
            self.counts[path] = self.counts.get(path, 0) + 1
            wanted = 0 <= self._match_count - self.query.offset < self.query.limit
            self._match_count += 1
            if wanted:
                first = number - self.query.context
                self.hits += [line for line in self._before if line.line >= first]
                self.hits.append(GrepLine(path, number, cut_line(text, self.query.longest)))
                self._before, self._last_wanted = [], number
                return
        if not self.query.context:
            return
        line = GrepLine(path, number, cut_line(text, self.query.longest), match=False)
        if self._last_wanted and number <= self._last_wanted + self.query.context:
            self.hits.append(line)
        else:
            self._before = [*self._before[-self.query.context :], line]

    def result(self) -> GrepResult:
        return GrepResult(self.counts, tuple(self.hits))


def _search_file(
    path: str, page: GrepPage, pattern: re.Pattern[str], stop: threading.Event
) -> None:
    if not page.begin_file(path):
        return
    with Path(path).open("rb") as file:
        if b"\0" in file.read(SNIFF_BYTES):
            return
        file.seek(0)
        for number in itertools.count(1):
            raw = file.readline(MAX_LINE_BYTES)
            if not raw:
                return
            if number % STOP_CHECK_LINES == 0 and stop.is_set():
                raise SearchStopped
            text = raw.decode("utf-8", "replace").rstrip("\r\n")
            page.add(path, number, text, match=pattern.search(text) is not None)


# Search with `rg`, where it is installed.

RIPGREP_OPTIONS = (
    "--json", "--sort=path", "--no-config", "--no-require-git", "--no-messages", "--glob=!.git",
    "--no-ignore-dot", "--no-ignore-global",
)  # fmt: skip
"""Only what git ignores is left out, as in our own walk."""
MAX_JSON_LINE = 64 * 1_048_576
"""Maximum size of a JSON line; a longer one means a file with one huge line, which is skipped."""


async def grep_with_ripgrep(program: str, query: GrepQuery, cancel: CancelToken) -> GrepResult:
    names = NameGlob(query.file_glob) if query.file_glob else None
    alone = [] if find_repository(query.path) else ["--no-ignore-parent"]
    arguments = [*RIPGREP_OPTIONS, *alone, f"--context={query.context}", *glob_options(names)]
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
            return await _collect(process, RipgrepReader(GrepPage(query), names))
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()  # unread output would keep it from exiting


def glob_options(names: NameGlob | None) -> list[str]:
    """Return options that select files by a custom type; `--glob` would include ignored files."""
    if names is None:
        return []
    hidden = ["--hidden"] if names.hidden else []
    if names.whole_path:
        return hidden
    return [*hidden, *(f"--type-add=wanted:{glob}" for glob in names.globs), "--type=wanted"]


async def _collect(process: asyncio.subprocess.Process, reader: "RipgrepReader") -> GrepResult:
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("rg was started without pipes")
    errors = asyncio.ensure_future(process.stderr.read(10_000))
    try:
        async for line in _lines(process.stdout):
            reader.add(msgspec.json.decode(line))
        complaint = (await errors).decode("utf-8", "replace").strip()
    finally:
        # Do not await it here: when we are cancelled, rg still runs and waits for a reader.
        errors.cancel()
    page = reader.page
    if await process.wait() == 2 and not page.counts and complaint:
        raise search_failure(page.query.pattern, complaint)
    return page.result()


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines; reading in pieces lets other tasks run, however much arrives."""
    kept: list[bytes] = []
    size = 0
    while piece := await stream.read(65_536):
        first, *more = piece.split(b"\n")
        size += len(first)
        kept = [*kept, first] if size <= MAX_JSON_LINE else []
        if not more:
            continue
        if size <= MAX_JSON_LINE:
            yield b"".join(kept)
        for line in more[:-1]:
            yield line
        kept, size = [more[-1]], len(more[-1])


def search_failure(pattern: str, complaint: str) -> ToolError:
    reason = complaint.splitlines()[-1].removeprefix("error: ")
    if "regex" in complaint or "escape" in complaint:
        return invalid_pattern(pattern, reason)
    return ToolError(f"the search failed: {reason}")


def invalid_pattern(pattern: str, reason: str) -> ToolArgumentsInvalid:
    return ToolArgumentsInvalid(
        f"{pattern!r} is not a valid regular expression: {reason}",
        hint="escape special characters with a backslash to search for them as they are",
    )


class RipgrepReader:
    """Adds the events of `rg --json` to a page, for files that match `names`."""

    def __init__(self, page: GrepPage, names: NameGlob | None) -> None:
        self.page, self._names = page, names
        self._skip_file = False

    def add(self, event: dict[str, Any]) -> None:
        kind, data = event["type"], event["data"]
        if kind not in ("begin", "context", "match"):
            return
        path = os.fsdecode(_decode_field(data["path"]))
        if kind == "begin":
            self._skip_file = not (self._is_wanted(path) and self.page.begin_file(path))
        elif not self._skip_file:
            text = _decode_field(data["lines"]).decode("utf-8", "replace").rstrip("\r\n")
            self.page.add(path, data["line_number"], text, match=kind == "match")

    def _is_wanted(self, path: str) -> bool:
        if self._names is None:
            return True
        top = self.page.query.path
        relative = path.rpartition("/")[2] if path == top else relative_to(path, top)
        return self._names.matches(relative)


def _decode_field(value: dict[str, str]) -> bytes:
    """Decode a field: rg writes `{"text": …}`, or `{"bytes": base64}` for what is not UTF-8."""
    return value["text"].encode() if "text" in value else base64.b64decode(value["bytes"])

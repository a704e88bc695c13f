"""Our own search through a folder, for machines without ripgrep. Runs in a worker thread."""

import contextlib
import itertools
import os
import re
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from hermes.core.errors import ToolArgumentsInvalid
from hermes.terminal.base import Grep, Grepped, Hit
from hermes.terminal.here.globs import IgnoreRule, NameGlob, ignored, parse_gitignore, relative_to
from hermes.terminal.output import cut_line

SNIFF = 8_192
"""Bytes looked at to tell text from binary."""
LONGEST = 1_048_576
"""Bytes of a line that are searched; the rest of a longer one counts as a new line."""
CHECK_EVERY = 2_000
"""Lines between two looks at the stop flag."""


class Stopped(Exception):
    """The search was told to stop."""


class Walk:
    """The files under `root` in the order of their paths, without what git ignores."""

    def __init__(self, root: str, stop: threading.Event, *, hidden: bool = False) -> None:
        self._root, self._stop, self._hidden = root, stop, hidden

    def files(self) -> Iterator[tuple[str, str]]:
        """Absolute and relative path of each file."""
        if not Path(self._root).is_dir():
            yield self._root, Path(self._root).name
            return
        yield from self._folder(self._root, "", self._rules_above())

    def _folder(
        self, folder: str, relative: str, rules: list[IgnoreRule]
    ) -> Iterator[tuple[str, str]]:
        if self._stop.is_set():
            raise Stopped
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            return  # a folder we may not read has nothing to show
        names = {entry.name for entry in entries}
        if ".git" in names and relative:
            rules = []  # a repository within: what is above says nothing about it
        if not names.isdisjoint({".git", ".gitignore"}):
            rules = rules + _rules_in(folder, relative)
        for entry in entries:
            path = relative + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if self._skipped(entry.name, ignored(rules, path, is_folder=is_folder)):
                continue
            if is_folder:
                yield from self._folder(entry.path, path + "/", rules)
            elif entry.is_file():
                yield entry.path, path

    def _skipped(self, name: str, verdict: bool | None) -> bool:
        """A rule such as `!.github` also brings back what is hidden, as it does for ripgrep."""
        if verdict is None:
            return name == ".git" or (name.startswith(".") and not self._hidden)
        return verdict or name == ".git"

    def _rules_above(self) -> list[IgnoreRule]:
        """Rules of the folders above `root`, up to the top of its git repository."""
        top = repository_of(self._root)
        rules: list[IgnoreRule] = []
        above = [] if top in (None, self._root) else list(Path(self._root).parents)
        for folder in reversed(above):
            if not f"{folder}/".startswith(f"{top}/"):
                continue
            inside = relative_to(self._root, str(folder)) + "/"
            rules += [
                _Shifted(rule.pattern, rule.negated, rule.folders_only, inside)
                for rule in _rules_in(str(folder), "")
            ]
        return rules


def repository_of(folder: str) -> str | None:
    """The top of the git repository that `folder` is in."""
    path = Path(folder)
    return next((str(each) for each in (path, *path.parents) if (each / ".git").exists()), None)


class _Shifted(IgnoreRule, frozen=True):
    """A rule of a folder above: `base` is what leads from there to the root of the walk."""

    def matches(self, relative: str, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        return self.pattern.match(self.base + relative) is not None


def _rules_in(folder: str, base: str) -> list[IgnoreRule]:
    """Of .git/info/exclude, then of .gitignore, which has the last word."""
    rules: list[IgnoreRule] = []
    for name in (".git/info/exclude", ".gitignore"):
        with contextlib.suppress(OSError):
            text = Path(folder, name).read_text("utf-8", "replace")
            rules += parse_gitignore(text, base)
    return rules


def find_files(glob: str, folder: str, stop: threading.Event) -> list[str]:
    names = NameGlob(glob)
    walk = Walk(folder, stop, hidden=names.hidden)
    return [path for path, relative in walk.files() if names.matches(relative)]


def grep_files(query: Grep, stop: threading.Event) -> Grepped:
    try:
        pattern = re.compile(query.pattern)
    except re.error as error:
        raise ToolArgumentsInvalid(
            f"{query.pattern!r} is not a valid regular expression: {error}",
            hint="escape special characters with a backslash to search for them as they are",
        ) from error
    names = NameGlob(query.file_glob) if query.file_glob else None
    search = _Search(query, pattern, stop)
    for path, relative in Walk(query.path, stop, hidden=bool(names and names.hidden)).files():
        if names is None or names.matches(relative):
            search.file(path)
    return Grepped(search.counts, tuple(search.hits))


class _Search:
    """Counts every match and keeps the page that was asked for."""

    def __init__(self, query: Grep, pattern: re.Pattern[str], stop: threading.Event) -> None:
        self._query, self._pattern, self._stop = query, pattern, stop
        self._seen = 0
        self.counts: dict[str, int] = {}
        self.hits: list[Hit] = []

    def file(self, path: str) -> None:
        try:
            with Path(path).open("rb") as file:
                if b"\0" not in file.read(SNIFF):
                    file.seek(0)
                    self._lines(path, file)
        except OSError:
            return  # gone or not ours to read: nothing to show

    def _lines(self, path: str, file: BinaryIO) -> None:
        before: deque[Hit] = deque(maxlen=self._query.context)
        after = 0
        for number in itertools.count(1):
            raw = file.readline(LONGEST)
            if not raw:
                return
            if number % CHECK_EVERY == 0 and self._stop.is_set():
                raise Stopped
            text = raw.decode("utf-8", "replace").rstrip("\r\n")
            if self._pattern.search(text):
                self.counts[path] = self.counts.get(path, 0) + 1
                wanted = 0 <= self._seen - self._query.offset < self._query.limit
                self._seen += 1
                if wanted:
                    self.hits += [*before, self._hit(path, number, text)]
                    before.clear()
                    after = self._query.context
                    continue
            line = self._hit(path, number, text, match=False)
            if after > 0:
                self.hits.append(line)
                after -= 1
            else:
                before.append(line)

    def _hit(self, path: str, number: int, text: str, *, match: bool = True) -> Hit:
        return Hit(path, number, cut_line(text, self._query.longest), match)

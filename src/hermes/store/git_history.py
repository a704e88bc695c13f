"""git: how it is run, and a store of our own for a folder with snapshots, diffs and three-way undo.

The store never touches a repository of the user, and git never asks questions.
"""

import asyncio
import contextlib
import difflib
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import msgspec

from hermes.core.errors import StoreError
from hermes.util.concurrency import async_file_lock
from hermes.util.files import write_text
from hermes.util.processes import run_program

SECONDS = 60.0  #: Longest run of one git command.


SETTINGS = """\
[core]
	repositoryformatversion = 0
	bare = false
	fileMode = true
	symlinks = true
	autocrlf = false
	safecrlf = false
	hooksPath = /dev/null
	fsmonitor = false
	untrackedCache = false
	excludesFile = /dev/null
	attributesFile = /dev/null
	quotePath = false
	protectNTFS = false
	protectHFS = false
	sharedRepository = 0600
[gc]
	auto = 2000
	autoDetach = false
"""
"""The first part of the configuration of every repository: files are stored unchanged and for the
owner alone, and no hook or other program is run."""


class GitCommandFailed(StoreError):
    """git is missing, took too long or failed."""


class TooMuch(StoreError):
    """The output exceeds the given limit."""


async def run_git(
    program: str,
    *arguments: str,
    environment: Mapping[str, str],
    folder: Path,
    name: str = "",
    data: bytes = b"",
    most: int = 0,
    good: Sequence[int] = (0,),
    seconds: float = SECONDS,
    hint: str = "",
) -> tuple[bytes, bool]:
    """Return the output, at most `most` bytes of it (0: all), and whether there was more.

    `name` is the command in messages, by default the first argument. Raises `GitCommandFailed`.
    """
    name = name or arguments[0]
    try:
        # In its own session, so that Ctrl-C does not reach it.
        code, output, errors = await run_program(
            program,
            *arguments,
            seconds=seconds,
            data=data,
            most=most,
            env=environment,
            cwd=folder,
        )
    except TimeoutError as error:
        late = f"git {name} took longer than {seconds:g} seconds"
        raise GitCommandFailed(late) from error
    except OSError as error:
        raise GitCommandFailed(f"git cannot be started: {error.strerror}") from error
    if code is not None and code not in good:
        # The first line that says what is wrong; advice comes after it.
        lines = [line.strip() for line in errors.splitlines() if line.strip()]
        found = [line for line in lines if line.startswith(("fatal: ", "error: "))]
        reason = (found or lines[-1:] or [f"exit code {code}"])[0]
        reason = reason.removeprefix("fatal: ").removeprefix("error: ")
        raise GitCommandFailed(f"git {name}: {reason}", hint=hint)
    return output, code is None


# git in a repository that other people may have written to: its settings start no program.

PROGRAMS = {
    "alternaterefscommand": "true", "askpass": "", "clean": "", "cmd": "true", "command": "true",
    "defaultkeycommand": "false", "difffilter": "cat", "driver": "false", "editor": "true",
    "external": "true", "helper": "", "pager": "cat", "process": "", "program": "false",
    "recentobjectshook": "true", "required": "false",
    "savecookies": "false", "smudge": "", "sshcommand": "ssh", "textconv": "cat", "update": "none",
}  # fmt: skip
"""Settings of git whose value is a program, or that need one, by the last part of their names; and
a value that starts no program of a repository."""
REMOTE_PROGRAMS = frozenset({"receivepack", "uploadpack", "vcs"})
"""Settings of a remote that name a program. Of these the first value counts, so they cannot be
replaced; commands that use the network are refused."""
SAFE_OPTIONS = (
    "--no-pager",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.fsmonitor=false",
    "-c", "core.quotePath=false",
    "-c", "log.showSignature=false",
    "-c", "merge.verifySignatures=false",
    "-c", "protocol.ext.allow=never",
    # Inside a submodule its own settings would apply.
    "-c", "submodule.recurse=false",
    "-c", "diff.submodule=short",
    "-c", "status.submoduleSummary=false",
)  # fmt: skip
_DIFF = ("--no-ext-diff", "--no-textconv")
SAFE_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "diff": (*_DIFF, "--ignore-submodules=dirty"),
    "log": _DIFF,
    "show": _DIFF,
    "status": ("--ignore-submodules=dirty",),
    "fetch": ("--no-recurse-submodules",),
    "pull": ("--no-recurse-submodules",),
    "clone": ("--no-recurse-submodules",),
}
"""Arguments after the name of a command. Those of the caller come later, so they must agree."""
NETWORK_COMMANDS = frozenset({"clone", "fetch", "ls-remote", "pull"})
OWN_SCOPES = ("local", "worktree")  #: Of settings that the repository contains.
MAX_SETTINGS = 2_000  #: Settings of a repository that are looked at.
MAX_INCLUDES = 20
LIST_SECONDS = 20.0
_PATHS = re.compile(r"include(if\..*)?\.path|core\.worktree", re.DOTALL)
"""Settings that are relative to their file."""


def safe_git(
    program: str, environment: Mapping[str, str], folder: Path, arguments: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Return the complete arguments and the environment to run git in a repository of the user.

    The settings of the user apply. Those of the repository start no program: neither hooks nor
    filters, drivers, helpers, nor those of included files. Raises `GitCommandFailed`.
    """
    name = arguments[0]
    # A partial clone would fetch missing objects with any command, by the transport it names.
    closed = {} if name in NETWORK_COMMANDS else {"GIT_ALLOW_PROTOCOL": "none"}
    env = {**environment, "GIT_PROXY_COMMAND": "", "GIT_TERMINAL_PROMPT": "0", **closed}
    options = [*SAFE_OPTIONS]
    for key, values in _overrides(program, env, folder, network=not closed):
        for value in values:
            options += ["-c", f"{key}={value}"]
    return [*options, name, *SAFE_ARGUMENTS.get(name, ()), *arguments[1:]], env


def _overrides(
    program: str, environment: Mapping[str, str], folder: Path, *, network: bool
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each setting of the repository that names a program, with the user's values of it."""
    user: dict[str, list[str]] = {}
    own: dict[str, None] = {}
    for scope, origin, key, value in _SettingsReader(program, environment, folder).all():
        if scope not in OWN_SCOPES:
            user.setdefault(key, []).append(value)
            continue
        own[key] = None
        if key == "core.worktree":
            _check_worktree(origin, value)
    for number, key in enumerate(own):
        name = key.rpartition(".")[2]
        remote = network and name in REMOTE_PROGRAMS
        # git would split a name at the first "=".
        if remote or (name in PROGRAMS and ("=" in key or number > MAX_SETTINGS)):
            raise GitCommandFailed(
                f"the repository of {folder} names a program that cannot be switched off: {key!r}",
                hint=f"git -C {folder} config --local --list",
            )
        if name not in PROGRAMS:
            continue
        values = user.get(key, [PROGRAMS[name]])
        # An empty helper removes those that were named before it.
        yield key, ("", *user.get(key, ())) if name == "helper" else (values[-1],)


class _SettingsReader:
    """Lists the settings that apply in a folder, which starts no other program."""

    def __init__(self, program: str, environment: Mapping[str, str], folder: Path) -> None:
        self._program, self._environment, self._folder = program, environment, folder

    def all(self) -> Iterator[tuple[str, Path, str, str]]:
        """Yield scope, file, name and value of each setting, and those of every file that the
        repository may include, whatever the condition is."""
        waiting, seen = list(self._read()), set[Path]()
        while waiting:
            scope, file, key, value = entry = waiting.pop(0)
            yield entry
            if scope not in OWN_SCOPES or key == "core.worktree" or not _PATHS.fullmatch(key):
                continue
            path = Path(file.parent, os.path.expanduser(value))  # noqa: PTH111 - may not exist
            if path.is_file() and path not in seen:
                seen.add(path)
                if len(seen) > MAX_INCLUDES:
                    raise GitCommandFailed(f"the repository of {self._folder} includes too much")
                found = self._read("--file", str(path), "--no-includes")
                waiting += [(OWN_SCOPES[0], path, key, value) for _, _, key, value in found]

    def _read(self, *source: str) -> Iterator[tuple[str, Path, str, str]]:
        listed = self._run("config", *source, "--list", "-z", "--show-scope", "--show-origin")
        fields = listed.split("\0")
        for scope, origin, text in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
            file, (key, _, value) = Path(origin.removeprefix("file:")), text.partition("\n")
            if scope in OWN_SCOPES and _PATHS.fullmatch(key) and not file.is_absolute():
                # It is relative to the working tree, which may be elsewhere.
                file = self._git_folder / file.name
            yield scope, file, key, value

    @cached_property
    def _git_folder(self) -> Path:
        return Path(self._run("rev-parse", "--absolute-git-dir").removesuffix("\n"))

    def _run(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                [self._program, *arguments],
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LIST_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitCommandFailed(f"git cannot be started: {error}") from error
        if done.returncode:
            lines = os.fsdecode(done.stderr).strip().splitlines() or ["it failed"]
            raise GitCommandFailed(f"git {arguments[0]}: {lines[-1].removeprefix('fatal: ')}")
        return os.fsdecode(done.stdout)


def _check_worktree(config: Path, value: str) -> None:
    """Raise if the working tree is not a folder of this repository, as that of a submodule is: it
    could show the files of any folder as changes."""
    git_folder = config.parent.resolve()
    place = Path(git_folder, value, ".git")
    if place.is_file():
        text = place.read_text("utf-8", "surrogateescape")
        place = Path(place.parent, text.removeprefix("gitdir:").strip())
    if place.resolve() != git_folder:
        raise GitCommandFailed(
            "core.worktree of the repository names a folder that does not belong to it",
            hint=f"look at {config}",
        )


class Git:
    """git with the git directory `folder` and the working tree `workspace`.

    The environment and the settings of the user have no effect: the environment is built here, and
    the owner of the repository writes its configuration.
    """

    def __init__(self, program: str, folder: Path, workspace: Path, hint: str = "") -> None:
        """`hint` tells the user what to do if git keeps failing."""
        self._program, self.folder, self._workspace = program, folder, workspace
        self._hint = hint
        self._environment = {
            "PATH": os.pathsep.join([str(Path(program).parent), os.defpath]),
            "HOME": str(folder),
            "LC_ALL": "C",
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": str(workspace),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_PAGER": "cat",
        }

    async def run(
        self, *arguments: str, data: bytes = b"", most: int = 0, good: Sequence[int] = (0,)
    ) -> bytes:
        """Run a command and return its output.

        Raises `GitCommandFailed`, and `TooMuch` for more than `most` bytes (0: no limit).
        """
        output, cut = await run_git(
            self._program,
            *arguments,
            environment=self._environment,
            folder=self._workspace,
            data=data,
            most=most,
            good=good,
            hint=self._hint,
        )
        if cut:
            raise TooMuch(f"more than {most} bytes")
        return output

    async def line(self, *arguments: str, data: bytes = b"", good: Sequence[int] = (0,)) -> str:
        """Run a command and return its output, which is one line of text."""
        return (await self.run(*arguments, data=data, good=good)).decode().strip()

    async def blobs(self, ids: Sequence[str]) -> list[bytes]:
        """Return the contents of files, read by one process."""
        output = await self.run("cat-file", "--batch", data="".join(f"{i}\n" for i in ids).encode())
        found: list[bytes] = []
        position = 0
        for each in ids:
            end = output.index(b"\n", position)
            header = output[position:end].split()
            if len(header) != 3:
                raise GitCommandFailed(f"git cat-file: {each} is not in the store")
            start, size = end + 1, int(header[2])
            found.append(output[start : start + size])
            position = start + size + 1
        return found


LINK_MODE = "120000"
EXECUTABLE_MODE = "100755"
REGULAR_MODES = ("100644", EXECUTABLE_MODE)
NO_FILE_MODE = "000000"

ATTRIBUTES = "* -text !eol -ident !filter !working-tree-encoding\n"
"""Overrides every .gitattributes of the folder, so that files are stored byte for byte."""
MAX_PATH_BYTES = 256  #: A generous average; limits how much of a huge file list is read.
LOG_FORMAT = "%H%x1f%ct%x1f%B"


class TreeEntry(msgspec.Struct, frozen=True):
    mode: str
    id: str


class TreeChange(msgspec.Struct, frozen=True):
    """A file in two trees; None means that it does not exist there."""

    path: str
    before: TreeEntry | None
    after: TreeEntry | None


MAX_MERGED_LINES = 3_000  #: Lines of a file for `merge_lines`, whose time grows quadratically.


def merge_lines(ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """Merge two versions of `base`; None if both change the same lines or insert at one place.

    Unlike git, this merges changes of neighbouring lines.
    """
    if any(b"\0" in each for each in (ours, base, theirs)):
        return None
    lines, *versions = [each.splitlines(keepends=True) for each in (base, ours, theirs)]
    if max(map(len, (lines, *versions))) > MAX_MERGED_LINES:
        return None
    changes: set[tuple[int, int, tuple[bytes, ...]]] = set()  # a change in both counts once
    for version in versions:
        matcher = difflib.SequenceMatcher(None, lines, version, autojunk=False)
        changes |= {
            (start, end, tuple(version[first:last]))
            for tag, start, end, first, last in matcher.get_opcodes()
            if tag != "equal"
        }
    result, done, last_insertion = b"", 0, -1
    for start, end, new in sorted(changes):
        if start < done or (start == end == last_insertion):
            return None
        result += b"".join([*lines[done:start], *new])
        done, last_insertion = end, start if start == end else -1
    return result + b"".join(lines[done:])


class UndoConflict(StrEnum):
    """Why a change cannot be undone: what happened to the file after it."""

    DELETED = "deleted"
    RECREATED = "recreated"  #: The change deleted the file.
    CHANGED_NEW = "changed new"  #: The change created the file.
    CHANGED = "changed"  #: It is, or was, not a regular file.
    SAME_LINES = "same lines"


class TreeSnapshot(msgspec.Struct, frozen=True):
    """The present files of the folder."""

    tree: str
    skipped: tuple[str, ...] = ()
    """Regular files that are too large or unreadable and therefore not in the tree."""


class CommitEntry(msgspec.Struct, frozen=True):
    id: str
    at: str  #: Seconds since 1970.
    message: str


class TooManyFiles(StoreError):
    """The folder has more files than `HistoryOptions.max_files`."""


class HistoryOptions(msgspec.Struct, frozen=True):
    """What is stored, and how."""

    excluded: Sequence[str]  #: Patterns as in .gitignore.
    list_nested: Callable[[str], Iterable[str]]
    """Return the files of a nested repository, of which git lists only the folder."""
    config: str = ""  #: Additional settings of the git store.
    branch: str = "refs/heads/none"
    gitignore: bool = False  #: Whether .gitignore files of the folder apply.
    max_file_bytes: int = 10_000_000
    max_files: int = 0  #: 0 for no limit.


class GitHistory:
    """The git store `git.folder` of the files in `workspace`.

    Only one process may write at a time: the caller holds `history_lock`.
    """

    def __init__(self, git: Git, workspace: Path, options: HistoryOptions) -> None:
        self.git, self.workspace, self._options = git, workspace, options

    def prepare(self) -> None:
        """Create the store, or restore its settings if they differ from ours."""
        folder = self.git.folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("objects", "refs", "info"):
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in {
            "HEAD": f"ref: {self._options.branch}\n",
            "config": SETTINGS + self._options.config,
            "info/exclude": "".join(f"{line}\n" for line in self._options.excluded),
            "info/attributes": ATTRIBUTES,
        }.items():
            path = folder / name
            if not path.exists() or path.read_text("utf-8", "replace") != text:
                write_text(path, text, mode=0o600)
        for left in ("index.lock", f"{self._options.branch}.lock"):  # left by a killed git
            (folder / left).unlink(missing_ok=True)

    # Snapshots and commits

    async def changed_names(self) -> list[str]:
        """Return the files that are new, changed or deleted since the last snapshot."""
        most = self._options.max_files
        rules = ("--exclude-standard",) if self._options.gitignore else (
            "-X", str(self.git.folder / "info" / "exclude"),
        )  # fmt: skip
        try:
            output = await self.git.run(
                "ls-files", "-z", "--others", "--modified", "--deleted", *rules,
                most=most * MAX_PATH_BYTES,
            )  # fmt: skip
        except TooMuch as error:
            raise self._too_many() from error
        listed = (os.fsdecode(name) for name in output.split(b"\0") if name)
        names = await asyncio.to_thread(self._with_nested, list(listed))
        if most and self._known_files() + len(names) > most:
            raise self._too_many()
        return names

    async def snapshot(self, under: Sequence[str] = ()) -> TreeSnapshot:
        """Store the present files, or only those at or below the paths `under`.

        Unchanged files cost nothing.
        """
        names = [
            name
            for name in await self.changed_names()
            if not under or any(name == each or name.startswith(f"{each}/") for each in under)
        ]
        keep, drop, skipped = await asyncio.to_thread(self._sort, names)
        await self._update_index("--add", "--remove", "--replace", names=keep)
        await self._update_index("--force-remove", names=drop)
        return TreeSnapshot(await self.git.line("write-tree"), tuple(skipped))

    async def head(self) -> str:
        """Return the id of the newest commit, or ""."""
        return await self.git.line(
            "rev-parse", "--verify", "--quiet", self._options.branch, good=(0, 1)
        )

    async def commit(self, tree: str, message: str) -> str | None:
        """Commit a tree and return the id; None when it equals the newest commit."""
        head = await self.head()
        if head:
            if tree == await self.git.line("rev-parse", "--verify", f"{head}^{{tree}}"):
                return None
        elif not await self.git.run("ls-tree", tree):
            return None
        parent = ("-p", head) if head else ()
        new = await self.git.line("commit-tree", tree, *parent, "-F", "-", data=message.encode())
        await self.git.run("update-ref", self._options.branch, new, head or "0" * 40)
        return new

    async def log(
        self, start: str = "", *, most: int = 0, since: str = "", path: str = ""
    ) -> list[CommitEntry]:
        """Return commits back from `start`, by default the newest one; `most` 0 returns all.

        `since` excludes a commit and those before it. `path` selects commits that changed a file.
        """
        start = start or self._options.branch
        output = await self.git.run(
            "log", "-z", f"--format={LOG_FORMAT}", *([f"--max-count={most}"] if most else []),
            f"{since}..{start}" if since else start, "--", *_literal(path),
        )  # fmt: skip
        texts = output.decode("utf-8", "replace").split("\0")
        return [CommitEntry(*text.split("\x1f", 2)) for text in texts if text]

    async def set_refs(self, refs: Mapping[str, str]) -> None:
        """Point references at objects; "" deletes a reference."""
        lines = [f"update {ref} {to}\n" if to else f"delete {ref}\n" for ref, to in refs.items()]
        if lines:
            await self.git.run("update-ref", "--stdin", data="".join(lines).encode())

    # Reading

    async def entries(self, tree: str = "") -> dict[str, TreeEntry]:
        """Return all files of a tree or commit, by default of the newest commit."""
        output = await self.git.run("ls-tree", "-r", "-z", tree or self._options.branch)
        found: dict[str, TreeEntry] = {}
        for line in filter(None, output.split(b"\0")):
            meta, _, name = line.partition(b"\t")
            mode, _, object_id = meta.decode().split()
            found[os.fsdecode(name)] = TreeEntry(mode, object_id)
        return found

    async def changes(self, before: str, after: str) -> list[TreeChange]:
        """Return what differs; `before` "" compares the commit `after` with its parent."""
        trees = (before, after) if before else ("--no-commit-id", "--root", after)
        output = await self.git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", *trees)
        fields = output.split(b"\0")
        found: list[TreeChange] = []
        for meta, name in zip(fields[0::2], fields[1::2], strict=False):
            old_mode, new_mode, old, new, _ = meta.decode().lstrip(":").split()
            found.append(
                TreeChange(
                    os.fsdecode(name), _tree_entry(old_mode, old), _tree_entry(new_mode, new)
                )
            )
        return found

    async def diff(self, before: str, after: str, path: str = "", *, limit: int) -> str:
        """Return the differences as text with about `limit` bytes; `before` as in `changes`."""
        trees = ("diff", before) if before else ("show", "--format=")
        output = await self.git.run(
            *trees, "--no-color", "--no-ext-diff", "--no-textconv", after, "--", *_literal(path)
        )
        text = output[:limit].decode("utf-8", "replace")
        rest = output[limit:].count(b"\n")
        return f"{text}\n[… {rest} more lines]" if rest else text

    # Undo: the way from `after` to `before` is applied to `now`.

    async def undo(
        self, change: TreeChange, now: TreeEntry | None
    ) -> TreeEntry | UndoConflict | None:
        """Return what a file becomes when a change of it is undone; None for no file."""
        before, after = change.before, change.after
        if now == after:
            return before
        if now == before:
            return now
        if now is None:
            return UndoConflict.DELETED
        if after is None:
            return UndoConflict.RECREATED
        if before is None:
            return UndoConflict.CHANGED_NEW
        if not all(entry.mode in REGULAR_MODES for entry in (before, after, now)):
            return UndoConflict.CHANGED
        mode = before.mode if now.mode == after.mode else now.mode
        if now.id == after.id:
            return TreeEntry(mode, before.id)
        if before.id in (now.id, after.id):
            return TreeEntry(mode, now.id)
        merged = await self._merge(now.id, after.id, before.id)
        return UndoConflict.SAME_LINES if merged is None else TreeEntry(mode, merged)

    async def _merge(self, now: str, after: str, before: str) -> str | None:
        """Return the id of the merged file; None for a conflict and for binary files."""
        contents = await self.git.blobs([now, after, before])
        with tempfile.TemporaryDirectory(dir=self.git.folder, prefix="merge-") as folder:
            paths = [Path(folder, name) for name in ("now", "after", "before")]
            for path, content in zip(paths, contents, strict=True):
                await asyncio.to_thread(path.write_bytes, content)
            try:
                merged = await self.git.run("merge-file", "--quiet", "-p", *map(str, paths))
            except GitCommandFailed:
                # git also reports changes of neighbouring lines as a conflict.
                found = await asyncio.to_thread(merge_lines, *contents)
                if found is None:
                    return None
                merged = found
        return await self.git.line("hash-object", "-w", "--no-filters", "--stdin", data=merged)

    # Maintenance

    async def is_sound(self) -> bool:
        """Whether all objects that are referred to exist."""
        try:
            await self.git.run("fsck", "--connectivity-only", "--no-dangling", "--no-progress")
        except GitCommandFailed:
            return False
        return True

    async def rebuild_index(self) -> bool:
        """Rebuild the index from the newest commit; return False when more is damaged."""
        self.remove_index()
        if not await self.is_sound():
            return False
        try:
            if await self.head():
                await self.git.run("read-tree", self._options.branch)
        except GitCommandFailed:
            return False
        return True

    def remove_index(self) -> None:
        """Make the next snapshot read all files again."""
        (self.git.folder / "index").unlink(missing_ok=True)

    async def collect_garbage(self, *, now: bool = False) -> None:
        """Free the space of unused objects; git decides when, unless `now`."""
        await self.git.run("gc", "--quiet", "--prune=now" if now else "--auto")

    async def _update_index(self, *options: str, names: Sequence[str]) -> None:
        if names:
            data = b"".join(os.fsencode(name) + b"\0" for name in names)
            await self.git.run("update-index", "-z", *options, "--stdin", data=data)

    def _with_nested(self, listed: Sequence[str]) -> list[str]:
        names: dict[str, None] = {}
        list_nested = self._options.list_nested
        for name in listed:
            nested = name.endswith("/")
            for each in list_nested(str(self.workspace / name)) if nested else ("",):
                names[name + each] = None
                if 0 < self._options.max_files < len(names):
                    raise self._too_many()
        return list(names)

    def _known_files(self) -> int:
        """Return the number of files in the index, from its header."""
        try:
            with (self.git.folder / "index").open("rb") as index:
                return int.from_bytes(index.read(12)[8:], "big")
        except FileNotFoundError:
            return 0

    def _too_many(self) -> TooManyFiles:
        return TooManyFiles(f"{self.workspace} has more than {self._options.max_files} files")

    def _sort(self, names: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        """Split names into those to store, those to remove, and regular files that are skipped."""
        keep: list[str] = []
        drop: list[str] = []
        skipped: list[str] = []
        for name in names:
            path = os.path.join(self.workspace, name)  # noqa: PTH118 - fifty thousand of them
            try:
                found = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                keep.append(name)  # deleted: git removes it from the tree
                continue
            except OSError as error:
                raise GitCommandFailed(f"{name} cannot be looked at: {error.strerror}") from error
            regular = stat.S_ISREG(found.st_mode)
            small = found.st_size <= self._options.max_file_bytes and os.access(path, os.R_OK)
            if stat.S_ISLNK(found.st_mode) or (regular and small):
                keep.append(name)
                continue
            drop.append(name)
            skipped += [name] if regular else []
        return keep, drop, skipped


def _literal(path: str) -> tuple[str, ...]:
    return (f":(literal){path}",) if path else ()


def _tree_entry(mode: str, object_id: str) -> TreeEntry | None:
    return None if mode == NO_FILE_MODE else TreeEntry(mode, object_id)


@contextlib.asynccontextmanager
async def history_lock(file: Path, seconds: float, busy: str) -> AsyncIterator[None]:
    """Hold a lock file among all processes. Raises `StoreError`, with the text `busy` if locked."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            await stack.enter_async_context(async_file_lock(file, seconds))
        except TimeoutError as error:
            raise StoreError(busy, hint="try again in a moment") from error
        except OSError as error:
            raise StoreError(
                f"{file.parent} cannot be locked: {error.strerror or error}",
                hint="look at the owner and the permissions of that folder",
            ) from error
        yield

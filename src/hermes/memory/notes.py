"""One memory file, shared with other processes and with people who edit it."""

import contextlib
import fcntl
import hashlib
import logging
import os
import os.path
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.security.injection import blocked
from hermes.util import atomic
from hermes.util.text import clean, many

# Whose notes are where.
#
#     <folder>/MEMORY.md, USER.md                  of the owner
#     <folder>/users/<name>/MEMORY.md, USER.md     of another user
#     <folder>/projects/<name>/MEMORY.md           of a project, for whoever works on it
#     <folder>/chats/<name>/MEMORY.md              of a chat, for everybody in it
#
# A `<name>` is what is readable of an id and a hash of the whole id: two ids never share a folder,
# and no id leads out of it. The file `OWNER` in a folder holds the id.

NoteTarget = Literal["memory", "user", "project", "chat"]

MEMORY_FILE = "MEMORY.md"
USER_FILE = "USER.md"
OWNER_FILE = "OWNER"

_UNSAFE = re.compile(r"[^a-z0-9_]+")
_READABLE = 40
_HASH = 12


class MemoryScope(msgspec.Struct, frozen=True):
    """What a session's notes belong to."""

    user: str = ""
    """Empty: the owner."""
    chat: str = ""
    """Empty: no chat, as in a terminal."""
    project: str = ""
    """Absolute path of the project's root folder; empty: none."""


class NoteLocation(msgspec.Struct, frozen=True):
    file: Path
    owner: str = ""
    """What `OWNER` beside the file says; empty: there is none."""
    about: str = ""
    """What the notes are about, in few words: the name of a project, say."""


def note_locations(folder: Path, scope: MemoryScope) -> dict[NoteTarget, NoteLocation]:
    """The targets that exist in a scope, in the order they are shown."""
    own, owner = folder, ""
    if scope.user:
        own = folder / "users" / safe_name(scope.user)
        owner = f"user {scope.user}"
    found: dict[NoteTarget, NoteLocation] = {"memory": NoteLocation(own / MEMORY_FILE, owner)}
    if scope.project:
        path = os.path.normpath(scope.project)
        about = Path(path).name
        name = f"{_readable(about)}-{_hash(path)}"
        file = folder / "projects" / name / MEMORY_FILE
        found["project"] = NoteLocation(file, f"project {path}", about or path)
    if scope.chat:
        file = folder / "chats" / safe_name(scope.chat) / MEMORY_FILE
        found["chat"] = NoteLocation(file, f"chat {scope.chat}")
    found["user"] = NoteLocation(own / USER_FILE, owner)
    return found


def safe_name(name: str) -> str:
    """A file name for any id."""
    return f"{_readable(name)}-{_hash(name)}"


def _readable(name: str) -> str:
    return _UNSAFE.sub("-", name.lower()).strip("-")[:_READABLE].rstrip("-") or "x"


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]


# The text of a memory file: entries with a line holding `§` between them.
#
# People write these files by hand too, so reading is liberal: spaces around the sign, empty
# entries,
# entries that stand there twice, Windows line ends and a byte order mark are all fine. Writing has
# one form.

SEPARATOR = "\n§\n"

_LINE = re.compile(r"^[^\S\n]*§[^\S\n]*$", re.MULTILINE)
_LINE_END = re.compile("\r\n?|[\u2028\u2029\x85]")


def split_entries(text: str) -> tuple[str, ...]:
    """The entries in order, each once."""
    parts = (part.strip() for part in _LINE.split(normalize_entry(text)))
    return tuple(dict.fromkeys(part for part in parts if part))


def join_entries(entries: Sequence[str]) -> str:
    """What counts against the limit; a file has one more newline at its end."""
    return SEPARATOR.join(entries)


def normalize_entry(text: str) -> str:
    """`text` as it can be stored: no NUL, no lone surrogates, no byte order marks, one kind of
    line end, nothing blank around it."""
    return _LINE_END.sub("\n", clean(text).replace("\ufeff", "")).strip()


def contains_separator(entry: str) -> bool:
    """Whether `entry` would be read back as several."""
    return _LINE.search(entry) is not None


LOCK_FILE = ".lock"
MOST_BYTES = 1_000_000
"""A larger file is not one of ours."""

_PAUSE = 0.02
_ATTEMPTS = 10

Edit = Callable[[tuple[str, ...]], Sequence[str]]
"""The entries as they should be, from those that are there. It may be asked again."""
Stamp = tuple[int, int, int] | None


class NoteFile:
    """`root` is the folder of all memory files, which holds their one lock. `patience` is how many
    seconds to wait for it."""

    def __init__(self, root: Path, place: NoteLocation, patience: float) -> None:
        self._root, self._place, self._patience = root, place, patience

    @property
    def name(self) -> str:
        """The path below the folder of all memory files."""
        return self._place.file.relative_to(self._root).as_posix()

    def read(self) -> tuple[str, ...]:
        """The entries. Raises `ToolError` when the file is there and cannot be read."""
        return self._read()[1]

    def change(self, edit: Edit) -> tuple[str, ...]:
        """The entries after `edit`, on disk. Whatever `edit` raises leaves the file as it was.

        The file is read anew under the lock. An editor knows nothing of the lock: when the file
        changed while we looked at it, everything is done again with what it holds now.
        """
        try:
            with self._locked():
                return self._edited(edit)
        except OSError as error:
            raise self._failure("write", error) from error

    def _edited(self, edit: Edit) -> tuple[str, ...]:
        for _ in range(_ATTEMPTS):
            stamp, before = self._read()
            after = tuple(edit(before))
            if after == before:
                return after
            if stamp == self._stamp():
                self._write(after)
                return after
        raise ToolError(
            f"{self.name} keeps changing while it is being written", hint="try again later"
        )

    def _read(self) -> tuple[Stamp, tuple[str, ...]]:
        try:
            stamp = self._stamp()
            if stamp is None:
                return stamp, ()
            with self._place.file.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except FileNotFoundError:  # gone since
            return None, ()
        except OSError as error:
            raise self._failure("read", error) from error
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise self._damaged(f"byte {error.start} is not UTF-8") from error
        if "\0" in text:
            raise self._damaged("it holds binary data")
        if len(data) > MOST_BYTES:
            raise self._damaged(f"it has more than {MOST_BYTES:,} bytes")
        return stamp, split_entries(text)

    def _stamp(self) -> Stamp:
        try:
            found = self._place.file.stat()
        except FileNotFoundError:
            return None
        if stat.S_ISFIFO(found.st_mode):  # opening it would wait for a writer
            raise self._damaged("it is a pipe")
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _write(self, after: Sequence[str]) -> None:
        text = f"{join_entries(after)}\n" if after else ""
        if len(text.encode()) > MOST_BYTES:
            raise ToolError(
                f"{self.name} cannot have more than {MOST_BYTES:,} bytes",
                hint="nothing was changed",
            )
        folder = self._place.file.parent
        self._make(folder)
        if self._place.owner and not (folder / OWNER_FILE).exists():
            owner = " ".join(clean(self._place.owner).split())
            atomic.write_text(folder / OWNER_FILE, f"{owner}\n", mode=0o600)
        atomic.write_text(self._place.file, text, mode=0o600)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone among all processes and threads that write below the folder."""
        self._make(self._root)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._root / LOCK_FILE, flags, 0o600)
        try:
            self._wait_for(descriptor)
            yield
        finally:
            os.close(descriptor)  # which also lets go of the lock

    def _wait_for(self, descriptor: int) -> None:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ToolError(
                        "another process holds the lock of the memory files",
                        hint="nothing was saved; try again later",
                    ) from None
                time.sleep(_PAUSE)
            else:
                return

    @staticmethod
    def _make(folder: Path) -> None:
        """The folder and what is missing above it, for the owner alone."""
        for each in (*reversed(folder.parents), folder):
            if not each.is_dir():
                each.mkdir(mode=0o700, exist_ok=True)

    def _failure(self, action: str, error: OSError) -> ToolError:
        reason = (error.strerror or str(error)).lower()
        return ToolError(
            f"cannot {action} {self.name}: {reason}",
            hint="nothing was changed; tell the user",
        )

    def _damaged(self, what: str) -> ToolError:
        return ToolError(
            f"{self.name} is damaged: {what}",
            hint=f"it was left as it is; ask the user to look at {self._place.file}",
        )


# The notes of one target: what may be written, and how they are shown to a model.

log = logging.getLogger(__name__)

Scan = Callable[[str], Sequence[str]]
"""The ids of what is suspicious about a text; empty when nothing is."""
Entries = tuple[str, ...]

GLANCE = 80
"""Characters of an entry in a list."""
MOST_LISTED = 50


class NoteChange(msgspec.Struct, frozen=True):
    """What became of a request to remember."""

    content: str
    """The entry that was added, put in or taken out."""
    changed: bool
    """False when it was there already."""
    report: str
    """How full the notes are now and what is in them, for the model."""


class Notebook:
    """`name` and `heading` are what a model sees, in results and in the system prompt; `limit` is
    in characters. Whatever writes raises `ToolError` when nothing could be saved."""

    def __init__(self, name: str, heading: str, file: NoteFile, limit: int, scan: Scan) -> None:
        self._name, self._heading, self._file = name, heading, file
        self._limit, self._scan = limit, scan

    def entries(self) -> Entries:
        """As they stand in the file, suspicious ones too."""
        return self._file.read()

    def add(self, content: str) -> NoteChange:
        entry = self._checked(content)

        def edit(before: Entries) -> Entries:
            return before if entry in before else self._fitting(before, (*before, entry))

        return self._change(edit, entry)

    def replace(self, old_text: str, content: str) -> NoteChange:
        """Put `content` in the place of the one entry that holds `old_text`."""
        entry = self._checked(content)

        def edit(before: Entries) -> Entries:
            old = self._only(before, old_text)
            after = dict.fromkeys(entry if each == old else each for each in before)
            return self._fitting(before, tuple(after))

        return self._change(edit, entry)

    def remove(self, old_text: str) -> NoteChange:
        """Take out the one entry that holds `old_text`."""
        removed = ""

        def edit(before: Entries) -> Entries:
            nonlocal removed
            removed = self._only(before, old_text)
            return tuple(each for each in before if each != removed)

        change = self._change(edit, "")
        return msgspec.structs.replace(change, content=removed)

    def section(self) -> str:
        """The notes under a heading, for the system prompt; "" when there are none. What a person
        wrote beyond the limit is cut; a file that cannot be read is named."""
        try:
            found = self._file.read()
        except ToolError as error:
            log.warning("%s", error)
            return f"## {self._heading}\n[{error}]"
        if not found:
            return ""
        text = join_entries([self._shown(entry) for entry in found])
        if (over := len(text) - self._limit) > 0:
            log.warning("%s is over its limit of %d characters", self._file.name, self._limit)
            text = f"{text[: self._limit]}…\n[{over:,} characters over the limit left out]"
        return f"## {self._heading} [{self._fullness(found)}]\n{text}"

    def _change(self, edit: Edit, content: str) -> NoteChange:
        changed = False

        def watched(before: Entries) -> Sequence[str]:
            nonlocal changed
            after = edit(before)
            changed = after != before
            return after

        after = self._file.change(watched)
        return NoteChange(content, changed, self._report(after))

    def _checked(self, content: str) -> str:
        entry = normalize_entry(content)
        if not entry:
            raise ToolArgumentsInvalid("content is empty", hint="say what to remember")
        if contains_separator(entry):
            raise ToolArgumentsInvalid(
                "content has a line with nothing but §, which separates entries",
                hint="save one entry with each call",
            )
        if findings := self._scan(entry):
            raise ToolError(
                f"not saved: this reads like a prompt injection ({', '.join(findings)})",
                hint="memory is for plain facts; say it in your own words or leave it",
            )
        return entry

    def _only(self, found: Entries, old_text: str) -> str:
        """The one entry that is `old_text` or, if none is, that holds it."""
        wanted = normalize_entry(old_text)
        if not wanted:
            raise ToolArgumentsInvalid("old_text is empty", hint="give a part of the entry")
        matches = [entry for entry in found if entry == wanted]
        matches = matches or [entry for entry in found if wanted in entry]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise ToolError(
                f"{len(matches)} entries hold {_glance(wanted)!r}:\n{self._list(matches)}",
                hint="give a longer part of the one you mean",
            )
        raise ToolError(
            f"no entry holds {_glance(wanted)!r}\n{self._report(found)}",
            hint="copy a part of the entry exactly",
        )

    def _fitting(self, before: Entries, after: Entries) -> Entries:
        """`after`, unless it is too long. What was too long before may become shorter."""
        size = len(join_entries(after))
        if size <= self._limit or size < len(join_entries(before)):
            return after
        raise ToolError(
            f"not saved: {self._name} would have {size:,} characters, the limit is "
            f"{self._limit:,}. It holds, with sizes:\n{self._list(before, sizes=True)}",
            hint="put entries together with replace, or remove some, then try again",
        )

    def _report(self, found: Entries) -> str:
        usage = f"{self._name}: {many(len(found), 'note')}, {self._fullness(found)}"
        return f"{usage}\n{self._list(found)}" if found else usage

    def _list(self, found: Sequence[str], *, sizes: bool = False) -> str:
        lines = [
            f"- {f'({len(entry):,}) ' if sizes else ''}{_glance(self._shown(entry))}"
            for entry in found[:MOST_LISTED]
        ]
        if len(found) > MOST_LISTED:
            lines.append(f"- … and {len(found) - MOST_LISTED:,} more")
        return "\n".join(lines)

    def _shown(self, entry: str) -> str:
        """The entry as a model may see it; one that somebody slipped into the file is left out."""
        findings = self._scan(entry)
        return blocked(f"an entry of {self._file.name}", findings) if findings else entry

    def _fullness(self, found: Entries) -> str:
        size = len(join_entries(found))
        return f"{100 * size // max(self._limit, 1)}%, {size:,}/{self._limit:,} characters"


def _glance(entry: str) -> str:
    text = " ".join(entry.split())
    return text if len(text) <= GLANCE else f"{text[:GLANCE]}…"


# The memory every agent has: short notes in files, and a profile of the user.


class MemoryOptions(msgspec.Struct, frozen=True):
    memory_enabled: bool = True
    """`memory.memory_enabled`: notes of every kind, general, of projects and of chats."""
    user_profile_enabled: bool = True
    """`memory.user_profile_enabled`"""
    memory_char_limit: int = 2200
    """`memory.memory_char_limit`: characters of each file with notes."""
    user_char_limit: int = 1375
    """`memory.user_char_limit`: characters of the profile."""
    lock_seconds: float = 10
    """How long a write waits for other processes."""


class MemorySnapshot(msgspec.Struct, frozen=True):
    """Finished texts for the system prompt; "" when there is nothing to tell."""

    memory: str = ""
    """Notes in general, on the project and on the chat."""
    user: str = ""


HEADINGS: dict[NoteTarget, str] = {
    "memory": "Memory: your notes from earlier sessions",
    "project": "Notes on the project",
    "chat": "Notes on this chat",
    "user": "About the user",
}


class BuiltinMemory:
    """Every call reads the files anew: other processes and people write them too. Calls block for
    as long as the disk takes, and writes for as long as others hold the lock."""

    def __init__(self, notebooks: dict[NoteTarget, Notebook]) -> None:
        self._notebooks = notebooks

    @property
    def targets(self) -> tuple[NoteTarget, ...]:
        """What can be written to; empty when memory is switched off."""
        return tuple(self._notebooks)

    def notebook(self, target: str) -> Notebook:
        """The notes of a target. Raises `ToolArgumentsInvalid` for one that is not there."""
        for name, found in self._notebooks.items():
            if name == target:
                return found
        known = " or ".join(self.targets) or "nothing: memory is switched off"
        raise ToolArgumentsInvalid(f"there is no target {target!r} here", hint=f"use {known}")

    def snapshot(self) -> MemorySnapshot:
        """What the system prompt of a new session says, as the files are now. It never raises: a
        file that cannot be read is named in the text."""
        sections = {target: notes.section() for target, notes in self._notebooks.items()}
        profile = sections.pop("user", "")
        return MemorySnapshot("\n\n".join(filter(None, sections.values())), profile)


def open_memory(
    folder: Path, scope: MemoryScope, options: MemoryOptions, scan: Scan
) -> BuiltinMemory:
    """The memory of a session. `folder` is `<home>/memories`; the first write makes it.
    `scan` is `hermes.security.injection.scan`."""

    def notebook(target: NoteTarget, place: NoteLocation) -> Notebook:
        file = NoteFile(folder, place, options.lock_seconds)
        limit = options.user_char_limit if target == "user" else options.memory_char_limit
        about = " ".join(place.about.split())
        heading = HEADINGS[target] if not about or scan(about) else f"{HEADINGS[target]} {about}"
        return Notebook(target, heading, file, limit, scan)

    enabled = {
        target: options.user_profile_enabled if target == "user" else options.memory_enabled
        for target in HEADINGS
    }
    return BuiltinMemory(
        {
            target: notebook(target, place)
            for target, place in note_locations(folder, scope).items()
            if enabled[target]
        }
    )

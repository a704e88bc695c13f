"""The built-in memory: short notes in Markdown files, which users may edit by hand.

    <folder>/MEMORY.md, USER.md                  of the owner
    <folder>/users/<name>/MEMORY.md, USER.md     of another user
    <folder>/projects/<name>/MEMORY.md           of a project
    <folder>/chats/<name>/MEMORY.md              of a chat, for everyone in it

`<name>` is a readable part of an id and a hash of the whole id, so that two ids never share a
folder and no id leads out of it. The file `OWNER` in such a folder contains the id.

A file holds entries separated by a line with `§`. Reading is lenient, because users edit the files:
spaces around the sign, empty and duplicate entries, Windows line ends and a byte order mark are
accepted. Writing has one form.
"""

import contextlib
import hashlib
import logging
import os
import os.path
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.core.model import ToolSpec
from hermes.core.tool import Effect, Tool, ToolContext
from hermes.security.injection import blocked, scan
from hermes.util import files
from hermes.util.concurrency import in_thread
from hermes.util.lazy import late_pattern
from hermes.util.text import clean, many

log = logging.getLogger(__name__)

NoteTarget = Literal["memory", "user", "project", "chat"]

MEMORY_FILE = "MEMORY.md"
USER_FILE = "USER.md"
OWNER_FILE = "OWNER"

LOCK_FILE = ".lock"
MAX_BYTES = 1_000_000  #: A larger file was not written by Hermes and is refused.
SEPARATOR = "\n§\n"
MAX_LISTED = 50  #: Entries shown in a list.
LIST_CHARS = 80  #: Characters of an entry in a list.

Entries = tuple[str, ...]
Edit = Callable[[Entries], Sequence[str]]
"""Returns the new entries for the present ones. It may be called several times."""
Stamp = tuple[int, int, int] | None
"""Identity of a file's content: inode, modification time and size."""

_SEPARATOR_LINE = late_pattern(r"^[^\S\n]*§[^\S\n]*$", re.MULTILINE)
_LINE_END = late_pattern("\r\n?|[\u2028\u2029\x85]")
_MAX_ATTEMPTS = 10
_UNSAFE = late_pattern(r"[^a-z0-9_]+")
_READABLE = 40
_HASH = 12


class MemoryScope(msgspec.Struct, frozen=True):
    """Whose notes a session uses."""

    user: str = ""  #: Empty for the owner.
    chat: str = ""  #: Empty without a chat, for example in a terminal.
    project: str = ""  #: Absolute path of the project's root folder, or empty.


class NoteLocation(msgspec.Struct, frozen=True):
    """The file of one target."""

    file: Path
    owner: str = ""  #: Content of the `OWNER` file in the same folder; empty if there is none.
    about: str = ""  #: Short name of the subject, for example of a project.


def note_locations(folder: Path, scope: MemoryScope) -> dict[NoteTarget, NoteLocation]:
    """Return the targets of a scope, in display order."""
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
    """Return a file name that is unique for an arbitrary id."""
    return f"{_readable(name)}-{_hash(name)}"


def _readable(name: str) -> str:
    return _UNSAFE.sub("-", name.lower()).strip("-")[:_READABLE].rstrip("-") or "x"


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]


def split_entries(text: str) -> tuple[str, ...]:
    """Return the entries of a file in order, without duplicates."""
    parts = (part.strip() for part in _SEPARATOR_LINE.split(normalize_entry(text)))
    return tuple(dict.fromkeys(part for part in parts if part))


def join_entries(entries: Sequence[str]) -> str:
    """Return the text whose length counts against the limit; a file ends with one more newline."""
    return SEPARATOR.join(entries)


def normalize_entry(text: str) -> str:
    """Return `text` as it is stored: no NUL, lone surrogates or byte order marks, one kind of
    line end, no surrounding whitespace."""
    return _LINE_END.sub("\n", clean(text).replace("\ufeff", "")).strip()


class NoteFile:
    """One memory file, shared with other processes and with users who edit it.

    `root` is the folder of all memory files; one lock in it protects them all. `lock_seconds` is
    the timeout for taking the lock.
    """

    def __init__(self, root: Path, location: NoteLocation, lock_seconds: float) -> None:
        self._root, self._location, self._lock_seconds = root, location, lock_seconds

    @property
    def name(self) -> str:
        """The path relative to `root`."""
        return self._location.file.relative_to(self._root).as_posix()

    def read(self) -> Entries:
        """Return the entries; none without a file. Raises `ToolError` for an unreadable file."""
        return self._read()[1]

    def change(self, edit: Edit) -> tuple[Entries, Entries]:
        """Apply `edit` to the present entries and write the result. Return both.

        The file is unchanged when `edit` raises. Raises `ToolError` when it cannot be written.
        """
        try:
            with self._locked():
                return self._apply(edit)
        except OSError as error:
            raise self._failure("write", error) from error

    def _apply(self, edit: Edit) -> tuple[Entries, Entries]:
        # Text editors do not take our lock, so a change between reading and writing is possible:
        # then start over with the new content.
        for _ in range(_MAX_ATTEMPTS):
            stamp, before = self._read()
            after = tuple(edit(before))
            if after == before:
                return before, after
            if stamp == self._stamp():
                self._write(after)
                return before, after
        raise ToolError(
            f"{self.name} keeps changing while it is being written", hint="try again later"
        )

    def _read(self) -> tuple[Stamp, Entries]:
        try:
            stamp = self._stamp()
            if stamp is None:
                return stamp, ()
            with self._location.file.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:  # deleted after the stat
            return None, ()
        except OSError as error:
            raise self._failure("read", error) from error
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise self._damaged(f"byte {error.start} is not UTF-8") from error
        if "\0" in text:
            raise self._damaged("it holds binary data")
        if len(data) > MAX_BYTES:
            raise self._damaged(f"it has more than {MAX_BYTES:,} bytes")
        return stamp, split_entries(text)

    def _stamp(self) -> Stamp:
        try:
            found = self._location.file.stat()
        except FileNotFoundError:
            return None
        if stat.S_ISFIFO(found.st_mode):  # opening a pipe would block until there is a writer
            raise self._damaged("it is a pipe")
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _write(self, after: Sequence[str]) -> None:
        text = f"{join_entries(after)}\n" if after else ""
        if len(text.encode()) > MAX_BYTES:
            raise ToolError(
                f"{self.name} cannot have more than {MAX_BYTES:,} bytes", hint="nothing was changed"
            )
        folder = self._location.file.parent
        self._create_folder(folder)
        if self._location.owner and not (folder / OWNER_FILE).exists():
            owner = " ".join(clean(self._location.owner).split())
            files.write_text(folder / OWNER_FILE, f"{owner}\n", mode=0o600)
        files.write_text(self._location.file, text, mode=0o600)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the exclusive lock of the folder, against other processes and threads."""
        self._create_folder(self._root)
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(files.file_lock(self._root / LOCK_FILE, self._lock_seconds))
            except TimeoutError:
                raise ToolError(
                    "another process holds the lock of the memory files",
                    hint="nothing was saved; try again later",
                ) from None
            yield

    @staticmethod
    def _create_folder(folder: Path) -> None:
        """Create the folder and its parents, accessible to the owner only."""
        for each in (*reversed(folder.parents), folder):
            if not each.is_dir():
                each.mkdir(mode=0o700, exist_ok=True)

    def _failure(self, action: str, error: OSError) -> ToolError:
        reason = (error.strerror or str(error)).lower()
        return ToolError(
            f"cannot {action} {self.name}: {reason}", hint="nothing was changed; tell the user"
        )

    def _damaged(self, what: str) -> ToolError:
        return ToolError(
            f"{self.name} is damaged: {what}",
            hint=f"it was left as it is; ask the user to look at {self._location.file}",
        )


class NoteChange(msgspec.Struct, frozen=True):
    """Result of a write."""

    content: str  #: The entry that was added or removed.
    changed: bool  #: False when the entry existed already.
    report: str  #: Usage and entries after the change, for the model.


class Notebook:
    """The notes of one target, with a size limit and a scan for prompt injections.

    The model sees `name` in results; in the system prompt it sees `heading` and, unless it reads
    like an injection, `about`. `limit` is in characters.
    Methods that write raise `ToolError` when nothing was saved.
    """

    def __init__(
        self, name: str, heading: str, file: NoteFile, limit: int, *, about: str = ""
    ) -> None:
        self._name, self._title, self._file, self._limit = name, heading, file, limit
        self._about = " ".join(about.split())

    @cached_property
    def _heading(self) -> str:
        # The name of a folder is foreign text too. It is scanned only where notes are shown.
        about = "" if scan(self._about) else self._about
        return f"{self._title} {about}".rstrip()

    def entries(self) -> Entries:
        """Return the entries of the file, including suspicious ones."""
        return self._file.read()

    def add(self, content: str) -> NoteChange:
        entry = self._check_content(content)

        def edit(before: Entries) -> Entries:
            return before if entry in before else self._check_size(before, (*before, entry))

        before, after = self._file.change(edit)
        return NoteChange(entry, before != after, self._report(after))

    def replace(self, old_text: str, content: str) -> NoteChange:
        """Replace the only entry that contains `old_text` with `content`."""
        entry = self._check_content(content)

        def edit(before: Entries) -> Entries:
            old = self._find_one(before, old_text)
            after = dict.fromkeys(entry if each == old else each for each in before)
            return self._check_size(before, tuple(after))

        before, after = self._file.change(edit)
        return NoteChange(entry, before != after, self._report(after))

    def remove(self, old_text: str) -> NoteChange:
        """Remove the only entry that contains `old_text`."""

        def edit(before: Entries) -> Entries:
            removed = self._find_one(before, old_text)
            return tuple(each for each in before if each != removed)

        before, after = self._file.change(edit)
        [removed] = set(before) - set(after)
        return NoteChange(removed, True, self._report(after))

    def section(self) -> str:
        """Return the notes under a heading for the system prompt, or "" without notes.

        Text over the limit is cut; an unreadable file is reported in the text.
        """
        try:
            found = self._file.read()
        except ToolError as error:
            log.warning("%s", error)
            return f"## {self._heading}\n[{error}]"
        if not found:
            return ""
        text = join_entries([self._safe_text(entry) for entry in found])
        if (over := len(text) - self._limit) > 0:
            log.warning("%s is over its limit of %d characters", self._file.name, self._limit)
            text = f"{text[: self._limit]}…\n[{over:,} characters over the limit left out]"
        return f"## {self._heading} [{self._usage(found)}]\n{text}"

    def _check_content(self, content: str) -> str:
        entry = normalize_entry(content)
        if not entry:
            raise ToolArgumentsInvalid("content is empty", hint="say what to remember")
        if _SEPARATOR_LINE.search(entry):  # it would be read back as several entries
            raise ToolArgumentsInvalid(
                "content has a line with nothing but §, which separates entries",
                hint="save one entry with each call",
            )
        if findings := scan(entry):
            raise ToolError(
                f"not saved: this reads like a prompt injection ({', '.join(findings)})",
                hint="memory is for plain facts; say it in your own words or leave it",
            )
        return entry

    def _find_one(self, found: Entries, old_text: str) -> str:
        """Return the only entry that equals `old_text` or, if none does, contains it."""
        wanted = normalize_entry(old_text)
        if not wanted:
            raise ToolArgumentsInvalid("old_text is empty", hint="give a part of the entry")
        matches = [entry for entry in found if entry == wanted]
        matches = matches or [entry for entry in found if wanted in entry]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise ToolError(
                f"{len(matches)} entries hold {_preview(wanted)!r}:\n{self._list(matches)}",
                hint="give a longer part of the one you mean",
            )
        raise ToolError(
            f"no entry holds {_preview(wanted)!r}\n{self._report(found)}",
            hint="copy a part of the entry exactly",
        )

    def _check_size(self, before: Entries, after: Entries) -> Entries:
        """Return `after` if it fits the limit or is at least shorter than `before`."""
        size = len(join_entries(after))
        if size <= self._limit or size < len(join_entries(before)):
            return after
        raise ToolError(
            f"not saved: {self._name} would have {size:,} characters, the limit is "
            f"{self._limit:,}. It holds, with sizes:\n{self._list(before, sizes=True)}",
            hint="put entries together with replace, or remove some, then try again",
        )

    def _report(self, found: Entries) -> str:
        usage = f"{self._name}: {many(len(found), 'note')}, {self._usage(found)}"
        return f"{usage}\n{self._list(found)}" if found else usage

    def _list(self, found: Sequence[str], *, sizes: bool = False) -> str:
        lines = [
            f"- {f'({len(entry):,}) ' if sizes else ''}{_preview(self._safe_text(entry))}"
            for entry in found[:MAX_LISTED]
        ]
        if len(found) > MAX_LISTED:
            lines.append(f"- … and {len(found) - MAX_LISTED:,} more")
        return "\n".join(lines)

    def _safe_text(self, entry: str) -> str:
        """Return the entry for the model; a suspicious one is replaced by a notice."""
        findings = scan(entry)
        return blocked(f"an entry of {self._file.name}", findings) if findings else entry

    def _usage(self, found: Entries) -> str:
        size = len(join_entries(found))
        return f"{100 * size // max(self._limit, 1)}%, {size:,}/{self._limit:,} characters"


def _preview(entry: str) -> str:
    text = " ".join(entry.split())
    return text if len(text) <= LIST_CHARS else f"{text[:LIST_CHARS]}…"


class MemoryOptions(msgspec.Struct, frozen=True):
    """Settings of the built-in memory."""

    memory_enabled: bool = True
    """`memory.memory_enabled`: general notes and those of projects and chats."""
    user_profile_enabled: bool = True  #: `memory.user_profile_enabled`
    memory_char_limit: int = 2200
    """`memory.memory_char_limit`: size limit of each file with notes."""
    user_char_limit: int = 1375  #: `memory.user_char_limit`: size limit of the profile.
    lock_seconds: float = 10  #: How long a write waits for the lock.


class MemorySnapshot(msgspec.Struct, frozen=True):
    """Texts for the system prompt; "" without notes."""

    memory: str = ""  #: General notes and those on the project and the chat.
    user: str = ""


HEADINGS: dict[NoteTarget, str] = {
    "memory": "Memory: your notes from earlier sessions",
    "project": "Notes on the project",
    "chat": "Notes on this chat",
    "user": "About the user",
}


class BuiltinMemory:
    """The notes of a session, one `Notebook` per target.

    Every call reads the files again, because other processes and users write them too. Calls
    block; writes also wait for the lock.
    """

    def __init__(self, notebooks: dict[NoteTarget, Notebook]) -> None:
        self._notebooks = notebooks

    @property
    def targets(self) -> tuple[NoteTarget, ...]:
        """Targets that can be written; empty when memory is disabled."""
        return tuple(self._notebooks)

    def notebook(self, target: str) -> Notebook:
        """Return the notes of a target. Raises `ToolArgumentsInvalid` for an unknown one."""
        for name, found in self._notebooks.items():
            if name == target:
                return found
        known = " or ".join(self.targets) or "nothing: memory is switched off"
        raise ToolArgumentsInvalid(f"there is no target {target!r} here", hint=f"use {known}")

    def snapshot(self) -> MemorySnapshot:
        """Return the texts for a new session. Never raises: see `Notebook.section`."""
        sections = {target: notes.section() for target, notes in self._notebooks.items()}
        profile = sections.pop("user", "")
        return MemorySnapshot("\n\n".join(filter(None, sections.values())), profile)


def open_memory(folder: Path, scope: MemoryScope, options: MemoryOptions) -> BuiltinMemory:
    """Return the memory of a session. `folder` is `<home>/memories`, created by the first write."""
    notebooks: dict[NoteTarget, Notebook] = {}
    for target, location in note_locations(folder, scope).items():
        if target == "user":
            enabled, limit = options.user_profile_enabled, options.user_char_limit
        else:
            enabled, limit = options.memory_enabled, options.memory_char_limit
        if enabled:
            file = NoteFile(folder, location, options.lock_seconds)
            notebooks[target] = Notebook(
                target, HEADINGS[target], file, limit, about=location.about
            )
    return BuiltinMemory(notebooks)


# The `memory` tool: the agent writes notes for later sessions.

OnWrite = Callable[[str, str, str], None]
"""Called after each change with the action, the target and the entry added or removed."""

ABOUT: dict[NoteTarget, str] = {
    "memory": "memory: your notes",
    "project": "project: notes on this project",
    "chat": "chat: notes on this chat, visible to everyone in it",
    "user": "user: who the user is and what they want",
}
DONE = {"add": "Added.", "replace": "Replaced.", "remove": "Removed."}
UNCHANGED = "Nothing changed: the entry already exists."


def memory_tool(memory: BuiltinMemory, on_write: OnWrite | None = None) -> Tool:
    """Return the tool for a memory that has targets. Every action changes what later sessions
    are told."""

    async def handler(call: ToolContext, arguments: dict[str, Any]) -> str:
        action, target = str(arguments["action"]), str(arguments["target"])
        notes = memory.notebook(target)
        content, old_text = (str(arguments.get(key) or "") for key in ("content", "old_text"))
        change = await call.cancel.guard(in_thread(apply_action, notes, action, content, old_text))
        if change.changed and on_write is not None:
            on_write(action, target, change.content)
        return f"{DONE[action] if change.changed else UNCHANGED}\n{change.report}"

    return Tool(
        spec=_spec(memory.targets),
        handler=handler,
        effect=Effect.PERSIST,
        serial=True,
        toolset="memory",
    )


def apply_action(notes: Notebook, action: str, content: str, old_text: str) -> NoteChange:
    """Run one action of the tool. Raises `ToolArgumentsInvalid` for an unknown action."""
    match action:
        case "add":
            return notes.add(content)
        case "replace":
            return notes.replace(old_text, content)
        case "remove":
            return notes.remove(old_text)
        case _:
            raise ToolArgumentsInvalid(
                f"there is no action {action!r}", hint=f"use {', '.join(DONE)}"
            )


def _spec(targets: tuple[NoteTarget, ...]) -> ToolSpec:
    return ToolSpec(
        name="memory",
        description="Save short entries for later sessions, whose prompts contain them: "
        "preferences, corrections, facts about the environment, conventions. Not task progress.",
        parameters={
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": list(DONE)},
                "target": {
                    "type": "string",
                    "enum": list(targets),
                    "description": "; ".join(ABOUT[target] for target in targets),
                },
                "content": {"type": "string", "description": "the new entry"},
                "old_text": {
                    "type": "string",
                    "description": "replace, remove: text that only this entry contains",
                },
            },
            "required": ["action", "target"],
        },
    )

"""`hermes memory`: what the agent remembers, where, for whom; and the provider it may have."""

import contextlib
import shutil
import subprocess
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hermes.app import project_root
from hermes.cli.commands.memory_provider import (
    PROVIDER_ACTIONS,
    ProviderClient,
    extensions_for_provider,
    isolated_provider,
    open_provider,
    provider_info,
)
from hermes.cli.context import YES, Cli, Command, arg, table
from hermes.cli.output import positive
from hermes.config.edit import editor_command
from hermes.config.home import tilde
from hermes.config.settings import MemorySettings
from hermes.core.errors import ConfigError, HermesError, ToolError, UsageError
from hermes.memory import (
    MEMORY_FILE,
    OWNER_FILE,
    USER_FILE,
    Dict,
    MemoryScope,
    Notebook,
    NoteFile,
    NoteLocation,
    NoteTarget,
    config_fields,
    join_entries,
    note_locations,
    split_entries,
)
from hermes.plugins import RegistrationKind, bundled_infos
from hermes.security.injection import scan
from hermes.util.text import many, plain, plain_line

# The built-in note files of all owners.

YOURS = "yours"
LOCK_SECONDS = 10
TARGETS: tuple[NoteTarget, ...] = ("memory", "user", "project", "chat")
PERSONAL = ("memory", "user")
SHARED: dict[str, NoteTarget] = {"projects": "project", "chats": "chat"}


class OwnedNotes(msgspec.Struct, frozen=True):
    """One file with notes."""

    target: NoteTarget
    owner: str  #: `yours`, or the name of another owner.
    place: NoteLocation
    file: NoteFile
    limit: int

    def fullness(self) -> str:
        """Return the used share of the limit. Raises `ToolError` if the file cannot be read."""
        size = len(join_entries(self.file.read()))
        return f"{100 * size // max(self.limit, 1)}%, {size:,}/{self.limit:,} characters"


class NoteFiles:
    """All notes of a home."""

    def __init__(self, cli: Cli) -> None:
        self._folder = cli.home.memories
        self._settings: MemorySettings = cli.load().settings.memory

    def all(self, target: str = "") -> list[OwnedNotes]:
        """Return the existing notes, the user's own first."""
        found = (notes for notes in self._found() if notes.place.file.exists())
        return [notes for notes in found if target in ("", notes.target)]

    def one(self, target: NoteTarget, of: str) -> OwnedNotes:
        """Return the notes of a target whose owner's name contains `of`.

        Without `of`: the user's own, or those of the current project. They may not exist yet.
        """
        if not of:
            scope = MemoryScope(project=project_root(Path.cwd()) if target == "project" else "")
            if (place := note_locations(self._folder, scope).get(target)) is not None:
                owner = place.owner.removeprefix(f"{target} ") or YOURS
                return self._notes(target, owner, place)
        found = [notes for notes in self.all(target) if of.casefold() in notes.owner.casefold()]
        if len(found) == 1:
            return found[0]
        known = ", ".join(notes.owner for notes in found or self.all(target)) or "none"
        problem = f"{len(found)} notes" if found else "no notes"
        hint = f"name one of them with --of; there are notes of: {known}"
        raise UsageError(f"there are {problem} for {target} {of}".rstrip(), hint=hint)

    def _found(self) -> Iterator[OwnedNotes]:
        yield from self._of_person(self._folder, YOURS)
        for folder in _folders(self._folder / "users"):
            yield from self._of_person(folder, f"user {_owner(folder).removeprefix('user ')}")
        for name, target in SHARED.items():
            for folder in _folders(self._folder / name):
                owner = _owner(folder)
                place = NoteLocation(folder / MEMORY_FILE, owner)
                yield self._notes(target, owner.removeprefix(f"{target} "), place)

    def _of_person(self, folder: Path, owner: str) -> Iterator[OwnedNotes]:
        kinds: dict[NoteTarget, str] = {"memory": MEMORY_FILE, "user": USER_FILE}
        for target, name in kinds.items():
            place = NoteLocation(folder / name, "" if owner == YOURS else owner)
            yield self._notes(target, owner, place)

    def _notes(self, target: NoteTarget, owner: str, place: NoteLocation) -> OwnedNotes:
        settings = self._settings
        limit = settings.user_char_limit if target == "user" else settings.memory_char_limit
        return OwnedNotes(target, owner, place, NoteFile(self._folder, place, LOCK_SECONDS), limit)


def _folders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.glob("*") if each.is_dir())


def _owner(folder: Path) -> str:
    """Return the owner from the owner file, or the name of the folder."""
    try:
        return (folder / OWNER_FILE).read_text("utf-8", "replace").strip() or folder.name
    except OSError:
        return folder.name


# `hermes memory` and `hermes memory status`.


def _overview(_args: Namespace, cli: Cli) -> int:
    settings = cli.load().settings.memory
    cli.say(f"Notes, in {tilde(cli.home.memories)}")
    rows = []
    for notes in NoteFiles(cli).all():
        try:
            state = [many(len(notes.file.read()), "note"), notes.fullness()]
        except ToolError as error:
            state = ["", str(error)]
        rows.append((notes.target, plain_line(notes.owner), *state))
    for line in table(rows) or ["none yet"]:
        cli.say(f"  {line}")
    for key in ("memory_enabled", "user_profile_enabled"):
        if not getattr(settings, key):
            cli.say(f"  switched off: memory.{key} is false")
    cli.say(f"\nProvider: {settings.provider or 'none'}")
    if not settings.provider:
        known = (info.name for info in bundled_infos("memory"))
        cli.say(f"  `hermes memory setup NAME` chooses one of {', '.join(known)}")
        return 0
    try:
        with open_provider(cli) as provider:
            cli.say(f"  {provider.summary() if provider else ''}")
    except HermesError as error:
        cli.say(f"  {error}\n  {error.hint}")
        return error.exit_code
    return 0


COMMAND = Command("memory", _overview, "")


@COMMAND.action("status", "show the provider, and whether it is set up", json=True)
def _status(_args: Namespace, cli: Cli) -> int:
    facts = _facts(cli)
    if not facts["provider"]:
        cli.emit(facts, "no memory provider; the agent has its notes (`hermes memory`)")
        return 0
    lines = [
        f"provider   {facts['provider']} ({facts['where']})",
        f"ready      {'yes' if facts['ready'] else 'no'}",
        f"waits      {facts['timeout']:g} s in a turn (memory.provider_timeout)",
    ]
    for name, state in facts["variables"].items():
        lines.append(f"           {name} is {'set' if state else 'not set'}")
    lines += [f"problem    {facts['problem']}"] if facts["problem"] else []
    cli.emit(facts, lines)
    return 0 if facts["ready"] else 1


def _facts(cli: Cli) -> dict[str, Any]:
    settings = cli.load().settings.memory
    facts: dict[str, Any] = {
        "provider": settings.provider,
        "where": "",
        "ready": False,
        "timeout": settings.provider_timeout,
        "variables": {},
        "problem": "",
    }
    if not settings.provider:
        return facts
    brought = extensions_for_provider(cli, settings.provider)
    info = provider_info(cli, settings.provider)
    memory = RegistrationKind.MEMORY
    plugin = brought.plugin_with(memory, settings.provider) if brought else ""
    facts["where"] = info.where if info else f"plugin {plugin}" if plugin else "not found"
    try:
        isolated = isolated_provider(cli, settings.provider, brought)
        facts["variables"] = {
            field.env_var: bool(cli.load().variable(field.env_var))
            for field in config_fields(isolated.provider)
            if field.env_var
        }
        facts["ready"] = bool(isolated.call_at_start("is_available"))
    except HermesError as error:
        facts["problem"] = str(error)
    else:
        if not facts["ready"]:
            facts["problem"] = f"it is not set up; `hermes memory setup {settings.provider}`"
    return facts


# `hermes memory show`.

PROVIDER = "provider"
PLACES = (*TARGETS, PROVIDER)
MOST_FOUND = 10_000  #: Facts that a provider is asked for.
SHOWN_FACTS = 100
PLACE = arg("--target", choices=PLACES, default="", help="only there")


class MemoryItem(msgspec.Struct, frozen=True):
    """One stored memory."""

    place: str  #: A note target, or `provider`.
    owner: str
    text: str
    id: str = ""  #: The id of the provider.
    more: Dict = {}

    @property
    def heading(self) -> str:
        return f"{self.place} ({plain_line(self.owner)})"

    @property
    def mark(self) -> str:
        """The id as text, or ""."""
        return f"[{plain_line(self.id)}] " if self.id else ""

    def may_be_of(self, user: str) -> bool:
        """Return False for a note of another user."""
        return self.place not in PERSONAL or self.owner == (f"user {user}" if user else YOURS)


class MemoryItems(NamedTuple):
    items: list[MemoryItem]
    unread: list[str]  #: Why some memories could not be read.


def items(cli: Cli, query: str, target: str, user: str) -> MemoryItems:
    """Return notes with every word of the query, and what the provider finds.

    An unusable provider is an error only if `target` names it.
    """
    words, found = query.casefold().split(), MemoryItems([], [])
    for notes in NoteFiles(cli).all(target) if target != PROVIDER else ():
        try:
            entries = notes.file.read()
        except ToolError as error:
            found.unread.append(str(error))
            continue
        found.items.extend(
            MemoryItem(notes.target, notes.owner, entry)
            for entry in entries
            if all(word in entry.casefold() for word in words)
        )
    if target in ("", PROVIDER):
        try:
            found.items.extend(_provider_items(cli, query, user))
        except HermesError as error:
            if target:
                raise
            found.unread.append(str(error))
    return found


def _provider_items(cli: Cli, query: str, user: str) -> list[MemoryItem]:
    with open_provider(cli, user) as provider:
        if provider is None:
            return []
        owner = f"{provider.name}, of user {user}" if user else provider.name
        return [
            MemoryItem(PROVIDER, owner, entry.pop("text"), entry.pop("id"), entry)
            for entry in provider.entries(query, MOST_FOUND)
        ]


@COMMAND.action(
    "show",
    "show what is remembered, or what holds some words",
    arg("query", nargs="*", metavar="QUERY", help="words to look for"),
    PLACE,
    arg("--user", default="", metavar="ID", help="whose facts of the provider (yours)"),
    arg("--limit", type=positive, metavar="N", help="of the provider (100; all with --json)"),
    json=True,
)
def _show(args: Namespace, cli: Cli) -> int:
    found = items(cli, " ".join(args.query), args.target, args.user)
    limit = args.limit or (MOST_FOUND if args.json else SHOWN_FACTS)
    facts_found = [item for item in found.items if item.place == PROVIDER]
    for item in facts_found[limit:]:
        found.items.remove(item)
    facts = [
        {
            "target": item.place,
            "owner": item.owner,
            "text": item.text,
            **({"id": item.id} if item.id else {}),
            **item.more,
        }
        for item in found.items
    ]
    lines = []
    for heading, group in groupby(found.items, key=lambda item: item.heading):
        lines += ["", heading]
        for item in group:
            more = plain_line(", ".join(f"{key} {value}" for key, value in item.more.items()))
            text = plain(item.text).replace("\n", "\n    ")
            lines.append(f"  - {item.mark}{text}{f' ({more})' if more else ''}")
    nothing = f"nothing is remembered{' about that' if args.query else ' yet'}"
    cli.emit(facts, lines[1:] if lines or found.unread else [nothing])
    if (left_out := len(facts_found) - limit) > 0:
        cli.note(f"{left_out:,} more of the provider: --limit {len(facts_found)} shows all")
    for problem in found.unread:
        cli.note(f"note: {problem}")
    return 1 if found.unread else 0


# Text editing in the user's editor.


class Draft:
    """A copy of a text in a temporary folder, removed with the editor's side files.

    It is kept if the edited text was rejected.
    """

    def __init__(self, text: str, name: str, cli: Cli) -> None:
        self._command = editor_command(terminal=cli.interactive)
        self.file = Path(tempfile.mkdtemp(prefix="hermes-memory-")) / name
        self.file.write_text(text, "utf-8")

    def drop(self) -> None:
        shutil.rmtree(self.file.parent, ignore_errors=True)

    def edited(self) -> str:
        """Open the editor and return the edited text. Raises `HermesError`."""
        try:
            code = subprocess.run([*self._command, str(self.file)], check=False).returncode
        except OSError as error:
            self.drop()
            problem = f"cannot run the editor {self._command[0]!r} ({error.strerror})"
            raise UsageError(problem, hint="set EDITOR") from error
        if code:
            raise self.refused(f"the editor ended with code {code}")
        try:
            text = self.file.read_bytes().decode()
        except OSError as error:
            self.drop()
            raise HermesError("the editor left no text", hint="nothing was changed") from error
        except UnicodeDecodeError as error:
            raise self.refused(f"byte {error.start} is not UTF-8") from error
        if "\0" in text:
            raise self.refused("it holds binary data")
        return text

    def refused(self, why: str) -> HermesError:
        return HermesError(f"not saved: {why}", hint=f"your text is in {self.file}")


# `hermes memory edit` and `hermes memory forget`.

GLANCE = 100


@COMMAND.action(
    "edit",
    "open notes in your editor, and check them afterwards",
    arg("text", nargs="*", metavar="TEXT", help="of the provider: a part of the entry, or its id"),
    arg("--target", choices=PLACES, default="memory", help="which notes (memory)"),
    arg("--of", default="", metavar="NAME", help="whose notes: a part of the name"),
    arg("--user", default="", metavar="ID", help="whose facts of the provider"),
)
def _edit(args: Namespace, cli: Cli) -> None:
    if args.target == PROVIDER:
        _edit_entry(args, cli)
        return
    if args.text:
        raise UsageError("notes are edited as a whole", hint="leave TEXT out")
    notes = NoteFiles(cli).one(args.target, args.of)
    before = notes.file.read()
    draft = Draft(f"{join_entries(before)}\n" if before else "", notes.place.file.name, cli)
    wanted = split_entries(draft.edited())
    merged = False

    def put(now: tuple[str, ...]) -> tuple[str, ...]:
        """Merge the user's edit with changes made to the file meanwhile."""
        nonlocal merged
        merged = now != before
        gone = set(before) - set(now)
        new = [entry for entry in now if entry not in before]
        return tuple(dict.fromkeys([*(entry for entry in wanted if entry not in gone), *new]))

    try:
        _, after = notes.file.change(put)
    except ToolError as error:
        raise draft.refused(str(error)) from error
    draft.drop()
    if after == before:
        cli.say("nothing was changed")
        return
    cli.say(f"{tilde(notes.place.file)} has {many(len(after), 'note')}, {notes.fullness()}")
    if merged:
        cli.note("note: the agent changed the file meanwhile; its changes are kept too")
    _mirror(cli, notes, before, after)
    _warn(notes, after, cli)


@COMMAND.action(
    "add",
    "add a note that later conversations are told",
    arg("text", nargs="+", metavar="TEXT", help="what to remember"),
    arg("--target", choices=TARGETS, default="memory", help="which notes (memory)"),
    arg("--of", default="", metavar="NAME", help="whose notes: a part of the name"),
)
def _add(args: Namespace, cli: Cli) -> None:
    notes = NoteFiles(cli).one(args.target, args.of)
    book = Notebook(notes.target, f"{notes.target} ({notes.owner})", notes.file, notes.limit)
    try:
        change = book.add(" ".join(args.text))
    except ToolError as error:
        hint = "`hermes memory edit` shortens the notes" if "limit" in str(error) else error.hint
        raise UsageError(str(error), hint=hint) from error
    if not change.changed:
        cli.say("nothing was changed: the note exists already")
        return
    _mirror(cli, notes, (), (change.content,))
    cli.say(
        f"{tilde(notes.place.file)} has {many(len(notes.file.read()), 'note')}, {notes.fullness()}"
    )


def _mirror(cli: Cli, notes: OwnedNotes, before: Sequence[str], after: Sequence[str]) -> None:
    """Tell the provider which notes were removed and added, because it may keep copies."""
    user = notes.owner.removeprefix("user ") if notes.owner.startswith("user ") else ""
    changes = [("remove", entry) for entry in before if entry not in after]
    changes += [("add", entry) for entry in after if entry not in before]
    try:
        with open_provider(cli, user) as provider:
            if provider is not None:
                for action, entry in changes:
                    provider.note_changed(action, notes.target, entry)
    except HermesError as error:  # the notes themselves are saved
        cli.note(f"warning: the memory provider still has its old copies: {error}")


def _warn(notes: OwnedNotes, after: tuple[str, ...], cli: Cli) -> None:
    over = len(join_entries(after)) - notes.limit
    if over > 0:
        cli.note(f"warning: {over:,} characters over the limit; the prompt leaves them out")
    for entry in after:
        if findings := scan(entry):
            cli.note(
                f"warning: this reads like a prompt injection ({', '.join(findings)}) and is not"
                f" shown to the agent: {_preview(entry)}"
            )


def _edit_entry(args: Namespace, cli: Cli) -> None:
    wanted = " ".join(args.text)
    if not wanted:
        raise UsageError("which entry?", hint='hermes memory edit --target provider "some words"')
    with open_provider(cli, args.user) as provider:
        if provider is None:
            raise UsageError("there is no memory provider", hint="hermes memory setup")
        item = _require_one_text(_find_matching(cli, wanted, PROVIDER, args.user), wanted)[0]
        draft = Draft(f"{item.text}\n", "entry.txt", cli)
        text = draft.edited().strip()
        if not text:
            raise draft.refused("it is empty; `hermes memory forget` deletes an entry")
        try:
            saved = text == item.text or provider.edit(item.id, text)
        except HermesError as error:
            raise draft.refused(str(error)) from error
        if not saved:
            raise draft.refused("the provider did not accept it")
    draft.drop()
    cli.say("nothing was changed" if text == item.text else f"changed: {_preview(text)}")


@COMMAND.action(
    "forget",
    "delete one memory permanently",
    arg("text", nargs="+", metavar="TEXT", help="a part that nothing else has, or an id"),
    PLACE,
    arg("--user", default="", metavar="ID", help="whose notes and facts (yours)"),
    YES,
)
def _forget(args: Namespace, cli: Cli) -> None:
    wanted = " ".join(args.text)
    found = _require_one_text(_find_matching(cli, wanted, args.target, args.user), wanted)
    cli.say(_preview(found[0].text))
    cli.say(f"  in {', '.join(item.heading for item in found)}")
    cli.require("forget this?")
    with contextlib.ExitStack() as stack:
        provider: ProviderClient | None = None
        try:
            provider = stack.enter_context(open_provider(cli, args.user))
        except ConfigError as error:  # notes can be deleted without the provider
            cli.note(f"note: {error}")
        # Delete the provider's copy first: deleting a note also deletes its copy.
        for item in sorted(found, key=lambda item: item.place != PROVIDER):
            _delete(cli, item, provider)
    cli.say("forgotten")


def _delete(cli: Cli, item: MemoryItem, provider: ProviderClient | None) -> None:
    if item.place == PROVIDER:
        if provider is None or not provider.forget(item.id):
            raise HermesError("the provider did not find it any more")
        return
    for notes in NoteFiles(cli).all(item.place):
        if notes.owner == item.owner:
            title = f"{notes.target} ({notes.owner})"
            Notebook(notes.target, title, notes.file, notes.limit).remove(item.text)
            if provider is not None:
                provider.note_changed("remove", item.place, item.text)


def _find_matching(cli: Cli, wanted: str, target: str, user: str) -> list[MemoryItem]:
    """Return the memories that contain the text.

    A provider searches by words, so its whole list is filtered here, and its search is tried if
    that finds nothing.
    """
    if not wanted.strip():
        raise UsageError("what should be looked for?", hint="give a part of the text, or an id")
    looked = items(cli, "", target, user)
    for problem in looked.unread:
        cli.note(f"note: {problem}")
    return _items_containing(looked, wanted, user) or _items_containing(
        items(cli, wanted, target, user), wanted, user
    )


def _items_containing(looked: MemoryItems, wanted: str, user: str) -> list[MemoryItem]:
    theirs = [item for item in looked.items if item.may_be_of(user)]
    exact = [item for item in theirs if wanted in (item.text, item.id)]
    return exact or [item for item in theirs if wanted.casefold() in item.text.casefold()]


def _require_one_text(found: list[MemoryItem], wanted: str) -> list[MemoryItem]:
    """Return the matches if all have the same text, as a note and its copy do; else raise."""
    texts = {item.text: item for item in found}
    if len(texts) == 1:
        return found
    if not texts:
        raise UsageError(f"nothing holds {wanted!r}", hint="`hermes memory show` lists everything")
    shown = "\n".join(f"  - {item.mark}{_preview(text)}" for text, item in [*texts.items()][:10])
    hint = "give a longer part of the one you mean, or the id in [ ]"
    raise UsageError(f"{len(texts)} things hold {wanted!r}:\n{shown}", hint=hint)


def _preview(text: str) -> str:
    line = plain_line(text)
    return line if len(line) <= GLANCE else f"{line[:GLANCE]}…"


COMMAND.actions += PROVIDER_ACTIONS.actions

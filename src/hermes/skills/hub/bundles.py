"""All installed and own skills as one file, to keep or to carry to another machine.

A .tar.gz with `manifest.json`, which holds the hash of every file, and the files in
`own/<folder>/…` and `hub/<folder>/…`.
"""

import hashlib
import io
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from hermes.skills.history.changes import Change, Who
from hermes.skills.history.skill_history import SkillHistory
from hermes.skills.hub.archives import tar_members
from hermes.skills.hub.audit_log import Event
from hermes.skills.hub.contents import (
    checked,
    hashes,
    is_hidden,
    read_folder,
    safe_name,
    whole_hash,
    write_folder,
)
from hermes.skills.hub.errors import UNREADABLE, Unfit
from hermes.skills.hub.heads import category_name, skill_in
from hermes.skills.hub.hub import Hub
from hermes.skills.hub.lockfile import Entry
from hermes.skills.hub.shelf import utc_now
from hermes.skills.scanner import scan_files
from hermes.skills.scanner.trust import Trust, decide
from hermes.skills.skill import Skill
from hermes.skills.writing.overlays import MARK_FILE
from hermes.util import atomic

MANIFEST = "manifest.json"
VERSION = 1
MOST_BYTES = 128 * 1024 * 1024
STAGE = ".stage-"
"""What `hermes.skills.writing` calls folders in which things are made ready; it clears them."""

Kind = Literal["own", "hub"]


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: Kind
    folder: str
    """Below the folder of its kind."""
    files: dict[str, str]
    """SHA-256 by name."""
    sha256: str
    entry: Entry | None = None
    """What the lock said of an installed one."""


class Manifest(msgspec.Struct, frozen=True):
    made_at: str
    skills: tuple[Packed, ...]
    version: int = VERSION


class Imported(msgspec.Struct, frozen=True):
    stored: tuple[str, ...]
    skipped: tuple[str, ...]
    """They were there already."""
    refused: dict[str, str]
    """With the reason."""


def export(hub: Hub, home: Path, own: Iterable[Skill], target: Path) -> Manifest:
    """Writes everything to `target` as a whole. `home` is `<home>/skills`."""
    packed: list[tuple[Packed, dict[str, bytes]]] = []
    for skill in own:
        files = _read(skill.name, skill.folder)
        mark = skill.folder / MARK_FILE
        if mark.is_file():
            files[MARK_FILE] = mark.read_bytes()
        packed.append(_packed("own", skill.name, skill.folder.relative_to(home), files))
    for name, entry in sorted(hub.shelf.lock().skills.items()):
        folder = entry.folder(hub.shelf.skills, name)
        files = _read(name, folder)
        inside = folder.relative_to(hub.shelf.skills)
        packed.append(_packed("hub", name, inside, files, entry))
    manifest = Manifest(utc_now(), tuple(one for one, _ in packed))
    atomic.write_bytes(target, _archive(manifest, packed), mode=0o600)
    return manifest


def _read(name: str, folder: Path) -> dict[str, bytes]:
    """Raises `Unfit` for what could not be imported again."""
    try:
        return checked(read_folder(folder))
    except FileNotFoundError as error:
        raise Unfit(f"the folder of {name} is gone", hint="`hermes skills audit`") from error
    except Unfit as error:
        raise Unfit(f"{name} cannot be exported: {error}", hint=error.hint) from error


async def load(
    hub: Hub, home: Path, history: SkillHistory, file: Path, *, force: bool = False
) -> Imported:
    """Checks all hashes first, then stores what is not there yet and may be stored.

    Nobody vouches for such a file: whatever it says, its skills are scanned as a stranger's.
    """
    stored: list[str] = []
    skipped: list[str] = []
    refused: dict[str, str] = {}
    if file.stat().st_size > MOST_BYTES:
        raise Unfit(f"{file.name} is too large for a snapshot of skills")
    for one, files in read_bundle(file.read_bytes()):
        decision = decide(scan_files(files), Trust.COMMUNITY, force)
        if not decision.allowed:
            refused[one.name] = decision.reason
            hub.shelf.note(
                Event(at=utc_now(), what="refused", skill=one.name, reason=decision.reason)
            )
        elif one.kind == "hub" and one.entry is not None:
            done = _store_installed(hub, one, one.entry, files, force=force)
            (stored if done else skipped).append(one.name)
        else:
            target = home / one.folder
            if target.exists() and not force:
                skipped.append(one.name)
                continue
            change = Change(
                "import", (one.name,), f"imported from {file.name}", Who.USER, paths=(one.folder,)
            )
            await history.record(change, _storing(home, target, files))
            stored.append(one.name)
    return Imported(tuple(stored), tuple(skipped), refused)


def read_bundle(data: bytes) -> list[tuple[Packed, dict[str, bytes]]]:
    """Everything in it, checked. Raises `Unfit` for what is damaged or not made by us."""
    held = dict(_contents(data))
    try:
        manifest = msgspec.json.decode(held.pop(MANIFEST, b""), type=Manifest)
    except UNREADABLE as error:
        raise Unfit("this is not a snapshot of skills", hint=f"it has no {MANIFEST}") from error
    if manifest.version > VERSION:
        raise Unfit("a later version of Hermes wrote this snapshot", hint="update Hermes")
    found = [(one, _taken(one, held)) for one in manifest.skills]
    if held:
        raise Unfit(f"{min(held)} is in the snapshot, but not in its list")
    return found


def _taken(one: Packed, held: dict[str, bytes]) -> dict[str, bytes]:
    """The files of one skill, taken out of `held`."""
    folder = safe_name(one.folder)
    if is_hidden(folder) or folder.count("/") > 2:
        raise Unfit(f"{one.name} lies in {folder!r}, where no skill can be")
    if one.entry is not None and category_name(one.entry.category) != one.entry.category:
        raise Unfit(f"{one.name} has the category {one.entry.category!r}")
    files: dict[str, bytes] = {}
    for name, wanted in one.files.items():
        data = held.pop(f"{one.kind}/{folder}/{name}", None)
        if data is None or hashlib.sha256(data).hexdigest() != wanted:
            raise Unfit(f"{name} of {one.name} is damaged or missing in the snapshot")
        files[name] = data
    kept = checked(files)
    if skill_in(kept, Path(folder).name).name != one.name:
        raise Unfit(f"{one.name} calls itself something else")
    if one.kind == "own" and MARK_FILE in files:
        kept[MARK_FILE] = files[MARK_FILE]
    return kept


def _contents(data: bytes) -> Iterator[tuple[str, bytes]]:
    size = 0
    for name, length, read in tar_members(data):
        size += length
        if read is None or size > MOST_BYTES:
            raise Unfit("this is not a snapshot of skills: it is too large, or holds links")
        yield name, read()


def _store_installed(
    hub: Hub, one: Packed, entry: Entry, files: Mapping[str, bytes], *, force: bool
) -> bool:
    entry = msgspec.structs.replace(
        entry, files=hashes(files), sha256=whole_hash(hashes(files)), trust=str(Trust.COMMUNITY)
    )
    event = Event(
        at=utc_now(),
        what="imported",
        skill=one.name,
        source=entry.source,
        identifier=entry.identifier,
        sha256=entry.sha256,
    )
    staged = hub.quarantine.stage(one.name, files)
    try:
        with hub.shelf.held():
            if one.name in hub.shelf.lock_now().skills and not force:
                return False
            hub.shelf.put(one.name, entry, staged, event)
            return True
    finally:
        hub.quarantine.discard(staged)


def _storing(home: Path, target: Path, files: Mapping[str, bytes]) -> Callable[[], None]:
    def store() -> None:
        home.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=STAGE, dir=home))
        try:
            write_folder(stage / "new", files)
            if target.exists():
                target.rename(stage / "old")
            target.parent.mkdir(parents=True, exist_ok=True)
            (stage / "new").rename(target)
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    return store


def _packed(
    kind: Kind, name: str, folder: Path, files: dict[str, bytes], entry: Entry | None = None
) -> tuple[Packed, dict[str, bytes]]:
    each = hashes(files)
    one = Packed(
        name=name,
        kind=kind,
        folder=folder.as_posix(),
        files=each,
        sha256=whole_hash(each),
        entry=entry,
    )
    return one, files


def _archive(manifest: Manifest, packed: Iterable[tuple[Packed, dict[str, bytes]]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        _add(archive, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2))
        for one, files in packed:
            for name, data in files.items():
                _add(archive, f"{one.kind}/{one.folder}/{name}", data)
    return out.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644
    archive.addfile(member, io.BytesIO(data))

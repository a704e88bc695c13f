"""Small copies of a home inside it: settings, keys, memories and skills, at a moment."""

import re
from datetime import datetime
from pathlib import Path

import msgspec

from hermes.app.backups.archive import write_archive
from hermes.app.backups.contents import QUICK, Kind, contents
from hermes.app.backups.copying import facts_of
from hermes.app.backups.reading import ArchiveRefused, opened
from hermes.app.backups.restoring import bring_back
from hermes.config.home import Home, ensure_hermes_home, unusable
from hermes.core.errors import UsageError

FOLDER = "snapshots"
KEPT = 20
LONGEST_LABEL = 60


class Snapshot(msgspec.Struct, frozen=True):
    id: str
    """Its file's name without the ending."""
    created: str
    label: str
    kind: Kind
    files: int
    bytes: int
    path: Path
    problem: str = ""
    """Why it cannot be used; empty when it can."""


class Snapshots:
    """Those of one home."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.folder = home.root / FOLDER

    def create(self, label: str, now: datetime, spared: Path | None = None) -> Snapshot:
        """Take one; all but the newest `KEPT` are deleted, and never `spared`."""
        found = contents(self._home, QUICK)
        if not found.items:
            raise UsageError(f"there is nothing in {self._home.display()} to take a snapshot of")
        target = self.new_file(label, now)
        write_archive(target, found.items, facts_of(self._home, QUICK, label, now))
        self.prune(KEPT, spared)
        return self._read(target)

    def new_file(self, label: str, now: datetime) -> Path:
        """The path of a snapshot that does not exist yet."""
        if len(label) > LONGEST_LABEL or not label.isprintable():
            raise UsageError(f"a label is one line of at most {LONGEST_LABEL} characters")
        ensure_hermes_home(self._home)
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise unusable(self.folder, error) from error
        words = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
        stem = f"{now:%Y%m%d-%H%M%S}" + (f"-{words}" if words else "")
        path, number = self.folder / f"{stem}.zip", 1
        while path.exists():
            number += 1
            path = self.folder / f"{stem}-{number}.zip"
        return path

    def newest_first(self) -> list[Snapshot]:
        """All of them; one that cannot be read says why."""
        return [self._read(path) for path in self._files()]

    def find(self, which: str) -> Snapshot:
        """By number in the list (1 is the newest), by id or by the beginning of it, by label."""
        known = self.newest_first()
        if which.isdigit() and 1 <= int(which) <= len(known):
            return known[int(which) - 1]
        for fits in (
            [one for one in known if which in (one.id, one.label)],
            [one for one in known if which and one.id.startswith(which)],
        ):
            if len(fits) == 1 or (fits and fits[0].id == which):
                return fits[0]
            if fits:
                raise UsageError(
                    f"{len(fits)} snapshots are called {which!r}",
                    hint=f"say which: {', '.join(one.id for one in fits)}",
                )
        raise UsageError(f"there is no snapshot {which!r}", hint="/snapshot list shows them")

    def restore(self, which: str, now: datetime) -> tuple[Snapshot, Snapshot | None]:
        """Bring one back; what was there is the second one, a snapshot of its own."""
        wanted = self.find(which)
        if wanted.problem:
            raise ArchiveRefused(wanted.problem)
        before = None
        if contents(self._home, QUICK).items:
            before = self.create("before restore", now, wanted.path)
        bring_back(self._home, wanted.path)
        return wanted, before

    def prune(self, keep: int, spared: Path | None = None) -> list[Snapshot]:
        """Delete all but the newest `keep`; what was deleted."""
        gone = [path for path in self._files()[keep:] if path != spared]
        deleted = [self._read(path) for path in gone]
        for path in gone:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise unusable(path, error) from error
        return deleted

    def _files(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(self.folder.glob("[0-9]*.zip"), key=_age, reverse=True)

    def _read(self, path: Path) -> Snapshot:
        size = path.stat().st_size
        try:
            with opened(path) as archive:
                facts = archive.manifest
        except ArchiveRefused as error:
            return Snapshot(path.stem, "", "", QUICK, 0, size, path, str(error))
        files = len(facts.files)
        return Snapshot(path.stem, facts.created, facts.label, facts.kind, files, size, path)


def _age(path: Path) -> tuple[str, float, str]:
    """By the moment in the name, so that a copied file keeps its place."""
    return path.stem[:15], path.stat().st_mtime, path.stem

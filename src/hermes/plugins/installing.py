"""Installing, updating and removing plugins in the folder of the user's own."""

import os
import shutil
import tempfile
from pathlib import Path

import msgspec

from hermes.config.home import tilde, unusable
from hermes.core.errors import ConfigError, UsageError
from hermes.plugins.discovery import FOLDERS
from hermes.plugins.manifest import CODE, Manifest, read_manifest
from hermes.plugins.sources import Fetcher, Source
from hermes.util import atomic

RECORD = ".installed.json"
"""In the folder of the plugins: which came from which folder, so that they can be updated."""
GIT = ".git"


class Change(msgspec.Struct, frozen=True):
    """What an update did."""

    manifest: Manifest
    before: str
    after: str
    """Commits of a repository, or versions."""


class Workshop:
    """`folder` is `<home>/plugins`."""

    def __init__(self, folder: Path, fetcher: Fetcher) -> None:
        self._folder, self._fetcher = folder, fetcher

    def install(self, source: Source, *, force: bool = False) -> Manifest:
        """Nothing is left behind when it fails; the code is not run. `force` replaces a plugin
        of the same name."""
        self._record()  # a record that cannot be read is better noticed now
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".install-", dir=self._folder) as staging:
                fetched = Path(staging) / "plugin"
                self._fetch(source, fetched)
                manifest = _examined(fetched, source)
                self._put(fetched, manifest.name, Path(staging), force=force)
        except OSError as error:
            raise unusable(self._folder, error) from error
        self._note(manifest.name, source.address if source.folder else None)
        return manifest

    def _fetch(self, source: Source, into: Path) -> None:
        if source.folder:
            _copy(Path(source.address), into)
        else:
            self._fetcher.clone(source.address, into)

    def _put(self, fetched: Path, name: str, staging: Path, *, force: bool) -> None:
        place = self._folder / name
        if place.exists() or place.is_symlink():
            if not force:
                raise UsageError(
                    f"there is a plugin {name} already ({tilde(place)})",
                    hint=f"`hermes plugins update {name}` updates it; --force replaces it",
                )
            old = place.rename(staging / "old")
            try:
                fetched.rename(place)
            except OSError:
                old.rename(place)
                raise
        else:
            fetched.rename(place)

    def update(self, name: str) -> Change:
        place = self.place_of(name)
        try:
            old = read_manifest(place).version
        except ConfigError:
            old = "?"  # the update may mend it
        if (place / GIT).exists():
            before = self._fetcher.commit(place)
            self._fetcher.update(place)
            return Change(_examined(place), before, self._fetcher.commit(place))
        origin = self._record().get(name)
        if origin is None:
            raise UsageError(
                f"it is not known where plugin {name} came from",
                hint="install it again with --force",
            )
        _examined(Path(origin), Source(origin, folder=True))
        try:
            _make_way(Path(origin), place)
            _copy(Path(origin), place)
        except OSError as error:
            raise unusable(place, error) from error
        manifest = read_manifest(place)
        return Change(manifest, old, manifest.version)

    def remove(self, name: str) -> Path:
        """A link is removed, not what it leads to."""
        place = self.place_of(name)
        try:
            if place.is_symlink():
                place.unlink()
            else:
                shutil.rmtree(place)
        except OSError as error:
            raise unusable(place, error) from error
        self._note(name, None)
        return place

    def place_of(self, name: str) -> Path:
        """The folder of an installed plugin. Raises `UsageError`."""
        place = self._folder / name
        if name in self.installed():
            return place
        raise UsageError(
            f"plugin {name!r} is not among those you installed",
            hint=f"installed are: {', '.join(self.installed()) or 'none'}",
        )

    def installed(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        names = sorted(place.name for place in self._folder.iterdir() if place.is_dir())
        return [name for name in names if name not in FOLDERS and not name.startswith((".", "__"))]

    def updatable(self) -> list[str]:
        known = self._record()
        return [n for n in self.installed() if n in known or (self._folder / n / GIT).exists()]

    def _record(self) -> dict[str, str]:
        try:
            raw = (self._folder / RECORD).read_bytes()
            return msgspec.json.decode(raw, type=dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(
                f"cannot be read: {error}",
                where=tilde(self._folder / RECORD),
                hint="delete the file; it is only needed to update plugins that came from a folder",
            ) from error

    def _note(self, name: str, origin: str | None) -> None:
        held = self._record()
        after = {
            **{n: o for n, o in held.items() if n != name},
            **({name: origin} if origin else {}),
        }
        if after != held:
            atomic.write_bytes(self._folder / RECORD, msgspec.json.encode(after), mode=0o600)


def _examined(folder: Path, source: Source | None = None) -> Manifest:
    """The manifest of what was fetched; raises when it is no plugin."""
    try:
        manifest = read_manifest(folder)
    except ConfigError as error:
        what = source.address if source else tilde(folder)
        problem = str(error).rpartition(f"{tilde(folder)}/")[2]
        raise UsageError(f"{what} is no plugin: {problem}", hint=error.hint) from error
    if not (folder / CODE).is_file():
        raise UsageError(f"{manifest.name} is no plugin: {CODE} is missing")
    if manifest.name in FOLDERS:
        raise UsageError(f"a plugin cannot be called {manifest.name}")
    return manifest


def _make_way(source: Path, place: Path) -> None:
    """A link cannot be copied over a file, and what is copied over a link goes where it leads."""
    for folder, folders, files in os.walk(source):
        inside = place / Path(folder).relative_to(source)
        for name in (*folders, *files):
            new, old = Path(folder) / name, inside / name
            if old.is_symlink() or (new.is_symlink() and old.is_file()):
                old.unlink()


def _copy(source: Path, into: Path) -> None:
    """Over what is there; links stay links, and the history of a repository stays behind."""
    leave = shutil.ignore_patterns(GIT, "__pycache__")
    try:
        shutil.copytree(source, into, symlinks=True, dirs_exist_ok=True, ignore=leave)
    except shutil.Error as error:
        raise UsageError(f"{source} cannot be copied: {error.args[0][0][2]}") from error

"""The own files of a home: settings, keys, approvals, and what runs by itself. While the agent
works, only Hermes writes them.

Hermes uses `write_own`. It adds a digest of the new content to a signed journal before the file
changes, so that other processes recognise the change. `OwnFiles` compares the files with their last
known content around calls that may execute something, and at the start of each turn. A change
without an entry in the journal is undone; the foreign version is kept in `rejected`.

Covered are existence, content, permissions and links of the files in `FILES` and `FOLDERS`, and a
forged journal of an import. The whole content counts, also data that changes often, such as the
next run of a job or a renewed token: their writers use `write_own`. Not covered are state.db,
mcp-tokens, the homes of other profiles, and changes from before the first such call of a process:
the user may edit by hand then. A program that can read `integrity/key` could sign an entry of its
own; the kernel boundary of the terminal keeps commands from reading it.
"""

import contextlib
import logging
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from hermes.config.home import tilde
from hermes.util import files

log = logging.getLogger(__name__)

FOLDER = "integrity"  #: The key, the journal and the confirmed policy.
KEY = f"{FOLDER}/key"
JOURNAL = f"{FOLDER}/journal"
POLICY = f"{FOLDER}/policy.json"
IMPORT_JOURNAL = ".import/journal.json"
REJECTED = "rejected"  #: Foreign versions, as `rejected/<time>/<path in the home>`.

FILES = (
    "config.yaml", ".env", "auth.json", "shell-hooks-allowlist.json", "gateway.json",
    "webhook_subscriptions.json", "BOOT.md", "active_profile", "cron/jobs.json", KEY, POLICY,
)  # fmt: skip
FOLDERS = ("pairing", "hooks")
"""Of these, each file is an own file; see `_is_passing` for the exceptions."""
WATCHED_FOLDERS = (*FOLDERS, "cron", FOLDER)  #: A link in the place of one of these is foreign.

MOST_BYTES = 16 * 2**20  #: A larger file is foreign; it is moved and not read.
MOST_REJECTED = 100  #: Older foreign versions are deleted.
ENTRIES = 4
"""Digests kept for each file. One is not enough: a process may look between two changes."""
SLACK_NS = 10 * 10**9
"""Time between an entry of the journal and the change that it announces."""
LOCK_SECONDS = 5.0

Entries = dict[str, list[tuple[int, str]]]  #: Times and digests by name; "" for a deleted file.


# The journal.


def write_own(root: Path, path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace an own file of the home `root` with `files.write_bytes`. Raises OSError."""
    record_change(root, path, data)
    files.write_bytes(path, data, mode=mode)


def record_change(root: Path, path: Path, data: bytes | None) -> None:
    """Announce the next content of an own file; None if it will be deleted. Raises OSError.

    Does nothing in a home without a key: no agent watches its files yet.
    """
    if (key := _read_key(root)) is None:
        return
    name = path.relative_to(root).as_posix()
    with files.file_lock(root / FOLDER / ".lock", LOCK_SECONDS):
        entries = _read_entries(root, key)
        held = entries.get(name, [])
        entries[name] = [*held, (time.time_ns(), _digest(data))][-ENTRIES:]
        journal = root / JOURNAL
        temporary = journal.with_name(".journal.tmp")  # one writer: the lock is held
        # Not synced to the disk: only processes that run now read it.
        temporary.write_bytes(_sign(key, msgspec.json.encode(entries)))
        temporary.chmod(0o600)
        temporary.replace(journal)


def record_tree(root: Path, name: str, source: Path) -> None:
    """Announce that `source`, a file or a folder, will become the entry `name` of the home."""
    for path in [source] if source.is_file() else sorted(source.rglob("*")):
        target = (root / name / path.relative_to(source)) if path != source else root / name
        if path.is_file() and _is_own(target.relative_to(root).as_posix()):
            record_change(root, target, path.read_bytes())


def sign(root: Path, data: bytes) -> bytes:
    """Return `data` with a signature of this home, and create its key if needed."""
    return _sign(_make_key(root), data)


def verify(root: Path, signed: bytes) -> bytes | None:
    """Return the data of `sign`; None if this home did not sign it."""
    key = _read_key(root)
    return None if key is None else _verify(key, signed)


def _is_own(name: str) -> bool:
    return name in FILES or name.partition("/")[0] in FOLDERS


def _read_entries(root: Path, key: bytes) -> Entries:
    try:
        data = _verify(key, (root / JOURNAL).read_bytes())
        return msgspec.json.decode(data, type=Entries) if data is not None else {}
    except (FileNotFoundError, msgspec.DecodeError):
        return {}


def _digest(data: bytes | None) -> str:
    import hashlib  # only where a file changed

    return "" if data is None else hashlib.blake2b(data, digest_size=16).hexdigest()


def _sign(key: bytes, data: bytes) -> bytes:
    import hashlib  # as above

    return hashlib.blake2b(data, digest_size=32, key=key).hexdigest().encode() + b"\n" + data


def _verify(key: bytes, signed: bytes) -> bytes | None:
    from hmac import compare_digest  # as above

    data = signed.partition(b"\n")[2]
    return data if compare_digest(_sign(key, data), signed) else None


def _read_key(root: Path) -> bytes | None:
    try:
        key = (root / KEY).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return key if len(key) == 32 else None


def _make_key(root: Path) -> bytes:
    path = root / KEY
    if (key := _read_key(root)) is not None:
        return key
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with files.file_lock(path.with_name(".lock"), LOCK_SECONDS):
        if (key := _read_key(root)) is None:
            key = os.urandom(32)
            files.write_bytes(path, key, mode=0o600)
    return key


# The guard.


class _Content(msgspec.Struct, frozen=True):
    """What is at a path. `data` is None for nothing, or for something that was not read."""

    signature: tuple[object, ...] = ()
    data: bytes | None = None
    link: str = ""  #: The target, if it is a symbolic link.
    mode: int = 0
    at: int = 0  #: Only later entries of the journal explain another content.

    @property
    def exists(self) -> bool:
        return bool(self.signature)


class OwnFiles:
    """Notices and undoes foreign changes of the own files of one home, for one process.

    `is_protected` says whether programs of the agent are kept from the files. If so, a change while
    no call runs was made by the user and is accepted.
    """

    def __init__(self, root: Path, is_protected: Callable[[], bool] = lambda: False) -> None:
        self._root, self._base = root, str(root)
        self._is_protected = is_protected
        self._calls = 0  #: Calls that are running now.
        self._key: bytes | None = None
        self._known: dict[str, _Content] = {}
        self._links: dict[str, str] = {}  #: The targets of folders that are links.
        self._since = 0  #: When the copy was taken.

    def begin_call(self) -> list[str]:
        """Prepare for a call that may execute something; return messages as `check` does."""
        accepted = self._key is None or (self._calls == 0 and self._is_protected())
        found = self._copy() if accepted else self.check()
        self._calls += 1
        return found

    def end_call(self) -> list[str]:
        """Undo what a call changed; return messages as `check` does."""
        self._calls -= 1
        return self.check()

    def check_idle(self) -> list[str]:
        """Do the same as `check` when no call of a session runs, unless the user may have made
        the change."""
        return [] if self._is_protected() else self.check()

    def check(self) -> list[str]:
        """Undo foreign changes and return a message about each.

        Without a change it costs a few system calls per file and reads nothing. Nothing is known,
        and so nothing is undone, before the first call.
        """
        if self._key is None:
            return []
        found = [
            self._restore_folder(name)
            for name in WATCHED_FOLDERS
            if not _is_folder(f"{self._base}/{name}") or self._links[name]
        ]
        names = sorted({*self._names(), *self._known} - {KEY})
        found += [self._check_file(name) for name in (KEY, *names)]  # the journal needs the key
        found.append(self._check_import())
        return [text for text in found if text]

    def _copy(self) -> list[str]:
        """Take the files as they are. Raises nothing."""
        try:
            self._key = _make_key(self._root)
        except OSError as error:
            if self._key is None:
                log.warning("changes of other Hermes processes are not recognised: %s", error)
                self._key = os.urandom(32)
        self._since = time.time_ns() - SLACK_NS
        before, self._known = self._known, {}
        for name in self._names():
            known = before.get(name)
            if known is None or _signature(f"{self._base}/{name}") != known.signature:
                known = self._read(self._root / name)
            self._known[name] = msgspec.structs.replace(known, at=self._since)
        self._links = {name: _link_target(self._root / name) for name in WATCHED_FOLDERS}
        return []

    def _names(self) -> set[str]:
        names = set(FILES)
        for folder in FOLDERS:
            names.update(_files_below(f"{self._base}/{folder}", folder))
        return names

    def _check_file(self, name: str) -> str:
        known = self._known.get(name) or _Content(at=self._since)
        if _signature(f"{self._base}/{name}") == known.signature:
            return ""
        path = self._root / name
        try:
            found = self._read(path)
            if (at := self._explained(name, found, known)) is not None:
                self._known[name] = msgspec.structs.replace(found, at=at)
                return ""
            kept = self._undo(name, found, known)
            now = self._read(path)
        except OSError as error:
            text = f"{tilde(path)} was changed by another program and cannot be restored: {error}"
            log.error("%s", text)
            return text
        self._known[name] = msgspec.structs.replace(now, at=known.at)
        return _report(path, kept)

    def _explained(self, name: str, found: _Content, known: _Content) -> int | None:
        """Return the time of the entry that explains the content; None if it is foreign."""
        if found.link not in ("", known.link):
            return None  # Hermes makes no links
        if found.exists == known.exists and found.data == known.data:
            stricter = found.mode & 0o600 == 0o600 and not found.mode & ~known.mode
            return known.at if stricter else None
        if found.exists and found.data is None:
            return None
        assert self._key is not None
        digest = _digest(found.data)
        entries = [*_read_entries(self._root, self._key).get(name, ())]
        if found.link:  # another home may own the target
            real = Path(os.path.realpath(self._root / name))
            if (key := _read_key(real.parent)) is not None:
                entries += _read_entries(real.parent, key).get(real.name, ())
        times = [at for at, each in entries if each == digest and at > known.at]
        return max(times, default=None)

    def _undo(self, name: str, found: _Content, known: _Content) -> Path | None:
        """Restore the known content; return the path of the kept foreign version, if any."""
        path, kept = self._root / name, None
        readable = found.data is not None and found.link in ("", known.link)
        if found.exists and (not readable or not known.exists):
            kept = self._move_away(path)
        elif found.data is not None and found.data != known.data:
            kept = rejected_place(self._root, path)
            files.write_bytes(kept, found.data, mode=0o600)
        if not known.exists:
            record_change(self._root, path, None)
            return kept
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if known.link and not path.is_symlink():
            path.unlink(missing_ok=True)
            path.symlink_to(known.link)
        if known.data is not None and name == KEY:
            files.write_bytes(path, known.data, mode=known.mode)
        elif known.data is not None:  # recorded, because other processes watch the file too
            write_own(self._root, path, known.data, mode=known.mode)
        return kept

    def _restore_folder(self, name: str) -> str:
        """Move away a link or a file in the place of a folder. Its files are restored later."""
        path = self._root / name
        target = _link_target(path)
        if target == self._links[name] and (path.is_dir() or not os.path.lexists(path)):
            return ""
        try:
            kept = self._move_away(path)
        except OSError as error:
            return f"{tilde(path)} was replaced and cannot be restored: {error}"
        if self._links[name]:
            path.symlink_to(self._links[name])
        return _report(path, kept)

    def _check_import(self) -> str:
        """Move away the journal of an import that Hermes did not begin."""
        if not os.path.lexists(f"{self._base}/{IMPORT_JOURNAL}"):
            return ""
        path, signed = self._root / IMPORT_JOURNAL, b""
        with contextlib.suppress(OSError):  # unreadable, so not written by Hermes
            signed = path.read_bytes()
        assert self._key is not None
        if _verify(self._key, signed) is not None:
            return ""
        try:
            return _report(path.parent, self._move_away(path.parent))
        except OSError as error:
            return f"{tilde(path)} is forged and cannot be moved away: {error}"

    def _read(self, path: Path) -> _Content:
        signature = _signature(str(path))
        if not signature:
            return _Content()
        link, data, mode = _link_target(path), None, 0
        with contextlib.suppress(OSError):  # unreadable content is foreign content
            status = path.stat()
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISREG(status.st_mode) and status.st_size <= MOST_BYTES:
                data = path.read_bytes()
        return _Content(signature, data, link, mode)

    def _move_away(self, path: Path) -> Path:
        kept = rejected_place(self._root, path)
        path.rename(kept)
        if kept.is_file() and not kept.is_symlink():
            kept.chmod(0o600)
        return kept


def rejected_place(root: Path, path: Path) -> Path:
    """Return an unused path in `rejected` for a foreign version of `path`, and delete the oldest
    versions. Raises OSError."""
    folder = root / REJECTED
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = sorted(folder.iterdir())
    for old in held[: max(0, len(held) - MOST_REJECTED + 1)]:
        shutil.rmtree(old, ignore_errors=True)
    stamp = f"{datetime.now().astimezone():%Y%m%d-%H%M%S-%f}"
    place = folder / stamp / path.relative_to(root)
    place.parent.mkdir(mode=0o700, parents=True)
    return place


def _report(path: Path, kept: Path | None) -> str:
    """Log and return the message about an undone change."""
    text = f"{tilde(path)} was changed by another program while the agent worked; it was restored."
    if kept is not None:
        text += (
            f" The other version is in {tilde(kept)}. If you made the change, take it over with:"
            f" hermes config accept {tilde(kept)}"
        )
    log.warning("%s", text)
    return text


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True  # its files are missing too
    except OSError:
        return False


def _signature(path: str) -> tuple[object, ...]:
    """Return values that differ after any change of the file, its link or its target."""
    try:
        found = os.lstat(path)
        signature: tuple[object, ...] = _facts(found)
        if stat.S_ISLNK(found.st_mode):
            with contextlib.suppress(OSError):  # the target is missing
                signature += (_link_target(path), *_facts(os.stat(path)))  # noqa: PTH116 - faster
    except OSError:
        return ()
    return signature


def _facts(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _link_target(path: Path | str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - the text, not a path
    except OSError:
        return ""


def _files_below(folder: str, name: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if _is_passing(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path, f"{name}/{entry.name}")
        else:
            yield f"{name}/{entry.name}"


def _is_passing(name: str) -> bool:
    """Return whether a file comes and goes by itself: locks, unfinished writes, bytecode (which the
    gateway does not use for its hooks)."""
    return name == "__pycache__" or name.endswith((".lock", ".tmp")) or name == ".lock"

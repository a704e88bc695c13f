"""Files that a conversation may attach to its messages.

The model names files in its text, and that text may be written by an attacker. It never makes this
process open a path of the host. A file is sent only if it lies in the conversation's own workplace,
and it is opened through that workplace. What is sent is a private copy, made when the message is
stored: replacing the file later changes nothing.
"""

import asyncio
import errno
import io
import os
import posixpath
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from hermes.app.sessions import SessionRequest
from hermes.app.workspace import SessionWorkspace
from hermes.config.home import Home
from hermes.core.errors import AttachmentRefused, HermesError
from hermes.core.ports import AttachedFile, Attachments
from hermes.security import PathGuard, Redactor, is_below
from hermes.util import files
from hermes.util.lazy import late_pattern
from hermes.util.text import human_size

OUTBOX = "cache/outbox"  #: Below the home: the copies of files that wait to be sent.
ATTACHABLE = ("workspaces", "cache/media", "cron/output")
"""Folders of the home from which conversations may send. Everything else in it is private."""

READ_TIMEOUT = 60.0  #: Seconds for reading a file from a container or another machine.
MAX_REDACTED = 2_000_000
"""Bytes of a text in which anything shaped like a key is removed; known values are always found."""
MAX_UNPACKED = 64_000_000  #: Bytes of unpacked archive contents that are searched for secrets.

_ENV_FILE = late_pattern(r"\.env(rc)?(\.(?!example$|sample$|template$).*)?", re.IGNORECASE)
_UNSAFE = late_pattern(r"[^\w.-]+")


class OutgoingFiles:
    """The `Attachments` of one conversation."""

    def __init__(
        self, place: SessionWorkspace, redactor: Redactor, home: Path, shared: tuple[Path, ...] = ()
    ) -> None:
        """`shared` are further folders of this machine, such as the chat's media cache."""
        self._place, self._redactor, self._outbox = place, redactor, home / OUTBOX
        guard = place.guard
        folder = place.folder if place.folder.startswith("/") else str(guard.workspace[0])
        self._folder = folder
        # Links in the folders themselves are resolved now: later changes to them have no effect.
        self._roots = [_Root.of(each) for each in ((folder,) if place.here else ())]
        self._roots += [_Root.of(str(each)) for each in shared]

    async def attach(self, path: str, max_bytes: int) -> AttachedFile:
        wanted = _normalized(path, str(self._place.guard.home))
        for root in self._roots:
            if (relative := root.relative(wanted)) is not None:
                name, guard = f"{root.real}/{relative}", self._place.guard
                try:
                    await asyncio.to_thread(_check_name, guard, root.real, name)
                    data = await asyncio.to_thread(read_beneath, root.real, relative, max_bytes)
                except OSError as error:
                    raise _refusal(error) from error
                return await asyncio.to_thread(self._copy, posixpath.basename(wanted), data)
        if self._place.here or not is_below(wanted, self._folder):
            raise AttachmentRefused("is outside this conversation's folder")
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                data = await self._read_there(wanted, max_bytes)
        except TimeoutError as error:
            raise AttachmentRefused("could not be read in time") from error
        return await asyncio.to_thread(self._copy, posixpath.basename(wanted), data)

    async def _read_there(self, wanted: str, max_bytes: int) -> bytes:
        """Read a file of a container or of another machine through its own file access."""
        files, guard = self._place.workplace.files, self._place.guard
        try:
            folder = await files.locate(self._folder)
            expected = posixpath.join(folder, posixpath.relpath(wanted, self._folder))
            real = await files.locate(wanted)
            if real != expected:
                raise AttachmentRefused("leads through a symbolic link")
            _check_name(guard, folder, real)
            found = await files.stat(real)
            if found is None:
                raise AttachmentRefused("does not exist", missing=True)
            if found.kind != "file":
                raise AttachmentRefused("is not a regular file")
            if found.size > max_bytes:
                raise _too_large(max_bytes)
            return await files.read(real, most=max_bytes)
        except OSError as error:
            raise _refusal(error) from error
        except AttachmentRefused:
            raise
        except HermesError as error:  # the container is gone, or the machine cannot be reached
            raise AttachmentRefused(f"could not be read: {error}") from error

    def _copy(self, name: str, data: bytes) -> AttachedFile:
        """Write the content into the outbox without secrets, or refuse it."""
        text, redacted = None, False
        with suppress(UnicodeDecodeError):
            text = None if b"\0" in data else data.decode()
        if text is not None and len(data) <= MAX_REDACTED:
            cleaned = self._redactor.redact(text)
            redacted = cleaned != text
            data = cleaned.encode() if redacted else data
        else:
            for part in _contents(data):
                known = part.decode("utf-8", "surrogateescape")
                if self._redactor.redact_known(known) != known:
                    raise AttachmentRefused("contains a key or password of this installation")
        copy = self._outbox / f"{secrets.token_hex(8)}-{_UNSAFE.sub('_', name)[-60:]}"
        try:
            self._outbox.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write_bytes(copy, data, mode=0o600)
        except OSError as error:
            raise AttachmentRefused(f"could not be copied: {error.strerror}") from error
        return AttachedFile(name, str(copy), len(data), redacted)


class NoFiles(msgspec.Struct, frozen=True):
    """`Attachments` that refuse every file, for one reason."""

    reason: str

    async def attach(self, path: str, max_bytes: int) -> AttachedFile:  # noqa: ARG002 - the signature of Attachments
        raise AttachmentRefused(self.reason)


def outgoing_files(
    request: SessionRequest, place: SessionWorkspace, redactor: Redactor, home: Home
) -> Attachments:
    """Return what the messages of a new conversation may carry."""
    if not request.sends_files:
        return NoFiles("cannot be sent: guests receive no files")
    if request.remote is not None:
        return NoFiles("is on the machine of the agent that answered")
    shared = request.shared_folders
    if not request.user_id:  # an owner may read what any job wrote
        shared = (*shared, home.cron / "output")
    return OutgoingFiles(place, redactor, home.root, shared)


class _Root(msgspec.Struct, frozen=True):
    """A folder of this machine from which files may be sent."""

    written: str  #: The path that the model knows.
    real: str

    @classmethod
    def of(cls, folder: str) -> "_Root":
        return cls(posixpath.normpath(folder), os.path.realpath(folder))

    def relative(self, path: str) -> str | None:
        for folder in (self.written, self.real):
            if path != folder and is_below(path, folder):
                return path[len(folder.rstrip("/")) + 1 :]
        return None


def read_beneath(folder: str, relative: str, max_bytes: int) -> bytes:
    """Read a regular file below `folder` without following any link, from the root of the file
    system down, so that no folder on the way can be replaced by a link to another place.

    Raises `OSError` or `AttachmentRefused`.
    """
    *parents, name = [part for part in f"{folder}/{relative}".split("/") if part]
    into = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    parent = os.open("/", into)
    try:
        for part in parents:
            child = os.open(part, into, dir_fd=parent)
            os.close(parent)
            parent = child
        # Opening a device or a FIFO can have effects, so the kind is checked before and after.
        _require_plain(os.stat(name, dir_fd=parent, follow_symlinks=False), max_bytes)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with open(os.open(name, flags, dir_fd=parent), "rb") as file:  # noqa: PTH123 - a descriptor
            _require_plain(os.fstat(file.fileno()), max_bytes)
            data = file.read(max_bytes + 1)
    finally:
        os.close(parent)
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return data


def remove_old_copies(home: Path, before: float) -> int:
    """Delete copies made before then (seconds since 1970); return how many."""
    removed = 0
    for copy in (home / OUTBOX).glob("*"):
        try:
            if copy.stat().st_mtime < before:
                copy.unlink()
                removed += 1
        except FileNotFoundError:
            continue  # it was sent in the meantime
    return removed


def _normalized(path: str, home: str) -> str:
    if "\0" in path or "\n" in path:
        raise AttachmentRefused("is not a valid path")
    if path == "~" or path.startswith("~/"):
        path = f"{home}{path[1:]}"
    if not path.startswith("/"):
        raise AttachmentRefused("is not an absolute path")
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _check_name(guard: PathGuard, root: str, path: str) -> None:
    """Refuse files that are private wherever the conversation works: its folder may be the user's
    whole home."""
    folders = [f"{os.path.realpath(own)}/{name}" for own in guard.own for name in ATTACHABLE]
    if not any(is_below(root, folder) for folder in folders):
        own = [os.path.realpath(own) for own in guard.own]
        if guard.is_own(path) or any(is_below(path, each) for each in own):
            raise AttachmentRefused("is a private file of Hermes")
    if guard.is_credential(path) or guard.is_startup(path):
        raise AttachmentRefused("holds keys, passwords or settings")
    home = os.path.realpath(guard.home) if guard.here else str(guard.home)
    if is_below(home, root) and is_below(path, home) and path[len(home) + 1 :].startswith("."):
        raise AttachmentRefused("is a hidden file of the home folder")
    if _ENV_FILE.fullmatch(posixpath.basename(path)):
        raise AttachmentRefused("holds keys, passwords or settings")


def _require_plain(found: os.stat_result, max_bytes: int) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise AttachmentRefused("is a symbolic link")
    if not stat.S_ISREG(found.st_mode):
        raise AttachmentRefused("is not a regular file")
    if found.st_nlink != 1:
        # It could be a second name for a file outside the folder.
        raise AttachmentRefused("has more than one hard link")
    if found.st_size > max_bytes:
        raise _too_large(max_bytes)


def _too_large(max_bytes: int) -> AttachmentRefused:
    return AttachmentRefused(f"is larger than {human_size(max_bytes)}")


def _refusal(error: OSError) -> AttachmentRefused:
    if isinstance(error, FileNotFoundError):
        return AttachmentRefused("does not exist", missing=True)
    if error.errno in (errno.ELOOP, errno.ENOTDIR):  # a link in place of a folder gives either
        return AttachmentRefused("leads through a symbolic link or a file")
    return AttachmentRefused(f"could not be read: {error.strerror or error}")


def _contents(data: bytes) -> Iterator[bytes]:
    """Yield the content, its ASCII characters if it is UTF-16, and what is packed in it."""
    import bz2  # here, because few processes send a file
    import lzma
    import zipfile
    import zlib

    yield data
    if b"\0" in data:
        yield data.replace(b"\0", b"")
    try:
        if zipfile.is_zipfile(io.BytesIO(data)):
            yield from _zip_members(data)
        elif data.startswith(b"\x1f\x8b"):
            yield _unpacked(zlib.decompressobj(wbits=31).decompress(data, MAX_UNPACKED + 1))
        elif data.startswith(b"BZh"):
            yield _unpacked(bz2.BZ2Decompressor().decompress(data, MAX_UNPACKED + 1))
        elif data.startswith(b"\xfd7zXZ"):
            yield _unpacked(lzma.LZMADecompressor().decompress(data, MAX_UNPACKED + 1))
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError) as error:
        raise AttachmentRefused("is a damaged archive") from error
    except (RuntimeError, NotImplementedError) as error:  # zipfile's errors for encrypted members
        raise AttachmentRefused("is encrypted, so it cannot be searched for secrets") from error


def _zip_members(data: bytes) -> Iterator[bytes]:
    import zipfile

    left = MAX_UNPACKED
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                content = _unpacked(file.read(left + 1), left)
            left -= len(content)
            yield content


def _unpacked(content: bytes, most: int = MAX_UNPACKED) -> bytes:
    if len(content) > most:
        raise AttachmentRefused("is too large to be searched for secrets once unpacked")
    return content

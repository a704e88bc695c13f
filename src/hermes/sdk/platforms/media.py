"""Files of chats on this machine: stored in a cache under safe names and within size limits."""

import asyncio
import contextlib
import mimetypes
import re
import secrets
import time
import unicodedata
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

from hermes.sdk.platforms.contract import AdapterError, Media, MediaKind, SendRefused
from hermes.util.text import human_size

MAX_NAME = 100  #: Maximum characters of a file name.
_UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]+')
_PARTIAL_SUFFIX = ".part"
_KINDS_BY_MIME: dict[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}
_DEFAULT_NAMES = {"image": "image", "voice": "voice", "audio": "audio", "video": "video"}


class MediaTooLarge(AdapterError):
    """The file exceeds the size limit."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(f"{name} is too large: more than {human_size(limit)}")


def media_kind(mime: str, name: str = "") -> MediaKind:
    """Return the kind by MIME type or, without one, by name. Anything but images, audio and video
    is a document; only the platform knows that something is a voice message."""
    mime = mime or guess_mime(name)
    return _KINDS_BY_MIME.get(mime.partition("/")[0].strip().lower(), "document")


def guess_mime(name: str) -> str:
    """Return the MIME type for the file extension; `application/octet-stream` if it is unknown."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def safe_filename(name: str, mime: str = "") -> str:
    """Return a safe, non-empty name for a file from outside: no folders, nothing hidden or
    unprintable, limited length. The extension is kept, or derived from `mime`."""
    name = unicodedata.normalize("NFC", name.replace("\\", "/").rpartition("/")[2])
    name = "".join(character for character in name if character.isprintable())
    name = _UNSAFE.sub("_", name).strip(" .")
    stem, dot, ending = name.rpartition(".")
    if not dot:
        stem, ending = name, (mimetypes.guess_extension(mime) or "").removeprefix(".")
    ending = ending.strip()[:12]
    stem = (stem.strip(" .") or "file").encode()[: MAX_NAME - len(ending)].decode(errors="ignore")
    return f"{stem}.{ending}" if ending else stem


class MediaCache:
    """The folder for files of chats. Only we may read it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def save(self, data: bytes | AsyncIterable[bytes], media: Media, limit: int) -> Media:
        """Write the file to the cache; return `media` with its path and size.

        Raises `MediaTooLarge` as soon as more than `limit` bytes arrived, and `AdapterError` when
        the file cannot be written; no partial file is left behind.
        """
        name = safe_filename(media.name or _DEFAULT_NAMES.get(media.kind, "file"), media.mime)
        if media.size > limit:
            raise MediaTooLarge(name, limit)
        final = self.folder / f"{secrets.token_hex(6)}-{name}"
        part = final.with_name(final.name + _PARTIAL_SUFFIX)
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            size = await _write(part, _chunks(data), name, limit)
            part.rename(final)
        except OSError as error:
            raise AdapterError(f"{name} cannot be stored: {error.strerror}") from error
        finally:
            with contextlib.suppress(OSError):  # after success the file has its final name
                part.unlink()
        mime = media.mime or guess_mime(name)
        return Media(media.kind, name, mime, size, media.ref, str(final))

    async def copy(self, source: Path, media: Media, limit: int) -> Media:
        """Like `save`, from a file on this machine."""
        try:
            size = source.stat().st_size
        except OSError as error:
            raise AdapterError(f"{source.name} is not there: {error.strerror}") from error
        if size > limit:
            raise MediaTooLarge(safe_filename(media.name or source.name), limit)
        return await self.save(await asyncio.to_thread(source.read_bytes), media, limit)

    def clean(self, before: float) -> int:
        """Remove files last changed before this time (seconds since 1970) and return their number.
        Partial files of an earlier process are removed after an hour."""
        removed = 0
        for path in (*self.folder.glob("*"), *self.folder.glob("*/*")):
            try:
                changed = path.stat().st_mtime
                unfinished = path.suffix == _PARTIAL_SUFFIX and changed < time.time() - 3600
                if path.is_file() and (changed < before or unfinished):
                    path.unlink()
                    removed += 1
            except OSError:
                continue  # removed by another process, or not ours; the next clean-up sees it again
        return removed


def open_upload(media: Media, limit: int) -> Path:
    """Return the path of a file to send. Raises `SendRefused` when it is missing, not a file, or
    larger than the platform accepts: it could never be delivered."""
    path = Path(media.path)
    name = media.name or path.name
    try:
        size = path.stat().st_size
    except OSError as error:
        raise SendRefused(f"the file {name} cannot be sent: {error.strerror}") from error
    if not path.is_file():
        raise SendRefused(f"the file {name} cannot be sent: it is not a file")
    if size > limit:
        raise SendRefused(f"the file {name} is too large: more than {human_size(limit)}")
    return path


async def _chunks(data: bytes | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(data, bytes):
        yield data
    else:
        async for piece in data:
            yield piece


async def _write(path: Path, pieces: AsyncIterator[bytes], name: str, limit: int) -> int:
    size = 0
    with path.open("xb") as file:
        path.chmod(0o600)
        async for piece in pieces:
            size += len(piece)
            if size > limit:
                raise MediaTooLarge(name, limit)
            await asyncio.to_thread(file.write, piece)
    return size

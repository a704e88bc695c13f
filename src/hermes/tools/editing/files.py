"""The way of every change to a file: judged, looked at, saved as a whole, remembered."""

import asyncio
import errno
import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolDenied, ToolError
from hermes.core.tool import Concern, ToolContext
from hermes.security.paths import Guard
from hermes.terminal import FileInfo, Files

# What this session has seen of the files it works on.

MAX_PAGES = 500
MAX_FILES = 5_000
MIN_REPEAT_CHARS = 400
"""Characters; a shorter page is simply shown again."""

K = TypeVar("K")
V = TypeVar("V")


class ReadPage(msgspec.Struct, frozen=True):
    """What was asked for."""

    path: str
    offset: int
    limit: int


class FileStamp(msgspec.Struct, frozen=True):
    size: int
    modified_ns: int

    @classmethod
    def of(cls, info: FileInfo) -> "FileStamp":
        return cls(info.size, info.modified_ns)


class FileReads:
    """One for each session. `forget` when the model no longer has what it read.

    It saves the model from paying twice for a page it still has, and it notices when a file was
    changed by somebody else since the session last saw it.
    """

    def __init__(self) -> None:
        self._pages: OrderedDict[ReadPage, bytes] = OrderedDict()
        self._files: OrderedDict[str, FileStamp] = OrderedDict()

    def repeats(self, page: ReadPage, text: str) -> bool:
        """Whether the model was shown this very text for this page.

        After a yes the page counts as not shown, so whoever asks once more gets the text.
        """
        if len(text) < MIN_REPEAT_CHARS:
            return False
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if self._pages.pop(page, None) == digest:
            return True
        _put_bounded(self._pages, page, digest, MAX_PAGES)
        return False

    def saw(self, path: str, info: FileInfo) -> None:
        """The session knows the file `path` (a real path) as it is now."""
        _put_bounded(self._files, path, FileStamp.of(info), MAX_FILES)

    def knows(self, path: str) -> bool:
        return path in self._files

    def changed(self, path: str, info: FileInfo) -> bool:
        """Whether somebody else changed the file since the session saw it."""
        seen = self._files.get(path)
        return seen is not None and seen != FileStamp.of(info)

    def forget(self) -> None:
        """The conversation was shortened: pages may be gone from it. Files stay known."""
        self._pages.clear()

    def lost(self, path: str) -> None:
        """The file is gone."""
        self._files.pop(path, None)


def _put_bounded(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)


# Words for the model that several tools share.


def display_path(path: str) -> str:
    """A path as valid text: bytes that are not UTF-8 as `\\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def file_error(action: str, path: str, error: OSError) -> ToolError:
    """What the file system refused, in one line."""
    reason = (error.strerror or str(error)).lower()
    return ToolError(f"cannot {action} {display_path(path)}: {reason}")


def plural(count: int, noun: str) -> str:
    ending = "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{ending}"


MAX_EDIT_BYTES = 10_000_000
"""Larger files are neither edited nor compared."""
MAX_EXAMINED = 1_000
SETTLE_SECONDS = 0.8
"""How long a call that is stopped waits for writes under way."""
INLINE_BYTES = 50_000
"""Bytes of text that are worked on at once; a thread would cost more than the work."""

T = TypeVar("T")


class WriteTarget(msgspec.Struct, frozen=True):
    """A file that is about to be changed."""

    path: str
    """As the model wrote it."""
    real: str
    info: FileInfo | None
    """None when there is no file yet."""
    stale: bool = False
    """Somebody else changed it since this session saw it."""

    @property
    def exists(self) -> bool:
        return self.info is not None


class FileChange(msgspec.Struct, frozen=True):
    target: WriteTarget
    before: bytes | None
    """None when there was no file, or when it was not read."""
    after: bytes | None
    """None when the file goes."""


class FileEditor:
    """What write_file and patch share. `isolated`: only protected files are an obstacle."""

    def __init__(
        self,
        files: Files,
        guard: Guard,
        reads: FileReads,
        *,
        isolated: bool,
    ) -> None:
        self._files, self._guard, self._reads = files, guard, reads
        self._isolated = isolated
        self._judged: dict[str, str] = {}

    async def examine(self, paths: Sequence[str]) -> Concern | None:
        """What stands against writing these: a refusal first, else one question for all."""
        concerns: list[Concern] = []
        for path in paths:
            try:
                real = await self._files.locate(path)
            except OSError:
                continue  # the call itself fails there, and says why
            concern = self._guard.writing(path, real)
            if concern is not None and concern.refused:
                self._judged.pop(path, None)
                return concern
            self._remember(path, real)
            if concern is not None and not self._isolated:
                concerns.append(concern)
        if len(concerns) < 2:
            return concerns[0] if concerns else None
        subjects = ", ".join(concern.subject for concern in concerns)
        return msgspec.structs.replace(concerns[0], subject=subjects)

    def _remember(self, path: str, real: str) -> None:
        if len(self._judged) >= MAX_EXAMINED:
            self._judged.clear()
        self._judged[path] = real

    async def target(self, call: ToolContext, path: str) -> WriteTarget:
        """Looked at again where it counts: a link may have changed since the call was allowed."""
        if not path:
            raise ToolArgumentsInvalid("path is empty")
        try:
            real = await self._files.locate(path)
            if self._judged.get(path) != real:
                await self._judge(call, path)
            info = await self._files.stat(real)
        except OSError as error:
            raise file_error("write", path, error) from error
        stale = info is not None and self._reads.changed(real, info)
        return WriteTarget(path, real, info, stale)

    async def _judge(self, call: ToolContext, path: str) -> None:
        concern = await self.examine([path])
        if concern is not None and concern.refused:
            raise ToolDenied(f"{display_path(path)} must not be written: {concern.reason}")
        if concern is not None:
            await call.consent(concern)

    async def content(self, target: WriteTarget) -> bytes | None:
        """The bytes of the file; None when there is none, or it cannot be read as a whole."""
        if target.info is None or target.info.kind != "file":
            return None
        try:
            return await self._files.read(target.real, most=MAX_EDIT_BYTES)
        except OSError as error:
            if error.errno in (errno.EFBIG, errno.EACCES, errno.EPERM):
                return None
            raise file_error("read", target.path, error) from error

    def unseen(self, target: WriteTarget) -> bool:
        return target.exists and not self._reads.knows(target.real)

    async def save(self, call: ToolContext, changes: Sequence[FileChange]) -> None:
        """Make all the changes, or none. Once begun it is not left half done."""
        call.cancel.check()
        saving = asyncio.ensure_future(self._save_all(changes))
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            await asyncio.wait([saving], timeout=SETTLE_SECONDS)
            if saving.done():
                saving.exception()  # asked for, so that it is not reported as forgotten
            raise

    async def _save_all(self, changes: Sequence[FileChange]) -> None:
        for change in changes:
            await self._require_as_seen(change.target)
        done: list[FileChange] = []
        for change in changes:
            try:
                await self._put(change.target.real, change.after)
                done.append(change)
            except OSError as error:
                action = "delete" if change.after is None else "write"
                problem = file_error(action, change.target.path, error)
                raise await self._undone(problem, done) from error
        for change in changes:
            await self._note(change)

    async def _require_as_seen(self, target: WriteTarget) -> None:
        try:
            now = await self._files.stat(target.real)
        except OSError as error:
            raise file_error("write", target.path, error) from error
        if now != target.info:
            raise ToolError(
                f"{display_path(target.path)} was changed by somebody else just now",
                hint="read it again and repeat the edit",
            )

    async def _put(self, real: str, data: bytes | None) -> None:
        if data is None:
            await self._files.remove(real)
        else:
            await self._files.write(real, data)

    async def _undone(self, problem: ToolError, done: Sequence[FileChange]) -> ToolError:
        left: list[str] = []
        for change in reversed(done):
            try:
                await self._put(change.target.real, change.before)
            except OSError:
                left.append(display_path(change.target.path))
        if left:
            return ToolError(f"{problem}; these are changed already: {', '.join(left)}")
        return ToolError(f"{problem}; nothing was changed") if done else problem

    async def _note(self, change: FileChange) -> None:
        real = change.target.real
        info = None if change.after is None else await self._stat(real)
        if info is None:
            self._reads.lost(real)
        else:
            self._reads.saw(real, info)

    async def _stat(self, real: str) -> FileInfo | None:
        try:
            return await self._files.stat(real)
        except OSError:
            return None


async def run_sized(size: int, work: Callable[[], T]) -> T:
    """`work` over so many bytes: in a thread when it would keep others waiting."""
    return await asyncio.to_thread(work) if size > INLINE_BYTES else work()

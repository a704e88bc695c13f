"""`FileEditor` approves, checks and saves changes; `FileReads` knows what a session has read."""

import asyncio
import contextlib
import errno
import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolArgumentsInvalid, ToolDenied, ToolError
from hermes.core.tool import Concern, ToolContext
from hermes.terminal import FileInfo

if TYPE_CHECKING:
    from hermes.tools.registry import ToolDeps

MAX_PAGES = 500
MAX_FILES = 5_000
MIN_REPEAT_CHARS = 400  #: A shorter page is shown again instead of a note that it did not change.

K = TypeVar("K")
V = TypeVar("V")


class ReadPage(msgspec.Struct, frozen=True):
    """The arguments of a `read_file` call."""

    path: str
    offset: int
    limit: int


class SeenStamp(msgspec.Struct, frozen=True):
    size: int
    modified_ns: int

    @classmethod
    def of(cls, info: FileInfo) -> "SeenStamp":
        return cls(info.size, info.modified_ns)


class FileReads:
    """The pages and files that the model of one session has seen.

    It avoids sending a page twice, and detects files that were changed from outside since the
    session last saw them.
    """

    def __init__(self) -> None:
        self._pages: OrderedDict[ReadPage, bytes] = OrderedDict()
        self._files: OrderedDict[str, SeenStamp] = OrderedDict()

    def is_repeat(self, page: ReadPage, text: str) -> bool:
        """Return whether the model has seen the same text for this page.

        After True the page counts as unread, so that the next request shows the text.
        """
        if len(text) < MIN_REPEAT_CHARS:
            return False
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if self._pages.pop(page, None) == digest:
            return True
        _put_bounded(self._pages, page, digest, MAX_PAGES)
        return False

    def record(self, path: str, info: FileInfo) -> None:
        """Remember the state of the file `path` (a real path) as seen."""
        _put_bounded(self._files, path, SeenStamp.of(info), MAX_FILES)

    def has_seen(self, path: str) -> bool:
        return path in self._files

    def is_stale(self, path: str, info: FileInfo) -> bool:
        """Return whether the file was changed from outside since the session saw it."""
        seen = self._files.get(path)
        return seen is not None and seen != SeenStamp.of(info)

    def forget_pages(self) -> None:
        """Forget the pages after a compaction, which may have removed them. Files stay known."""
        self._pages.clear()

    def remove(self, path: str) -> None:
        """Forget a deleted file."""
        self._files.pop(path, None)


def _put_bounded(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)


def display_path(path: str) -> str:
    """Return a path as valid text, with bytes that are not UTF-8 as `\\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def file_error(action: str, path: str, error: OSError) -> ToolError:
    """Return a tool error for a failed file operation."""
    reason = (error.strerror or str(error)).lower()
    return ToolError(f"cannot {action} {display_path(path)}: {reason}")


def plural(count: int, noun: str) -> str:
    ending = "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{ending}"


MAX_EDIT_BYTES = 10_000_000  #: Larger files are neither edited nor compared.
MAX_EXAMINED = 1_000
SETTLE_SECONDS = 0.8  #: How long a cancelled call waits for writes in progress.
INLINE_BYTES = 50_000  #: Up to this size a thread would cost more than the work.

NO_CALL = ToolContext("", "", CancelToken(), lambda _text: None)
"""For the preview of a change before the call is approved; it cannot ask for anything."""

T = TypeVar("T")


class WriteTarget(msgspec.Struct, frozen=True):
    """A file that is about to be changed."""

    path: str  #: As the model wrote it.
    real: str
    info: FileInfo | None  #: None when the file does not exist.
    stale: bool = False  #: True when it was changed from outside since this session saw it.

    @property
    def exists(self) -> bool:
        return self.info is not None


class FileEdit(msgspec.Struct, frozen=True):
    target: WriteTarget
    before: bytes | None  #: None when the file did not exist or was not read.
    after: bytes | None  #: None deletes the file.


class FileEditor:
    """The file operations of `write_file` and `patch`."""

    def __init__(self, deps: "ToolDeps") -> None:
        self._files, self._guard, self._reads = deps.place.files, deps.guard, deps.reads
        self._isolated = deps.place.isolated  # the backend is the boundary: only refusals count
        self._examined: dict[str, str] = {}

    async def examine(self, paths: Sequence[str]) -> Concern | None:
        """Return why writing needs approval: the first refusal, else one concern for all paths."""
        concerns: list[Concern] = []
        for path in paths:
            try:
                real = await self._files.locate(path)
            except OSError:
                continue  # the call fails too, and reports why
            concern = self._guard.check_write(path, real)
            if concern is not None and concern.refused:
                self._examined.pop(path, None)
                return concern
            if len(self._examined) >= MAX_EXAMINED:
                self._examined.clear()
            self._examined[path] = real
            if concern is not None and not self._isolated:
                concerns.append(concern)
        if len(concerns) < 2:
            return concerns[0] if concerns else None
        subjects = ", ".join(concern.subject for concern in concerns)
        folder = os.path.commonpath([concern.folder for concern in concerns])
        return msgspec.structs.replace(concerns[0], subject=subjects, folder=folder)

    async def target(self, call: ToolContext, path: str) -> WriteTarget:
        """Resolve a path for writing.

        Checks the real path again: a link may have changed since the call was approved.
        """
        if not path:
            raise ToolArgumentsInvalid("path is empty")
        try:
            real = await self._files.locate(path)
            if self._examined.get(path) != real:
                await self._require_approval(call, path)
            info = await self._files.stat(real)
        except OSError as error:
            raise file_error("write", path, error) from error
        stale = info is not None and self._reads.is_stale(real, info)
        return WriteTarget(path, real, info, stale)

    async def _require_approval(self, call: ToolContext, path: str) -> None:
        concern = await self.examine([path])
        if concern is not None and concern.refused:
            raise ToolDenied(f"{display_path(path)} must not be written: {concern.reason}")
        if concern is not None:
            await call.require_approval(concern)

    async def content(self, target: WriteTarget) -> bytes | None:
        """Return the content; None when there is no file, or it is too large or not readable."""
        if target.info is None or target.info.kind != "file":
            return None
        try:
            return await self._files.read(target.real, most=MAX_EDIT_BYTES)
        except OSError as error:
            if error.errno in (errno.EFBIG, errno.EACCES, errno.EPERM):
                return None
            raise file_error("read", target.path, error) from error

    def require_read(self, target: WriteTarget) -> None:
        """Raise `ToolError` if the file has content that the model of this session has not seen."""
        if target.info is None or target.info.kind != "file" or not target.info.size:
            return
        if target.stale:
            problem = "was changed since you last read it"
        elif not self._reads.has_seen(target.real):
            problem = "exists and you have not read it"
        else:
            return
        raise ToolError(
            f"{display_path(target.path)} {problem}",
            hint="read it first, use patch, or pass overwrite=true",
        )

    async def save(self, call: ToolContext, changes: Sequence[FileEdit]) -> None:
        """Make all changes or none; a cancellation does not interrupt it half-way."""
        call.cancel.check()
        saving = asyncio.ensure_future(self._save_all(changes))
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            await asyncio.wait([saving], timeout=SETTLE_SECONDS)
            if saving.done():
                saving.exception()  # retrieve it, or asyncio logs it as never retrieved
            raise

    async def _save_all(self, changes: Sequence[FileEdit]) -> None:
        for change in changes:
            await self._require_unchanged(change.target)
        done: list[FileEdit] = []
        for change in changes:
            try:
                await self._put(change.target.real, change.after)
                done.append(change)
            except OSError as error:
                action = "delete" if change.after is None else "write"
                problem = file_error(action, change.target.path, error)
                raise await self._roll_back(problem, done) from error
        for change in changes:
            info = None
            if change.after is not None:
                with contextlib.suppress(OSError):
                    info = await self._files.stat(change.target.real)
            if info is None:
                self._reads.remove(change.target.real)
            else:
                self._reads.record(change.target.real, info)

    async def _require_unchanged(self, target: WriteTarget) -> None:
        try:
            now = await self._files.stat(target.real)
        except OSError as error:
            raise file_error("write", target.path, error) from error
        if now != target.info:
            raise ToolError(
                f"{display_path(target.path)} was changed by another program just now",
                hint="read it again and repeat the edit",
            )

    async def _put(self, real: str, data: bytes | None) -> None:
        if data is None:
            await self._files.remove(real)
        else:
            await self._files.write(real, data)

    async def _roll_back(self, problem: ToolError, done: Sequence[FileEdit]) -> ToolError:
        left: list[str] = []
        for change in reversed(done):
            try:
                await self._put(change.target.real, change.before)
            except OSError:
                left.append(display_path(change.target.path))
        if left:
            return ToolError(f"{problem}; these are changed already: {', '.join(left)}")
        return ToolError(f"{problem}; nothing was changed") if done else problem


async def run_sized(size: int, work: Callable[[], T]) -> T:
    """Run `work`, in a thread when `size` bytes would block the event loop for long."""
    return await asyncio.to_thread(work) if size > INLINE_BYTES else work()

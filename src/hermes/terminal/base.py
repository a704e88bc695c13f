"""What a terminal backend offers: a shell that remembers, and the files it works on.

The tools know only these Protocols. Paths are plain strings in the backend's own file system;
bytes of a name that are not UTF-8 are kept as surrogate escapes (`os.fsdecode`).
"""

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from hermes.core.cancel import CancelToken


class CommandResult(msgspec.Struct, frozen=True):
    exit_code: int
    """As the shell reports it; 124 when the time was up, 128 + n when signal n ended it."""
    output: str
    """Standard output and error as they came, cut in the middle when too long."""
    timed_out: bool = False
    truncated: bool = False


class Shell(Protocol):
    """Runs commands. Working folder and exported variables persist from one to the next."""

    @property
    def cwd(self) -> str:
        """The folder the next command starts in."""
        ...

    async def run(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        on_output: Callable[[str], None],
        cancel: CancelToken,
    ) -> CommandResult:
        """The result of `command`, with standard input empty.

        `cwd` holds for this command only. When `timeout` seconds have passed or `cancel` is set,
        the command and everything it started is stopped; `cancel` then raises `Interrupted`.
        """
        ...

    async def close(self) -> None:
        """Stop what commands left running and free what the shell holds."""
        ...


class FileInfo(msgspec.Struct, frozen=True):
    kind: Literal["file", "folder", "other"]
    size: int


class Lines(msgspec.Struct, frozen=True):
    """A page of a text file."""

    lines: tuple[str, ...]
    """Without line ends."""
    total: int
    """Lines of the file, counted as far as `complete` says."""
    complete: bool = True
    """False when the file is too big to count: there are more than `total` lines."""
    binary: bool = False
    """True: not text; there are no lines."""
    crlf: bool = False
    undecodable: bool = False
    """Some bytes of the page were not UTF-8 and are shown as U+FFFD."""


class Grep(msgspec.Struct, frozen=True):
    """A search for lines that match a regular expression."""

    pattern: str
    path: str
    """A folder to walk or one file."""
    file_glob: str = ""
    context: int = 0
    offset: int = 0
    limit: int = 50
    longest: int = 2000
    """Characters of a line that are kept."""


class Hit(msgspec.Struct, frozen=True):
    path: str
    line: int
    text: str
    match: bool = True
    """False for a line of context."""


class Grepped(msgspec.Struct, frozen=True):
    counts: dict[str, int]
    """Matching lines of each file that has any, in the order of the paths."""
    hits: tuple[Hit, ...]
    """The matches `offset` to `offset + limit` with their context."""


class Files(Protocol):
    """The files of a backend. Failures of the file system are raised as `OSError`."""

    async def locate(self, path: str) -> str:
        """The absolute real path: `~` and links resolved, relative to the shell's folder."""
        ...

    async def stat(self, path: str) -> FileInfo | None: ...

    async def names(self, folder: str) -> list[str]: ...

    async def lines(self, path: str, *, offset: int, limit: int, longest: int) -> Lines:
        """`limit` lines from line `offset` (the first is 1), each cut to `longest` characters."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Replace the file as a whole; missing folders are made, its permissions kept."""
        ...

    async def find(self, glob: str, folder: str, cancel: CancelToken) -> list[str]:
        """The files under `folder` whose name or path matches, sorted; ignored ones left out."""
        ...

    async def grep(self, query: Grep, cancel: CancelToken) -> Grepped:
        """Raises `ToolArgumentsInvalid` for a pattern that is not a regular expression."""
        ...

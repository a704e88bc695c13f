"""What a terminal backend offers: a shell that remembers, and the files it works on.

The tools know only these Protocols. Paths are plain strings in the backend's own file system;
bytes of a name that are not UTF-8 are kept as surrogate escapes (`os.fsdecode`).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from hermes.core.cancel import CancelToken

log = logging.getLogger(__name__)

Tell = Callable[[str], None]
"""A line for the user: the progress of a download, a container made anew."""


def tell_the_log(text: str) -> None:
    """Where nobody listens."""
    log.info("%s", text)


class CommandResult(msgspec.Struct, frozen=True):
    exit_code: int
    """As the shell reports it; 124 when the time was up, 128 + n when signal n ended it."""
    output: str
    """Standard output and error as they came, cut in the middle when too long."""
    timed_out: bool = False
    truncated: bool = False


class Running(Protocol):
    """A program that was started and may still run."""

    @property
    def pid(self) -> int | None:
        """Its process on this machine (a client's, when it runs elsewhere), if it has one."""
        ...

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 + n when signal n ended it."""
        ...

    async def wait(self) -> int:
        """The exit code, once it has ended and all its output was handed over."""
        ...

    async def write(self, data: bytes) -> None:
        """To its standard input (or its terminal); raises `ToolError` when it takes none."""
        ...

    async def close_input(self) -> None: ...

    async def stop(self) -> None:
        """End it and everything it started: politely, then surely. Done when this returns."""
        ...


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

    async def start(
        self,
        command: str,
        *,
        cwd: str | None = None,
        on_output: Callable[[bytes], None],
        pty: bool = False,
    ) -> Running:
        """Start `command` with the folder and variables of now; what it changes stays its own.

        Its standard input is open. Output and errors come together through `on_output`, as they
        are. With `pty` it runs in a terminal of 120 columns and 40 lines.
        """
        ...

    async def close(self) -> None:
        """Stop what commands left running and free what the shell holds."""
        ...


class Host(Protocol):
    """Another place where programs run: a sandbox, a container, a machine behind SSH.

    `host_shell.HostShell` and `host_files.HostFiles` make a shell and files of any host that has a
    POSIX shell, so a backend is no more than this.
    """

    @property
    def name(self) -> str:
        """The setting `terminal.backend` that chooses it."""
        ...

    async def open(self) -> None:
        """Make it ready; nothing when it is. Raises `BackendUnavailable`."""
        ...

    async def start(
        self,
        argv: Sequence[str],
        *,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        pty: bool = False,
    ) -> Running:
        """Start a program there with its standard input open.

        Without `on_error` standard error joins the output. When `stop` is called, or this process
        dies, standard input closes; programs that must not outlive it watch for that.
        """
        ...

    async def close(self) -> None:
        """Leave nothing behind but what the settings say is kept."""
        ...


class FileInfo(msgspec.Struct, frozen=True):
    kind: Literal["file", "folder", "other"]
    size: int
    modified_ns: int = 0
    """When it was changed last, in nanoseconds where the backend knows them."""


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

    async def read(self, path: str, *, most: int) -> bytes:
        """The whole file; `OSError` with `EFBIG` when it has more than `most` bytes."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Replace the file as a whole; missing folders are made, its permissions kept.

        `path` comes from `locate`: should a part of it have become a link since, that is an
        `OSError`, never a write to where the link leads.
        """
        ...

    async def remove(self, path: str) -> None:
        """Delete one file; the same holds for links."""
        ...

    async def find(self, glob: str, folder: str, cancel: CancelToken) -> list[str]:
        """The files under `folder` whose name or path matches, sorted; ignored ones left out."""
        ...

    async def grep(self, query: Grep, cancel: CancelToken) -> Grepped:
        """Raises `ToolArgumentsInvalid` for a pattern that is not a regular expression."""
        ...


class Bring(Protocol):
    def __call__(self, path: Path, target: str, *, private: bool = False) -> None: ...


class Workplace(msgspec.Struct, frozen=True):
    """Where a session works: made once from the settings, closed with the session."""

    name: str
    """The setting `terminal.backend`."""
    shell: Shell
    files: Files
    isolated: bool = False
    """The place itself is the boundary (a container): only the hard floor is checked there."""
    give: Callable[[Mapping[str, str]], None] = lambda _variables: None
    """Sets variables for the commands to come."""
    given: Callable[[], tuple[str, ...]] = tuple
    """The names of those."""
    bring: Bring | None = None
    """Keeps a file or folder of this machine at a path there (`~/…`), only for the user's eyes when
    asked so; None where the files of this machine are there anyway."""

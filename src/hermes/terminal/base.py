"""The Protocols of a terminal backend: a shell that keeps its state, and the files it works on.

Tools know only these Protocols. Paths are strings in the backend's own file system; bytes of a name
that are not UTF-8 are kept as surrogate escapes (`os.fsdecode`).
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from hermes.core.cancel import CancelToken

log = logging.getLogger(__name__)

Argv = Sequence[str]
Sink = Callable[[bytes], None]  #: Receives output as it arrives, in the event loop.
Notify = Callable[[str], None]
"""Receives one line for the user, such as the progress of a download or a recreated container."""


def log_notice(text: str) -> None:
    """Write the line to the log; the default where no user interface is attached."""
    log.info("%s", text)


@cache
def load_script(name: str) -> str:
    """Return a script of the folder `scripts`, with what it includes and without its comments."""
    text = Path(__file__).with_name("scripts").joinpath(f"{name}.sh").read_text("utf-8")
    text = re.sub(r"(?m)^#include (\w+)\n", lambda found: load_script(found[1]), text)
    return re.sub(r"(?m)^[ \t]*#.*\n", "", text)


class CommandResult(msgspec.Struct, frozen=True):
    exit_code: int
    """As the shell reports it; 124 after a timeout, 128 + n when signal n ended the command."""
    output: str
    """Standard output and error in order of arrival, truncated in the middle when too long."""
    timed_out: bool = False
    truncated: bool = False


class Running(Protocol):
    """A program that was started and may still run."""

    @property
    def pid(self) -> int | None:
        """Process id on this machine (of the client, when the program runs elsewhere), if there
        is one."""
        ...

    @property
    def exit_code(self) -> int | None:
        """None while it is running; 128 + n when signal n ended it."""
        ...

    async def wait(self) -> int:
        """Return the exit code after the program has ended and all its output was delivered."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to standard input (or the terminal); raise `ToolError` if the program accepts
        none."""
        ...

    async def close_input(self) -> None: ...

    async def stop(self) -> None:
        """Stop the program and everything it started: SIGTERM first, then SIGKILL."""
        ...


class Shell(Protocol):
    """Runs commands. The working folder and exported variables persist between commands."""

    @property
    def cwd(self) -> str:
        """The folder in which the next command starts."""
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
        """Run `command` with empty standard input and return its result.

        `cwd` applies to this command only. When `timeout` seconds have passed or `cancel` is set,
        the command and everything it started is stopped; `cancel` then raises `Interrupted`.
        """
        ...

    async def start(
        self, command: str, *, cwd: str | None = None, on_output: Sink, pty: bool = False
    ) -> Running:
        """Start `command` with the current folder and variables; its own changes are not kept.

        Standard input stays open. Output and errors arrive together, unchanged, through
        `on_output`. With `pty` it runs in a terminal of 120 columns and 40 lines.
        """
        ...

    async def close(self) -> None:
        """Stop what commands left running and release all resources."""
        ...


class Host(Protocol):
    """A place where programs run: a sandbox, a container, a machine reached over SSH.

    `HostShell` and `HostFiles` provide a shell and files for any host that has a POSIX shell, so a
    backend only implements this Protocol.
    """

    @property
    def name(self) -> str:
        """The value of `terminal.backend` that selects this host."""
        ...

    async def open(self) -> None:
        """Make the host ready, if it is not. Raises `BackendUnavailable`."""
        ...

    async def start(
        self, argv: Argv, *, on_output: Sink, on_error: Sink | None = None, pty: bool = False
    ) -> Running:
        """Start a program on the host with its standard input open.

        Without `on_error`, standard error joins the output. Standard input closes when `stop` is
        called or this process dies; programs that must not outlive this process watch for that.
        """
        ...

    async def close(self) -> None:
        """Remove everything except what the settings say to keep."""
        ...


class FileInfo(msgspec.Struct, frozen=True):
    kind: Literal["file", "folder", "other"]
    size: int
    modified_ns: int = 0  #: Time of the last change, in nanoseconds where the backend knows them.


class TextPage(msgspec.Struct, frozen=True):
    """A page of a text file."""

    lines: tuple[str, ...]  #: Without line endings.
    total: int  #: Number of lines in the file; see `complete`.
    complete: bool = True
    """False when the file is too large to count: it has more than `total` lines."""
    binary: bool = False  #: True if the file is not text; `lines` is then empty.
    crlf: bool = False
    undecodable: bool = False  #: Some bytes of the page were not UTF-8 and are replaced by U+FFFD.


class GrepQuery(msgspec.Struct, frozen=True):
    """A search for lines that match a regular expression."""

    pattern: str
    path: str  #: A folder to search, or one file.
    file_glob: str = ""
    context: int = 0
    offset: int = 0
    limit: int = 50
    longest: int = 2000  #: Characters kept of a line.
    is_protected: Callable[[str], bool] | None = None
    """Returns whether a file must not be in the result, given its path."""


class GrepLine(msgspec.Struct, frozen=True):
    path: str
    line: int
    text: str
    match: bool = True  #: False for a line of context.


class GrepResult(msgspec.Struct, frozen=True):
    counts: dict[str, int]  #: Number of matching lines per file that has any, in path order.
    hits: tuple[GrepLine, ...]  #: Matches `offset` to `offset + limit`, with their context lines.


class Files(Protocol):
    """The files of a backend. File system failures are raised as `OSError`."""

    async def locate(self, path: str) -> str:
        """Return the real path: `~` and links resolved, relative to the shell's folder."""
        ...

    async def stat(self, path: str) -> FileInfo | None: ...

    async def names(self, folder: str) -> list[str]: ...

    async def lines(self, path: str, *, offset: int, limit: int, longest: int) -> TextPage:
        """Return `limit` lines from line `offset` (from 1), each truncated to `longest`
        characters."""
        ...

    async def read(self, path: str, *, most: int) -> bytes:
        """Return the whole file; `OSError` with `EFBIG` if it has more than `most` bytes."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Replace the whole file atomically, creating missing folders and keeping permissions.

        `path` comes from `locate`. If a part of it has since become a link, this raises `OSError`
        instead of writing through the link.
        """
        ...

    async def remove(self, path: str) -> None:
        """Delete one file; links are treated as in `write`."""
        ...

    async def find(self, glob: str, folder: str, cancel: CancelToken) -> list[str]:
        """Return the files under `folder` that match, sorted, without ignored ones."""
        ...

    async def grep(self, query: GrepQuery, cancel: CancelToken) -> GrepResult:
        """Search contents. Raises `ToolArgumentsInvalid` if the pattern is not a valid regex."""
        ...


class Upload(Protocol):
    def __call__(self, path: Path, target: str, *, private: bool = False) -> None: ...


class ExecutionEnvironment(msgspec.Struct, frozen=True):
    """Where a session works: created from the settings, closed with the session."""

    name: str  #: The setting `terminal.backend`.
    shell: Shell
    files: Files
    isolated: bool = False
    """The place itself is the security boundary (a container): only hard refusals apply there."""
    protected: Callable[[], bool] = lambda: True
    """Returns whether commands are kept from Hermes' own files."""
    export: Callable[[Mapping[str, str]], None] = lambda _variables: None
    """Sets environment variables for later commands."""
    exported_names: Callable[[], tuple[str, ...]] = tuple
    """Returns the names of the variables set so far."""
    variables: Callable[[], Mapping[str, str]] = dict
    """Returns the variables that the next command will have, as far as they are known."""
    upload: Upload | None = None
    """Keeps a copy of a local file or folder at a path on the host (`~/…`), readable only by the
    user if `private`. None where the host sees the local files anyway."""

"""Running git on a store of our own: never on the user's repository, never asking anybody."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from hermes.core.errors import StoreError
from hermes.util.programs import end_group, feed, pipe, start_program

SECONDS = 60.0
"""Longest run of one git command."""
PIECE = 65_536


SETTINGS = """\
[core]
	repositoryformatversion = 0
	bare = false
	fileMode = true
	symlinks = true
	autocrlf = false
	safecrlf = false
	hooksPath = /dev/null
	fsmonitor = false
	untrackedCache = false
	excludesFile = /dev/null
	attributesFile = /dev/null
	quotePath = false
	protectNTFS = false
	protectHFS = false
[gc]
	auto = 2000
	autoDetach = false
"""
"""What the settings of every store begin with: files are kept as they are, and no program of others
is run."""


class GitFailed(StoreError):
    """git said no; the message is what it said."""


class TooMuch(StoreError):
    """More than was asked for."""


class Git:
    """`folder` is the git directory, `workspace` the tree it looks at.

    Nothing of the user's environment or settings reaches it: the environment is made here, and the
    repository's own settings are written by the store.
    """

    def __init__(self, program: str, folder: Path, workspace: Path, hint: str = "") -> None:
        """`hint` is what to do when git keeps failing."""
        self._program, self.folder, self._workspace = program, folder, workspace
        self._hint = hint
        self._environment = {
            "PATH": os.pathsep.join([str(Path(program).parent), os.defpath]),
            "HOME": str(folder),
            "LC_ALL": "C",
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": str(workspace),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_PAGER": "cat",
        }

    async def run(
        self,
        *arguments: str,
        data: bytes = b"",
        most: int = 0,
        good: Sequence[int] = (0,),
    ) -> bytes:
        """What git wrote. Raises `GitFailed`, and `TooMuch` beyond `most` bytes (0: no limit)."""
        async with self._started(arguments) as process:
            output, errors = await asyncio.gather(
                _collected(process, data, most), pipe(process.stderr).read()
            )
            code = await process.wait()
        if code not in good:
            said = errors.decode("utf-8", "replace").strip().splitlines()
            raise GitFailed(
                f"git {arguments[0]}: {said[-1] if said else f'exit code {code}'}",
                hint=self._hint,
            )
        return output

    async def blobs(self, ids: Sequence[str]) -> list[bytes]:
        """The contents of files, with one process for all."""
        output = await self.run("cat-file", "--batch", data="".join(f"{i}\n" for i in ids).encode())
        found: list[bytes] = []
        position = 0
        for each in ids:
            end = output.index(b"\n", position)
            header = output[position:end].split()
            if len(header) != 3:
                raise GitFailed(f"git cat-file: {each} is not in the store")
            start, size = end + 1, int(header[2])
            found.append(output[start : start + size])
            position = start + size + 1
        return found

    @contextlib.asynccontextmanager
    async def _started(self, arguments: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
        """In a session of its own, so that Ctrl-C does not reach it; gone when the block ends."""
        try:
            process = await start_program(
                self._program,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                cwd=self._workspace,
            )
        except OSError as error:
            raise GitFailed(f"git cannot be started: {error.strerror}") from error
        try:
            async with asyncio.timeout(SECONDS):
                yield process
        except TimeoutError as error:
            raise GitFailed(f"git {arguments[0]} took longer than {SECONDS:.0f} seconds") from error
        finally:
            end_group(process)  # the programs it started hold its pipes open
            await process.communicate()


async def _collected(process: asyncio.subprocess.Process, data: bytes, most: int) -> bytes:
    feeding = asyncio.ensure_future(feed(process, data))
    output = bytearray()
    try:
        while piece := await pipe(process.stdout).read(PIECE):
            output += piece
            if most and len(output) > most:
                raise TooMuch(f"more than {most} bytes")
        await feeding
    finally:
        feeding.cancel()
    return bytes(output)

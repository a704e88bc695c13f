"""Runs git on repositories of our own: never on a repository of the user, and without prompts."""

import os
from collections.abc import Sequence
from pathlib import Path

from hermes.core.errors import StoreError
from hermes.util.processes import run_program

SECONDS = 60.0  #: Longest run of one git command.


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
"""The first part of the configuration of every repository: files are stored unchanged, and no hook
or other program is run."""


class GitCommandFailed(StoreError):
    """git failed; the message is its last error line."""


class TooMuch(StoreError):
    """The output exceeds the given limit."""


class Git:
    """git with the git directory `folder` and the working tree `workspace`.

    The environment and the settings of the user have no effect: the environment is built here, and
    the owner of the repository writes its configuration.
    """

    def __init__(self, program: str, folder: Path, workspace: Path, hint: str = "") -> None:
        """`hint` tells the user what to do if git keeps failing."""
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
        self, *arguments: str, data: bytes = b"", most: int = 0, good: Sequence[int] = (0,)
    ) -> bytes:
        """Run a command and return its output.

        Raises `GitCommandFailed`, and `TooMuch` for more than `most` bytes (0: no limit).
        """
        try:
            # In its own session, so that Ctrl-C does not reach it.
            code, output, errors = await run_program(
                self._program,
                *arguments,
                seconds=SECONDS,
                data=data,
                most=most,
                env=self._environment,
                cwd=self._workspace,
            )
        except TimeoutError as error:
            raise GitCommandFailed(
                f"git {arguments[0]} took longer than {SECONDS:.0f} seconds"
            ) from error
        except OSError as error:
            raise GitCommandFailed(f"git cannot be started: {error.strerror}") from error
        if code is None:
            raise TooMuch(f"more than {most} bytes")
        if code not in good:
            lines = errors.strip().splitlines()
            reason = lines[-1] if lines else f"exit code {code}"
            raise GitCommandFailed(f"git {arguments[0]}: {reason}", hint=self._hint)
        return output

    async def line(self, *arguments: str, data: bytes = b"", good: Sequence[int] = (0,)) -> str:
        """Run a command and return its output, which is one line of text."""
        return (await self.run(*arguments, data=data, good=good)).decode().strip()

    async def blobs(self, ids: Sequence[str]) -> list[bytes]:
        """Return the contents of files, read by one process."""
        output = await self.run("cat-file", "--batch", data="".join(f"{i}\n" for i in ids).encode())
        found: list[bytes] = []
        position = 0
        for each in ids:
            end = output.index(b"\n", position)
            header = output[position:end].split()
            if len(header) != 3:
                raise GitCommandFailed(f"git cat-file: {each} is not in the store")
            start, size = end + 1, int(header[2])
            found.append(output[start : start + size])
            position = start + size + 1
        return found

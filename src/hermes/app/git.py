"""Runs git on a repository of the user: with the user's settings, but without any program that the
repository names, and without pager and prompts."""

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hermes.config.environment import child_environment, search_path
from hermes.store import GitCommandFailed, run_git, safe_git

GIT_TIMEOUT = 20.0  #: Longest run of one command in seconds.
KEPT_VARIABLES = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})
"""Variables of git that pass. Others may point at another repository, as inside a hook."""


class GitOutput(msgspec.Struct, frozen=True):
    output: bytes
    cut: bool = False  #: True if the output was longer than requested.

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", "replace")


class UserGit:
    """git in one folder of the user, with the user's environment except secrets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = shutil.which("git", path=search_path())
        if program is None:
            raise GitCommandFailed("git is not installed", hint="install git")
        self._program, self._environment = (
            program,
            {
                name: value
                for name, value in child_environment().items()
                if name in KEPT_VARIABLES or not name.startswith("GIT_")
            },
        )
        # GIT_OPTIONAL_LOCKS: looking changes nothing.
        self._environment |= {"GIT_OPTIONAL_LOCKS": "0", "LANGUAGE": "en"}

    async def run(
        self,
        *arguments: str,
        data: bytes = b"",
        most: int = 0,
        good: Sequence[int] = (0,),
        seconds: float = GIT_TIMEOUT,
    ) -> GitOutput:
        """Return the output, at most `most` bytes of it (0: all). Raises `GitCommandFailed`."""
        words, environment = await asyncio.to_thread(
            safe_git, self._program, self._environment, self.folder, arguments
        )
        output, cut = await run_git(
            self._program,
            *words,
            environment=environment,
            folder=self.folder,
            name=arguments[0],
            data=data,
            most=most,
            good=good,
            seconds=seconds,
        )
        return GitOutput(output, cut)

    async def line(self, *arguments: str) -> str:
        """Return the output, which may be a path, without the line end; "" if git fails."""
        try:
            return os.fsdecode((await self.run(*arguments)).output).removesuffix("\n")
        except GitCommandFailed:
            return ""

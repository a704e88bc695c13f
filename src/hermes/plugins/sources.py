"""Where a plugin can be installed from."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from hermes.core.errors import HermesError, UsageError

SECONDS = 300.0
"""Longest run of git."""
_GITHUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_SSH = re.compile(r"[\w.-]+@[\w.-]+:[^\s-]\S*", re.ASCII)
_SCHEMES = frozenset({"https", "ssh", "file"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# Nothing of a repository is run while it is fetched, and nobody is asked for a password.
_CAUTION = ("-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never")


class Source(msgspec.Struct, frozen=True):
    address: str
    """For git, or the path of a folder."""
    folder: bool = False


def source_of(said: str) -> Source:
    """What `hermes plugins install` was given. Raises `UsageError`."""
    place = Path(said).expanduser()
    if said and (said.startswith(("/", ".", "~")) or place.is_dir()):
        if not place.is_dir():
            raise UsageError(f"there is no folder {said}")
        return Source(str(place.resolve()), folder=True)
    if _GITHUB.fullmatch(said):
        return Source(f"https://github.com/{said.removesuffix('.git')}.git")
    if _SSH.fullmatch(said):
        return Source(said)
    url = urlsplit(said)
    if url.scheme in _SCHEMES or (url.scheme == "http" and url.hostname in _LOOPBACK):
        return Source(said)
    if url.scheme in ("http", "git"):
        raise UsageError(f"{said} is not encrypted", hint="use its https:// address")
    raise UsageError(
        f"{said!r} is no plugin that can be fetched",
        hint="give owner/repo (on GitHub), a git URL, or a folder such as ./my-plugin",
    )


class GitFailed(HermesError):
    """git is missing or said no."""


class Fetcher:
    """Runs git with `environment`, which holds no secrets of ours."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {
            **environment, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C",
        }  # fmt: skip

    def clone(self, address: str, folder: Path) -> None:
        self._git("clone", "--quiet", "--depth=1", "--", address, str(folder))

    def update(self, folder: Path) -> None:
        """Takes over what is new; files that the plugin keeps in its folder stay."""
        try:
            self._git("-C", str(folder), "pull", "--quiet", "--ff-only", "--no-recurse-submodules")
        except GitFailed as error:
            error.hint += "; when you changed its files, install it again with --force"
            raise

    def commit(self, folder: Path) -> str:
        return self._git("-C", str(folder), "rev-parse", "--short", "HEAD").strip()

    def _git(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                ["git", *_CAUTION, *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
        except FileNotFoundError as error:
            raise GitFailed("git is not installed", hint="install it, or give a folder") from error
        except subprocess.TimeoutExpired as error:
            raise GitFailed(f"git took longer than {SECONDS:.0f} seconds") from error
        if done.returncode:
            problem = _complaint(done.stderr) or f"exit code {done.returncode}"
            raise GitFailed(f"git failed: {problem}", hint="check the address and your access")
        return done.stdout


def _complaint(errors: str) -> str:
    """The line of git's errors that says what is wrong; advice comes after it."""
    said = [line.strip() for line in errors.splitlines() if line.strip()]
    found = [line for line in said if line.startswith(("fatal: ", "error: "))]
    return (found or said or [""])[0]

"""Skills in any git repository: `https://host/repo.git`, `ssh://…`, `git@host:repo.git`,
`file://…`.

A branch or tag follows after `#` and the folder after a colon: `…/repo.git#v1:skills/pdf`. Only
objects are fetched, one commit deep if the server supports it, into a temporary folder. Nothing is
checked out, so hooks, filters and links of the repository have no effect. git never asks for a
password.
"""

import asyncio
import re
import shlex
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from hermes.core.errors import UsageError
from hermes.skills.hub.contents import (
    HubError,
    InvalidContent,
    ListedSkill,
    NotAvailable,
    SourceUnreachable,
    check_file_name,
    check_size,
    is_hidden,
    list_skill,
)
from hermes.skills.hub.sources import (
    MAX_LISTED,
    MAX_SKILL_BYTES,
    FetchedSkill,
    SkillOffer,
    SkillOrigin,
    SkillSource,
    choose_folder,
    skill_folder_of,
)
from hermes.store import Git, GitCommandFailed
from hermes.util.http import is_loopback
from hermes.util.text import human_size

MAX_FETCHED_BYTES = 256 * 1024 * 1024  #: Bytes on disk while a repository is fetched.
SIZE_CHECK_INTERVAL = 0.2
STALL_TIMEOUT = 20  #: Seconds without a byte after which git gives up.
NO_SHALLOW_FETCH = "does not support shallow"
"""Part of the message of git for a server that only serves files."""
REGULAR_MODES = ("100644", "100755")

_SCP = re.compile(r"[A-Za-z0-9_.-]+@([A-Za-z0-9.-]+):(?!-)[^\s:#]+")
_REF = re.compile(r"(?!.*\.\.)(?![-/.])[A-Za-z0-9._/+-]{1,200}")
_SCHEMES = ("https", "ssh", "file")
_LOCAL_SCHEMES = ("http", "git")  #: Unencrypted: only for this machine.


class GitAddress(msgspec.Struct, frozen=True):
    """A repository, a branch or tag, and a folder."""

    url: str
    ref: str = ""
    path: str = ""


class GitSource(SkillSource):
    """The source `git`."""

    name = "git"

    def __init__(
        self,
        program: str | None,
        ssh_agent: str = "",
        most: int = MAX_FETCHED_BYTES,
        stalled: int = STALL_TIMEOUT,
    ) -> None:
        """`ssh_agent` is the socket of the SSH agent (SSH_AUTH_SOCK) or ""; `most` limits the bytes
        fetched."""
        self._program, self._ssh_agent, self._most = program, ssh_agent, most
        self._stalled = stalled

    async def browse(self) -> list[SkillOffer]:
        raise UsageError("a git repository is not browsed", hint="name it: install URL#:folder")

    async def fetch(self, identifier: str) -> FetchedSkill:
        place = parse_git_address(identifier)
        async with self._repository(place) as git:
            await _fetch(git, place, self._most)
            commit = (await git.run("rev-parse", "FETCH_HEAD^{commit}")).decode().strip()
            tree = _parse_tree(await git.run("ls-tree", "-r", "-z", "-l", "--full-tree", commit))
            folder = choose_folder(identifier, place.path, await _list_skills(git, tree))
            files = await _read_files(git, tree, folder)
        return FetchedSkill(files, SkillOrigin(commit, f"{place.url}#{commit}:{folder}"))

    async def version(self, identifier: str) -> str:
        place = parse_git_address(identifier)
        async with self._repository(place) as git:
            output = await _run_git(git, "ls-remote", "--", place.url, *_ref_names(place.ref))
        found = [line.partition("\t") for line in output.decode().splitlines()]
        commits = {name: commit for commit, _, name in found}
        return next((commits[name] for name in _ref_names(place.ref) if name in commits), "")

    @asynccontextmanager
    async def _repository(self, place: GitAddress) -> AsyncIterator[Git]:
        if self._program is None:
            raise HubError("git is not installed", hint="install git, or use owner/repo/path")
        with tempfile.TemporaryDirectory(prefix="hermes-skill-") as folder:
            git = Git(self._program, Path(folder) / "git", Path(folder))
            await git.run("init", "--quiet")
            for key, value in self._settings(place).items():
                await git.run("config", key, value)
            yield git

    def _settings(self, place: GitAddress) -> dict[str, str]:
        ssh = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
        if self._ssh_agent:
            ssh += ["-o", f"IdentityAgent={self._ssh_agent}"]
        schemes = (*_SCHEMES, *(_LOCAL_SCHEMES if _is_local(place.url) else ()))
        return {
            "core.hooksPath": "/dev/null",
            "core.sshCommand": shlex.join(ssh),
            "fetch.recurseSubmodules": "no",
            "transfer.fsckObjects": "true",
            "gc.auto": "0",
            "http.lowSpeedLimit": "1",
            "http.lowSpeedTime": str(self._stalled),
            "protocol.allow": "never",
            **{f"protocol.{scheme}.allow": "always" for scheme in schemes},
        }


class GitBlob(msgspec.Struct, frozen=True):
    id: str
    mode: str
    size: int


GitTree = dict[str, GitBlob]


def is_git_address(identifier: str) -> bool:
    address = identifier.partition("#")[0]
    starts = ("git+", "ssh://", "git://", "file://")
    return address.startswith(starts) or address.endswith(".git") or bool(_SCP.fullmatch(address))


def parse_git_address(identifier: str) -> GitAddress:
    """Parse an identifier. Raises `UsageError` for an address that is not accepted."""
    url, _, rest = identifier.removeprefix("git+").partition("#")
    ref, _, path = rest.partition(":")
    if ref and not _REF.fullmatch(ref):
        raise UsageError(f"{ref!r} is not a branch or tag", hint="write …repo.git#BRANCH:FOLDER")
    path = path.strip("/")
    return GitAddress(_check_url(url), ref, check_file_name(path) if path else "")


def _check_url(url: str) -> str:
    if _SCP.fullmatch(url):
        return url
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UsageError(f"{url} is not an address: {error}") from error
    if parts.password or (parts.username and parts.scheme != "ssh"):
        raise UsageError("an address with a password is not accepted", hint="leave it out")
    host = parts.hostname or ""
    if parts.scheme == "file" or (parts.scheme in _SCHEMES and host and not host.startswith("-")):
        return url
    if parts.scheme in _LOCAL_SCHEMES and _is_local(url):
        return url
    raise UsageError(
        f"{url} is not an address of a git repository that is used",
        hint="https://, ssh:// and file:// are, and user@host:path",
    )


def _is_local(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")


def _ref_names(ref: str) -> list[str]:
    """Return the full names of a branch or tag in the order in which git resolves them.

    For an annotated tag, the commit it points to comes first.
    """
    return [f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}"] if ref else ["HEAD"]


async def _fetch(git: Git, place: GitAddress, most: int) -> None:
    """Fetch one commit; plain web servers cannot do that and send the whole history."""
    try:
        await _fetch_limited(git, place, most, "--depth=1")
    except SourceUnreachable as error:
        if NO_SHALLOW_FETCH not in str(error):
            raise
        await _fetch_limited(git, place, most)


async def _fetch_limited(git: Git, place: GitAddress, most: int, *options: str) -> None:
    """Fetch, and stop when the repository is larger than `most` bytes."""
    wanted = ("--quiet", "--no-tags", *options, "--", place.url, place.ref or "HEAD")
    fetching = asyncio.ensure_future(_run_git(git, "fetch", *wanted))
    try:
        while not fetching.done():
            await asyncio.wait([fetching], timeout=SIZE_CHECK_INTERVAL)
            if _size_on_disk(git.folder) > most:
                raise InvalidContent(f"the repository is larger than {human_size(most)}")
        await fetching
    finally:
        if not fetching.done():
            fetching.cancel()
            await asyncio.wait([fetching])


def _size_on_disk(folder: Path) -> int:
    total = 0
    for path in (folder / "objects").rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # git renames files while it works
            continue
    return total


async def _run_git(git: Git, *arguments: str) -> bytes:
    try:
        return await git.run(*arguments)
    except GitCommandFailed as error:
        text = str(error)
        hint = "check the address; for one that needs a password use ssh with your key"
        missing = "not found" in text or "couldn't find remote ref" in text
        raise (NotAvailable if missing else SourceUnreachable)(text, hint=hint) from error


def _parse_tree(output: bytes) -> GitTree:
    """Parse `mode type id size<tab>name`, separated by NUL."""
    tree: GitTree = {}
    for line in output.decode("utf-8", "surrogateescape").split("\0"):
        if line:
            facts, _, name = line.partition("\t")
            mode, _, blob, size = facts.split()
            tree[name] = GitBlob(blob, mode, int(size) if size.isdigit() else 0)
    return tree


async def _list_skills(git: Git, tree: GitTree) -> Sequence[ListedSkill]:
    found = {
        name: folder
        for name, blob in tree.items()
        if blob.mode in REGULAR_MODES and blob.size <= MAX_SKILL_BYTES
        if (folder := skill_folder_of(name)) is not None
    }
    names = list(found)[:MAX_LISTED]
    texts = await git.blobs([tree[name].id for name in names]) if names else []
    return [list_skill(found[name], text) for name, text in zip(names, texts, strict=True)]


async def _read_files(git: Git, tree: GitTree, folder: str) -> dict[str, bytes]:
    start = f"{folder}/" if folder else ""
    inside = {name[len(start) :]: blob for name, blob in tree.items() if name.startswith(start)}
    wanted = {name: blob for name, blob in inside.items() if not is_hidden(name)}
    for name, blob in wanted.items():
        if blob.mode not in REGULAR_MODES:
            raise InvalidContent(f"{name} is a link, or lies in another repository")
    check_size(len(wanted), sum(blob.size for blob in wanted.values()))
    contents = await git.blobs([blob.id for blob in wanted.values()])
    return dict(zip(wanted, contents, strict=True))

"""Skills in repositories: at GitHub (`owner/repo/path`, with a branch or tag after `@`), and in any
git repository (`https://host/repo.git`, `ssh://…`, `git@host:repo.git`, `file://…`)."""

import asyncio
import re
import shlex
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from hermes.core.errors import UsageError
from hermes.skills.hub.contents import (
    DECODE_ERRORS,
    HubError,
    HubRateLimited,
    InvalidContent,
    ListedSkill,
    NotAvailable,
    SourceUnreachable,
    check_file_name,
    check_size,
    is_hidden,
    list_skill,
    make_private_folder,
    read_tar,
    tar_members,
)
from hermes.skills.hub.sources import (
    MAX_LISTED,
    MAX_SKILL_BYTES,
    FetchedSkill,
    HubHttpClient,
    RepoPath,
    SkillOffer,
    SkillOrigin,
    SkillSource,
    choose_folder,
    filter_offers,
    host_of,
    parse_repo_path,
    skill_folder_of,
)
from hermes.store import Git, GitCommandFailed
from hermes.util import files
from hermes.util.http import HttpResponse, is_loopback
from hermes.util.text import human_size

# The REST API, as far as the hub needs it
#
#     GET /repos/{repo}/commits/{ref}     Accept: application/vnd.github.sha  -> the commit
#     GET /repos/{repo}/tarball/{commit}  -> 302 to the archive
#
# The requests for publishing are in `hermes.skills.hub.sharing`.

MAX_ARCHIVE_BYTES = 64 * 1024 * 1024
ACCEPT_JSON = "application/vnd.github+json"
ACCEPT_SHA = "application/vnd.github.sha"
SET_TOKEN = "`hermes config set GITHUB_TOKEN …` (a token without any rights will do)"


class GitHubApi:
    """Without `token`, GitHub allows 60 requests an hour."""

    def __init__(self, web: HubHttpClient, address: str, token: str = "") -> None:
        self._web, self._address, self._token = web, address.rstrip("/"), token
        self._archives: dict[tuple[str, str], bytes] = {}

    @property
    def has_token(self) -> bool:
        return bool(self._token)

    async def commit(self, repo: str, ref: str = "") -> str:
        """Return the id of the newest commit of a branch or tag."""
        wanted = quote(ref or "HEAD", safe="/")
        reply = await self.get(f"/repos/{repo}/commits/{wanted}", accept=ACCEPT_SHA)
        if reply.status == 422:
            raise NotAvailable(f"{repo} has no branch, tag or commit {ref or 'HEAD'}")
        commit = reply.body.decode("ascii", "replace").strip()
        if len(commit) != 40 or not commit.isalnum():
            raise SourceUnreachable(f"{host_of(self._address)} gave no commit for {repo}")
        return commit

    async def archive(self, repo: str, commit: str) -> bytes:
        """Return the repository as a .tar.gz; downloaded once per command."""
        key = (repo, commit)
        if key not in self._archives:
            reply = await self.get(f"/repos/{repo}/tarball/{commit}", max_bytes=MAX_ARCHIVE_BYTES)
            self._archives[key] = reply.body
        return self._archives[key]

    async def get(
        self, path: str, *, accept: str = ACCEPT_JSON, max_bytes: int = MAX_ARCHIVE_BYTES
    ) -> HttpResponse:
        """Send a GET request. Raises `NotAvailable`, `HubRateLimited` and `SourceUnreachable`."""
        reply = await self._web.get(
            f"{self._address}{path}", self._headers(accept), max_bytes=max_bytes
        )
        return self._check_reply(path, reply)

    async def send(self, method: str, path: str, body: Mapping[str, Any]) -> HttpResponse:
        """Send a request. The caller checks the status, except for the usual refusals."""
        url = f"{self._address}{path}"
        return self._check_reply(
            path, await self._web.send(method, url, self._headers(ACCEPT_JSON), body)
        )

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept, "X-GitHub-Api-Version": "2022-11-28"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _check_reply(self, path: str, reply: HttpResponse) -> HttpResponse:
        if reply.status < 300 or reply.status == 422:
            return reply
        limits = reply.headers
        limited = limits.get("x-ratelimit-remaining") == "0" or "retry-after" in limits
        if reply.status == 429 or (reply.status == 403 and limited):
            raise self._rate_limit_error(reply)
        if reply.status == 401:
            raise HubError("GitHub refused the token", hint=f"set a new one: {SET_TOKEN}")
        if reply.status in (403, 404, 409, 451):
            raise self._refusal(path, reply)
        raise SourceUnreachable(
            f"GitHub answered with status {reply.status}", hint="try again later"
        )

    def _refusal(self, path: str, reply: HttpResponse) -> HubError:
        repo = "/".join(path.split("/")[2:4])
        if reply.status == 403:
            return HubError(
                f"GitHub does not allow this for {repo}: {error_message(reply)}",
                hint="the token needs the right to write to the repository",
            )
        if reply.status == 409 and "empty" in error_message(reply):
            hint = "make a first commit there (a README), then try again"
            return NotAvailable(f"{repo} is empty", hint=hint)
        hint = "check the spelling"
        if not self._token:
            hint += f"; a private one needs a token: {SET_TOKEN}"
        return NotAvailable(
            f"there is no repository, branch or commit like this in {repo}", hint=hint
        )

    def _rate_limit_error(self, reply: HttpResponse) -> HubRateLimited:
        reset = reply.headers.get("x-ratelimit-reset", "")
        after = reply.headers.get("retry-after", "")
        minutes = 1
        if reset.isdigit():
            minutes = max(1, round((int(reset) - time.time()) / 60))
        elif after.isdigit():
            minutes = max(1, round(int(after) / 60))
        wait = f"wait {minutes} min"
        hint = wait if self._token else f"{wait}, or set a token: {SET_TOKEN}"
        return HubRateLimited("the rate limit of GitHub is reached", hint=hint)


def error_message(reply: HttpResponse) -> str:
    """Return the message in a GitHub response, on one line."""
    message = reply.json_object().get("message", "")
    return " ".join(str(message).split())[:200] or f"status {reply.status}"


class RepoCatalog(msgspec.Struct, frozen=True):
    """The skills of a repository at one commit, cached so that a second look costs one request."""

    commit: str
    skills: tuple[ListedSkill, ...]


class GitHubRepos:
    """Reads repositories; the skills of a commit are cached in the folder `cache`."""

    def __init__(self, api: GitHubApi, cache: Path, web: str) -> None:
        self._api, self._cache, self._web = api, cache, web

    def parse_path(self, identifier: str) -> RepoPath:
        return parse_repo_path(identifier, self._web)

    async def skills(self, repo: str, ref: str = "") -> RepoCatalog:
        """Return the skills of a repository. Raises `NotAvailable` when it cannot be seen."""
        commit = await self._api.commit(repo, ref)
        file = self._cache / f"{repo.replace('/', '--')}.json"
        try:
            known = msgspec.json.decode(file.read_bytes(), type=RepoCatalog)
        except (OSError, *DECODE_ERRORS):
            known = RepoCatalog("", ())
        if known.commit == commit:
            return known
        data = await self._api.archive(repo, commit)
        catalogue = RepoCatalog(commit, tuple(_list_skills(data)))
        make_private_folder(self._cache)
        files.write_bytes(file, msgspec.json.encode(catalogue))
        return catalogue

    async def offers(self, repo: str, source: str) -> list[SkillOffer]:
        found = (await self.skills(repo)).skills
        return [
            SkillOffer(source, f"{repo}/{one.folder}".rstrip("/"), one.name, one.description)
            for one in found
        ]

    async def fetch(self, place: RepoPath) -> FetchedSkill:
        catalogue = await self.skills(place.repo, place.ref)
        data = await self._api.archive(place.repo, catalogue.commit)
        folder = choose_folder(str(place), place.path, catalogue.skills)
        start = f"{folder}/" if folder else ""

        def wanted(name: str) -> bool:
            return name.startswith(start) and not is_hidden(name[len(start) :])

        held = read_tar(data, wanted, below_top=True)
        files = {name[len(start) :]: content for name, content in held.items()}
        where = f"{self._web}/{place.repo}/tree/{catalogue.commit}/{folder}".rstrip("/")
        # GitHub serves commits of a fork under the name of the original repository, so only the
        # default branch proves who wrote the files.
        proven = "" if place.ref else place.repo
        exactly = str(RepoPath(place.repo, folder, place.ref))
        return FetchedSkill(files, SkillOrigin(catalogue.commit, where), proven, identifier=exactly)

    async def file(self, repo: str, name: str) -> bytes:
        """Return one file of the default branch. Raises `NotAvailable`."""
        data = await self._api.archive(repo, await self._api.commit(repo))
        found = read_tar(data, lambda each: each == name, below_top=True)
        if name not in found:
            raise NotAvailable(f"{repo} has no {name}")
        return found[name]

    async def version(self, place: RepoPath) -> str:
        return await self._api.commit(place.repo, place.ref)


class GitHubSource(SkillSource):
    """Skills at GitHub: of any repository, or of `repo`, a tap or a well-known one."""

    def __init__(self, repos: GitHubRepos, repo: str = "", name: str = "github") -> None:
        self._repos, self._repo, self.name = repos, repo, name

    async def browse(self) -> list[SkillOffer]:
        if not self._repo:
            raise UsageError("no repository is named", hint="search for `owner/repo WORDS`")
        return await self._repos.offers(self._repo, self.name)

    async def search(self, query: str) -> Sequence[SkillOffer]:
        """Without a repository of its own, `owner/repo words` searches that repository."""
        if self._repo:
            return await super().search(query)
        first, _, rest = query.partition(" ")
        repo = self._repos.parse_path(first).repo
        return filter_offers(await self._repos.offers(repo, self.name), rest)

    async def list_place(self, identifier: str) -> list[SkillOffer]:
        place = self._repos.parse_path(identifier)
        found = (await self._repos.skills(place.repo, place.ref)).skills
        return [
            SkillOffer(
                self.name,
                str(RepoPath(place.repo, one.folder, place.ref)),
                one.name,
                one.description,
            )
            for one in found
            if not place.path or f"{one.folder}/".startswith(f"{place.path}/")
        ]

    async def fetch(self, identifier: str) -> FetchedSkill:
        return await self._repos.fetch(self._repos.parse_path(identifier))

    async def version(self, identifier: str) -> str:
        return await self._repos.version(self._repos.parse_path(identifier))


def _list_skills(data: bytes) -> list[ListedSkill]:
    found: list[ListedSkill] = []
    for name, size, read in tar_members(data, below_top=True):
        folder = skill_folder_of(name)
        if folder is None or read is None or size > MAX_SKILL_BYTES or len(found) >= MAX_LISTED:
            continue
        found.append(list_skill(folder, read()))
    return sorted(found, key=lambda one: one.folder)


# Any git repository
#
# A branch or tag follows after `#` and the folder after a colon: `…/repo.git#v1:skills/pdf`. Only
# objects are fetched, one commit deep if the server supports it, into a temporary folder. Nothing
# is checked out, so hooks, filters and links of the repository have no effect. git never asks for a
# password.

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


class GitBlob(msgspec.Struct, frozen=True):
    id: str
    mode: str
    size: int


GitTree = dict[str, GitBlob]


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

    async def list_place(self, identifier: str) -> list[SkillOffer]:
        place = parse_git_address(identifier)
        async with self._fetched(place) as (git, _commit, tree):
            found = await _list_tree_skills(git, tree)
        address = identifier.partition("#")[0]
        return [
            SkillOffer(self.name, f"{address}#{place.ref}:{one.folder}", one.name, one.description)
            for one in found
            if not place.path or f"{one.folder}/".startswith(f"{place.path}/")
        ]

    async def fetch(self, identifier: str) -> FetchedSkill:
        place = parse_git_address(identifier)
        async with self._fetched(place) as (git, commit, tree):
            folder = choose_folder(identifier, place.path, await _list_tree_skills(git, tree))
            files = await _read_files(git, tree, folder)
        return FetchedSkill(files, SkillOrigin(commit, f"{place.url}#{commit}:{folder}"))

    @asynccontextmanager
    async def _fetched(self, place: GitAddress) -> AsyncIterator[tuple[Git, str, GitTree]]:
        """Fetch a repository; yield it with the commit and its files."""
        async with self._repository(place) as git:
            try:
                await _fetch_limited(git, place, self._most, "--depth=1")
            except SourceUnreachable as error:
                if NO_SHALLOW_FETCH not in str(error):
                    raise
                # A plain web server cannot send one commit, only the whole history.
                await _fetch_limited(git, place, self._most)
            commit = (await git.run("rev-parse", "FETCH_HEAD^{commit}")).decode().strip()
            output = await git.run("ls-tree", "-r", "-z", "-l", "--full-tree", commit)
            yield git, commit, _parse_tree(output)

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


async def _list_tree_skills(git: Git, tree: GitTree) -> Sequence[ListedSkill]:
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

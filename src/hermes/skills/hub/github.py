"""Skills in repositories of GitHub: `owner/repo/path`, a branch or tag after `@`."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from hermes.core.errors import UsageError
from hermes.skills.hub.archives import from_tar, tar_members
from hermes.skills.hub.contents import (
    UNREADABLE,
    HubError,
    NotThere,
    RateSpent,
    Unreachable,
    head_of,
    is_hidden,
    private_folder,
)
from hermes.skills.hub.sources import (
    MOST_HEAD,
    MOST_LISTED,
    Fetched,
    Listed,
    Offer,
    Origin,
    Reply,
    RepoPlace,
    Web,
    chosen_folder,
    host_of,
    matching,
    parse_place,
    skill_folder,
)
from hermes.util import atomic

# The few questions of GitHub's REST API that the hub asks.
#
# GET /repos/{repo}/commits/{ref}          Accept: application/vnd.github.sha  -> the commit
# GET /repos/{repo}/tarball/{commit}       -> 302 to the archive
# and, to publish, those of `hermes.skills.hub.sharing`.

MOST_ARCHIVE = 64 * 1024 * 1024
JSON = "application/vnd.github+json"
SHA = "application/vnd.github.sha"
SET_TOKEN = "`hermes config set GITHUB_TOKEN …` (a token without any rights will do)"


class GitHubApi:
    """`token` may be empty: then GitHub answers 60 questions an hour."""

    def __init__(self, web: Web, address: str, token: str = "") -> None:
        self._web, self._address, self._token = web, address.rstrip("/"), token
        self._archives: dict[tuple[str, str], bytes] = {}

    @property
    def has_token(self) -> bool:
        return bool(self._token)

    async def commit(self, repo: str, ref: str = "") -> str:
        """The id of the newest commit of a branch or tag."""
        wanted = quote(ref or "HEAD", safe="/")
        reply = await self.ask(f"/repos/{repo}/commits/{wanted}", accept=SHA)
        if reply.status == 422:
            raise NotThere(f"{repo} has no branch, tag or commit {ref or 'HEAD'}")
        commit = reply.body.decode("ascii", "replace").strip()
        if len(commit) != 40 or not commit.isalnum():
            raise Unreachable(f"{host_of(self._address)} gave no commit for {repo}")
        return commit

    async def archive(self, repo: str, commit: str) -> bytes:
        """All files of the repository as a .tar.gz; fetched once in a run."""
        key = (repo, commit)
        if key not in self._archives:
            reply = await self.ask(f"/repos/{repo}/tarball/{commit}", most=MOST_ARCHIVE)
            self._archives[key] = reply.body
        return self._archives[key]

    async def ask(self, path: str, *, accept: str = JSON, most: int = MOST_ARCHIVE) -> Reply:
        """Raises `NotThere`, `RateSpent`, `Unreachable` for an answer that is none."""
        reply = await self._web.get(f"{self._address}{path}", self._headers(accept), most=most)
        return self._good(path, reply)

    async def tell(self, method: str, path: str, body: Mapping[str, Any]) -> Reply:
        """Sends something; the status is for the caller to look at, but for the usual refusals."""
        url = f"{self._address}{path}"
        return self._good(path, await self._web.send(method, url, self._headers(JSON), body))

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept, "X-GitHub-Api-Version": "2022-11-28"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _good(self, path: str, reply: Reply) -> Reply:
        if reply.status < 300 or reply.status == 422:
            return reply
        if self._is_limit(reply):
            raise self._spent(reply)
        if reply.status == 401:
            raise HubError("GitHub refused the token", hint=f"set a new one: {SET_TOKEN}")
        if reply.status in (403, 404, 409, 451):
            raise self._missing(path, reply)
        raise Unreachable(f"GitHub answered with status {reply.status}", hint="try again later")

    def _missing(self, path: str, reply: Reply) -> HubError:
        repo = "/".join(path.split("/")[2:4])
        if reply.status == 403:
            return HubError(
                f"GitHub does not allow this for {repo}: {said(reply)}",
                hint="the token needs the right to write to the repository",
            )
        if reply.status == 409 and "empty" in said(reply):
            hint = "make a first commit there (a README), then try again"
            return NotThere(f"{repo} is empty", hint=hint)
        hint = "check the spelling"
        if not self._token:
            hint += f"; a private one needs a token: {SET_TOKEN}"
        return NotThere(f"there is no repository, branch or commit like this in {repo}", hint=hint)

    @staticmethod
    def _is_limit(reply: Reply) -> bool:
        limited = (
            reply.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in reply.headers
        )
        return reply.status == 429 or (reply.status == 403 and limited)

    def _spent(self, reply: Reply) -> RateSpent:
        reset = reply.headers.get("x-ratelimit-reset", "")
        after = reply.headers.get("retry-after", "")
        minutes = 1
        if reset.isdigit():
            minutes = max(1, round((int(reset) - time.time()) / 60))
        elif after.isdigit():
            minutes = max(1, round(int(after) / 60))
        wait = f"wait {minutes} min"
        hint = wait if self._token else f"{wait}, or set a token: {SET_TOKEN}"
        return RateSpent(
            "GitHub answers no more questions for now: its rate limit is reached", hint=hint
        )


def said(reply: Reply) -> str:
    """The message in an answer of GitHub, on one line."""
    try:
        message = reply.json().get("message", "")
    except (HubError, AttributeError):
        message = ""
    return " ".join(str(message).split())[:200] or f"status {reply.status}"


class Catalogue(msgspec.Struct, frozen=True):
    """The skills of a repository at one commit, kept so that looking twice costs one question."""

    commit: str
    skills: tuple[Listed, ...]


class GitHubRepos:
    """Reads repositories; what a commit holds is remembered in `cache`."""

    def __init__(self, api: GitHubApi, cache: Path, web: str) -> None:
        self._api, self._cache, self._web = api, cache, web

    def place(self, identifier: str) -> RepoPlace:
        return parse_place(identifier, self._web)

    async def skills(self, repo: str, ref: str = "") -> Catalogue:
        """Raises `NotThere` for a repository that cannot be seen."""
        commit = await self._api.commit(repo, ref)
        file = self._cache / f"{repo.replace('/', '--')}.json"
        try:
            known = msgspec.json.decode(file.read_bytes(), type=Catalogue)
        except (OSError, *UNREADABLE):
            known = Catalogue("", ())
        if known.commit == commit:
            return known
        data = await self._api.archive(repo, commit)
        catalogue = Catalogue(commit, tuple(_listed(data)))
        private_folder(self._cache)
        atomic.write_bytes(file, msgspec.json.encode(catalogue))
        return catalogue

    async def offers(self, repo: str, source: str) -> list[Offer]:
        found = (await self.skills(repo)).skills
        return [
            Offer(source, f"{repo}/{one.folder}".rstrip("/"), one.name, one.description)
            for one in found
        ]

    async def fetch(self, place: RepoPlace) -> Fetched:
        catalogue = await self.skills(place.repo, place.ref)
        data = await self._api.archive(place.repo, catalogue.commit)
        folder = chosen_folder(str(place), place.path, catalogue.skills)
        start = f"{folder}/" if folder else ""

        def wanted(name: str) -> bool:
            return name.startswith(start) and not is_hidden(name[len(start) :])

        held = from_tar(data, wanted, below_top=True)
        files = {name[len(start) :]: content for name, content in held.items()}
        where = f"{self._web}/{place.repo}/tree/{catalogue.commit}/{folder}".rstrip("/")
        # A commit of somebody's fork can be asked for under the name of the original repository:
        # only its own default branch says something about who wrote it.
        proven = "" if place.ref else place.repo
        exactly = str(RepoPlace(place.repo, folder, place.ref))
        return Fetched(files, Origin(catalogue.commit, where), proven, identifier=exactly)

    async def file(self, repo: str, name: str) -> bytes:
        """One file of the default branch. Raises `NotThere`."""
        data = await self._api.archive(repo, await self._api.commit(repo))
        found = from_tar(data, lambda each: each == name, below_top=True)
        if name not in found:
            raise NotThere(f"{repo} has no {name}")
        return found[name]

    async def version(self, place: RepoPlace) -> str:
        return await self._api.commit(place.repo, place.ref)


class GitHubSource:
    """The source `github`: any repository that is named."""

    name = "github"

    def __init__(self, repos: GitHubRepos) -> None:
        self._repos = repos

    async def browse(self) -> list[Offer]:
        raise UsageError("no repository is named", hint="search for `owner/repo WORDS`")

    async def search(self, query: str) -> list[Offer]:
        """`owner/repo words` looks in that repository."""
        first, _, rest = query.partition(" ")
        return matching(await self._repos.offers(self._repos.place(first).repo, self.name), rest)

    async def fetch(self, identifier: str) -> Fetched:
        return await self._repos.fetch(self._repos.place(identifier))

    async def version(self, identifier: str) -> str:
        return await self._repos.version(self._repos.place(identifier))


class RepoListing(GitHubSource):
    """One repository to browse: a tap, or one of those everybody knows."""

    def __init__(self, repos: GitHubRepos, repo: str, name: str) -> None:
        super().__init__(repos)
        self._repo, self.name = repo, name

    async def browse(self) -> list[Offer]:
        return await self._repos.offers(self._repo, self.name)

    async def search(self, query: str) -> list[Offer]:
        return matching(await self.browse(), query)


def _listed(data: bytes) -> list[Listed]:
    found: list[Listed] = []
    for name, size, read in tar_members(data, below_top=True):
        folder = skill_folder(name)
        if folder is None or read is None or size > MOST_HEAD or len(found) >= MOST_LISTED:
            continue
        head = head_of(read())
        found.append(Listed(folder, head.name or folder.rpartition("/")[2], head.description))
    return sorted(found, key=lambda one: one.folder)

"""Skills in GitHub repositories: `owner/repo/path`, with a branch or tag after `@`."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from hermes.core.errors import UsageError
from hermes.skills.hub.contents import (
    DECODE_ERRORS,
    HubError,
    HubRateLimited,
    ListedSkill,
    NotAvailable,
    SourceUnreachable,
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
from hermes.util import files
from hermes.util.http import HttpResponse

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
    """The source `github`: any repository."""

    name = "github"

    def __init__(self, repos: GitHubRepos) -> None:
        self._repos = repos

    async def browse(self) -> list[SkillOffer]:
        raise UsageError("no repository is named", hint="search for `owner/repo WORDS`")

    async def search(self, query: str) -> Sequence[SkillOffer]:
        """`owner/repo words` searches that repository."""
        first, _, rest = query.partition(" ")
        return filter_offers(
            await self._repos.offers(self._repos.parse_path(first).repo, self.name), rest
        )

    async def fetch(self, identifier: str) -> FetchedSkill:
        return await self._repos.fetch(self._repos.parse_path(identifier))

    async def version(self, identifier: str) -> str:
        return await self._repos.version(self._repos.parse_path(identifier))


class RepoListing(GitHubSource):
    """One repository to browse: a tap or a well-known one."""

    def __init__(self, repos: GitHubRepos, repo: str, name: str) -> None:
        super().__init__(repos)
        self._repo, self.name = repo, name

    async def browse(self) -> list[SkillOffer]:
        return await self._repos.offers(self._repo, self.name)

    async def search(self, query: str) -> Sequence[SkillOffer]:
        return await SkillSource.search(self, query)


def _list_skills(data: bytes) -> list[ListedSkill]:
    found: list[ListedSkill] = []
    for name, size, read in tar_members(data, below_top=True):
        folder = skill_folder_of(name)
        if folder is None or read is None or size > MAX_SKILL_BYTES or len(found) >= MAX_LISTED:
            continue
        found.append(list_skill(folder, read()))
    return sorted(found, key=lambda one: one.folder)

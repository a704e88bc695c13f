"""Skills in repositories of GitHub: `owner/repo/path`, a branch or tag after `@`."""

from pathlib import Path

import msgspec

from hermes.core.errors import UsageError
from hermes.skills.hub.archives import from_tar, tar_members
from hermes.skills.hub.contents import is_hidden, private_folder
from hermes.skills.hub.errors import UNREADABLE, NotThere
from hermes.skills.hub.heads import head_of
from hermes.skills.hub.sources.choosing import (
    MOST_HEAD,
    MOST_LISTED,
    Listed,
    chosen_folder,
    skill_folder,
)
from hermes.skills.hub.sources.github_api import GitHubApi
from hermes.skills.hub.sources.repo_place import RepoPlace, parse_place
from hermes.skills.hub.sources.source import Fetched, Offer, Origin, matching
from hermes.util import atomic


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

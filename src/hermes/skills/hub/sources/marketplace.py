"""Skills in the plugins of a marketplace: `claude-marketplace/<owner>/<repo>/<plugin>/<skill>`.

A marketplace is a repository at GitHub with `.claude-plugin/marketplace.json`:

    {"name": "…", "metadata": {"pluginRoot": "./plugins"},
     "plugins": [{"name": "p", "description": "…", "source": "./p", "skills": ["./skills/a"]},
                 {"name": "q", "source": {"source": "github", "repo": "owner/repo", "ref": "v1"}}]}

Only the skills of a plugin are offered: the folders it lists, else those in its `skills/`.
"""

from pathlib import PurePosixPath
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes.core.errors import UsageError
from hermes.skills.hub.errors import UNREADABLE, HubError, NotThere, Unreachable
from hermes.skills.hub.sources.github import GitHubRepos
from hermes.skills.hub.sources.repo_place import RepoPlace, checked_place, parse_place
from hermes.skills.hub.sources.source import Fetched, Offer, matching

PREFIX = "claude-marketplace/"
FILE = ".claude-plugin/marketplace.json"


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    plugin_root: str = ""


class Plugin(msgspec.Struct, frozen=True):
    name: str
    source: str | dict[str, Any] = "./"
    description: str = ""
    skills: str | tuple[str, ...] = ()


class Marketplace(msgspec.Struct, frozen=True):
    plugins: tuple[Plugin, ...]
    metadata: Metadata = Metadata()


class MarketplaceSource:
    """`repo` is the marketplace to browse."""

    name = "claude-marketplace"

    def __init__(self, repos: GitHubRepos, repo: str = "") -> None:
        self._repos, self._repo = repos, repo

    async def browse(self) -> list[Offer]:
        if not self._repo:
            raise UsageError("no marketplace is named", hint=f"name one: {PREFIX}<owner>/<repo>")
        return await self._offers(self._repo)

    async def search(self, query: str) -> list[Offer]:
        first, _, rest = query.removeprefix(PREFIX).partition(" ")
        if first.count("/") == 1:
            return matching(await self._offers(parse_place(first).repo), rest)
        return matching(await self.browse(), query)

    async def fetch(self, identifier: str) -> Fetched:
        found = await self._repos.fetch(await self._place(identifier))
        return replace(found, identifier=identifier)

    async def version(self, identifier: str) -> str:
        return await self._repos.version(await self._place(identifier))

    async def _place(self, identifier: str) -> RepoPlace:
        """Where the skill is kept."""
        named = parse_place(identifier.removeprefix(PREFIX))
        wanted, _, skill = named.path.partition("/")
        if not wanted:
            raise UsageError(
                f"{identifier} names no plugin",
                hint=f"write {PREFIX}<owner>/<repo>/<plugin>/<skill>",
            )
        market = await self._market(named.repo)
        plugin = next((one for one in market.plugins if one.name == wanted), None)
        if plugin is None:
            names = ", ".join(one.name for one in market.plugins[:8])
            raise NotThere(f"{named.repo} has no plugin {wanted}", hint=f"it has {names}")
        place = _home_of(plugin, market, named.repo)
        found = await self._skills(plugin, place)
        folders = [folder for folder, name in found if not skill or skill in (name, folder)]
        if len(folders) == 1:
            return RepoPlace(place.repo, folders[0], place.ref)
        names = ", ".join(name for _, name in found[:8]) or "none"
        raise NotThere(f"{identifier} is not one skill", hint=f"the plugin has {names}")

    async def _offers(self, repo: str) -> list[Offer]:
        market = await self._market(repo)
        offers: list[Offer] = []
        for plugin in market.plugins:
            place = _home_of(plugin, market, repo) if _is_here(plugin) else None
            found = await self._skills(plugin, place) if place else [("", "")]
            for _, name in found:
                identifier = f"{PREFIX}{repo}/{plugin.name}/{name}".rstrip("/")
                offers.append(Offer(self.name, identifier, name or plugin.name, plugin.description))
        return offers

    async def _market(self, repo: str) -> Marketplace:
        data = await self._repos.file(repo, FILE)
        try:
            return msgspec.json.decode(data, type=Marketplace)
        except UNREADABLE as error:
            raise Unreachable(f"the {FILE} of {repo} cannot be read: {error}") from error

    async def _skills(self, plugin: Plugin, place: RepoPlace) -> list[tuple[str, str]]:
        """Folders and names of the plugin's skills."""
        listed = (plugin.skills,) if isinstance(plugin.skills, str) else plugin.skills
        starts = [_below(place.path, folder) for folder in listed or ("skills",)]
        return [
            (one.folder, one.name)
            for one in (await self._repos.skills(place.repo, place.ref)).skills
            if any(one.folder == start or one.folder.startswith(f"{start}/") for start in starts)
        ]


def _is_here(plugin: Plugin) -> bool:
    """Whether it lies in the marketplace's own repository; others are looked at when chosen."""
    return isinstance(plugin.source, str)


def _home_of(plugin: Plugin, market: Marketplace, repo: str) -> RepoPlace:
    if isinstance(plugin.source, str):
        root = market.metadata.plugin_root
        return RepoPlace(repo, _below(_below("", root), plugin.source))
    kind, other = plugin.source.get("source"), str(plugin.source.get("repo", ""))
    if kind != "github" or not other:
        raise HubError(
            f"the plugin {plugin.name} is kept in a way that is not supported: {kind}",
            hint="install its skill by the address of its git repository",
        )
    owner, _, name = other.partition("/")
    return checked_place(owner, name, "", str(plugin.source.get("ref", "")))


def _below(folder: str, path: str) -> str:
    """`./a/b` below `folder`; it cannot lead out of the repository."""
    parts = [part for part in PurePosixPath(folder, path.lstrip("/")).parts if part != "."]
    if ".." in parts:
        raise NotThere(f"the folder {path!r} leads out of its repository")
    return "/".join(parts)

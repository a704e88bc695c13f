"""Skills in the plugins of a marketplace: `claude-marketplace/<owner>/<repo>/<plugin>/<skill>`.

A marketplace is a repository at GitHub with `.claude-plugin/marketplace.json`:

    {"name": "…", "metadata": {"pluginRoot": "./plugins"},
     "plugins": [{"name": "p", "description": "…", "source": "./p", "skills": ["./skills/a"]},
                 {"name": "q", "source": {"source": "github", "repo": "owner/repo", "ref": "v1"}}]}

Only the skills of a plugin are offered: the folders it lists, else those in its `skills/`.
"""

import hashlib
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote, urlencode, urljoin, urlsplit

import msgspec
from msgspec.structs import replace

from hermes.core.errors import UsageError
from hermes.skills.hub.archives import from_any
from hermes.skills.hub.contents import (
    MOST_BYTES,
    UNREADABLE,
    HubError,
    NotThere,
    Unfit,
    Unreachable,
    check_size,
    is_hidden,
    safe_name,
)
from hermes.skills.hub.github import GitHubRepos
from hermes.skills.hub.sources import (
    Fetched,
    Offer,
    Origin,
    Reply,
    RepoPlace,
    Warn,
    Web,
    check_redirect,
    checked_place,
    host_of,
    matching,
    parse_place,
    understood,
)
from hermes.skills.skill import SKILL_FILE

MARKETPLACE_PREFIX = "claude-marketplace/"
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
            raise UsageError(
                "no marketplace is named", hint=f"name one: {MARKETPLACE_PREFIX}<owner>/<repo>"
            )
        return await self._offers(self._repo)

    async def search(self, query: str) -> list[Offer]:
        first, _, rest = query.removeprefix(MARKETPLACE_PREFIX).partition(" ")
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
        named = parse_place(identifier.removeprefix(MARKETPLACE_PREFIX))
        wanted, _, skill = named.path.partition("/")
        if not wanted:
            raise UsageError(
                f"{identifier} names no plugin",
                hint=f"write {MARKETPLACE_PREFIX}<owner>/<repo>/<plugin>/<skill>",
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
                identifier = f"{MARKETPLACE_PREFIX}{repo}/{plugin.name}/{name}".rstrip("/")
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


# The directory skills.sh: `skills-sh/<owner>/<repo>/<skill>`.
#
# It is asked one question, the one its own search page asks:
#
#     GET /api/search?q=WORDS&limit=N
#     {"skills": [{"id": "owner/repo/skill", "skillId": "skill", "name": "skill",
#                  "installs": 123, "source": "owner/repo"}, …]}
#
# The files themselves come from the repository at GitHub that it names.

PREFIX = "skills-sh/"
MOST = 30


class _SkillsShEntry(msgspec.Struct, frozen=True, rename="camel"):
    id: str = ""
    skill_id: str = ""
    name: str = ""
    installs: int = 0
    source: str = ""


class Answer(msgspec.Struct, frozen=True):
    skills: tuple[msgspec.Raw, ...]
    """Of an `Entry` each."""


class SkillsShSource:
    name = "skills-sh"

    def __init__(self, web: Web, warn: Warn, address: str, repos: GitHubRepos) -> None:
        self._web, self._warn, self._address, self._repos = web, warn, address.rstrip("/"), repos

    async def browse(self) -> list[Offer]:
        raise UsageError("skills.sh has too many to list", hint="search for a word instead")

    async def search(self, query: str) -> list[Offer]:
        reply = await self._web.get(
            f"{self._address}/api/search?{urlencode({'q': query, 'limit': MOST})}"
        )
        if reply.status != 200:
            raise Unreachable(f"skills.sh answered with status {reply.status}", hint="try again")
        try:
            listed = msgspec.json.decode(reply.body, type=Answer).skills[:MOST]
        except UNREADABLE as error:
            raise Unreachable(f"skills.sh answered something unexpected: {error}") from error
        found = understood(listed, _SkillsShEntry, "skills.sh", self._warn)
        return [offer for entry in found if (offer := self._offer(entry)) is not None]

    async def fetch(self, identifier: str) -> Fetched:
        return replace(await self._repos.fetch(place_of(identifier)), identifier=identifier)

    async def version(self, identifier: str) -> str:
        return await self._repos.version(place_of(identifier))

    def _offer(self, entry: _SkillsShEntry) -> Offer | None:
        """None for one that is not kept at GitHub."""
        skill = entry.skill_id or entry.name or entry.id.rpartition("/")[2]
        identifier = f"{PREFIX}{entry.source}/{skill}"
        try:
            place_of(identifier)
        except (UsageError, HubError):
            return None
        return Offer(self.name, identifier, entry.name or skill, installs=max(entry.installs, 0))


def place_of(identifier: str) -> RepoPlace:
    place = parse_place(identifier.removeprefix(PREFIX))
    if not place.path:
        raise UsageError(
            f"{identifier} names no skill", hint="write skills-sh/<owner>/<repo>/<skill>"
        )
    return place


# Skills that a web site offers under `/.well-known/skills/` (or `/.well-known/agent-skills/`).
#
# `index.json` there lists the skills as `files`, or as one `url` with a `digest`.
#
# In the first, a file is at `<folder of the index>/<name>/<file>`.

FOLDERS = ("/.well-known/skills/", "/.well-known/agent-skills/")
INDEX = "index.json"
MOST_INDEX = 4 * 1024 * 1024
MOST_ARCHIVE = 2 * MOST_BYTES


class _WellKnownEntry(msgspec.Struct, frozen=True):
    name: str
    description: str = ""
    files: tuple[str, ...] = ()
    type: str = ""
    url: str = ""
    digest: str = ""


class Index(msgspec.Struct, frozen=True):
    skills: tuple[msgspec.Raw, ...]
    """Of an `Entry` each."""


class WellKnownSource:
    """`site` is the address of one site to browse; without it, a search must begin with one."""

    name = "well-known"

    def __init__(self, web: Web, warn: Warn, site: str = "", name: str = "well-known") -> None:
        self._web, self._warn, self._site, self.name = web, warn, site, name

    async def browse(self) -> list[Offer]:
        if not self._site:
            raise UsageError(
                "no site is named",
                hint="`hermes skills search https://example.com --source well-known`",
            )
        return await self._offers(self._site)

    async def search(self, query: str) -> list[Offer]:
        first, _, rest = query.partition(" ")
        if "://" in first:
            return matching(await self._offers(first), rest)
        return matching(await self.browse(), query)

    async def fetch(self, identifier: str) -> Fetched:
        site, name = split_site(identifier)
        entries, at = await self._index(site)
        entry = _entry(entries, name, host_of(site))
        if entry.files or not entry.url:
            files = await self._listed(entry, at)
            return Fetched(files, Origin("", f"{urljoin(at, _quoted(entry.name))}/"))
        address = urljoin(at, entry.url)
        check_redirect(at, address)
        return Fetched(await self._artifact(entry, address), Origin(entry.digest, address))

    async def version(self, identifier: str) -> str:
        site, name = split_site(identifier)
        entries, _ = await self._index(site)
        return _entry(entries, name, host_of(site)).digest

    async def _offers(self, site: str) -> list[Offer]:
        entries, at = await self._index(split_site(site)[0])
        folder = at.removesuffix(INDEX)
        return [
            Offer(self.name, f"{folder}{quote(entry.name)}", entry.name, entry.description)
            for entry in entries
            if entry.name.isprintable() and "/" not in entry.name
        ]

    async def _index(self, site: str) -> tuple[list[_WellKnownEntry], str]:
        """What the site offers, and the address of its index."""
        folders = [folder for folder in FOLDERS if folder in f"{site}/"] or FOLDERS
        for folder in folders:
            url = f"{site.partition(folder.rstrip('/'))[0].rstrip('/')}{folder}{INDEX}"
            reply = await self._web.get(url, most=MOST_INDEX)
            if reply.status == 404:
                continue
            self._check(reply, url)
            where = f"the index of {host_of(site)}"
            try:
                listed = msgspec.json.decode(reply.body, type=Index).skills
            except UNREADABLE as error:
                raise Unreachable(f"{where} is not one: {error}") from error
            return understood(listed, _WellKnownEntry, where, self._warn), reply.url
        raise NotThere(f"{host_of(site)} offers no skills", hint=f"it has no {FOLDERS[0]}{INDEX}")

    async def _listed(self, entry: _WellKnownEntry, index: str) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        for name in entry.files or (SKILL_FILE,):
            if is_hidden(safe_name(name)):
                continue
            url = urljoin(index, f"{_quoted(entry.name)}/{_quoted(name)}")
            reply = await self._web.get(url, most=MOST_BYTES)
            self._check(reply, url)
            files[name] = reply.body
            check_size(len(files), sum(map(len, files.values())))
        return files

    async def _artifact(self, entry: _WellKnownEntry, url: str) -> dict[str, bytes]:
        reply = await self._web.get(url, most=MOST_ARCHIVE)
        self._check(reply, url)
        found = f"sha256:{hashlib.sha256(reply.body).hexdigest()}"
        if found != entry.digest.lower():
            raise Unfit(
                f"{entry.name} is not what the index of {host_of(url)} says: its hash differs"
            )
        if entry.type == "archive":
            return _unwrapped(from_any(reply.body, lambda name: not is_hidden(name)))
        if entry.type == "skill-md":
            return {SKILL_FILE: reply.body}
        raise Unfit(f"{entry.name} is offered as {entry.type!r}, which is not known")

    @staticmethod
    def _check(reply: Reply, url: str) -> None:
        if reply.status != 200:
            path = urlsplit(url).path
            raise Unreachable(f"{host_of(url)} answered with status {reply.status} for {path}")


def is_site(text: str) -> bool:
    return text.startswith(("https://", "http://"))


def split_site(identifier: str) -> tuple[str, str]:
    """The site and the name of the skill there, which may be empty."""
    address, _, name = identifier.partition("#")
    address = address.removesuffix(f"/{SKILL_FILE}").removesuffix(f"/{INDEX}").rstrip("/")
    for folder in FOLDERS:
        before, found, after = address.partition(folder)
        if found:
            return before + folder.rstrip("/"), name or unquote(after.strip("/"))
    return address, name


def _entry(entries: Sequence[_WellKnownEntry], name: str, site: str) -> _WellKnownEntry:
    found = [entry for entry in entries if not name or entry.name == name]
    if len(found) == 1:
        return found[0]
    names = ", ".join(entry.name for entry in entries[:8])
    if found:
        raise NotThere(f"{site} offers {len(found)} skills", hint=f"add #NAME, one of {names}")
    raise NotThere(f"{site} offers no skill {name}", hint=f"it has {names}" if names else "")


def _unwrapped(files: dict[str, bytes]) -> dict[str, bytes]:
    """Without the one folder that everything in an archive may lie in."""
    tops = {name.partition("/")[0] for name in files}
    if len(tops) != 1 or not all("/" in name for name in files):
        return files
    return {name.partition("/")[2]: data for name, data in files.items()}


def _quoted(name: str) -> str:
    return quote(safe_name(name))

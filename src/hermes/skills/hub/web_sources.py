"""Sources on the web: Claude marketplaces, skills.sh and well-known addresses.

A marketplace is a GitHub repository with `.claude-plugin/marketplace.json`. Its skills are named
`claude-marketplace/<owner>/<repo>/<plugin>/<skill>`:

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
from hermes.skills.hub.contents import (
    DECODE_ERRORS,
    MAX_BYTES,
    HubError,
    InvalidContent,
    NotAvailable,
    SourceUnreachable,
    check_file_name,
    check_size,
    is_hidden,
    read_archive,
)
from hermes.skills.hub.repositories import GitHubRepos
from hermes.skills.hub.sources import (
    FetchedSkill,
    HubHttpClient,
    RepoPath,
    SkillOffer,
    SkillOrigin,
    SkillSource,
    WarnCallback,
    check_redirect,
    decode_entries,
    filter_offers,
    host_of,
    make_repo_path,
    parse_repo_path,
)
from hermes.skills.skill import SKILL_FILE
from hermes.util.http import HttpResponse

MARKETPLACE_PREFIX = "claude-marketplace/"
MARKETPLACE_FILE = ".claude-plugin/marketplace.json"


class _MarketplaceMetadata(msgspec.Struct, frozen=True, rename="camel"):
    plugin_root: str = ""


class _MarketplacePlugin(msgspec.Struct, frozen=True):
    name: str
    source: str | dict[str, Any] = "./"
    description: str = ""
    skills: str | tuple[str, ...] = ()


class _Marketplace(msgspec.Struct, frozen=True):
    plugins: tuple[_MarketplacePlugin, ...]
    metadata: _MarketplaceMetadata = _MarketplaceMetadata()


class MarketplaceSource(SkillSource):
    """The source `claude-marketplace`. `repo` is the marketplace to browse."""

    name = "claude-marketplace"

    def __init__(self, repos: GitHubRepos, repo: str = "") -> None:
        self._repos, self._repo = repos, repo

    async def browse(self) -> list[SkillOffer]:
        if not self._repo:
            raise UsageError(
                "no marketplace is named", hint=f"name one: {MARKETPLACE_PREFIX}<owner>/<repo>"
            )
        return await self._offers(self._repo)

    async def search(self, query: str) -> Sequence[SkillOffer]:
        first, _, rest = query.removeprefix(MARKETPLACE_PREFIX).partition(" ")
        if first.count("/") == 1:
            return filter_offers(await self._offers(parse_repo_path(first).repo), rest)
        return await super().search(query)

    async def fetch(self, identifier: str) -> FetchedSkill:
        found = await self._repos.fetch(await self._place(identifier))
        return replace(found, identifier=identifier)

    async def version(self, identifier: str) -> str:
        return await self._repos.version(await self._place(identifier))

    async def _place(self, identifier: str) -> RepoPath:
        """Return the repository path of a skill."""
        named = parse_repo_path(identifier.removeprefix(MARKETPLACE_PREFIX))
        wanted, _, skill = named.path.partition("/")
        if not wanted:
            raise UsageError(
                f"{identifier} does not name a plugin",
                hint=f"write {MARKETPLACE_PREFIX}<owner>/<repo>/<plugin>/<skill>",
            )
        market = await self._market(named.repo)
        plugin = next((one for one in market.plugins if one.name == wanted), None)
        if plugin is None:
            names = ", ".join(one.name for one in market.plugins[:8])
            raise NotAvailable(f"{named.repo} has no plugin {wanted}", hint=f"it has {names}")
        place = _plugin_path(plugin, market, named.repo)
        found = await self._skills(plugin, place)
        folders = [folder for folder, name in found if not skill or skill in (name, folder)]
        if len(folders) == 1:
            return RepoPath(place.repo, folders[0], place.ref)
        names = ", ".join(name for _, name in found[:8]) or "none"
        raise NotAvailable(f"{identifier} is not one skill", hint=f"the plugin has {names}")

    async def _offers(self, repo: str) -> list[SkillOffer]:
        market = await self._market(repo)
        offers: list[SkillOffer] = []
        for plugin in market.plugins:
            # A plugin in another repository is read only when it is chosen.
            is_here = isinstance(plugin.source, str)
            place = _plugin_path(plugin, market, repo) if is_here else None
            found = await self._skills(plugin, place) if place else [("", "")]
            for _, name in found:
                identifier = f"{MARKETPLACE_PREFIX}{repo}/{plugin.name}/{name}".rstrip("/")
                offers.append(
                    SkillOffer(self.name, identifier, name or plugin.name, plugin.description)
                )
        return offers

    async def _market(self, repo: str) -> _Marketplace:
        data = await self._repos.file(repo, MARKETPLACE_FILE)
        try:
            return msgspec.json.decode(data, type=_Marketplace)
        except DECODE_ERRORS as error:
            raise SourceUnreachable(
                f"the {MARKETPLACE_FILE} of {repo} cannot be read: {error}"
            ) from error

    async def _skills(self, plugin: _MarketplacePlugin, place: RepoPath) -> list[tuple[str, str]]:
        """Return folder and name of each of the plugin's skills."""
        listed = (plugin.skills,) if isinstance(plugin.skills, str) else plugin.skills
        starts = [_join_below(place.path, folder) for folder in listed or ("skills",)]
        return [
            (one.folder, one.name)
            for one in (await self._repos.skills(place.repo, place.ref)).skills
            if any(one.folder == start or one.folder.startswith(f"{start}/") for start in starts)
        ]


def _plugin_path(plugin: _MarketplacePlugin, market: _Marketplace, repo: str) -> RepoPath:
    if isinstance(plugin.source, str):
        root = market.metadata.plugin_root
        return RepoPath(repo, _join_below(_join_below("", root), plugin.source))
    kind, other = plugin.source.get("source"), str(plugin.source.get("repo", ""))
    if kind != "github" or not other:
        raise HubError(
            f"the plugin {plugin.name} has an unsupported source: {kind}",
            hint="install its skill by the address of its git repository",
        )
    owner, _, name = other.partition("/")
    return make_repo_path(owner, name, "", str(plugin.source.get("ref", "")))


def _join_below(folder: str, path: str) -> str:
    """Return `path` relative to `folder`. Raises `NotAvailable` when it leaves the repository."""
    parts = [part for part in PurePosixPath(folder, path.lstrip("/")).parts if part != "."]
    if ".." in parts:
        raise NotAvailable(f"the folder {path!r} leads out of its repository")
    return "/".join(parts)


# skills.sh: `skills-sh/<owner>/<repo>/<skill>`
#
# The only request is the one of its search page:
#
#     GET /api/search?q=WORDS&limit=N
#     {"skills": [{"id": "owner/repo/skill", "skillId": "skill", "name": "skill",
#                  "installs": 123, "source": "owner/repo"}, …]}
#
# The files come from the GitHub repository that it names.

SKILLS_SH_PREFIX = "skills-sh/"
MAX_RESULTS = 30


class _SkillsShEntry(msgspec.Struct, frozen=True, rename="camel"):
    id: str = ""
    skill_id: str = ""
    name: str = ""
    installs: int = 0
    source: str = ""


class _SkillsShResponse(msgspec.Struct, frozen=True):
    skills: tuple[msgspec.Raw, ...]  #: Each is a `_SkillsShEntry`.


class SkillsShSource(SkillSource):
    """The source `skills-sh`."""

    name = "skills-sh"

    def __init__(
        self, web: HubHttpClient, warn: WarnCallback, address: str, repos: GitHubRepos
    ) -> None:
        self._web, self._warn, self._address, self._repos = web, warn, address.rstrip("/"), repos

    async def browse(self) -> list[SkillOffer]:
        raise UsageError("skills.sh has too many to list", hint="search for a word instead")

    async def search(self, query: str) -> Sequence[SkillOffer]:
        reply = await self._web.get(
            f"{self._address}/api/search?{urlencode({'q': query, 'limit': MAX_RESULTS})}"
        )
        if reply.status != 200:
            raise SourceUnreachable(
                f"skills.sh answered with status {reply.status}", hint="try again"
            )
        try:
            listed = msgspec.json.decode(reply.body, type=_SkillsShResponse).skills[:MAX_RESULTS]
        except DECODE_ERRORS as error:
            raise SourceUnreachable(f"skills.sh sent an unexpected answer: {error}") from error
        found = decode_entries(listed, _SkillsShEntry, "skills.sh", self._warn)
        return [offer for entry in found if (offer := self._offer(entry)) is not None]

    async def fetch(self, identifier: str) -> FetchedSkill:
        return replace(await self._repos.fetch(skills_sh_path(identifier)), identifier=identifier)

    async def version(self, identifier: str) -> str:
        return await self._repos.version(skills_sh_path(identifier))

    def _offer(self, entry: _SkillsShEntry) -> SkillOffer | None:
        """Return None for a skill that is not at GitHub."""
        skill = entry.skill_id or entry.name or entry.id.rpartition("/")[2]
        identifier = f"{SKILLS_SH_PREFIX}{entry.source}/{skill}"
        try:
            skills_sh_path(identifier)
        except (UsageError, HubError):
            return None
        return SkillOffer(
            self.name, identifier, entry.name or skill, installs=max(entry.installs, 0)
        )


def skills_sh_path(identifier: str) -> RepoPath:
    place = parse_repo_path(identifier.removeprefix(SKILLS_SH_PREFIX))
    if not place.path:
        raise UsageError(
            f"{identifier} does not name a skill", hint="write skills-sh/<owner>/<repo>/<skill>"
        )
    return place


# Well-known: web sites with skills at `/.well-known/skills/` or `/.well-known/agent-skills/`
#
# `index.json` lists each skill with `files`, found at `<folder of the index>/<name>/<file>`, or
# with the `url` and `digest` of one file or archive.

WELL_KNOWN_FOLDERS = ("/.well-known/skills/", "/.well-known/agent-skills/")
INDEX_FILE = "index.json"
MAX_INDEX_BYTES = 4 * 1024 * 1024
MAX_ARCHIVE_BYTES = 2 * MAX_BYTES


class _WellKnownEntry(msgspec.Struct, frozen=True):
    name: str
    description: str = ""
    files: tuple[str, ...] = ()
    type: str = ""
    url: str = ""
    digest: str = ""


class _WellKnownIndex(msgspec.Struct, frozen=True):
    skills: tuple[msgspec.Raw, ...]  #: Each is a `_WellKnownEntry`.


class WellKnownSource(SkillSource):
    """The source `well-known`. Without `site`, a search must start with an address."""

    name = "well-known"

    def __init__(
        self, web: HubHttpClient, warn: WarnCallback, site: str = "", name: str = "well-known"
    ) -> None:
        self._web, self._warn, self._site, self.name = web, warn, site, name

    async def browse(self) -> list[SkillOffer]:
        if not self._site:
            raise UsageError(
                "no site is named",
                hint="`hermes skills search https://example.com --source well-known`",
            )
        return await self._offers(self._site)

    async def search(self, query: str) -> Sequence[SkillOffer]:
        first, _, rest = query.partition(" ")
        if "://" in first:
            return filter_offers(await self._offers(first), rest)
        return await super().search(query)

    async def fetch(self, identifier: str) -> FetchedSkill:
        site, name = split_site(identifier)
        entries, at = await self._index(site)
        entry = _find_entry(entries, name, host_of(site))
        if entry.files or not entry.url:
            files = await self._listed(entry, at)
            return FetchedSkill(files, SkillOrigin("", f"{urljoin(at, _quote_name(entry.name))}/"))
        address = urljoin(at, entry.url)
        check_redirect(at, address)
        return FetchedSkill(
            await self._artifact(entry, address), SkillOrigin(entry.digest, address)
        )

    async def version(self, identifier: str) -> str:
        site, name = split_site(identifier)
        entries, _ = await self._index(site)
        return _find_entry(entries, name, host_of(site)).digest

    async def _offers(self, site: str) -> list[SkillOffer]:
        entries, at = await self._index(split_site(site)[0])
        folder = at.removesuffix(INDEX_FILE)
        return [
            SkillOffer(self.name, f"{folder}{quote(entry.name)}", entry.name, entry.description)
            for entry in entries
            if entry.name.isprintable() and "/" not in entry.name
        ]

    async def _index(self, site: str) -> tuple[list[_WellKnownEntry], str]:
        """Return the entries of a site and the address of its index."""
        folders = [
            folder for folder in WELL_KNOWN_FOLDERS if folder in f"{site}/"
        ] or WELL_KNOWN_FOLDERS
        for folder in folders:
            url = f"{site.partition(folder.rstrip('/'))[0].rstrip('/')}{folder}{INDEX_FILE}"
            reply = await self._web.get(url, max_bytes=MAX_INDEX_BYTES)
            if reply.status == 404:
                continue
            self._check(reply, url)
            where = f"the index of {host_of(site)}"
            try:
                listed = msgspec.json.decode(reply.body, type=_WellKnownIndex).skills
            except DECODE_ERRORS as error:
                raise SourceUnreachable(f"{where} is not one: {error}") from error
            return decode_entries(listed, _WellKnownEntry, where, self._warn), reply.url
        raise NotAvailable(
            f"{host_of(site)} offers no skills",
            hint=f"it has no {WELL_KNOWN_FOLDERS[0]}{INDEX_FILE}",
        )

    async def _listed(self, entry: _WellKnownEntry, index: str) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        for name in entry.files or (SKILL_FILE,):
            if is_hidden(check_file_name(name)):
                continue
            url = urljoin(index, f"{_quote_name(entry.name)}/{_quote_name(name)}")
            reply = await self._web.get(url, max_bytes=MAX_BYTES)
            self._check(reply, url)
            files[name] = reply.body
            check_size(len(files), sum(map(len, files.values())))
        return files

    async def _artifact(self, entry: _WellKnownEntry, url: str) -> dict[str, bytes]:
        reply = await self._web.get(url, max_bytes=MAX_ARCHIVE_BYTES)
        self._check(reply, url)
        found = f"sha256:{hashlib.sha256(reply.body).hexdigest()}"
        if found != entry.digest.lower():
            raise InvalidContent(
                f"{entry.name} does not match the hash in the index of {host_of(url)}"
            )
        if entry.type == "archive":
            return _strip_top_folder(read_archive(reply.body, lambda name: not is_hidden(name)))
        if entry.type == "skill-md":
            return {SKILL_FILE: reply.body}
        raise InvalidContent(f"{entry.name} is offered as {entry.type!r}, which is not known")

    @staticmethod
    def _check(reply: HttpResponse, url: str) -> None:
        if reply.status != 200:
            path = urlsplit(url).path
            raise SourceUnreachable(
                f"{host_of(url)} answered with status {reply.status} for {path}"
            )


def is_site(text: str) -> bool:
    return text.startswith(("https://", "http://"))


def split_site(identifier: str) -> tuple[str, str]:
    """Return the site and the name of the skill, which may be ""."""
    address, _, name = identifier.partition("#")
    address = address.removesuffix(f"/{SKILL_FILE}").removesuffix(f"/{INDEX_FILE}").rstrip("/")
    for folder in WELL_KNOWN_FOLDERS:
        before, found, after = address.partition(folder)
        if found:
            return before + folder.rstrip("/"), name or unquote(after.strip("/"))
    return address, name


def _find_entry(entries: Sequence[_WellKnownEntry], name: str, site: str) -> _WellKnownEntry:
    found = [entry for entry in entries if not name or entry.name == name]
    if len(found) == 1:
        return found[0]
    names = ", ".join(entry.name for entry in entries[:8])
    if found:
        raise NotAvailable(f"{site} offers {len(found)} skills", hint=f"add #NAME, one of {names}")
    raise NotAvailable(f"{site} offers no skill {name}", hint=f"it has {names}" if names else "")


def _strip_top_folder(files: dict[str, bytes]) -> dict[str, bytes]:
    """Remove the top folder when all files of an archive are in it."""
    tops = {name.partition("/")[0] for name in files}
    if len(tops) != 1 or not all("/" in name for name in files):
        return files
    return {name.partition("/")[2]: data for name, data in files.items()}


def _quote_name(name: str) -> str:
    return quote(check_file_name(name))

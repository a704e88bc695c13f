"""Skills that a web site offers under `/.well-known/skills/` (or `/.well-known/agent-skills/`).

`index.json` there lists them, in one of two forms; both are read:

    {"skills": [{"name": "a", "description": "…", "files": ["SKILL.md", "scripts/x.py"]}]}
    {"skills": [{"name": "a", "description": "…", "type": "skill-md" | "archive",
                 "url": "a.zip", "digest": "sha256:…"}]}

In the first, a file is at `<folder of the index>/<name>/<file>`.
"""

import hashlib
from collections.abc import Sequence
from urllib.parse import quote, unquote, urljoin, urlsplit

import msgspec

from hermes.core.errors import UsageError
from hermes.skills.hub.archives import from_any
from hermes.skills.hub.contents import MOST_BYTES, check_size, is_hidden, safe_name
from hermes.skills.hub.errors import UNREADABLE, NotThere, Unfit, Unreachable
from hermes.skills.hub.sources.source import Fetched, Offer, Origin, Warn, matching, understood
from hermes.skills.hub.web import Reply, Web, check_redirect, host_of
from hermes.skills.skill import SKILL_FILE

FOLDERS = ("/.well-known/skills/", "/.well-known/agent-skills/")
INDEX = "index.json"
MOST_INDEX = 4 * 1024 * 1024
MOST_ARCHIVE = 2 * MOST_BYTES


class Entry(msgspec.Struct, frozen=True):
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

    async def _index(self, site: str) -> tuple[list[Entry], str]:
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
            return understood(listed, Entry, where, self._warn), reply.url
        raise NotThere(f"{host_of(site)} offers no skills", hint=f"it has no {FOLDERS[0]}{INDEX}")

    async def _listed(self, entry: Entry, index: str) -> dict[str, bytes]:
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

    async def _artifact(self, entry: Entry, url: str) -> dict[str, bytes]:
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


def _entry(entries: Sequence[Entry], name: str, site: str) -> Entry:
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

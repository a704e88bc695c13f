"""The directory skills.sh: `skills-sh/<owner>/<repo>/<skill>`.

It is asked one question, the one its own search page asks:

    GET /api/search?q=WORDS&limit=N
    {"skills": [{"id": "owner/repo/skill", "skillId": "skill", "name": "skill",
                 "installs": 123, "source": "owner/repo"}, …]}

The files themselves come from the repository at GitHub that it names.
"""

from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from hermes.core.errors import UsageError
from hermes.skills.hub.errors import UNREADABLE, HubError, Unreachable
from hermes.skills.hub.sources.github import GitHubRepos
from hermes.skills.hub.sources.repo_place import RepoPlace, parse_place
from hermes.skills.hub.sources.source import Fetched, Offer, Warn, understood
from hermes.skills.hub.web import Web

PREFIX = "skills-sh/"
MOST = 30


class Entry(msgspec.Struct, frozen=True, rename="camel"):
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
        found = understood(listed, Entry, "skills.sh", self._warn)
        return [offer for entry in found if (offer := self._offer(entry)) is not None]

    async def fetch(self, identifier: str) -> Fetched:
        return replace(await self._repos.fetch(place_of(identifier)), identifier=identifier)

    async def version(self, identifier: str) -> str:
        return await self._repos.version(place_of(identifier))

    def _offer(self, entry: Entry) -> Offer | None:
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

"""The interface of skill sources, and what all of them share: records, paths and HTTP."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from hermes.core.errors import ToolDenied, UsageError
from hermes.skills.hub.contents import (
    DECODE_ERRORS,
    HubError,
    ListedSkill,
    NotAvailable,
    SourceUnreachable,
    check_file_name,
)
from hermes.skills.skill import SKILL_FILE
from hermes.util.http import MAX_BYTES, HttpError, HttpResponse, fetch, is_loopback, make_client
from hermes.util.text import many

if TYPE_CHECKING:
    import httpx2


T = TypeVar("T")

WarnCallback = Callable[[str], None]
"""Receives problems of other systems that do not stop the command."""


class SkillOffer(msgspec.Struct, frozen=True):
    """A skill that a source offers."""

    source: str
    identifier: str  #: What `install` accepts.
    name: str
    description: str = ""
    installs: int = 0  #: Number of installations, if the source counts them.


class SkillOrigin(msgspec.Struct, frozen=True):
    """Where exactly the files came from."""

    version: str = ""  #: Commit, ETag or hash; "" when the source has none.
    address: str = ""  #: For display.


class SkillPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a skill comes from, and how far it is trusted."""

    identifier: str
    source: str
    trust: str
    origin: SkillOrigin
    verdict: str = ""  #: The verdict of the scan.


class FetchedSkill(msgspec.Struct, frozen=True):
    """The files of a fetched skill."""

    files: dict[str, bytes]
    origin: SkillOrigin
    provenance: str = ""
    """The basis of trust: the `owner/repo` at GitHub whose default branch it was, or `official`; ""
    when the place proves nothing."""
    category: str = ""  #: The category in the source.
    identifier: str = ""  #: The full identifier, if the requested one was abbreviated, else "".


class SkillSource(ABC):
    """A place from which skills can be installed."""

    name: str  #: The name that `--source` accepts.

    @abstractmethod
    async def browse(self) -> Sequence[SkillOffer]:
        """Return all offers. Raises `HubError` or `UsageError` when they cannot be listed."""

    async def search(self, query: str) -> Sequence[SkillOffer]:
        """Return the offers that match the words."""
        return filter_offers(await self.browse(), query)

    async def list_place(self, identifier: str) -> Sequence[SkillOffer]:
        """Return the skills of a folder or repository that may have several. Raises `HubError`."""
        raise UsageError(
            f"{identifier} does not say which skills it has", hint="install them one by one"
        )

    @abstractmethod
    async def fetch(self, identifier: str) -> FetchedSkill:
        """Return the files, not yet checked. Raises `HubError`."""

    @abstractmethod
    async def version(self, identifier: str) -> str:
        """Return what `SkillOrigin.version` would be now, or "" when only fetching tells."""


def filter_offers(offers: Iterable[SkillOffer], query: str) -> list[SkillOffer]:
    """Return the offers that contain every word; matches in the name come first."""
    words = query.lower().split()

    def text(offer: SkillOffer) -> str:
        return f"{offer.name} {offer.identifier} {offer.description}".lower()

    found = [offer for offer in offers if all(word in text(offer) for word in words)]
    named = {id(offer) for offer in found if any(word in offer.name.lower() for word in words)}
    return sorted(found, key=lambda offer: id(offer) not in named)


def decode_entries(
    entries: Sequence[msgspec.Raw], kind: type[T], where: str, warn: WarnCallback
) -> list[T]:
    """Decode a list, skipping invalid entries with one warning for all of them."""
    found: list[T] = []
    problems: list[str] = []
    for number, entry in enumerate(entries, 1):
        try:
            found.append(msgspec.json.decode(entry, type=kind))
        except DECODE_ERRORS as error:
            problems.append(f"number {number}: {error}")
    if problems:
        warn(f"{where}: {many(len(problems), 'skill')} left out, as not understood; {problems[0]}")
    return found


class SkillSearchResult(msgspec.Struct, frozen=True):
    """Offers of several sources, and the problems of those that failed."""

    offers: tuple[SkillOffer, ...]
    problems: tuple[str, ...] = ()


# Choosing a skill of a repository

MAX_LISTED = 2_000  #: Skills of one repository.
MAX_SKILL_BYTES = 512 * 1024  #: A larger SKILL.md is not listed.


def skill_folder_of(name: str) -> str | None:
    """Return the folder of a SKILL.md in a repository, or None for any other file.

    Hidden folders count: some collections keep their skills in `.curated`.
    """
    folder, _, file = name.rpartition("/")
    return folder if file == SKILL_FILE and ".git" not in folder.split("/") else None


def choose_folder(place: str, path: str, skills: Sequence[ListedSkill]) -> str:
    """Return the folder that `path` denotes: its full path, its end, the skill's name, or the only
    one.

    `place` is used in messages. Raises `NotAvailable`.
    """
    ways: tuple[Callable[[ListedSkill], bool], ...] = (
        lambda one: one.folder == path,
        lambda one: bool(path) and one.folder.endswith(f"/{path}"),
        lambda one: one.name == path,
        lambda _: not path,
    )
    for way in ways:
        found = [one for one in skills if way(one)]
        if len(found) == 1:
            return found[0].folder
        if found:
            names = ", ".join(one.folder or one.name for one in found[:8])
            every = "" if path else "; --all installs all of them"
            raise NotAvailable(
                f"{place} may be any of {len(found)} skills", hint=f"one of {names}{every}"
            )
    if not skills:
        raise NotAvailable(f"{place}: no {SKILL_FILE} is there")
    names = ", ".join(one.folder or one.name for one in skills[:8])
    raise NotAvailable(f"there is no skill {place}", hint=f"what is there: {names}")


# Repository paths: `owner/repo/path@ref`

_OWNER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})")
_REPO = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_REF = re.compile(r"(?!.*\.\.)(?![-/.])[A-Za-z0-9._/+-]{1,200}")


class RepoPath(msgspec.Struct, frozen=True):
    """A place in a GitHub repository."""

    repo: str  #: `owner/name`.
    path: str = ""  #: A folder in it, or the name of a skill.
    ref: str = ""  #: Branch, tag or commit; "" is the default branch.

    def __str__(self) -> str:
        place = f"{self.repo}/{self.path}" if self.path else self.repo
        return f"{place}@{self.ref}" if self.ref else place


def parse_repo_path(text: str, web: str = "") -> RepoPath:
    """Parse `owner/repo/path@ref`, or an address below `web`, the GitHub web site.

    Raises `UsageError`.
    """
    if web and text.startswith(f"{web}/"):
        return _parse_page_url(text, web)
    body, _, ref = text.partition("@")
    owner, _, rest = body.partition("/")
    repo, _, path = rest.strip("/").partition("/")
    return make_repo_path(owner, repo.removesuffix(".git"), path, ref)


def make_repo_path(owner: str, repo: str, path: str = "", ref: str = "") -> RepoPath:
    if not _OWNER.fullmatch(owner) or not _REPO.fullmatch(repo):
        raise UsageError(
            f"{owner}/{repo} is not a repository",
            hint="write owner/repo or owner/repo/path, for example anthropics/skills/skills/pdf",
        )
    if ref and not _REF.fullmatch(ref):
        raise UsageError(f"{ref!r} is not a branch, tag or commit")
    path = path.strip("/").removesuffix("SKILL.md").rstrip("/")
    return RepoPath(f"{owner}/{repo}", check_file_name(path) if path else "", ref)


def _parse_page_url(text: str, web: str) -> RepoPath:
    """Parse `https://github.com/owner/repo/tree/main/path`, as copied from a browser."""
    page = unquote(urlsplit(text.removeprefix(web)).path).strip("/")
    owner, repo, *rest = [*page.split("/"), "", ""][: page.count("/") + 3]
    rest = [part for part in rest if part]
    if rest[:1] in (["tree"], ["blob"]) and len(rest) > 1:
        return make_repo_path(owner, repo.removesuffix(".git"), "/".join(rest[2:]), rest[1])
    return make_repo_path(owner, repo.removesuffix(".git"), "/".join(rest))


# Addresses are data, so that a mirror, a private GitHub or a test can be used.


class HubAddresses(msgspec.Struct, frozen=True):
    """The addresses of all services."""

    github_api: str = "https://api.github.com"  #: The GitHub REST API, without a trailing slash.
    github_web: str = "https://github.com"
    """The GitHub web site, as in addresses copied from a browser."""
    skills_sh: str = "https://skills.sh"
    repositories: tuple[str, ...] = ("openai/skills", "anthropics/skills")
    """Repositories that `--source github` searches by default."""
    marketplaces: tuple[str, ...] = ("anthropics/claude-code", "anthropics/skills")
    """Repositories with a `.claude-plugin/marketplace.json`."""


# HTTP: HTTPS only, limited in size and time; a token is never sent to another host

RESPONSE_TIMEOUT = 300.0  #: For one complete response, so that a very slow server is given up.
USER_AGENT = "hermes-skills"


class HubHttpClient:
    """The HTTP client of one command."""

    def __init__(self, seconds: float = RESPONSE_TIMEOUT) -> None:
        """`seconds` limits the time for one complete response."""
        self._seconds = seconds
        self._client: httpx2.AsyncClient | None = None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def get(
        self, url: str, headers: Mapping[str, str] | None = None, *, max_bytes: int = MAX_BYTES
    ) -> HttpResponse:
        """Return the response with any status. Raises `SourceUnreachable`, also above `max_bytes`.

        Redirects stay within HTTPS and do not lead from outside into the local network. The header
        `Authorization` is not sent to another host.
        """
        return await self._fetch(
            "GET", url, headers, max_bytes=max_bytes, check_redirect=check_redirect
        )

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: Any
    ) -> HttpResponse:
        """Send `body` as JSON. A redirect is returned, not followed."""
        return await self._fetch(method, url, headers, json=body)

    async def _fetch(
        self, method: str, url: str, headers: Mapping[str, str] | None, **options: Any
    ) -> HttpResponse:
        check_address(url)
        self._client = self._client or make_client()
        sent = {"User-Agent": USER_AGENT, **(headers or {})}
        try:
            return await fetch(
                self._client, method, url, headers=sent, seconds=self._seconds, **options
            )
        except HttpError as error:
            hint = "check the network" if error.kind == "unreachable" else "try again"
            raise SourceUnreachable(f"{host_of(url)} {error}", hint=hint) from error


def decode_reply(reply: HttpResponse) -> Any:
    """Decode the body. Raises `SourceUnreachable` when it is not JSON."""
    try:
        return reply.json()
    except HttpError as error:
        raise SourceUnreachable(f"{host_of(reply.url)} {error}") from error


def check_address(url: str) -> None:
    """Accept HTTPS, and HTTP to this machine, without a password. Raises `HubError`."""
    parts = _split_url(url)
    if parts.username or parts.password:
        raise HubError("an address with a password is not accepted", hint="leave it out")
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and is_loopback(parts.hostname or ""):
        return
    raise HubError(f"{host_of(url)} is not reached over https", hint="begin it with https://")


def check_redirect(before: str, after: str) -> None:
    """Check whether `before` may redirect to `after`. Raises `HubError`."""
    old, new = _split_url(before), _split_url(after)
    if new.scheme != "https" and (old.scheme, new.scheme) != ("http", "http"):
        raise HubError(f"{old.hostname} redirects to an address without https, which is refused")
    check_address(after)
    if old.hostname != new.hostname:
        from hermes.security import UrlGuard

        try:
            UrlGuard().check(after)
        except ToolDenied as error:
            raise HubError(f"{old.hostname} redirects to a forbidden address: {error}") from error


def host_of(url: str) -> str:
    """Return the host for messages, without parts of the address that may be secret."""
    return _split_url(url).hostname or "the address"


def _split_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError for an invalid port
    except ValueError as error:
        raise HubError(f"this is not an address: {error}") from error
    return parts

"""What every source of skills can do, and what it hands over."""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import msgspec

from hermes.core.errors import HermesError, ToolDenied, UsageError
from hermes.skills.hub.contents import (
    DECODE_ERRORS,
    HubError,
    NotAvailable,
    SourceUnreachable,
    check_file_name,
)
from hermes.skills.skill import SKILL_FILE
from hermes.util.text import many

if TYPE_CHECKING:
    import httpx2


T = TypeVar("T")

WarnCallback = Callable[[str], None]
"""Told what is wrong somewhere else, but stops nobody."""


class SkillOffer(msgspec.Struct, frozen=True):
    """A skill that can be had."""

    source: str
    identifier: str
    """What `install` takes."""
    name: str
    description: str = ""
    installs: int = 0
    """How often others installed it, where the source counts."""


class SkillOrigin(msgspec.Struct, frozen=True):
    """Where exactly the files came from."""

    version: str = ""
    """Commit, tag of the answer, or hash; "" where a place has none."""
    address: str = ""
    """For a person."""


class FetchedSkill(msgspec.Struct, frozen=True):
    files: dict[str, bytes]
    origin: SkillOrigin
    provenance: str = ""
    """Where trust comes from: the `owner/repo` at GitHub whose default branch it was, or
    `official`; "" when the place proves nothing."""
    category: str = ""
    """What the source files it under."""
    identifier: str = ""
    """The identifier in full, when what was asked for was short; "" when it was not."""


class SkillSource(Protocol):
    @property
    def name(self) -> str:
        """As `--source` takes it."""

    async def browse(self) -> Sequence[SkillOffer]:
        """Everything it has. Raises `HubError` where that cannot be known."""

    async def search(self, query: str) -> Sequence[SkillOffer]:
        """What fits the words."""

    async def fetch(self, identifier: str) -> FetchedSkill:
        """The files, not yet looked at. Raises `HubError`."""

    async def version(self, identifier: str) -> str:
        """What `Origin.version` would be now, cheaply; "" when only fetching tells."""


def filter_offers(offers: Iterable[SkillOffer], query: str) -> list[SkillOffer]:
    """Those that hold every word, the ones with a word in their name first."""
    words = query.lower().split()

    def text(offer: SkillOffer) -> str:
        return f"{offer.name} {offer.identifier} {offer.description}".lower()

    found = [offer for offer in offers if all(word in text(offer) for word in words)]
    named = {id(offer) for offer in found if any(word in offer.name.lower() for word in words)}
    return sorted(found, key=lambda offer: id(offer) not in named)


def decode_entries(
    entries: Sequence[msgspec.Raw], kind: type[T], where: str, warn: WarnCallback
) -> list[T]:
    """The entries of a list without those that are not a `kind`: one must not hide the others."""
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


class SearchResult(msgspec.Struct, frozen=True):
    """Offers of several sources, and what went wrong at others."""

    offers: tuple[SkillOffer, ...]
    problems: tuple[str, ...] = ()


def describe_problem(source: str, error: HermesError) -> str:
    return f"{source}: {error}" + (f" ({error.hint})" if error.hint else "")


# Which of the skills in a repository is meant.

MAX_LISTED = 2_000
"""Skills of one repository."""
MAX_SKILL_BYTES = 512 * 1024
"""A larger SKILL.md is not listed."""


class ListedSkill(msgspec.Struct, frozen=True):
    folder: str
    """In the repository; "" is the top."""
    name: str
    description: str


def skill_folder_of(name: str) -> str | None:
    """The folder, when the file `name` of a repository makes it one of a skill.

    Hidden folders count: some collections keep their skills in `.curated`.
    """
    folder, _, file = name.rpartition("/")
    return folder if file == SKILL_FILE and ".git" not in folder.split("/") else None


def choose_folder(place: str, path: str, skills: Sequence[ListedSkill]) -> str:
    """The folder that `path` means: the whole of it, its end, the skill's name, or the only one.

    `place` is what messages call it. Raises `NotThere`.
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
            raise NotAvailable(f"{place} may be any of {len(found)} skills", hint=f"one of {names}")
    if not skills:
        raise NotAvailable(f"{place}: no {SKILL_FILE} is there")
    names = ", ".join(one.folder or one.name for one in skills[:8])
    raise NotAvailable(f"there is no skill {place}", hint=f"what is there: {names}")


# `owner/repo/path@ref`: a place in a repository of GitHub.

_OWNER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})")
_REPO = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_REF = re.compile(r"(?!.*\.\.)(?![-/.])[A-Za-z0-9._/+-]{1,200}")


class RepoPath(msgspec.Struct, frozen=True):
    repo: str
    """`owner/name`."""
    path: str = ""
    """A folder in it, or the name of a skill."""
    ref: str = ""
    """Branch, tag or commit; "" is the default branch."""

    def __str__(self) -> str:
        place = f"{self.repo}/{self.path}" if self.path else self.repo
        return f"{place}@{self.ref}" if self.ref else place


def parse_repo_path(text: str, web: str = "") -> RepoPath:
    """The place that `text` names; `web` is where people browse GitHub. Raises `UsageError`."""
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
    """`https://github.com/owner/repo/tree/main/path`, as copied from a browser."""
    page = unquote(urlsplit(text.removeprefix(web)).path).strip("/")
    owner, repo, *rest = [*page.split("/"), "", ""][: page.count("/") + 3]
    rest = [part for part in rest if part]
    if rest[:1] in (["tree"], ["blob"]) and len(rest) > 1:
        return make_repo_path(owner, repo.removesuffix(".git"), "/".join(rest[2:]), rest[1])
    return make_repo_path(owner, repo.removesuffix(".git"), "/".join(rest))


# Where the services are. Data, so that a mirror, a company's own GitHub or a test can be used.


class HubAddresses(msgspec.Struct, frozen=True):
    github_api: str = "https://api.github.com"
    """The REST API of GitHub, without a slash at the end."""
    github_web: str = "https://github.com"
    """Addresses of repositories that people copy from a browser."""
    skills_sh: str = "https://skills.sh"
    repositories: tuple[str, ...] = ("openai/skills", "anthropics/skills")
    """Repositories `--source github` looks in when no other is named."""
    marketplaces: tuple[str, ...] = ("anthropics/claude-code", "anthropics/skills")
    """Repositories with a `.claude-plugin/marketplace.json`."""


# HTTP for the hub: HTTPS only, limited in size and time, and a token never leaves its host.

TIMEOUT = 30.0
CONNECT_TIMEOUT = 10.0
RESPONSE_TIMEOUT = 300.0
"""For one whole answer: a server that sends a byte now and then is not waited for."""
MAX_REDIRECTS = 5
MAX_JSON_BYTES = 8 * 1024 * 1024
"""Bytes of an answer that is no archive."""
USER_AGENT = "hermes-skills"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
REDIRECT_STATUSES = (301, 302, 303, 307, 308)


class HubResponse(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    url: str = ""
    """Where it came from in the end."""

    def json(self) -> Any:
        """Raises `Unreachable` when it is none."""
        try:
            return msgspec.json.decode(self.body)
        except DECODE_ERRORS as error:
            raise SourceUnreachable(f"the answer is not JSON: {error}") from error


class HubHttpClient:
    """One client for one run of a command; the connection machinery is loaded at first use."""

    def __init__(self, seconds: float = RESPONSE_TIMEOUT) -> None:
        """`seconds` are for one whole answer."""
        self._seconds = seconds
        self._client: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> "HubHttpClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def get(
        self, url: str, headers: Mapping[str, str] | None = None, *, max_bytes: int = MAX_JSON_BYTES
    ) -> HubResponse:
        """The answer, whatever its status. Raises `Unreachable`, also beyond `most` bytes.

        Redirects stay within HTTPS and do not lead from outside to an address of this network;
        on another host the header `Authorization` is left off.
        """
        sent = dict(headers or {})
        for _ in range(MAX_REDIRECTS + 1):
            reply = await self._send("GET", url, sent, None, max_bytes)
            if reply.status not in REDIRECT_STATUSES or "location" not in reply.headers:
                return reply
            before, url = url, urljoin(url, reply.headers["location"])
            check_redirect(before, url)
            if _host_key(before) != _host_key(url):
                sent = {name: v for name, v in sent.items() if name.lower() != "authorization"}
        raise SourceUnreachable(f"{host_of(url)} redirects in a circle")

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: Any
    ) -> HubResponse:
        """Sends `body` as JSON. A redirect is not followed: it is the answer."""
        return await self._send(method, url, headers, msgspec.json.encode(body), MAX_JSON_BYTES)

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, max_bytes: int
    ) -> HubResponse:
        check_address(url)
        client = self._open_client()
        http: Any = import_module("httpx2")
        try:
            async with (
                asyncio.timeout(self._seconds),
                client.stream(method, url, headers=dict(headers), content=body) as response,
            ):
                data = bytearray()
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) > max_bytes:
                        limit = f"{max_bytes // 1024**2} MiB"
                        raise SourceUnreachable(f"{host_of(url)} sends more than {limit}")
                return HubResponse(response.status_code, dict(response.headers), bytes(data), url)
        except (http.TimeoutException, TimeoutError) as error:
            raise SourceUnreachable(
                f"{host_of(url)} did not answer in time", hint="try again"
            ) from error
        except (http.HTTPError, http.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise SourceUnreachable(
                f"{host_of(url)} cannot be reached: {reason}", hint="check the network"
            ) from error

    def _open_client(self) -> "httpx2.AsyncClient":
        client = self._client
        if client is None:
            http: Any = import_module("httpx2")  # slow to load, and most commands do without
            late_tls: Any = import_module("hermes.util.late_tls")
            client = self._client = http.AsyncClient(
                timeout=http.Timeout(TIMEOUT, connect=CONNECT_TIMEOUT),
                verify=late_tls.LateTls(),
                headers={"User-Agent": USER_AGENT},
                follow_redirects=False,
            )
        return client


def check_address(url: str) -> None:
    """HTTPS, or HTTP to this machine; no password in it. Raises `HubError`."""
    parts = _split_url(url)
    if parts.username or parts.password:
        raise HubError("an address with a password in it is not used", hint="leave it out")
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname in LOOPBACK:
        return
    raise HubError(f"{host_of(url)} is not reached over https", hint="begin it with https://")


def check_redirect(before: str, after: str) -> None:
    """Whether `before` may send us to `after`. Raises `HubError`."""
    old, new = _split_url(before), _split_url(after)
    if new.scheme != "https" and (old.scheme, new.scheme) != ("http", "http"):
        raise HubError(f"{old.hostname} leads to a place without https, which is not followed")
    check_address(after)
    if old.hostname != new.hostname:
        guard: Any = import_module("hermes.security.urls")
        try:
            guard.UrlGuard().check(after)
        except ToolDenied as error:
            raise HubError(f"{old.hostname} leads to a place it must not: {error}") from error


def host_of(url: str) -> str:
    """For messages: the host alone, without what may be secret around it."""
    return _split_url(url).hostname or "the address"


def _host_key(url: str) -> tuple[str, str, int | None]:
    parts = _split_url(url)
    return parts.scheme, parts.hostname or "", parts.port


def _split_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # a bad one is noticed when it is asked for
    except ValueError as error:
        raise HubError(f"this is not an address: {error}") from error
    return parts

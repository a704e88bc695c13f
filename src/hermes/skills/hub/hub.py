"""Find, fetch, look at, install and remove skills."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from hermes.core.errors import HermesError, UsageError
from hermes.skills.hub.audit_log import Event
from hermes.skills.hub.contents import checked, hashes, whole_hash
from hermes.skills.hub.differences import difference
from hermes.skills.hub.endpoints import Endpoints
from hermes.skills.hub.errors import NotThere, Refused, Unfit
from hermes.skills.hub.heads import category_name, skill_in
from hermes.skills.hub.lockfile import Entry
from hermes.skills.hub.quarantine import Held, Quarantine
from hermes.skills.hub.shelf import Shelf, utc_now
from hermes.skills.hub.sources.git_url import GitSource
from hermes.skills.hub.sources.github import GitHubRepos
from hermes.skills.hub.sources.github_api import GitHubApi
from hermes.skills.hub.sources.registry import (
    LISTED_BY_DEFAULT,
    SEARCHED_BY_DEFAULT,
    Sources,
)
from hermes.skills.hub.sources.source import (
    HubSource,
    Offer,
    Origin,
    Partly,
    problem_of,
)
from hermes.skills.hub.sources.taps import Taps
from hermes.skills.hub.trusting import trust_in
from hermes.skills.hub.web import Web
from hermes.skills.scanner import Finding, Report, scan_files
from hermes.skills.scanner.trust import Decision, Trust, decide
from hermes.skills.skill import Skill


class HubOptions(msgspec.Struct, frozen=True):
    root: Path
    """`<home>/skills/.hub`."""
    official: Path | None = None
    """The folder of optional skills that come with Hermes."""
    token: str = ""
    """The variable GITHUB_TOKEN, or GH_TOKEN."""
    git: str | None = None
    """The git program."""
    ssh_agent: str = ""
    """The variable SSH_AUTH_SOCK."""
    endpoints: Endpoints = Endpoints()


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that was fetched and looked at, and waits in quarantine."""

    skill: Skill
    identifier: str
    source: str
    files: dict[str, bytes]
    origin: Origin
    category: str
    trust: Trust
    report: Report
    staged: Path
    installed: Entry | None
    """What the lock says of a skill of this name."""
    current: dict[str, bytes]
    """The files of that one."""

    @property
    def name(self) -> str:
        return self.skill.name

    @property
    def sha256(self) -> str:
        return whole_hash(hashes(self.files))

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.report.findings

    @property
    def changed_here(self) -> tuple[str, ...]:
        """Installed files with changes that this version would replace."""
        known = self.installed.files if self.installed else {}
        now = hashes(self.current)
        return tuple(name for name, each in now.items() if known.get(name) != each)

    @property
    def difference(self) -> str:
        return difference(self.current, self.files)

    def decision(self, *, force: bool = False) -> Decision:
        return decide(self.report, self.trust, force)


def _nobody(_name: str) -> str:
    return ""


class Hub:
    """One run of a command. Use it as a context manager: it holds connections.

    `elsewhere` says where a skill of a name lies that is not of the hub (`bundled`, `external`),
    or "": an installed one would take its place.
    """

    def __init__(self, options: HubOptions, elsewhere: Callable[[str], str] = _nobody) -> None:
        self.options = options
        self.shelf = Shelf(options.root)
        self.quarantine = Quarantine(self.shelf.quarantine)
        self._elsewhere = elsewhere
        self._web = Web()
        ends = options.endpoints
        self.api = GitHubApi(self._web, ends.github_api, options.token)
        repos = GitHubRepos(self.api, self.shelf.index, ends.github_web)
        self.taps = Taps(self.shelf.taps_file, ends.github_web)
        git = GitSource(options.git, options.ssh_agent)
        self._warnings: list[str] = []
        self.sources = Sources(
            self._web, ends, repos, self.taps, git, options.official, self._warnings.append
        )

    async def __aenter__(self) -> "Hub":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._web.__aexit__(kind, error, trace)

    async def browse(self, source: str = "") -> Partly:
        """What there is, without asking everybody when no source is named."""
        asked = self.sources.named(source) if source else self.sources.listing(LISTED_BY_DEFAULT)
        return await self._asked_all(asked, lambda one: one.browse())

    async def search(self, query: str, source: str = "") -> Partly:
        asked = (
            self.sources.named(source, query)
            if source
            else self.sources.listing(SEARCHED_BY_DEFAULT)
        )
        return await self._asked_all(asked, lambda one: one.search(query))

    async def _asked_all(
        self,
        sources: Sequence[HubSource],
        ask: Callable[[HubSource], Awaitable[Sequence[Offer]]],
    ) -> Partly:
        found = await _gathered(sources, ask)
        return Partly(found.offers, (*found.problems, *self.warnings()))

    def warnings(self) -> list[str]:
        """What sources said that is not quite right, once."""
        said = list(dict.fromkeys(self._warnings))
        self._warnings.clear()
        return said

    async def prepare(self, identifier: str, source: str = "", category: str = "") -> Candidate:
        """Fetches a skill into quarantine and scans it there. Nothing is installed yet."""
        if category and not category_name(category):
            raise UsageError(f"{category!r} cannot be a category", hint="letters, digits, - and _")
        found, identifier = self.sources.of(identifier, source)
        fetched = await found.fetch(identifier)
        identifier = fetched.identifier or identifier
        files = checked(fetched.files)
        skill = skill_in(files, identifier.rstrip("/").rpartition("/")[2])
        # An interrupted change is ended first: what it staged may be old enough to be swept.
        installed = self.shelf.lock().skills.get(skill.name)
        staged = self.quarantine.stage(skill.name, files)
        wanted = category or fetched.category or skill.category
        return Candidate(
            skill=skill,
            identifier=identifier,
            source=found.name,
            files=files,
            origin=fetched.origin,
            category=installed.category if installed and not category else category_name(wanted),
            trust=trust_in(found.name, fetched, self.options.endpoints),
            report=scan_files(self.quarantine.files(staged)),
            staged=staged,
            installed=installed,
            current=self.files_of(skill.name, installed) if installed else {},
        )

    def check_name(self, candidate: Candidate, *, force: bool = False) -> None:
        """Raises `UsageError` when the name belongs to another skill."""
        name, held = candidate.name, candidate.installed
        if held and (held.source, held.identifier) != (candidate.source, candidate.identifier):
            raise UsageError(
                f"{name} is installed already, from {held.identifier}",
                hint=f"`hermes skills uninstall {name}` removes that one first",
            )
        where = "" if held else self._elsewhere(name)
        if where and not force:
            raise UsageError(
                f"it would take the place of the {where} skill {name}",
                hint="--force installs it all the same",
            )

    def accept(self, candidate: Candidate, *, force: bool = False) -> Entry:
        """Installs it. Raises `Refused` when the rules say no; it then stays in quarantine."""
        decision = candidate.decision(force=force)
        if not decision.allowed:
            self.refuse(candidate, decision.reason)
            raise Refused(f"{candidate.name} was not installed: {decision.reason}")
        self.check_name(candidate, force=force)
        with self.shelf.held():
            now = self.shelf.lock_now().skills.get(candidate.name)
            if now != candidate.installed:
                raise Refused(f"{candidate.name} was changed by somebody else", hint="try again")
            if self.quarantine.files(candidate.staged) != candidate.files:
                raise Unfit(f"{candidate.name} was changed after the scan; nothing was installed")
            entry = _entry_of(candidate)
            what = "updated" if candidate.installed else "installed"
            event = _event(what, candidate, entry.updated_at or entry.installed_at)
            self.shelf.put(candidate.name, entry, candidate.staged, event)
        self.quarantine.discard(candidate.staged)
        self.quarantine.forget(candidate.source, candidate.identifier)
        return entry

    def refuse(self, candidate: Candidate, reason: str) -> None:
        """Leaves it in quarantine, to be looked at."""
        at = utc_now()
        held = Held(
            name=candidate.name,
            source=candidate.source,
            identifier=candidate.identifier,
            trust=str(candidate.trust),
            origin=candidate.origin,
            verdict=candidate.report.verdict,
            reason=reason,
            at=at,
            findings=candidate.findings,
        )
        self.quarantine.keep(candidate.staged, held)
        self.shelf.note(_event("refused", candidate, at, reason))

    def uninstall(self, name: str) -> Entry:
        with self.shelf.held():
            entry = self.shelf.lock_now().skills.get(name)
            if entry is None:
                raise self.not_installed(name)
            event = Event(
                at=utc_now(),
                what="removed",
                skill=name,
                source=entry.source,
                identifier=entry.identifier,
            )
            self.shelf.drop(name, entry, event)
        return entry

    def installed(self, name: str) -> Entry:
        entry = self.shelf.lock().skills.get(name)
        if entry is None:
            raise self.not_installed(name)
        return entry

    def files_of(self, name: str, entry: Entry) -> dict[str, bytes]:
        """The files as they lie there; none when they cannot be read."""
        folder = entry.folder(self.shelf.skills, name)
        try:
            return self.quarantine.files(folder) if folder.is_dir() else {}
        except (OSError, Unfit):
            return {}

    def not_installed(self, name: str) -> NotThere:
        names = ", ".join(sorted(self.shelf.lock_now().skills)[:8])
        hint = f"installed are {names}" if names else "nothing is installed from the hub"
        return NotThere(f"{name} is not installed from the hub", hint=hint)


def _entry_of(candidate: Candidate) -> Entry:
    now, before = utc_now(), candidate.installed
    return Entry(
        identifier=candidate.identifier,
        source=candidate.source,
        trust=str(candidate.trust),
        origin=candidate.origin,
        category=candidate.category,
        files=hashes(candidate.files),
        sha256=candidate.sha256,
        verdict=candidate.report.verdict,
        installed_at=before.installed_at if before else now,
        updated_at=now if before else "",
    )


def _event(what: str, candidate: Candidate, at: str, reason: str = "") -> Event:
    return Event(
        at=at,
        what=what,
        skill=candidate.name,
        source=candidate.source,
        identifier=candidate.identifier,
        version=candidate.origin.version,
        sha256=candidate.sha256,
        verdict=candidate.report.verdict,
        reason=reason,
    )


async def _gathered(
    sources: Sequence[HubSource], ask: Callable[[HubSource], Awaitable[Sequence[Offer]]]
) -> Partly:
    """All of them asked at once. When nobody answers, the error of the first is raised."""
    answers = await asyncio.gather(*map(ask, sources), return_exceptions=True)
    offers: dict[str, Offer] = {}
    problems: list[str] = []
    errors: list[HermesError] = []
    for source, answer in zip(sources, answers, strict=True):
        if isinstance(answer, HermesError):
            errors.append(answer)
            problems.append(problem_of(source.name, answer))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            offers.update(
                {offer.identifier: offer for offer in answer if offer.identifier not in offers}
            )
    if errors and len(errors) == len(sources):
        raise errors[0]
    return Partly(tuple(offers.values()), tuple(dict.fromkeys(problems)))

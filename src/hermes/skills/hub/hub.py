"""The hub: search, fetch, scan, install, update, audit and remove skills."""

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes.core.errors import HermesError, UsageError
from hermes.skills.hub.contents import (
    InstallRefused,
    InvalidContent,
    NotAvailable,
    SkillFiles,
    check_files,
    combined_hash,
    file_hashes,
    normalize_category,
    parse_files,
    read_folder,
)
from hermes.skills.hub.registry import DEFAULT_BROWSED, DEFAULT_SEARCHED, SourceRegistry, TapList
from hermes.skills.hub.repositories import GitHubApi, GitHubRepos, GitSource
from hermes.skills.hub.sources import (
    FetchedSkill,
    HubAddresses,
    HubHttpClient,
    SkillOffer,
    SkillPlace,
    SkillSearchResult,
    SkillSource,
)
from hermes.skills.hub.store import (
    AuditEvent,
    HubStore,
    InstalledSkill,
    Quarantine,
    RefusedSkill,
    audit_event,
    utc_now,
)
from hermes.skills.scanner import scan_files
from hermes.skills.scanner.report import (
    InstallDecision,
    ScanFinding,
    ScanReport,
    SourceTrust,
    decide_install,
    trust_for,
)
from hermes.skills.skill import SKILL_FILE, Skill
from hermes.util.text import human_size, many

# Trust

GITHUB_SOURCES = frozenset({"github", "skills-sh", "tap", "claude-marketplace"})
"""Sources whose files come from GitHub, where the repository decides about trust."""


def source_trust(source: str, fetched: FetchedSkill, addresses: HubAddresses) -> SourceTrust:
    """Return how far the place of a fetched skill is trusted; without provenance, as community."""
    if not fetched.provenance:
        return SourceTrust.COMMUNITY
    if source not in GITHUB_SOURCES:
        return trust_for(source, fetched.provenance)
    # A trusted name at GitHub may belong to another owner at a server with the same API.
    genuine = addresses.github_api == HubAddresses().github_api
    return trust_for("github", fetched.provenance) if genuine else SourceTrust.COMMUNITY


# Diffs

MAX_DIFF_LINES = 400
DIFF_CONTEXT = 3


def diff_files(old: SkillFiles, new: SkillFiles) -> str:
    """Return a unified diff of all files, cut at `MAX_DIFF_LINES`; "" when nothing differs."""
    lines: list[str] = []
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            lines += _diff_file(name, old.get(name), new.get(name))
    if len(lines) > MAX_DIFF_LINES:
        rest = len(lines) - MAX_DIFF_LINES
        lines = [*lines[:MAX_DIFF_LINES], f"… {many(rest, 'more line')}"]
    return "\n".join(lines)


def summarize_changes(old: SkillFiles, new: SkillFiles) -> str:
    """Return a text such as `2 changed, 1 added`."""
    counts = {
        "changed": sum(name in old and old[name] != data for name, data in new.items()),
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
    }
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    return ", ".join(parts) or "nothing changed"


def _diff_file(name: str, old: bytes | None, new: bytes | None) -> list[str]:
    before, after = _text_lines(old), _text_lines(new)
    if before is None or after is None:
        sizes = ["nothing" if data is None else human_size(len(data)) for data in (old, new)]
        return [f"binary {name}: {sizes[0]} → {sizes[1]}"]
    was = "/dev/null" if old is None else f"a/{name}"
    now = "/dev/null" if new is None else f"b/{name}"
    return list(difflib.unified_diff(before, after, was, now, n=DIFF_CONTEXT, lineterm=""))


def _text_lines(data: bytes | None) -> list[str] | None:
    """Return the lines of a file, or None for binary data."""
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.splitlines()


class HubOptions(msgspec.Struct, frozen=True):
    """Paths, programs and secrets that the hub needs."""

    root: Path  #: `<home>/skills/.hub`.
    official: Path | None = None  #: The folder of the optional skills that come with Hermes.
    token: str = ""  #: GITHUB_TOKEN or GH_TOKEN.
    git: str | None = None  #: The git program.
    ssh_agent: str = ""  #: SSH_AUTH_SOCK.
    addresses: HubAddresses = HubAddresses()


class InstallCandidate(SkillPlace, frozen=True, kw_only=True):
    """A skill that was fetched and scanned, and waits in quarantine."""

    skill: Skill
    trust: SourceTrust
    files: dict[str, bytes]
    category: str
    report: ScanReport
    staged: Path
    installed: InstalledSkill | None  #: The lock entry of the installed skill with this name.
    current: dict[str, bytes]  #: The files of that skill.

    @property
    def name(self) -> str:
        return self.skill.name

    @property
    def sha256(self) -> str:
        return combined_hash(file_hashes(self.files))

    @property
    def findings(self) -> tuple[ScanFinding, ...]:
        return self.report.findings

    @property
    def locally_changed(self) -> tuple[str, ...]:
        """The installed files with local changes that this version would overwrite."""
        known = self.installed.files if self.installed else {}
        now = file_hashes(self.current)
        return tuple(name for name, each in now.items() if known.get(name) != each)

    @property
    def difference(self) -> str:
        return diff_files(self.current, self.files)

    def decision(self, *, force: bool = False) -> InstallDecision:
        return decide_install(self.report, self.trust, force)


class Hub:
    """The hub for one command. It holds connections, so use it as a context manager.

    `other_source` returns where a skill of a name outside the hub is (`bundled`, `external`), or
    "". An installed skill would take precedence over it.
    """

    def __init__(
        self, options: HubOptions, other_source: Callable[[str], str] = lambda _name: ""
    ) -> None:
        self.options = options
        self.store = HubStore(options.root)
        self.quarantine = Quarantine(self.store.quarantine)
        self._other_source = other_source
        self._web = HubHttpClient()
        addresses = options.addresses
        self.api = GitHubApi(self._web, addresses.github_api, options.token)
        repos = GitHubRepos(self.api, self.store.index, addresses.github_web)
        self.taps = TapList(self.store.taps_file, addresses.github_web)
        git = GitSource(options.git, options.ssh_agent)
        self._warnings: list[str] = []
        self.sources = SourceRegistry(
            self._web, addresses, repos, self.taps, git, options.official, self._warnings.append
        )

    async def __aenter__(self) -> "Hub":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._web.close()

    async def browse(self, source: str = "") -> SkillSearchResult:
        """Return all offers of a source, or of those that are cheap to query."""
        return await self._ask_all(source, "", DEFAULT_BROWSED, lambda one: one.browse())

    async def search(self, query: str, source: str = "") -> SkillSearchResult:
        return await self._ask_all(source, query, DEFAULT_SEARCHED, lambda one: one.search(query))

    async def _ask_all(
        self,
        name: str,
        query: str,
        default: Sequence[str],
        ask: Callable[[SkillSource], Awaitable[Sequence[SkillOffer]]],
    ) -> SkillSearchResult:
        """Query all sources at once. When all of them fail, the first error is raised."""
        found = self.sources
        sources = found.named(name, query) if name else found.sources_for(default)
        answers = await asyncio.gather(*map(ask, sources), return_exceptions=True)
        offers: dict[str, SkillOffer] = {}
        problems: list[str] = []
        errors: list[HermesError] = []
        for source, answer in zip(sources, answers, strict=True):
            if isinstance(answer, HermesError):
                errors.append(answer)
                hint = f" ({answer.hint})" if answer.hint else ""
                problems.append(f"{source.name}: {answer}{hint}")
            elif isinstance(answer, BaseException):
                raise answer
            else:
                for offer in answer:
                    offers.setdefault(offer.identifier, offer)
        if errors and len(errors) == len(sources):
            raise errors[0]
        return SkillSearchResult(
            tuple(offers.values()), (*dict.fromkeys(problems), *self.warnings())
        )

    async def list_place(self, identifier: str, source: str = "") -> Sequence[SkillOffer]:
        """Return the skills of a folder or repository. Raises `UsageError` if it has none."""
        found, identifier = self.sources.resolve(identifier, source, is_place=True)
        offers = await found.list_place(identifier)
        if not offers:
            raise NotAvailable(f"there are no skills in {identifier}")
        return offers

    def warnings(self) -> list[str]:
        """Return the warnings of the sources since the last call."""
        warnings = list(dict.fromkeys(self._warnings))
        self._warnings.clear()
        return warnings

    async def prepare(
        self, identifier: str, source: str = "", category: str = ""
    ) -> InstallCandidate:
        """Fetch a skill into quarantine and scan it. Nothing is installed yet."""
        if category and not normalize_category(category):
            raise UsageError(f"{category!r} cannot be a category", hint="letters, digits, - and _")
        found, identifier = self.sources.resolve(identifier, source)
        fetched = await found.fetch(identifier)
        identifier = fetched.identifier or identifier
        files = check_files(fetched.files)
        skill = parse_files(files, identifier.rstrip("/").rpartition("/")[2])
        # Finish an interrupted change first: staging deletes abandoned folders it may still need.
        installed = self.store.lock().skills.get(skill.name)
        staged = self.quarantine.stage(skill.name, files)
        wanted = normalize_category(category or fetched.category or skill.category)
        report = scan_files(read_folder(staged))
        return InstallCandidate(
            identifier=identifier,
            source=found.name,
            trust=source_trust(found.name, fetched, self.options.addresses),
            origin=fetched.origin,
            verdict=report.verdict,
            skill=skill,
            files=files,
            category=installed.category if installed and not category else wanted,
            report=report,
            staged=staged,
            installed=installed,
            current=self.files_of(skill.name, installed) if installed else {},
        )

    def check_name(self, candidate: InstallCandidate, *, force: bool = False) -> None:
        """Raise `UsageError` when the name belongs to another skill."""
        name, held = candidate.name, candidate.installed
        if held and (held.source, held.identifier) != (candidate.source, candidate.identifier):
            raise UsageError(
                f"{name} is installed already, from {held.identifier}",
                hint=f"`hermes skills uninstall {name}` removes that one first",
            )
        where = "" if held else self._other_source(name)
        if where and not force:
            raise UsageError(
                f"it would replace the {where} skill {name}",
                hint="--force installs it all the same",
            )

    def accept(self, candidate: InstallCandidate, *, force: bool = False) -> InstalledSkill:
        """Install a candidate.

        Raises `InstallRefused` when the rules forbid it; it then stays in quarantine.
        """
        decision = candidate.decision(force=force)
        if not decision.allowed:
            self.refuse(candidate, decision.reason)
            raise InstallRefused(f"{candidate.name} was not installed: {decision.reason}")
        self.check_name(candidate, force=force)
        with self.store.exclusive():
            now = self.store.current_lock().skills.get(candidate.name)
            if now != candidate.installed:
                raise InstallRefused(
                    f"{candidate.name} was changed by another process", hint="try again"
                )
            if read_folder(candidate.staged) != candidate.files:
                raise InvalidContent(
                    f"{candidate.name} was changed after the scan; nothing was installed"
                )
            at, before = utc_now(), candidate.installed
            entry = InstalledSkill(
                **_place_fields(candidate),
                category=candidate.category,
                files=file_hashes(candidate.files),
                sha256=candidate.sha256,
                installed_at=before.installed_at if before else at,
                updated_at=at if before else "",
            )
            what = "updated" if before else "installed"
            event = audit_event(what, candidate.name, entry, at=at, sha256=entry.sha256)
            self.store.install(candidate.name, entry, candidate.staged, event)
        self.quarantine.discard(candidate.staged)
        self.quarantine.forget(candidate.source, candidate.identifier)
        return entry

    def refuse(self, candidate: InstallCandidate, reason: str) -> None:
        """Keep the candidate in quarantine for inspection."""
        at = utc_now()
        name, findings = candidate.name, candidate.findings
        held = RefusedSkill(
            **_place_fields(candidate), name=name, reason=reason, at=at, findings=findings
        )
        self.quarantine.keep(candidate.staged, held)
        self.store.log_event(
            audit_event("refused", name, held, at=at, reason=reason, sha256=candidate.sha256)
        )

    def uninstall(self, name: str) -> InstalledSkill:
        with self.store.exclusive():
            entry = self.store.current_lock().skills.get(name)
            if entry is None:
                raise self.not_installed(name)
            self.store.remove(name, entry, audit_event("removed", name, entry))
        return entry

    def installed(self, name: str) -> InstalledSkill:
        entry = self.store.lock().skills.get(name)
        if entry is None:
            raise self.not_installed(name)
        return entry

    def files_of(self, name: str, entry: InstalledSkill) -> dict[str, bytes]:
        """Return the current files of an installed skill; {} when they cannot be read."""
        folder = entry.folder(self.store.skills, name)
        try:
            return read_folder(folder) if folder.is_dir() else {}
        except (OSError, InvalidContent):
            return {}

    def not_installed(self, name: str) -> NotAvailable:
        names = ", ".join(sorted(self.store.current_lock().skills)[:8])
        hint = f"installed are {names}" if names else "nothing is installed from the hub"
        return NotAvailable(f"{name} is not installed from the hub", hint=hint)


def _place_fields(candidate: InstallCandidate) -> dict[str, Any]:
    return {name: getattr(candidate, name) for name in SkillPlace.__struct_fields__}


# Updates


class UpdateState(StrEnum):
    CURRENT = "current"
    NEWER = "update available"
    GONE = "gone from its source"
    UNKNOWN = "could not be checked"


class UpdateStatus(msgspec.Struct, frozen=True):
    """How an installed skill compares with its source."""

    name: str
    state: UpdateState
    reason: str = ""
    candidate: InstallCandidate | None = None  #: The new version, in quarantine; only with `NEWER`.


async def check_update(hub: Hub, name: str, entry: InstalledSkill) -> UpdateStatus:
    """Ask the source of a skill for its version, and fetch it only if that differs.

    A failure is returned as a state.
    """
    try:
        source, _ = hub.sources.resolve(entry.identifier, entry.source)
        version = await source.version(entry.identifier)
        if version and version == entry.origin.version:
            return UpdateStatus(name, UpdateState.CURRENT)
        candidate = await hub.prepare(entry.identifier, entry.source)
    except NotAvailable as error:
        return UpdateStatus(name, UpdateState.GONE, str(error))
    except HermesError as error:
        return UpdateStatus(name, UpdateState.UNKNOWN, str(error))
    if candidate.name != name:
        hub.quarantine.discard(candidate.staged)
        return UpdateStatus(name, UpdateState.GONE, f"it is called {candidate.name} now")
    if candidate.sha256 != entry.sha256:
        return UpdateStatus(name, UpdateState.NEWER, candidate=candidate)
    hub.quarantine.discard(candidate.staged)
    return UpdateStatus(name, UpdateState.CURRENT)


async def check_updates(hub: Hub, names: Sequence[str] = ()) -> list[UpdateStatus]:
    """Check all installed skills, or `names`. Fetched versions are discarded."""
    found: list[UpdateStatus] = []
    for name in names or sorted(hub.store.lock().skills):
        one = await check_update(hub, name, hub.installed(name))
        if one.candidate is not None:
            hub.quarantine.discard(one.candidate.staged)
        found.append(one)
    return found


async def restore_skill(hub: Hub, name: str) -> None:
    """Fetch an installed skill again and restore its files.

    Raises `NotAvailable` when the source has another version now.
    """
    entry = hub.installed(name)
    candidate = await hub.prepare(entry.identifier, entry.source)
    try:
        if candidate.name != name or candidate.sha256 != entry.sha256:
            raise NotAvailable(
                f"the source of {name} has another version now",
                hint=f"`hermes skills update {name}` shows and installs it",
            )
        with hub.store.exclusive():
            event = audit_event("restored", name, entry, sha256=entry.sha256)
            hub.store.install(name, entry, candidate.staged, event)
    finally:
        hub.quarantine.discard(candidate.staged)


# Audit


class SkillInspection(msgspec.Struct, frozen=True, kw_only=True):
    """The audit of one skill."""

    name: str
    identifier: str
    trust: str
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    problem: str = ""  #: Why the skill could not be read.
    verdict: str = ""
    findings: tuple[ScanFinding, ...] = ()

    @property
    def is_tampered(self) -> bool:
        return bool(self.changed or self.missing or self.added or self.problem)


class AuditResult(msgspec.Struct, frozen=True):
    """The audit of all installed skills."""

    skills: tuple[SkillInspection, ...]
    strays: tuple[str, ...] = ()  #: Skill folders that are not in the lock file.

    @property
    def clean(self) -> bool:
        bad = any(one.is_tampered or one.verdict == "dangerous" for one in self.skills)
        return not bad and not self.strays


def audit_installed(hub: Hub) -> AuditResult:
    """Compare every file with the lock file and scan again. Differences go to the audit log."""
    lock = hub.store.lock()
    found = tuple(_inspect(hub, name, entry) for name, entry in sorted(lock.skills.items()))
    for one in found:
        if one.is_tampered:
            parts = (*one.changed, *one.missing, *one.added)
            reason = one.problem or ", ".join(parts)[:500]
            hub.store.log_event(AuditEvent(what="tampered", skill=one.name, reason=reason))
    known = {entry.folder(hub.store.skills, name) for name, entry in lock.skills.items()}
    folders = {file.parent for file in hub.store.skills.rglob(SKILL_FILE)}
    strays = [folder for folder in folders if not any(folder.is_relative_to(it) for it in known)]
    return AuditResult(found, tuple(sorted(map(str, strays))))


def _inspect(hub: Hub, name: str, entry: InstalledSkill) -> SkillInspection:
    found = SkillInspection(name=name, identifier=entry.identifier, trust=entry.trust)
    folder = entry.folder(hub.store.skills, name)
    if combined_hash(entry.files) != entry.sha256:
        return replace(found, problem="its hashes in lock.json are inconsistent")
    if not folder.is_dir():
        return replace(found, problem="its folder is missing")
    try:
        files = read_folder(folder, hidden=True)
    except (OSError, InvalidContent) as error:
        return replace(found, problem=str(error))
    now = file_hashes(files)
    report = scan_files(files)
    return replace(
        found,
        changed=tuple(sorted(n for n in now if n in entry.files and now[n] != entry.files[n])),
        missing=tuple(sorted(entry.files.keys() - now.keys())),
        added=tuple(sorted(now.keys() - entry.files.keys())),
        verdict=report.verdict,
        findings=report.findings,
    )

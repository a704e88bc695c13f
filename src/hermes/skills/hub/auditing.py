"""Whether the installed skills are still what was installed, and still look harmless."""

import msgspec
from msgspec.structs import replace

from hermes.skills.hub.audit_log import Event
from hermes.skills.hub.contents import hashes, read_folder, whole_hash
from hermes.skills.hub.errors import Unfit
from hermes.skills.hub.hub import Hub
from hermes.skills.hub.lockfile import Entry
from hermes.skills.hub.shelf import utc_now
from hermes.skills.scanner import Finding, scan_files
from hermes.skills.skill import SKILL_FILE


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    identifier: str
    trust: str
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    problem: str = ""
    """Why it could not be read."""
    verdict: str = ""
    findings: tuple[Finding, ...] = ()

    @property
    def tampered(self) -> bool:
        return bool(self.changed or self.missing or self.added or self.problem)


class Audit(msgspec.Struct, frozen=True):
    skills: tuple[Inspection, ...]
    strays: tuple[str, ...] = ()
    """Folders of skills that nobody installed."""

    @property
    def clean(self) -> bool:
        bad = any(one.tampered or one.verdict == "dangerous" for one in self.skills)
        return not bad and not self.strays


def audit(hub: Hub) -> Audit:
    """Compares every file with the lock and scans again. What differs goes to the audit log."""
    lock = hub.shelf.lock()
    found = tuple(_inspected(hub, name, entry) for name, entry in sorted(lock.skills.items()))
    for one in found:
        if one.tampered:
            parts = (*one.changed, *one.missing, *one.added)
            reason = one.problem or ", ".join(parts)[:500]
            hub.shelf.note(Event(at=utc_now(), what="tampered", skill=one.name, reason=reason))
    known = {entry.folder(hub.shelf.skills, name) for name, entry in lock.skills.items()}
    folders = {file.parent for file in hub.shelf.skills.rglob(SKILL_FILE)}
    strays = [folder for folder in folders if not any(folder.is_relative_to(it) for it in known)]
    return Audit(found, tuple(sorted(map(str, strays))))


def _inspected(hub: Hub, name: str, entry: Entry) -> Inspection:
    found = Inspection(name=name, identifier=entry.identifier, trust=entry.trust)
    folder = entry.folder(hub.shelf.skills, name)
    if whole_hash(entry.files) != entry.sha256:
        return replace(found, problem="its hashes in the lock contradict each other")
    if not folder.is_dir():
        return replace(found, problem="its folder is gone")
    try:
        files = read_folder(folder, hidden=True)
    except (OSError, Unfit) as error:
        return replace(found, problem=str(error))
    now = hashes(files)
    report = scan_files(files)
    return replace(
        found,
        changed=tuple(sorted(n for n in now if n in entry.files and now[n] != entry.files[n])),
        missing=tuple(sorted(entry.files.keys() - now.keys())),
        added=tuple(sorted(now.keys() - entry.files.keys())),
        verdict=report.verdict,
        findings=report.findings,
    )

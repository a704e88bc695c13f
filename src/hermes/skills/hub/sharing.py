"""Share skills: bundles of all own and installed skills, and pull requests for single ones.

A bundle is a .tar.gz with `manifest.json`, which has the hash of every file, and the files in
`own/<folder>/…` and `hub/<folder>/…`.
"""

import base64
import hashlib
import io
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from hermes.core.errors import UsageError
from hermes.security import Redactor
from hermes.skills.history import Author, SkillChange, SkillHistory
from hermes.skills.hub.contents import (
    DECODE_ERRORS,
    HubError,
    InstallRefused,
    InvalidContent,
    NotAvailable,
    SourceUnreachable,
    check_file_name,
    check_files,
    combined_hash,
    file_hashes,
    is_hidden,
    normalize_category,
    parse_files,
    read_folder,
    tar_members,
    write_folder,
)
from hermes.skills.hub.hub import Hub
from hermes.skills.hub.registry import FolderSource, resolve_folder
from hermes.skills.hub.repositories import SET_TOKEN, GitHubApi, error_message
from hermes.skills.hub.sources import decode_reply, parse_repo_path, skill_folder_of
from hermes.skills.hub.store import AuditEvent, InstalledSkill, audit_event, utc_now
from hermes.skills.scanner import scan_files
from hermes.skills.scanner.report import ScanFinding, SourceTrust, decide_install
from hermes.skills.skill import Skill
from hermes.skills.writing.draft import MARK_FILE
from hermes.util.files import write_bytes
from hermes.util.http import HttpResponse

MANIFEST = "manifest.json"
VERSION = 1
MAX_BUNDLE_BYTES = 128 * 1024 * 1024
STAGE = ".stage-"
"""The prefix that `hermes.skills.writing` uses for temporary folders; it removes leftovers."""

Kind = Literal["own", "hub"]


class PackedSkill(msgspec.Struct, frozen=True):
    """A skill in a bundle."""

    name: str
    kind: Kind
    folder: str  #: Relative to the folder of its kind.
    files: dict[str, str]  #: SHA-256 by file name.
    sha256: str
    entry: InstalledSkill | None = None  #: The lock entry of an installed skill.


class BundleManifest(msgspec.Struct, frozen=True):
    """The manifest of a bundle."""

    made_at: str
    skills: tuple[PackedSkill, ...]
    version: int = VERSION


class BundleImport(msgspec.Struct, frozen=True):
    """The skills of an imported bundle."""

    stored: tuple[str, ...]
    skipped: tuple[str, ...]  #: Skills that already existed.
    refused: dict[str, str]  #: Reasons by name.


def export_bundle(hub: Hub, home: Path, own: Iterable[Skill], target: Path) -> BundleManifest:
    """Write all skills to `target` atomically. `home` is `<home>/skills`."""
    packed: list[PackedSkill] = []
    contents: dict[str, bytes] = {}

    def pack(kind: Kind, name: str, root: Path, folder: Path, entry: InstalledSkill | None) -> None:
        files, place = _read_skill(name, folder), folder.relative_to(root).as_posix()
        if kind == "own" and (folder / MARK_FILE).is_file():
            files[MARK_FILE] = (folder / MARK_FILE).read_bytes()
        contents.update({f"{kind}/{place}/{file}": data for file, data in files.items()})
        hashes = file_hashes(files)
        packed.append(PackedSkill(name, kind, place, hashes, combined_hash(hashes), entry))

    for skill in own:
        pack("own", skill.name, home, skill.folder, None)
    for name, entry in sorted(hub.store.lock().skills.items()):
        pack("hub", name, hub.store.skills, entry.folder(hub.store.skills, name), entry)
    manifest = BundleManifest(utc_now(), tuple(packed))
    listed = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in {MANIFEST: listed, **contents}.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    write_bytes(target, out.getvalue(), mode=0o600)
    return manifest


def _read_skill(name: str, folder: Path) -> dict[str, bytes]:
    """Return the files of a skill. Raises `InvalidContent` if they could not be imported."""
    try:
        return check_files(read_folder(folder))
    except FileNotFoundError as error:
        raise InvalidContent(
            f"the folder of {name} is gone", hint="`hermes skills audit`"
        ) from error
    except InvalidContent as error:
        raise InvalidContent(f"{name} cannot be exported: {error}", hint=error.hint) from error


async def import_bundle(
    hub: Hub, home: Path, history: SkillHistory, file: Path, *, force: bool = False
) -> BundleImport:
    """Check all hashes, then store the skills that are new and allowed.

    The origin of a bundle is unknown, so its skills are scanned as community skills.
    """
    stored: list[str] = []
    skipped: list[str] = []
    refused: dict[str, str] = {}
    if file.stat().st_size > MAX_BUNDLE_BYTES:
        raise InvalidContent(f"{file.name} is too large for a snapshot of skills")
    for one, files in read_bundle(file.read_bytes()):
        decision = decide_install(scan_files(files), SourceTrust.COMMUNITY, force)
        if not decision.allowed:
            refused[one.name] = decision.reason
            hub.store.log_event(AuditEvent(what="refused", skill=one.name, reason=decision.reason))
        elif one.kind == "hub" and one.entry is not None:
            done = _store_installed(hub, one, one.entry, files, force=force)
            (stored if done else skipped).append(one.name)
        else:
            target = home / one.folder
            if target.exists() and not force:
                skipped.append(one.name)
                continue
            reason = f"imported from {file.name}"
            change = SkillChange("import", (one.name,), reason, Author.USER, paths=(one.folder,))
            await history.record(change, _store_own(home, target, files))
            stored.append(one.name)
    return BundleImport(tuple(stored), tuple(skipped), refused)


def read_bundle(data: bytes) -> list[tuple[PackedSkill, dict[str, bytes]]]:
    """Return all skills of a bundle. Raises `InvalidContent` when it is damaged or foreign."""
    held: dict[str, bytes] = {}
    size = 0
    for name, length, read in tar_members(data):
        size += length
        if read is None or size > MAX_BUNDLE_BYTES:
            raise InvalidContent(
                "this is not a snapshot of skills: it is too large, or holds links"
            )
        held[name] = read()
    try:
        manifest = msgspec.json.decode(held.pop(MANIFEST, b""), type=BundleManifest)
    except DECODE_ERRORS as error:
        raise InvalidContent(
            "this is not a snapshot of skills", hint=f"it has no {MANIFEST}"
        ) from error
    if manifest.version > VERSION:
        raise InvalidContent("a later version of Hermes wrote this snapshot", hint="update Hermes")
    found = [(one, _take_files(one, held)) for one in manifest.skills]
    if held:
        raise InvalidContent(f"{min(held)} is in the snapshot, but not in its list")
    return found


def _take_files(one: PackedSkill, held: dict[str, bytes]) -> dict[str, bytes]:
    """Remove the files of one skill from `held` and return them."""
    folder = check_file_name(one.folder)
    if is_hidden(folder) or folder.count("/") > 2:
        raise InvalidContent(f"{one.name} lies in {folder!r}, where no skill can be")
    if one.entry is not None and normalize_category(one.entry.category) != one.entry.category:
        raise InvalidContent(f"{one.name} has the category {one.entry.category!r}")
    files: dict[str, bytes] = {}
    for name, wanted in one.files.items():
        data = held.pop(f"{one.kind}/{folder}/{name}", None)
        if data is None or hashlib.sha256(data).hexdigest() != wanted:
            raise InvalidContent(f"{name} of {one.name} is damaged or missing in the snapshot")
        files[name] = data
    accepted = check_files(files)
    if parse_files(accepted, Path(folder).name).name != one.name:
        raise InvalidContent(f"{one.name} contains a skill with another name")
    if one.kind == "own" and MARK_FILE in files:
        accepted[MARK_FILE] = files[MARK_FILE]
    return accepted


def _store_installed(
    hub: Hub, one: PackedSkill, entry: InstalledSkill, files: Mapping[str, bytes], *, force: bool
) -> bool:
    entry = msgspec.structs.replace(
        entry,
        files=file_hashes(files),
        sha256=combined_hash(file_hashes(files)),
        trust=str(SourceTrust.COMMUNITY),
    )
    staged = hub.quarantine.stage(one.name, files)
    try:
        with hub.store.exclusive():
            if one.name in hub.store.current_lock().skills and not force:
                return False
            event = audit_event("imported", one.name, entry, sha256=entry.sha256)
            hub.store.install(one.name, entry, staged, event)
            return True
    finally:
        hub.quarantine.discard(staged)


def _store_own(home: Path, target: Path, files: Mapping[str, bytes]) -> Callable[[], None]:
    def store() -> None:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=STAGE, dir=home, ignore_cleanup_errors=True
        ) as folder:
            stage = Path(folder)
            write_folder(stage / "new", files)
            if target.exists():
                target.rename(stage / "old")
            target.parent.mkdir(parents=True, exist_ok=True)
            (stage / "new").rename(target)

    return store


# Publishing: a branch, one commit and a pull request. No fork is made.
#
#     GET  /repos/{repo}                             -> default_branch
#     GET  /repos/{repo}/commits/{branch}            -> the commit to build on
#     GET  /repos/{repo}/git/trees/{commit}?recursive=1
#     POST /repos/{repo}/git/blobs                   {content, encoding}        for each file
#     POST /repos/{repo}/git/trees                   {base_tree, tree}
#     POST /repos/{repo}/git/commits                 {message, tree, parents}
#     POST /repos/{repo}/git/refs                    {ref, sha}
#     POST /repos/{repo}/pulls                       {title, head, base, body}
#
# The branch name contains the hash of the content, so publishing twice finds the first request.

DEFAULT_FOLDER = "skills"  #: Where skills go in a repository that has none yet.


class PublishableSkill(msgspec.Struct, frozen=True):
    """A local skill that passed the checks for publishing."""

    skill: Skill
    files: dict[str, bytes]
    verdict: str
    findings: tuple[ScanFinding, ...]

    @property
    def branch(self) -> str:
        return f"skill/{self.skill.name}-{combined_hash(file_hashes(self.files))[:10]}"


class PublishPlan(msgspec.Struct, frozen=True):
    """What would be sent, and where."""

    parcel: PublishableSkill
    repo: str
    base: str  #: The target branch.
    commit: str
    folder: str
    changed: tuple[str, ...]  #: Files that are new or differ.
    removed: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"Add the skill {self.parcel.skill.name}"


class PublishResult(msgspec.Struct, frozen=True):
    url: str
    is_new: bool


async def prepare_skill(path: str, secrets: Iterable[str]) -> PublishableSkill:
    """Read and scan the skill in a folder.

    Raises `InstallRefused` when it is dangerous or contains a password or key.
    """
    files = check_files((await FolderSource().fetch(path)).files)
    skill = parse_files(files, resolve_folder(path).name)
    redactor = Redactor(secrets)
    texts = {name: data.decode("utf-8", "replace") for name, data in files.items()}
    leaking = sorted(name for name, text in texts.items() if redactor.redact(text) != text)
    if leaking:
        raise InstallRefused(
            f"there is what looks like a password or key in {', '.join(leaking)}",
            hint="take it out; a skill asks for one with required_environment_variables",
        )
    report = scan_files(files)
    if report.verdict == "dangerous":
        raise InstallRefused(
            f"the scan rates {skill.name} as dangerous, so it could not be installed",
            hint=f"`hermes skills inspect {Path(path)}` shows what it found",
        )
    return PublishableSkill(skill, files, report.verdict, report.findings)


async def plan_publication(
    api: GitHubApi, parcel: PublishableSkill, repo: str, folder: str = ""
) -> PublishPlan:
    """Compare a skill with a repository.

    Raises `InstallRefused` when the repository already has it unchanged.
    """
    place = parse_repo_path(repo)
    if place.path or place.ref:
        raise UsageError(f"--repo takes owner/repo, not {repo}")
    facts = decode_reply(await api.get(f"/repos/{place.repo}"))
    base = str(facts.get("default_branch") or "main")
    commit = await api.commit(place.repo, base)
    answer = decode_reply(await api.get(f"/repos/{place.repo}/git/trees/{commit}?recursive=1"))
    if answer.get("truncated"):
        raise HubError(
            f"{place.repo} has too many files to publish to", hint="use a smaller repository"
        )
    blobs = (one for one in answer.get("tree", []) if one.get("type") == "blob")
    held = {str(one["path"]): str(one["sha"]) for one in blobs}
    folder = check_file_name(folder.strip("/")) if folder else _folder_for(parcel.skill.name, held)
    start = f"{folder}/"
    inside = {name.removeprefix(start): it for name, it in held.items() if name.startswith(start)}
    changed = [name for name, data in parcel.files.items() if inside.get(name) != blob_id(data)]
    removed = sorted(inside.keys() - parcel.files.keys())
    if not changed and not removed:
        raise InstallRefused(f"{place.repo} already has this version of {parcel.skill.name}")
    return PublishPlan(
        parcel, place.repo, base, commit, folder, tuple(sorted(changed)), tuple(removed)
    )


async def publish(api: GitHubApi, plan: PublishPlan) -> PublishResult:
    """Send a planned change.

    Raises `HubError`. A failure leaves at most an unused branch behind.
    """
    if not api.has_token:
        raise UsageError("publishing needs a token of GitHub", hint=f"set one: {SET_TOKEN}")
    at = f"/repos/{plan.repo}"
    entries: list[dict[str, Any]] = []
    for name in (*plan.changed, *plan.removed):
        entry = {"path": f"{plan.folder}/{name}", "mode": "100644", "type": "blob", "sha": None}
        entries.append(entry)
        if name in plan.changed:
            data = plan.parcel.files[name]
            body = {"content": base64.b64encode(data).decode(), "encoding": "base64"}
            blob = _created(await api.send("POST", f"{at}/git/blobs", body), "the file")
            entry["sha"] = str(blob["sha"])
            if data.startswith(b"#!"):
                entry["mode"] = "100755"
    wanted = {"base_tree": plan.commit, "tree": entries}
    tree = _created(await api.send("POST", f"{at}/git/trees", wanted), "the folder")
    change = {"message": plan.title, "tree": tree["sha"], "parents": [plan.commit]}
    commit = _created(await api.send("POST", f"{at}/git/commits", change), "the commit")
    ref = {"ref": f"refs/heads/{plan.parcel.branch}", "sha": commit["sha"]}
    made = await api.send("POST", f"{at}/git/refs", ref)
    if made.status == 422 and "already exists" in error_message(made):
        head = quote(f"{plan.repo.partition('/')[0]}:{plan.parcel.branch}")
        found = decode_reply(await api.get(f"{at}/pulls?head={head}&state=open"))
        if found:
            return PublishResult(str(found[0]["html_url"]), is_new=False)
    elif made.status != 201:
        _created(made, "the branch")
    request = {
        "title": plan.title,
        "head": plan.parcel.branch,
        "base": plan.base,
        "body": plan.parcel.skill.description,
    }
    opened = _created(await api.send("POST", f"{at}/pulls", request), "the pull request")
    return PublishResult(str(opened["html_url"]), is_new=True)


def _folder_for(name: str, held: Iterable[str]) -> str:
    """Return the folder of the skill in the repository, or a new one in the default folder."""
    folders = [folder for file in held if (folder := skill_folder_of(file))]
    same = [folder for folder in folders if folder.rpartition("/")[2] == name]
    if len(same) == 1:
        return same[0]
    if len(same) > 1:
        raise NotAvailable(
            f"there are {len(same)} skills {name}", hint=f"--path {same[0]} chooses one"
        )
    return f"{DEFAULT_FOLDER}/{name}"


def _created(reply: HttpResponse, what: str) -> Any:
    if reply.status not in (200, 201):
        raise HubError(f"GitHub did not take {what}: {error_message(reply)}")
    made = decode_reply(reply)
    if not isinstance(made, dict) or not {"sha", "html_url"} & made.keys():
        raise SourceUnreachable(f"GitHub gave an unexpected answer for {what}")
    return made


def blob_id(data: bytes) -> str:
    """Return the git object id of a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

"""All installed and own skills as one file, to keep or to carry to another machine.

A .tar.gz with `manifest.json`, which holds the hash of every file, and the files in
`own/<folder>/…` and `hub/<folder>/…`.
"""

import base64
import hashlib
import io
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from hermes.core.errors import UsageError
from hermes.security.redaction import Redactor
from hermes.skills.history import SkillHistory
from hermes.skills.history_repo import Change, Who
from hermes.skills.hub.archives import tar_members
from hermes.skills.hub.contents import (
    UNREADABLE,
    HubError,
    NotThere,
    Refused,
    Unfit,
    Unreachable,
    category_name,
    checked,
    hashes,
    is_hidden,
    read_folder,
    safe_name,
    skill_in,
    whole_hash,
    write_folder,
)
from hermes.skills.hub.github import SET_TOKEN, GitHubApi, said
from hermes.skills.hub.hub import Hub
from hermes.skills.hub.registry import FolderSource, folder_of
from hermes.skills.hub.sources import Reply, parse_place, skill_folder
from hermes.skills.hub.store import Entry, Event, utc_now
from hermes.skills.scanner import Finding, scan_files
from hermes.skills.scanner.report import Trust, decide
from hermes.skills.skill import Skill
from hermes.skills.writing.overlays import MARK_FILE
from hermes.util import atomic

MANIFEST = "manifest.json"
VERSION = 1
MOST_BYTES = 128 * 1024 * 1024
STAGE = ".stage-"
"""What `hermes.skills.writing` calls folders in which things are made ready; it clears them."""

Kind = Literal["own", "hub"]


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: Kind
    folder: str
    """Below the folder of its kind."""
    files: dict[str, str]
    """SHA-256 by name."""
    sha256: str
    entry: Entry | None = None
    """What the lock said of an installed one."""


class Manifest(msgspec.Struct, frozen=True):
    made_at: str
    skills: tuple[Packed, ...]
    version: int = VERSION


class Imported(msgspec.Struct, frozen=True):
    stored: tuple[str, ...]
    skipped: tuple[str, ...]
    """They were there already."""
    refused: dict[str, str]
    """With the reason."""


def export(hub: Hub, home: Path, own: Iterable[Skill], target: Path) -> Manifest:
    """Writes everything to `target` as a whole. `home` is `<home>/skills`."""
    packed: list[tuple[Packed, dict[str, bytes]]] = []
    for skill in own:
        files = _read(skill.name, skill.folder)
        mark = skill.folder / MARK_FILE
        if mark.is_file():
            files[MARK_FILE] = mark.read_bytes()
        packed.append(_packed("own", skill.name, skill.folder.relative_to(home), files))
    for name, entry in sorted(hub.shelf.lock().skills.items()):
        folder = entry.folder(hub.shelf.skills, name)
        files = _read(name, folder)
        inside = folder.relative_to(hub.shelf.skills)
        packed.append(_packed("hub", name, inside, files, entry))
    manifest = Manifest(utc_now(), tuple(one for one, _ in packed))
    atomic.write_bytes(target, _archive(manifest, packed), mode=0o600)
    return manifest


def _read(name: str, folder: Path) -> dict[str, bytes]:
    """Raises `Unfit` for what could not be imported again."""
    try:
        return checked(read_folder(folder))
    except FileNotFoundError as error:
        raise Unfit(f"the folder of {name} is gone", hint="`hermes skills audit`") from error
    except Unfit as error:
        raise Unfit(f"{name} cannot be exported: {error}", hint=error.hint) from error


async def load(
    hub: Hub, home: Path, history: SkillHistory, file: Path, *, force: bool = False
) -> Imported:
    """Checks all hashes first, then stores what is not there yet and may be stored.

    Nobody vouches for such a file: whatever it says, its skills are scanned as a stranger's.
    """
    stored: list[str] = []
    skipped: list[str] = []
    refused: dict[str, str] = {}
    if file.stat().st_size > MOST_BYTES:
        raise Unfit(f"{file.name} is too large for a snapshot of skills")
    for one, files in read_bundle(file.read_bytes()):
        decision = decide(scan_files(files), Trust.COMMUNITY, force)
        if not decision.allowed:
            refused[one.name] = decision.reason
            hub.shelf.note(
                Event(at=utc_now(), what="refused", skill=one.name, reason=decision.reason)
            )
        elif one.kind == "hub" and one.entry is not None:
            done = _store_installed(hub, one, one.entry, files, force=force)
            (stored if done else skipped).append(one.name)
        else:
            target = home / one.folder
            if target.exists() and not force:
                skipped.append(one.name)
                continue
            change = Change(
                "import", (one.name,), f"imported from {file.name}", Who.USER, paths=(one.folder,)
            )
            await history.record(change, _storing(home, target, files))
            stored.append(one.name)
    return Imported(tuple(stored), tuple(skipped), refused)


def read_bundle(data: bytes) -> list[tuple[Packed, dict[str, bytes]]]:
    """Everything in it, checked. Raises `Unfit` for what is damaged or not made by us."""
    held = dict(_contents(data))
    try:
        manifest = msgspec.json.decode(held.pop(MANIFEST, b""), type=Manifest)
    except UNREADABLE as error:
        raise Unfit("this is not a snapshot of skills", hint=f"it has no {MANIFEST}") from error
    if manifest.version > VERSION:
        raise Unfit("a later version of Hermes wrote this snapshot", hint="update Hermes")
    found = [(one, _taken(one, held)) for one in manifest.skills]
    if held:
        raise Unfit(f"{min(held)} is in the snapshot, but not in its list")
    return found


def _taken(one: Packed, held: dict[str, bytes]) -> dict[str, bytes]:
    """The files of one skill, taken out of `held`."""
    folder = safe_name(one.folder)
    if is_hidden(folder) or folder.count("/") > 2:
        raise Unfit(f"{one.name} lies in {folder!r}, where no skill can be")
    if one.entry is not None and category_name(one.entry.category) != one.entry.category:
        raise Unfit(f"{one.name} has the category {one.entry.category!r}")
    files: dict[str, bytes] = {}
    for name, wanted in one.files.items():
        data = held.pop(f"{one.kind}/{folder}/{name}", None)
        if data is None or hashlib.sha256(data).hexdigest() != wanted:
            raise Unfit(f"{name} of {one.name} is damaged or missing in the snapshot")
        files[name] = data
    kept = checked(files)
    if skill_in(kept, Path(folder).name).name != one.name:
        raise Unfit(f"{one.name} calls itself something else")
    if one.kind == "own" and MARK_FILE in files:
        kept[MARK_FILE] = files[MARK_FILE]
    return kept


def _contents(data: bytes) -> Iterator[tuple[str, bytes]]:
    size = 0
    for name, length, read in tar_members(data):
        size += length
        if read is None or size > MOST_BYTES:
            raise Unfit("this is not a snapshot of skills: it is too large, or holds links")
        yield name, read()


def _store_installed(
    hub: Hub, one: Packed, entry: Entry, files: Mapping[str, bytes], *, force: bool
) -> bool:
    entry = msgspec.structs.replace(
        entry, files=hashes(files), sha256=whole_hash(hashes(files)), trust=str(Trust.COMMUNITY)
    )
    event = Event(
        at=utc_now(),
        what="imported",
        skill=one.name,
        source=entry.source,
        identifier=entry.identifier,
        sha256=entry.sha256,
    )
    staged = hub.quarantine.stage(one.name, files)
    try:
        with hub.shelf.held():
            if one.name in hub.shelf.lock_now().skills and not force:
                return False
            hub.shelf.put(one.name, entry, staged, event)
            return True
    finally:
        hub.quarantine.discard(staged)


def _storing(home: Path, target: Path, files: Mapping[str, bytes]) -> Callable[[], None]:
    def store() -> None:
        home.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=STAGE, dir=home))
        try:
            write_folder(stage / "new", files)
            if target.exists():
                target.rename(stage / "old")
            target.parent.mkdir(parents=True, exist_ok=True)
            (stage / "new").rename(target)
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    return store


def _packed(
    kind: Kind, name: str, folder: Path, files: dict[str, bytes], entry: Entry | None = None
) -> tuple[Packed, dict[str, bytes]]:
    each = hashes(files)
    one = Packed(
        name=name,
        kind=kind,
        folder=folder.as_posix(),
        files=each,
        sha256=whole_hash(each),
        entry=entry,
    )
    return one, files


def _archive(manifest: Manifest, packed: Iterable[tuple[Packed, dict[str, bytes]]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        _add(archive, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2))
        for one, files in packed:
            for name, data in files.items():
                _add(archive, f"{one.kind}/{one.folder}/{name}", data)
    return out.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644
    archive.addfile(member, io.BytesIO(data))


# Offer a skill to a repository at GitHub: a branch, one commit, a pull request. No fork is made.
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
# The name of the branch holds the hash of the content: doing it twice finds the first one again.

FOLDER = "skills"
"""Where a repository keeps its skills when it has none yet."""


class Parcel(msgspec.Struct, frozen=True):
    """A skill of this machine, ready to be sent."""

    skill: Skill
    files: dict[str, bytes]
    verdict: str
    findings: tuple[Finding, ...]

    @property
    def branch(self) -> str:
        return f"skill/{self.skill.name}-{whole_hash(hashes(self.files))[:10]}"


class Plan(msgspec.Struct, frozen=True):
    """What would be sent, and where."""

    parcel: Parcel
    repo: str
    base: str
    """The branch it is offered to."""
    commit: str
    folder: str
    changed: tuple[str, ...]
    """Files that are new or differ."""
    removed: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"Add the skill {self.parcel.skill.name}"


class Published(msgspec.Struct, frozen=True):
    url: str
    is_new: bool


async def packed(path: str, secrets: Iterable[str]) -> Parcel:
    """The skill in a folder, scanned. Raises `Refused` for one that must not leave this machine:
    a dangerous one, or one with a password or key in it."""
    files = checked((await FolderSource().fetch(path)).files)
    skill = skill_in(files, folder_of(path).name)
    leaking = sorted(_with_secrets(files, Redactor(secrets)))
    if leaking:
        raise Refused(
            f"there is what looks like a password or key in {', '.join(leaking)}",
            hint="take it out; a skill asks for one with required_environment_variables",
        )
    report = scan_files(files)
    if report.verdict == "dangerous":
        raise Refused(
            f"the scan calls {skill.name} dangerous; nobody could install it",
            hint=f"`hermes skills inspect {Path(path)}` shows what it found",
        )
    return Parcel(skill, files, report.verdict, report.findings)


async def planned(api: GitHubApi, parcel: Parcel, repo: str, folder: str = "") -> Plan:
    """Looks at the repository. Raises `Refused` when it has the skill just so."""
    place = parse_place(repo)
    if place.path or place.ref:
        raise UsageError(f"--repo takes owner/repo, not {repo}")
    facts = (await api.ask(f"/repos/{place.repo}")).json()
    base = str(facts.get("default_branch") or "main")
    commit = await api.commit(place.repo, base)
    held = await _tree(api, place.repo, commit)
    folder = safe_name(folder.strip("/")) if folder else _folder_for(parcel.skill.name, held)
    start = f"{folder}/"
    inside = {name.removeprefix(start): it for name, it in held.items() if name.startswith(start)}
    changed = [name for name, data in parcel.files.items() if inside.get(name) != blob_id(data)]
    removed = sorted(inside.keys() - parcel.files.keys())
    if not changed and not removed:
        raise Refused(f"{place.repo} has {parcel.skill.name} already, just as it is here")
    return Plan(parcel, place.repo, base, commit, folder, tuple(sorted(changed)), tuple(removed))


async def publish(api: GitHubApi, plan: Plan) -> Published:
    """Sends it. Raises `HubError`; what was made before a failure is a branch nobody sees."""
    if not api.has_token:
        raise UsageError("publishing needs a token of GitHub", hint=f"set one: {SET_TOKEN}")
    at = f"/repos/{plan.repo}"
    entries: list[dict[str, Any]] = []
    for name in plan.changed:
        data = plan.parcel.files[name]
        content = base64.b64encode(data).decode()
        body = {"content": content, "encoding": "base64"}
        blob = _made(await api.tell("POST", f"{at}/git/blobs", body), "the file")
        entries.append(_entry(plan, name, str(blob["sha"]), executable=data.startswith(b"#!")))
    entries += [_entry(plan, name, None) for name in plan.removed]
    wanted = {"base_tree": plan.commit, "tree": entries}
    tree = _made(await api.tell("POST", f"{at}/git/trees", wanted), "the folder")
    change = {"message": plan.title, "tree": tree["sha"], "parents": [plan.commit]}
    commit = _made(await api.tell("POST", f"{at}/git/commits", change), "the commit")
    ref = {"ref": f"refs/heads/{plan.parcel.branch}", "sha": commit["sha"]}
    made = await api.tell("POST", f"{at}/git/refs", ref)
    if made.status == 422 and "already exists" in said(made):
        found = await _open_request(api, plan)
        if found:
            return Published(found, is_new=False)
    elif made.status != 201:
        _made(made, "the branch")
    return await _requested(api, plan)


async def _requested(api: GitHubApi, plan: Plan) -> Published:
    body = {
        "title": plan.title,
        "head": plan.parcel.branch,
        "base": plan.base,
        "body": plan.parcel.skill.description,
    }
    reply = await api.tell("POST", f"/repos/{plan.repo}/pulls", body)
    return Published(str(_made(reply, "the pull request")["html_url"]), is_new=True)


async def _open_request(api: GitHubApi, plan: Plan) -> str:
    owner = plan.repo.partition("/")[0]
    head = quote(f"{owner}:{plan.parcel.branch}")
    found = (await api.ask(f"/repos/{plan.repo}/pulls?head={head}&state=open")).json()
    return str(found[0]["html_url"]) if found else ""


async def _tree(api: GitHubApi, repo: str, commit: str) -> dict[str, str]:
    """The files of a commit: name and blob id."""
    answer = (await api.ask(f"/repos/{repo}/git/trees/{commit}?recursive=1")).json()
    if answer.get("truncated"):
        raise HubError(f"{repo} has too many files to publish to", hint="use a smaller repository")
    entries = answer.get("tree", [])
    return {str(one["path"]): str(one["sha"]) for one in entries if one.get("type") == "blob"}


def _folder_for(name: str, held: Iterable[str]) -> str:
    """Where the repository has a skill of this name, else beside its others."""
    folders = [folder for file in held if (folder := skill_folder(file))]
    same = [folder for folder in folders if folder.rpartition("/")[2] == name]
    if len(same) == 1:
        return same[0]
    if len(same) > 1:
        raise NotThere(f"there are {len(same)} skills {name}", hint=f"--path {same[0]} chooses one")
    return f"{FOLDER}/{name}"


def _entry(plan: Plan, name: str, sha: str | None, *, executable: bool = False) -> dict[str, Any]:
    mode = "100755" if executable else "100644"
    return {"path": f"{plan.folder}/{name}", "mode": mode, "type": "blob", "sha": sha}


def _made(reply: Reply, what: str) -> Any:
    if reply.status not in (200, 201):
        raise HubError(f"GitHub did not take {what}: {said(reply)}")
    made = reply.json()
    if not isinstance(made, dict) or not {"sha", "html_url"} & made.keys():
        raise Unreachable(f"GitHub gave an unexpected answer for {what}")
    return made


def blob_id(data: bytes) -> str:
    """The name git gives a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _with_secrets(files: Mapping[str, bytes], redactor: Redactor) -> Iterable[str]:
    for name, data in files.items():
        text = data.decode("utf-8", "replace")
        if redactor.redact(text) != text:
            yield name

"""Offer a skill to a repository at GitHub: a branch, one commit, a pull request. No fork is made.

    GET  /repos/{repo}                             -> default_branch
    GET  /repos/{repo}/commits/{branch}            -> the commit to build on
    GET  /repos/{repo}/git/trees/{commit}?recursive=1
    POST /repos/{repo}/git/blobs                   {content, encoding}        for each file
    POST /repos/{repo}/git/trees                   {base_tree, tree}
    POST /repos/{repo}/git/commits                 {message, tree, parents}
    POST /repos/{repo}/git/refs                    {ref, sha}
    POST /repos/{repo}/pulls                       {title, head, base, body}

The name of the branch holds the hash of the content: doing it twice finds the first one again.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from hermes.core.errors import UsageError
from hermes.security.redaction import Redactor
from hermes.skills.hub.contents import checked, hashes, safe_name, whole_hash
from hermes.skills.hub.errors import HubError, NotThere, Refused, Unreachable
from hermes.skills.hub.heads import skill_in
from hermes.skills.hub.sources.choosing import skill_folder
from hermes.skills.hub.sources.folder import FolderSource, folder_of
from hermes.skills.hub.sources.github_api import SET_TOKEN, GitHubApi, said
from hermes.skills.hub.sources.repo_place import parse_place
from hermes.skills.hub.web import Reply
from hermes.skills.scanner import Finding, scan_files
from hermes.skills.skill import Skill

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

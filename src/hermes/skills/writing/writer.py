"""Changes of skills: decided, checked, kept as one step, and recorded with their reason."""

import contextlib
import difflib
import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from hermes.core.errors import UsageError
from hermes.skills.history import SkillHistory
from hermes.skills.history_repo import RETIRED, Change, Commit, Who, drop_empty
from hermes.skills.scanner import scan_files
from hermes.skills.skill import SKILL_FILE, Skill, SkillNotFound
from hermes.skills.usage import Use, Uses
from hermes.skills.writing import overlays
from hermes.skills.writing.draft import (
    Action,
    Catalogue,
    ChangeRefused,
    Check,
    Draft,
    Limits,
    Plan,
    Planner,
    closest,
)
from hermes.skills.writing.overlays import Overlay, content_hash, overlay_of
from hermes.util.atomic import write_bytes
from hermes.util.threads import in_thread

# Making a plan so, in one step: a reader, and a process that dies, see all of it or nothing.

STAGE = ".stage-"
"""Folders at the top in which things are made ready, or taken apart."""


class Workshop:
    """The folder `<home>/skills`. Whoever uses it holds its lock."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def apply(self, plan: Plan) -> None:
        """Raises `ChangeRefused` when the disk does not let it."""
        if not plan.file:
            self._done(lambda: self._discard(plan.target))
        elif plan.original is not None or not plan.target.exists():
            self._done(lambda: self._make(plan))
        else:
            self._done(lambda: self._put(plan.target, plan))

    def discard(self, folder: Path) -> None:
        """Remove the folder of a skill."""
        self._done(lambda: self._discard(folder))

    def move(self, folder: Path, target: Path) -> None:
        """The folder of a skill to another place, which must be free."""

        def work() -> None:
            target.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(target)
            drop_empty(folder.parent, self._home)

        self._done(work)

    def _done(self, work: Callable[[], None]) -> None:
        for left in self._home.glob(f"{STAGE}*"):  # by a process that died
            shutil.rmtree(left, ignore_errors=True)
        try:
            work()
        except OSError as error:
            raise ChangeRefused(
                f"the skill cannot be written: {error.strerror or error}",
                hint=f"look at the room and the permissions of {self._home}",
            ) from error

    def _make(self, plan: Plan) -> None:
        with self._stage() as stage:
            made = stage / plan.target.name
            made.mkdir()
            if plan.original is not None:
                overlays.copy(plan.original, made)
            self._put(made, plan)
            plan.target.parent.mkdir(parents=True, exist_ok=True)
            made.rename(plan.target)

    def _put(self, folder: Path, plan: Plan) -> None:
        file = folder / plan.file
        if plan.after is None:
            file.unlink(missing_ok=True)
            drop_empty(file.parent, folder)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        mode = None if file.exists() else (0o755 if plan.after.startswith(b"#!") else 0o644)
        write_bytes(file, plan.after, mode=mode)

    def _discard(self, folder: Path) -> None:
        with self._stage() as stage:
            folder.rename(stage / folder.name)
        drop_empty(folder.parent, self._home)

    @contextlib.contextmanager
    def _stage(self) -> Iterator[Path]:
        stage = Path(tempfile.mkdtemp(prefix=STAGE, dir=self._home))
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)


# The scanner as the `Check` of what the agent writes.

REFUSED = frozenset({"high", "critical"})


def scanned(files: Mapping[str, bytes]) -> list[str]:
    """What speaks against keeping the files. A reason holds the line itself instead of its number,
    so that lines which only moved are known again."""
    findings = scan_files(files).findings
    return [f"{each.why} ({each.text})" for each in findings if each.severity in REFUSED]


# Changes that wait for the user, when `skills.review` is `ask`.

FOLDER = ".pending"


class Proposal(msgspec.Struct, frozen=True):
    id: str
    at: float
    """Seconds since 1970."""
    draft: Draft
    diff: str
    """As the user may have seen it."""
    base: str
    """What `diff` was made for; see `base_of`."""


class Proposals:
    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    def add(self, plan: Plan) -> Proposal:
        """The same change proposed again is the same proposal, as it was shown."""
        asked = replace(plan.draft, reason="", session="")
        name = hashlib.sha256(msgspec.json.encode(asked)).hexdigest()[:8]
        known = next((each for each in self.all() if each.id == name), None)
        return known or self.renew(Proposal(name, time.time(), plan.draft, "", ""), plan)

    def renew(self, proposal: Proposal, plan: Plan) -> Proposal:
        """The proposal with what it would do now."""
        now = replace(proposal, diff=diff_of(plan), base=base_of(plan))
        if now != proposal:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_bytes(self._folder / f"{now.id}.json", msgspec.json.encode(now), mode=0o600)
        return now

    def all(self) -> list[Proposal]:
        """The oldest first. A damaged file is left out."""
        found: list[Proposal] = []
        for file in self._folder.glob("*.json"):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                found.append(msgspec.json.decode(file.read_bytes(), type=Proposal))
        return sorted(found, key=lambda each: (each.at, each.id))

    def get(self, name: str) -> Proposal:
        """The one whose id, or the beginning of it, is `name`."""
        found = [each for each in self.all() if name and each.id.startswith(name.lower())]
        if len(found) != 1:
            what = f"there is no proposal {name!r}" if not found else f"{name} begins several ids"
            raise UsageError(what, hint="`hermes skills pending` lists them")
        return found[0]

    def drop(self, proposal: Proposal) -> None:
        (self._folder / f"{proposal.id}.json").unlink(missing_ok=True)

    def creating(self, name: str) -> Proposal | None:
        """The one that makes the skill `name`."""
        wanted = (Action.CREATE, name)
        found = (each for each in self.all() if (each.draft.action, each.draft.name) == wanted)
        return next(found, None)


def base_of(plan: Plan) -> str:
    """What the change was made for, in a few characters; "" when nothing was there."""
    if not plan.file:
        return content_hash(plan.target)
    return hashlib.sha256(plan.before).hexdigest() if plan.before is not None else ""


def diff_of(plan: Plan) -> str:
    """What would change, for a person."""
    if plan.file:
        return _diff(f"{plan.name}/{plan.file}", plan.before or b"", plan.after or b"")
    before = (plan.target / SKILL_FILE).read_bytes()
    return _diff(f"{plan.name}/{SKILL_FILE}", before, b"")


def _diff(name: str, before: bytes, after: bytes) -> str:
    try:
        old, new = before.decode().splitlines(), after.decode().splitlines()
    except UnicodeDecodeError:
        return f"{name}: {len(before):,} bytes become {len(after):,}\n"
    lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm="")
    return "".join(f"{line}\n" for line in lines)


DONE = {
    Action.CREATE: "created",
    Action.PATCH: "patched",
    Action.EDIT: "rewritten",
    Action.DELETE: "deleted",
    Action.WRITE_FILE: "written",
    Action.REMOVE_FILE: "removed",
}


class WritingOptions(msgspec.Struct, frozen=True):
    review: Literal["auto", "ask", "off"] = "auto"
    """`skills.review`. With `ask`, what the agent changes waits for the user."""
    limits: Limits = Limits()


class Outcome(msgspec.Struct, frozen=True):
    """What became of a change."""

    text: str
    """One line, for a model or a person."""
    commit: Commit | None = None
    """None when nothing differs, when it waits, and where git is missing."""
    proposal: Proposal | None = None
    """Where it waits."""


class SkillWriter:
    """`home` is `<home>/skills`, the only folder it writes to.

    A skill of another source is copied there with its first change, and the copy is changed. Every
    method that changes raises `ChangeRefused` or another `UsageError`, and nothing is changed then.

    Before a skill is created, those that are there are compared with it. When one is close, the
    model is told its name, once for each pair in a session, and is asked to patch that one. Asking
    for the same name again is the answer that it is meant: there is no parameter for it which a
    model could set beforehand without having looked.

    `uses` is told who made a skill, and of those that are gone.
    """

    def __init__(
        self,
        home: Path,
        catalogue: Catalogue,
        history: SkillHistory,
        check: Check,
        options: WritingOptions | None = None,
        uses: Uses | None = None,
    ) -> None:
        options = options or WritingOptions()
        self._home, self._history, self._catalogue = home.absolute(), history, catalogue
        self._check, self._options, self._uses = check, options, uses
        self._planner = Planner(self._home, catalogue, options.limits)
        self._workshop = Workshop(self._home)
        self._warned: set[tuple[str, str, str]] = set()
        self.proposals = Proposals(self._home)

    async def manage(self, draft: Draft) -> Outcome:
        """What the agent asks for: kept, or proposed when the user wants to see it first."""
        plan = await in_thread(self._prepared, draft)
        if self._options.review == "ask" and draft.who is not Who.USER:
            return await in_thread(self._proposed, plan)
        return await self._keep(plan)

    async def approve(self, proposal_id: str) -> Outcome:
        """Keep a proposed change, if what it was shown for is still there."""
        proposal = await in_thread(self.proposals.get, proposal_id)
        plan = await in_thread(self._planner.plan, proposal.draft)
        return await self._keep(plan, proposal)

    async def shown(self, proposal_id: str) -> Proposal:
        """A proposed change as it would be made now, which is what may then be approved. Raises a
        `UsageError` when it does not fit any more."""
        proposal = await in_thread(self.proposals.get, proposal_id)
        plan = await in_thread(self._planner.plan, proposal.draft)
        return await in_thread(self.proposals.renew, proposal, plan)

    async def reject(self, proposal_id: str) -> Proposal:
        proposal = await in_thread(self.proposals.get, proposal_id)
        self.proposals.drop(proposal)
        return proposal

    async def undo(self, commit: Commit) -> Commit:
        """Take a change back. Of a skill that was deleted it is known again who made it."""
        done = await self._history.undo(commit.id)
        if self._uses is not None and commit.action == Action.DELETE:
            for name in commit.skills:
                every = await self._history.log(name, limit=0)
                made = next((each for each in every if each.action == Action.CREATE), None)
                if made is not None:
                    await in_thread(self._uses.wrote, name, made.who, made.at)
        return done

    async def reset(self, name: str, reason: str = "", who: Who = Who.USER) -> Outcome:
        """Drop the changed copy of a skill, so that the original counts again."""
        folder, mark = await in_thread(self._planner.copied, name)
        change = Change(
            action="reset",
            skills=(mark.name,),
            reason=reason or f"back to the original of {mark.name}",
            who=who,
            paths=(self._relative(folder),),
        )

        def work() -> None:
            self._workshop.discard(self._planner.copied(name)[0])

        _, commit = await self._history.record(change, work)
        return Outcome(_told(f"{mark.name} is the original again", commit), commit)

    def copied(self, name: str) -> Overlay:
        """What the changed copy of a skill was made of. Raises a `UsageError` for no copy."""
        return self._planner.copied(name)[1]

    async def _keep(self, plan: Plan, proposal: Proposal | None = None) -> Outcome:
        """Decide again with what is there now, alone with the folder, and make it so."""
        draft = plan.draft
        change = Change(
            action=draft.action.value,
            skills=(plan.name,),
            reason=draft.reason or f"{draft.action.value} {plan.name}",
            who=draft.who,
            session=draft.session,
            paths=(self._relative(plan.target),),
        )

        def work() -> Plan:
            again = self._planner.plan(draft)
            if again.target != plan.target:
                raise ChangeRefused(f"{plan.name} was just moved", hint="try again")
            if proposal is not None:
                self._check_base(again, self.proposals.get(proposal.id))
            self._scan(again)
            self._workshop.apply(again)
            if proposal is not None:
                self.proposals.drop(proposal)
            self._count(again)
            return again

        kept, commit = await self._history.record(change, work)
        return Outcome(_told(_sentence(kept), commit), commit)

    def _prepared(self, draft: Draft) -> Plan:
        try:
            plan = self._planner.plan(draft)
        except SkillNotFound:
            waiting = self.proposals.creating(draft.name)
            if waiting is None:
                raise
            raise ChangeRefused(
                f"{draft.name} waits for the user's approval", hint="change it once it is approved"
            ) from None
        self._scan(plan)
        if draft.action is Action.CREATE and draft.who is not Who.USER:
            self._compare(plan)
        return plan

    def _compare(self, plan: Plan) -> None:
        near = closest(plan.name, plan.draft.content, self._catalogue.all())
        if near is None:
            return
        pair = (plan.draft.session, plan.name, near.name)
        if pair in self._warned:
            return
        self._warned.add(pair)
        raise ChangeRefused(
            f"not created: {near.name} is close to it: {near.description}",
            hint=f"view {near.name} and patch it instead; if this is something else, create it "
            "again under the same name",
        )

    def _scan(self, plan: Plan) -> None:
        """Raise for what speaks against the new content and did not against the old one."""
        if plan.after is None:
            return
        known = self._check({plan.file: plan.before}) if plan.before is not None else ()
        reasons = [each for each in self._check({plan.file: plan.after}) if each not in known]
        if reasons:
            raise ChangeRefused(
                f"not kept: {'; '.join(dict.fromkeys(reasons))}",
                hint="write it without that; if it is needed, the user can add it by hand",
            )

    def _count(self, plan: Plan) -> None:
        if self._uses is not None and plan.draft.action is Action.CREATE:
            self._uses.wrote(plan.name, plan.draft.who.value, time.time())
        if self._uses is not None and plan.draft.action is Action.DELETE:
            self._uses.forget(plan.name)

    def _check_base(self, plan: Plan, proposal: Proposal) -> None:
        if base_of(plan) != proposal.base:
            raise ChangeRefused(
                f"{plan.name} was changed since {proposal.id} was shown",
                hint=f"`hermes skills pending {proposal.id}` shows what it would do now",
            )

    def _proposed(self, plan: Plan) -> Outcome:
        try:
            proposal = self.proposals.add(plan)
        except OSError as error:
            raise ChangeRefused(f"it cannot be proposed: {error.strerror or error}") from error
        text = (
            f"{plan.draft.action.value} of {plan.name} waits for the user as proposal "
            f"{proposal.id}; nothing is changed until it is approved"
        )
        return Outcome(text, proposal=proposal)

    def _relative(self, folder: Path) -> str:
        return folder.relative_to(self._home).as_posix()


def _sentence(plan: Plan) -> str:
    what = plan.name if plan.file in ("", SKILL_FILE) else f"{plan.file} of {plan.name}"
    copied = f", in a copy of the {plan.original.source} one" if plan.original is not None else ""
    return f"{what} {DONE[plan.draft.action]}{copied}"


def _told(what: str, commit: Commit | None) -> str:
    return f"{what} (change {commit.short})" if commit is not None else what


# Skills nobody uses any more: found, proposed to the user, and put away. Never by themselves.

DAY = 86_400.0
UNUSED_DAYS = 90
BY_AGENT = frozenset({Who.AGENT, Who.REVIEW})


class Stale(msgspec.Struct, frozen=True):
    name: str
    description: str
    uses: int
    last_used: float
    """Seconds since 1970; 0 for never."""
    idle_days: int
    """Since it was used or changed."""


def stale(
    skills: Iterable[Skill], uses: Mapping[str, Use], now: float, days: float = UNUSED_DAYS
) -> list[Stale]:
    """Skills the agent wrote that nobody used or changed for `days`, the longest idle first. What
    the user wrote is left out, and so are changed copies: without one the original would count."""
    found: list[Stale] = []
    for skill in skills:
        use = uses.get(skill.name, Use())
        own = skill.is_own and overlay_of(skill.folder) is None
        if not own or use.written_by not in BY_AGENT:
            continue
        try:
            changed = skill.file.stat().st_mtime
        except FileNotFoundError:
            continue
        idle = int((now - max(changed, use.last)) / DAY)
        if idle >= days:
            found.append(Stale(skill.name, skill.description, use.count, use.last, idle))
    return sorted(found, key=lambda each: (-each.idle_days, each.name))


class Retirement:
    """Below `<home>/skills/.retired`, with the categories as they were."""

    def __init__(self, home: Path, catalogue: Catalogue, history: SkillHistory) -> None:
        self._home, self._catalogue, self._history = home.absolute(), catalogue, history
        self._planner = Planner(self._home, catalogue, Limits())
        self._workshop = Workshop(self._home)

    def retired(self) -> dict[str, Path]:
        """The folders of those that were put away, by name."""
        files = sorted((self._home / RETIRED).rglob(SKILL_FILE))
        return {file.parent.name: file.parent for file in files}

    async def retire(self, name: str, reason: str = "", who: Who = Who.USER) -> Commit | None:
        """Put a skill away. Raises `ChangeRefused`; None without git."""
        skill = await in_thread(self._planner.own, name)
        target = self._home / RETIRED / skill.folder.relative_to(self._home)
        return await self._move(
            "retire", skill.name, skill.folder, target, reason or "not used any more", who
        )

    async def unretire(self, name: str, reason: str = "", who: Who = Who.USER) -> Commit | None:
        there = await in_thread(self.retired)
        folder = there.get(name)
        if folder is None:
            raise SkillNotFound(
                f"no retired skill is called {name!r}",
                hint=f"retired are: {', '.join(there) or 'none'}",
            )
        target = self._home / folder.relative_to(self._home / RETIRED)
        return await self._move("unretire", name, folder, target, reason or "used again", who)

    async def _move(
        self, action: str, name: str, folder: Path, target: Path, reason: str, who: Who
    ) -> Commit | None:
        places = tuple(each.relative_to(self._home).as_posix() for each in (folder, target))
        change = Change(action, (name,), reason, who, paths=places)

        def work() -> None:
            if target.exists() or target.is_symlink():
                raise ChangeRefused(
                    f"there is something else in {target}", hint="move it away, then try again"
                )
            self._workshop.move(folder, target)

        _, commit = await self._history.record(change, work)
        return commit

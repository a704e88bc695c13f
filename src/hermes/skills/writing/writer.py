"""Change skills: plan, check, apply atomically, record in the history."""

import contextlib
import difflib
import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from hermes.core.errors import UsageError
from hermes.skills.history import (
    RETIRED,
    Author,
    SkillChange,
    SkillCommit,
    SkillHistory,
    remove_empty_folders,
)
from hermes.skills.index import SkillIndex
from hermes.skills.scanner import scan_files
from hermes.skills.skill import SKILL_FILE, Skill, SkillNotFound, SkillUsage, UsageRecord
from hermes.skills.writing.draft import (
    ChangePlan,
    ChangePlanner,
    ChangeRefused,
    ContentCheck,
    DraftAction,
    SkillDraft,
    SkillLimits,
    SkillOverlay,
    content_hash,
    copy_skill,
    most_similar,
    read_overlay,
)
from hermes.util.concurrency import in_thread
from hermes.util.files import write_bytes

# Applying plans: other processes see the complete change or none, even if this one dies

STAGE = ".stage-"  #: Prefix of temporary folders in the skill folder.


class SkillStore:
    """Writes to the folder `<home>/skills`. The caller holds the history lock."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def apply(self, plan: ChangePlan) -> None:
        """Carry out a plan. Raises `ChangeRefused` when the disk does not allow it."""
        if not plan.file:
            self.remove(plan.target)
        elif plan.original is None and plan.target.exists():
            with self._guarded():
                self._write_file(plan.target, plan)
        else:
            with self._guarded(), self._stage() as stage:
                made = stage / plan.target.name
                made.mkdir(mode=0o700)
                if plan.original is not None:
                    copy_skill(plan.original, made)
                self._write_file(made, plan)
                plan.target.parent.mkdir(parents=True, exist_ok=True)
                made.rename(plan.target)

    def remove(self, folder: Path) -> None:
        """Delete the folder of a skill."""
        with self._guarded():
            with self._stage() as stage:
                folder.rename(stage / folder.name)
            remove_empty_folders(folder.parent, self._home)

    def move(self, folder: Path, target: Path) -> None:
        """Move the folder of a skill to a free place."""
        with self._guarded():
            target.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(target)
            remove_empty_folders(folder.parent, self._home)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        for left in self._home.glob(f"{STAGE}*"):  # left by a process that died
            shutil.rmtree(left, ignore_errors=True)
        try:
            yield
        except OSError as error:
            raise ChangeRefused(
                f"the skill cannot be written: {error.strerror or error}",
                hint=f"look at the room and the permissions of {self._home}",
            ) from error

    def _write_file(self, folder: Path, plan: ChangePlan) -> None:
        file = folder / plan.file
        if plan.after is None:
            file.unlink(missing_ok=True)
            remove_empty_folders(file.parent, folder)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        mode = None if file.exists() else (0o700 if plan.after.startswith(b"#!") else 0o600)
        write_bytes(file, plan.after, mode=mode)

    @contextlib.contextmanager
    def _stage(self) -> Iterator[Path]:
        stage = Path(tempfile.mkdtemp(prefix=STAGE, dir=self._home))
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)


# The scanner as a `ContentCheck`

REFUSED_SEVERITIES = frozenset({"high", "critical"})


def scan_reasons(files: Mapping[str, bytes]) -> list[str]:
    """Return reasons against storing the files.

    A reason contains the line itself instead of its number, so that moved lines are recognised.
    """
    findings = scan_files(files).findings
    return [f"{each.why} ({each.text})" for each in findings if each.severity in REFUSED_SEVERITIES]


# Proposals: changes that wait for the user when `skills.review` is `ask`

PROPOSALS_FOLDER = ".pending"


class SkillProposal(msgspec.Struct, frozen=True):
    """A change that waits for the user."""

    id: str
    at: float  #: Seconds since 1970.
    draft: SkillDraft
    diff: str
    base: str  #: What `diff` was made for; see `plan_base`.
    is_shown: bool = False  #: Whether the user has seen `diff`.


class ProposalStore:
    """The proposals in `<home>/skills/.pending`."""

    def __init__(self, home: Path) -> None:
        self._folder = home / PROPOSALS_FOLDER

    def add(self, plan: ChangePlan) -> SkillProposal:
        """Store a proposal. The same change again returns the existing proposal."""
        request = replace(plan.draft, reason="", session="")
        name = hashlib.sha256(msgspec.json.encode(request)).hexdigest()[:8]
        known = next((each for each in self.all() if each.id == name), None)
        new = SkillProposal(name, time.time(), plan.draft, "", "")
        return known or self.refresh(new, plan, is_shown=False)

    def refresh(
        self, proposal: SkillProposal, plan: ChangePlan, *, is_shown: bool
    ) -> SkillProposal:
        """Store and return the proposal with its current effect."""
        now = replace(proposal, diff=plan_diff(plan), base=plan_base(plan), is_shown=is_shown)
        if now != proposal:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_bytes(self._folder / f"{now.id}.json", msgspec.json.encode(now), mode=0o600)
        return now

    def all(self) -> list[SkillProposal]:
        """Return the proposals, the oldest first. Damaged files are skipped."""
        found: list[SkillProposal] = []
        for file in self._folder.glob("*.json"):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                found.append(msgspec.json.decode(file.read_bytes(), type=SkillProposal))
        return sorted(found, key=lambda each: (each.at, each.id))

    def get(self, name: str) -> SkillProposal:
        """Return the proposal with this id or unique prefix."""
        found = [each for each in self.all() if name and each.id.startswith(name.lower())]
        if len(found) != 1:
            what = f"there is no proposal {name!r}" if not found else f"{name} begins several ids"
            raise UsageError(what, hint="`hermes skills pending` lists them")
        return found[0]

    def drop(self, proposal: SkillProposal) -> None:
        (self._folder / f"{proposal.id}.json").unlink(missing_ok=True)


def plan_base(plan: ChangePlan) -> str:
    """Return a hash of what a plan changes; "" when it does not exist yet."""
    if not plan.file:
        return content_hash(plan.target)
    return hashlib.sha256(plan.before).hexdigest() if plan.before is not None else ""


def plan_diff(plan: ChangePlan) -> str:
    """Return the effect of a plan as text."""
    name, before, after = f"{plan.name}/{plan.file}", plan.before or b"", plan.after or b""
    if not plan.file:
        name, before = f"{plan.name}/{SKILL_FILE}", (plan.target / SKILL_FILE).read_bytes()
    try:
        old, new = before.decode().splitlines(), after.decode().splitlines()
    except UnicodeDecodeError:
        return f"{name}: {len(before):,} bytes become {len(after):,}\n"
    lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm="")
    return "".join(f"{line}\n" for line in lines)


PAST_TENSE = {
    DraftAction.CREATE: "created",
    DraftAction.PATCH: "patched",
    DraftAction.EDIT: "rewritten",
    DraftAction.DELETE: "deleted",
    DraftAction.WRITE_FILE: "written",
    DraftAction.REMOVE_FILE: "removed",
}


class WritingOptions(msgspec.Struct, frozen=True):
    """Settings of `skills.*` for writing."""

    review: Literal["auto", "ask", "off"] = "auto"
    """`skills.review`. With `ask`, changes of the agent become proposals."""
    limits: SkillLimits = SkillLimits()


class ChangeOutcome(msgspec.Struct, frozen=True):
    """The result of a change."""

    text: str  #: One line, for the model or the user.
    commit: SkillCommit | None = None
    """None when nothing differs, for a proposal, and without git."""
    proposal: SkillProposal | None = None  #: The proposal that was created.


class SkillWriter:
    """Changes skills. `home` is `<home>/skills`, the only folder it writes to.

    The first change of a skill from another source copies it there and changes the copy. Every
    method that changes something raises `ChangeRefused` or another `UsageError`; nothing is changed
    then.

    Before a skill is created, it is compared with the existing ones. If one is similar, the call is
    refused with its name, once per pair and session, and the model is asked to patch it. Repeating
    the call confirms the new skill. There is no parameter for this, because a model could set it
    without looking at the similar skill.
    """

    def __init__(
        self,
        home: Path,
        index: SkillIndex,
        history: SkillHistory,
        check: ContentCheck,
        options: WritingOptions | None = None,
        usage: SkillUsage | None = None,
    ) -> None:
        options = options or WritingOptions()
        self._home, self._history, self._index = home.absolute(), history, index
        self._check, self._options, self._usage = check, options, usage
        self._planner = ChangePlanner(self._home, index, options.limits)
        self._store = SkillStore(self._home)
        self._warned: set[tuple[str, str, str]] = set()
        self.proposals = ProposalStore(self._home)

    async def manage(self, draft: SkillDraft) -> ChangeOutcome:
        """Apply a draft of the agent, or create a proposal if the user wants to review it."""
        plan = await in_thread(self._prepare, draft)
        if self._options.review == "ask" and draft.who is not Author.USER:
            return await in_thread(self._propose, plan)
        return await self._apply(plan)

    async def approve(self, proposal_id: str) -> ChangeOutcome:
        """Apply a proposal that was shown, if what it changes is still as it was then."""
        proposal = await in_thread(self.proposals.get, proposal_id)
        plan = await in_thread(self._planner.plan, proposal.draft)
        if not proposal.is_shown:
            raise ChangeRefused(
                f"{proposal.id} was not shown yet",
                hint=f"`hermes skills pending {proposal.id}` shows what it would do",
            )
        return await self._apply(plan, proposal)

    async def refreshed_proposal(self, proposal_id: str) -> SkillProposal:
        """Return a proposal with its current effect for the user, who can then approve it.

        Raises a `UsageError` when it does not apply any more.
        """
        proposal = await in_thread(self.proposals.get, proposal_id)
        plan = await in_thread(self._planner.plan, proposal.draft)
        return await in_thread(self.proposals.refresh, proposal, plan, is_shown=True)

    async def reject(self, proposal_id: str) -> SkillProposal:
        proposal = await in_thread(self.proposals.get, proposal_id)
        self.proposals.drop(proposal)
        return proposal

    async def undo(self, commit: SkillCommit) -> SkillCommit:
        """Undo a change. For a deleted skill the author is restored in the usage records."""
        done = await self._history.undo(commit.id)
        if self._usage is not None and commit.action == DraftAction.DELETE:
            for name in commit.skills:
                every = await self._history.log(name, limit=0)
                made = next((each for each in every if each.action == DraftAction.CREATE), None)
                if made is not None:
                    await in_thread(self._usage.record_author, name, made.who, made.at)
        return done

    async def reset(self, name: str, reason: str = "", who: Author = Author.USER) -> ChangeOutcome:
        """Delete the changed copy of a skill, so that the original is used again."""
        folder, mark = await in_thread(self._planner.require_copy, name)
        change = SkillChange(
            action="reset",
            skills=(mark.name,),
            reason=reason or f"back to the original of {mark.name}",
            who=who,
            paths=(self._relative(folder),),
        )

        def work() -> None:
            self._store.remove(self._planner.require_copy(name)[0])

        _, commit = await self._history.record(change, work)
        return ChangeOutcome(_with_commit(f"{mark.name} is the original again", commit), commit)

    # Retirement: skills are moved to `<home>/skills/.retired` and back, keeping their categories

    def retired(self) -> dict[str, Path]:
        """Return the folders of retired skills by name."""
        files = sorted((self._home / RETIRED).rglob(SKILL_FILE))
        return {file.parent.name: file.parent for file in files}

    async def retire(
        self, name: str, reason: str = "", who: Author = Author.USER
    ) -> SkillCommit | None:
        """Retire a skill. Raises `ChangeRefused`; returns None without git."""
        skill = await in_thread(self._planner.require_own, name)
        target = self._home / RETIRED / skill.folder.relative_to(self._home)
        return await self._move(
            "retire", skill.name, skill.folder, target, reason or "not used any more", who
        )

    async def unretire(
        self, name: str, reason: str = "", who: Author = Author.USER
    ) -> SkillCommit | None:
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
        self, action: str, name: str, folder: Path, target: Path, reason: str, who: Author
    ) -> SkillCommit | None:
        places = self._relative(folder), self._relative(target)
        change = SkillChange(action, (name,), reason, who, paths=places)

        def work() -> None:
            if target.exists() or target.is_symlink():
                raise ChangeRefused(
                    f"there is something else in {target}", hint="move it away, then try again"
                )
            self._store.move(folder, target)

        _, commit = await self._history.record(change, work)
        return commit

    def overlay_of(self, name: str) -> SkillOverlay:
        """Return the origin of a changed copy. Raises a `UsageError` if it is not one."""
        return self._planner.require_copy(name)[1]

    async def _apply(
        self, plan: ChangePlan, proposal: SkillProposal | None = None
    ) -> ChangeOutcome:
        """Plan again under the lock with the current files, and apply the plan."""
        draft = plan.draft
        change = SkillChange(
            action=draft.action.value,
            skills=(plan.name,),
            reason=draft.reason or f"{draft.action.value} {plan.name}",
            who=draft.who,
            session=draft.session,
            paths=(self._relative(plan.target),),
        )

        def work() -> ChangePlan:
            again = self._planner.plan(draft)
            if again.target != plan.target:
                raise ChangeRefused(f"{plan.name} was just moved", hint="try again")
            if proposal is not None and plan_base(again) != self.proposals.get(proposal.id).base:
                raise ChangeRefused(
                    f"{again.name} was changed since {proposal.id} was shown",
                    hint=f"`hermes skills pending {proposal.id}` shows what it would do now",
                )
            self._check_content(again)
            self._store.apply(again)
            if proposal is not None:
                self.proposals.drop(proposal)
            if self._usage is not None and draft.action is DraftAction.CREATE:
                self._usage.record_author(again.name, draft.who.value, time.time())
            elif self._usage is not None and draft.action is DraftAction.DELETE:
                self._usage.remove(again.name)
            return again

        kept, commit = await self._history.record(change, work)
        what = kept.name if kept.file in ("", SKILL_FILE) else f"{kept.file} of {kept.name}"
        copied = f", in a copy of the {kept.original.source} one" if kept.original else ""
        text = f"{what} {PAST_TENSE[draft.action]}{copied}"
        return ChangeOutcome(_with_commit(text, commit), commit)

    def _prepare(self, draft: SkillDraft) -> ChangePlan:
        try:
            plan = self._planner.plan(draft)
        except SkillNotFound:
            wanted = (DraftAction.CREATE, draft.name)
            proposed = (each.draft for each in self.proposals.all())
            if wanted not in ((each.action, each.name) for each in proposed):
                raise
            raise ChangeRefused(
                f"{draft.name} waits for the user's approval", hint="change it once it is approved"
            ) from None
        self._check_content(plan)
        if draft.action is DraftAction.CREATE and draft.who is not Author.USER:
            self._check_similar(plan)
        return plan

    def _check_similar(self, plan: ChangePlan) -> None:
        near = most_similar(plan.name, plan.draft.content, self._index.skills())
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

    def _check_content(self, plan: ChangePlan) -> None:
        """Raise for problems of the new content that the old content did not have."""
        if plan.after is None:
            return
        known = self._check({plan.file: plan.before}) if plan.before is not None else ()
        reasons = [each for each in self._check({plan.file: plan.after}) if each not in known]
        if reasons:
            raise ChangeRefused(
                f"not kept: {'; '.join(dict.fromkeys(reasons))}",
                hint="write it without that; if it is needed, the user can add it by hand",
            )

    def _propose(self, plan: ChangePlan) -> ChangeOutcome:
        try:
            proposal = self.proposals.add(plan)
        except OSError as error:
            raise ChangeRefused(f"it cannot be proposed: {error.strerror or error}") from error
        text = (
            f"{plan.draft.action.value} of {plan.name} waits for the user as proposal "
            f"{proposal.id}; nothing is changed until it is approved"
        )
        return ChangeOutcome(text, proposal=proposal)

    def _relative(self, folder: Path) -> str:
        return folder.relative_to(self._home).as_posix()


def _with_commit(what: str, commit: SkillCommit | None) -> str:
    return f"{what} (change {commit.short})" if commit is not None else what


# Unused skills, which are retired only on request of the user

DAY = 86_400.0
UNUSED_DAYS = 90
AGENT_AUTHORS = frozenset({Author.AGENT, Author.REVIEW})


class StaleSkill(msgspec.Struct, frozen=True):
    """A skill that has not been used for a long time."""

    name: str
    description: str
    uses: int
    last_used: float  #: Seconds since 1970; 0 for never.
    idle_days: int  #: Days since it was used or changed.


def stale_skills(
    skills: Iterable[Skill], uses: Mapping[str, UsageRecord], now: float, days: float = UNUSED_DAYS
) -> list[StaleSkill]:
    """Return skills of the agent that were not used or changed for `days`, the longest idle first.

    Skills of the user are left out, and so are changed copies: without the copy, the original would
    be used.
    """
    found: list[StaleSkill] = []
    for skill in skills:
        use = uses.get(skill.name, UsageRecord())
        own = skill.is_own and read_overlay(skill.folder) is None
        if not own or use.written_by not in AGENT_AUTHORS:
            continue
        try:
            changed = skill.file.stat().st_mtime
        except FileNotFoundError:
            continue
        idle = int((now - max(changed, use.last)) / DAY)
        if idle >= days:
            found.append(StaleSkill(skill.name, skill.description, use.count, use.last, idle))
    return sorted(found, key=lambda each: (-each.idle_days, each.name))

"""Changes of skills: decided, checked, kept as one step, and recorded with their reason."""

import time
from pathlib import Path
from typing import Literal

import msgspec

from hermes.skills.history.changes import Change, Commit, Who
from hermes.skills.history.skill_history import SkillHistory
from hermes.skills.skill import SKILL_FILE, SkillNotFound
from hermes.skills.usage import Uses
from hermes.skills.writing.alike import closest
from hermes.skills.writing.applying import Workshop
from hermes.skills.writing.drafts import Action, Catalogue, ChangeRefused, Check, Draft, Limits
from hermes.skills.writing.overlays import Overlay
from hermes.skills.writing.plans import Plan, Planner
from hermes.skills.writing.proposals import Proposal, Proposals, base_of
from hermes.util.threads import in_thread

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

"""Changes that wait for the user, when `skills.review` is `ask`."""

import contextlib
import difflib
import hashlib
import time
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hermes.core.errors import UsageError
from hermes.skills.skill import SKILL_FILE
from hermes.skills.writing.drafts import Action, Draft
from hermes.skills.writing.overlays import content_hash
from hermes.skills.writing.plans import Plan
from hermes.util.atomic import write_bytes

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

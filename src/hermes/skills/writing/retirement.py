"""Skills nobody uses any more: found, proposed to the user, and put away. Never by themselves."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from hermes.skills.history.changes import Change, Commit, Who
from hermes.skills.history.files import RETIRED
from hermes.skills.history.skill_history import SkillHistory
from hermes.skills.skill import SKILL_FILE, Skill, SkillNotFound
from hermes.skills.usage import Use
from hermes.skills.writing.applying import Workshop
from hermes.skills.writing.drafts import Catalogue, ChangeRefused, Limits
from hermes.skills.writing.overlays import overlay_of
from hermes.skills.writing.plans import Planner
from hermes.util.threads import in_thread

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

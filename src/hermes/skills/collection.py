"""All skills there are, found again only when something changed."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from hermes.skills.names import plain_name
from hermes.skills.shelf import Shelf, holds, key_of
from hermes.skills.skill import Broken, Root, Skill, SkillInvalid, SkillNotFound
from hermes.skills.snapshot import CacheGone, Snapshot, load, save

CLOSE = 3
"""Names offered for one that does not exist."""


class Skills:
    """The skills below `roots`, of which the first with a name counts.

    Every question is answered from what was found last when no file changed since: in this process,
    or in `cache_file`. That takes one stat a skill. Calls block, and may come from any thread.
    """

    def __init__(self, roots: Sequence[Root], cache_file: Path | None = None) -> None:
        self.roots = tuple(roots)
        self._file = cache_file
        self._snapshot: Snapshot | None = None

    def shelf(self) -> Shelf:
        """What the prompt needs: the quickest question."""
        return self._current().shelf

    def all(self) -> tuple[Skill, ...]:
        """By root, category and name."""
        try:
            return self._current().skills()
        except CacheGone:
            return self._anew().skills()

    def broken(self) -> tuple[Broken, ...]:
        """What looks like a skill and does not load."""
        found = self.shelf().broken
        return tuple(Broken(Path(each.file), each.source, each.reason) for each in found)

    def categories(self) -> Mapping[str, str]:
        """What those with a DESCRIPTION.md are for."""
        return self.shelf().categories

    def get(self, name: str) -> Skill:
        """By its name, also as `category/name`, in any letter case, with spaces or underscores.

        Raises `SkillNotFound`, or `SkillInvalid` when it is there and does not load.
        """
        now = self._current()
        number = _number(name, now.shelf)
        if number is None:
            raise _absent(name, now.shelf)
        try:
            return now.skill(number)
        except CacheGone:
            return next(each for each in self.all() if each.name == now.shelf.names[number])

    def _current(self) -> Snapshot:
        now = self._snapshot
        if now is None and self._file is not None:
            now = load(self._file, key_of(self.roots))
        if now is None or not holds(now.shelf):
            return self._anew(now)
        self._snapshot = now
        return now

    def _anew(self, last: Snapshot | None = None) -> Snapshot:
        # Most processes never come here, and need not load what reads the files.
        building = import_module("hermes.skills.building")
        now: Snapshot = building.build(self.roots, last)
        if self._file is not None:
            save(self._file, now)
        self._snapshot = now
        return now


def _number(name: str, shelf: Shelf) -> int | None:
    category, _, last = name.strip().strip("/").rpartition("/")
    plugin, colon, last = last.rpartition(":")
    wanted = plain_name(last)
    number = shelf.numbers.get(f"{plugin.strip()}{colon}{wanted}")
    if number is not None:
        fits = not category or shelf.run_of(number).category == category
        return number if fits else None
    # A name without its plugin will do when there is only one such.
    ends = [at for each, at in shelf.numbers.items() if each.endswith(f":{wanted}")]
    return ends[0] if len(ends) == 1 and not (category or plugin) else None


def _absent(name: str, shelf: Shelf) -> SkillNotFound | SkillInvalid:
    wanted = name.strip().rpartition("/")[2]
    for each in shelf.broken:
        if wanted and wanted in (Path(each.file).parent.name, Path(each.file).name):
            return SkillInvalid(
                f"the skill {name!r} does not load: {each.reason}", hint=f"look at {each.file}"
            )
    return SkillNotFound(f"there is no skill {name!r}", hint=_hint(name, shelf.names))


def _hint(name: str, names: Sequence[str]) -> str:
    by_end = {each.rpartition(":")[2]: each for each in names}
    wanted = plain_name(name.rpartition("/")[2].rpartition(":")[2])
    near = [each for each in by_end if wanted and (wanted in each or each in wanted)]
    near += import_module("difflib").get_close_matches(wanted, by_end, CLOSE)
    close = [by_end[each] for each in dict.fromkeys(near)][:CLOSE]
    return f"did you mean {' or '.join(close)}?" if close else "`hermes skills list` shows them all"

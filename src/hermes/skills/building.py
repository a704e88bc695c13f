"""A snapshot of the skills as they are now; what did not change is taken from the last one."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from hermes.security.injection import scan
from hermes.skills.filling import Read, columns, in_order
from hermes.skills.folders import THIRD_PARTY
from hermes.skills.head import read_head
from hermes.skills.linked import inside
from hermes.skills.parse import category_of, first_paragraph, skill_of
from hermes.skills.reading import Stamp, read, why
from hermes.skills.shelf import Shelf, Unusable, key_of
from hermes.skills.skill import (
    CATEGORY_FILE,
    SKILL_FILE,
    Broken,
    Root,
    Skill,
    SkillInvalid,
)
from hermes.skills.snapshot import CacheGone, Snapshot, encode
from hermes.skills.values import as_text
from hermes.skills.walk import CHANGING, Walk

Known = dict[tuple[str, Stamp], Skill]
"""By the folder of a skill and the stamp of its file."""


def build(roots: Sequence[Root], last: Snapshot | None = None) -> Snapshot:
    """Of several skills with one name the first counts, in the order of the roots."""
    walk = Walk()
    for root in roots:
        walk.visit(root)
    found = _vetted(_read(walk, _unchanged(last) if last else {}), walk.broken)
    taken = in_order(_first_of_each_name(found, walk.broken), roots)
    for each in taken:
        walk.seen.pop(f"{each.folder}/{SKILL_FILE}")
    rows, rows_sum = encode([(each.stamp, each.skill) for each in taken])
    shelf = Shelf(
        made_for=key_of(roots),
        rows_sum=rows_sum,
        others=dict(walk.seen),
        missing=tuple(walk.missing),
        broken=tuple(Unusable(str(at.file), at.source, at.reason) for at in walk.broken),
        categories=_categories(walk),
        **columns(taken, roots),
    )
    return Snapshot(shelf, lambda: rows)


def _unchanged(last: Snapshot) -> Known:
    try:
        return {(str(skill.folder), Stamp(*stamp)): skill for stamp, skill in last.found()}
    except CacheGone:
        return {}


def _read(walk: Walk, known: Known) -> list[Read]:
    found: list[Read] = []
    for folder, root in walk.skills:
        file = f"{folder}/{SKILL_FILE}"
        stamp = walk.seen[file]
        if (folder, stamp) in known:
            found.append(Read(known[folder, stamp], folder, stamp, root, new=False))
            continue
        try:
            _check_link(file, folder, root)
            text, stamp, warnings = read(file)
            walk.seen[file] = stamp
            found.append(Read(skill_of(text, Path(folder), root, warnings), folder, stamp, root))
        except OSError as error:
            walk.seen[file] = CHANGING
            walk.broken.append(Broken(Path(file), root.source, why(error)))
        except SkillInvalid as error:
            reason = f"{error}; {error.hint}" if error.hint else str(error)
            walk.broken.append(Broken(Path(file), root.source, reason))
    return found


def _check_link(file: str, folder: str, root: Root) -> None:
    """A link in a stranger's folder must not bring a file of the user's into a prompt. Raises
    `SkillInvalid`. The user's own links may lead anywhere, and so may one to a whole folder."""
    if root.source not in THIRD_PARTY:
        return
    path = Path(file)
    if path.is_symlink() and not (inside(path, Path(folder)) or inside(path, root.path)):
        raise SkillInvalid(f"{path.name} is a link out of its folder")


def _vetted(found: list[Read], broken: list[Broken]) -> list[Read]:
    """Without those of strangers whose descriptions would steer the agent."""
    strange = [each.skill for each in found if each.new and each.root.source in THIRD_PARTY]
    # All of them at once, which is many times as quick.
    if not scan("\n\n".join(skill.description for skill in strange)):
        return found
    hostile = {skill.folder: scan(skill.description) for skill in strange}
    for each in found:
        findings = hostile.get(each.skill.folder)
        if findings:
            reason = f"its description looks like prompt injection ({', '.join(findings)})"
            broken.append(Broken(each.skill.file, each.root.source, reason))
    return [each for each in found if not hostile.get(each.skill.folder)]


def _first_of_each_name(found: Iterable[Read], broken: list[Broken]) -> Iterable[Read]:
    """A skill of another root is covered on purpose; one of the same root has a name too many."""
    by_name: dict[str, Read] = {}
    for each in found:
        name = each.skill.name
        first = by_name.setdefault(name, each)
        if first is not each and first.root is each.root:
            reason = f"another skill is called {name!r} as well: {first.skill.folder}"
            broken.append(Broken(each.skill.file, each.root.source, reason))
    return by_name.values()


def _categories(walk: Walk) -> dict[str, str]:
    texts: dict[str, str] = {}
    for folder, root in walk.categories:
        name = category_of(Path(folder, "any"), root)
        if not name or name in texts:
            continue
        try:
            _check_link(f"{folder}/{CATEGORY_FILE}", folder, root)
            text = _described(f"{folder}/{CATEGORY_FILE}")
        except (OSError, SkillInvalid):  # it describes nothing, and the skills are there
            continue
        if text and not (root.source in THIRD_PARTY and scan(text)):
            texts[name] = text
    return texts


def _described(file: str) -> str:
    """The description in its head, or its first paragraph; on one line."""
    head = read_head(read(file).text)
    text = as_text(head.fields.get("description")) or first_paragraph(head.body)
    return " ".join(text.split())

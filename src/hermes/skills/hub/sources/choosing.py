"""Which of the skills in a repository is meant."""

from collections.abc import Callable, Sequence

import msgspec

from hermes.skills.hub.errors import NotThere
from hermes.skills.skill import SKILL_FILE

MOST_LISTED = 2_000
"""Skills of one repository."""
MOST_HEAD = 512 * 1024
"""A larger SKILL.md is not listed."""


class Listed(msgspec.Struct, frozen=True):
    folder: str
    """In the repository; "" is the top."""
    name: str
    description: str


def skill_folder(name: str) -> str | None:
    """The folder, when the file `name` of a repository makes it one of a skill.

    Hidden folders count: some collections keep their skills in `.curated`.
    """
    folder, _, file = name.rpartition("/")
    return folder if file == SKILL_FILE and ".git" not in folder.split("/") else None


def chosen_folder(place: str, path: str, skills: Sequence[Listed]) -> str:
    """The folder that `path` means: the whole of it, its end, the skill's name, or the only one.

    `place` is what messages call it. Raises `NotThere`.
    """
    ways: tuple[Callable[[Listed], bool], ...] = (
        lambda one: one.folder == path,
        lambda one: bool(path) and one.folder.endswith(f"/{path}"),
        lambda one: one.name == path,
        lambda _: not path,
    )
    for way in ways:
        found = [one for one in skills if way(one)]
        if len(found) == 1:
            return found[0].folder
        if found:
            names = ", ".join(one.folder or one.name for one in found[:8])
            raise NotThere(f"{place} may be any of {len(found)} skills", hint=f"one of {names}")
    if not skills:
        raise NotThere(f"{place}: no {SKILL_FILE} is there")
    names = ", ".join(one.folder or one.name for one in skills[:8])
    raise NotThere(f"there is no skill {place}", hint=f"what is there: {names}")

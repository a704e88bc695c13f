"""What the SKILL.md of a stranger says, before any of it lies on a disk."""

from pathlib import Path
from typing import NamedTuple

from hermes.skills.hub.contents import Files, is_hidden, safe_name
from hermes.skills.hub.errors import Unfit
from hermes.skills.parse import skill_of
from hermes.skills.reading import decode
from hermes.skills.skill import SKILL_FILE, Root, Skill, SkillInvalid, Source

NOWHERE = Path("skill")
LONGEST_CATEGORY = 64


class Head(NamedTuple):
    name: str = ""
    description: str = ""


def head_of(data: bytes) -> Head:
    """Name and description for a list; empty ones when it cannot be read."""
    try:
        skill = _parsed(data, NOWHERE)
    except SkillInvalid:
        return Head()
    return Head(skill.name, skill.description)


def skill_in(files: Files, folder: str = "") -> Skill:
    """The skill that these files are; `folder` is what it is called without a name of its own.

    Raises `Unfit` for one that would not load.
    """
    try:
        skill = _parsed(files[SKILL_FILE], Path(folder or NOWHERE))
        safe_name(skill.name)
    except SkillInvalid as error:
        raise Unfit(f"its {SKILL_FILE} cannot be used: {error}", hint=error.hint) from error
    return skill


def category_name(text: str) -> str:
    """A category as the name of a folder; "" when it cannot be one."""
    plain = "-".join(text.lower().replace("/", " ").split())[:LONGEST_CATEGORY]
    usable = all(char.isalnum() or char in "-_" for char in plain)
    return plain if usable and not is_hidden(plain) else ""


def _parsed(data: bytes, folder: Path) -> Skill:
    text, warnings = decode(data)
    return skill_of(text, folder, Root(folder, Source.HUB), warnings)

"""Skills as slash commands, and skills that a session starts with."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hermes.skills.collection import Skills
from hermes.skills.loading import LoadedSkill, SkillLoader
from hermes.skills.names import plain_name
from hermes.skills.skill import Circle, Skill
from hermes.skills.visibility import hidden_because, visible


class SkillCommand(NamedTuple):
    """`/name rest` as it was typed."""

    skill: str
    rest: str


def command_name(name: str) -> str:
    """Without the slash: lower case, with hyphens for spaces and underscores."""
    plugin, colon, last = name.rpartition(":")
    return f"{plain_name(plugin)}{colon}{plain_name(last)}"


def skill_commands(skills: Iterable[Skill], circle: Circle) -> Mapping[str, str]:
    """The description of each command, by its name without the slash."""
    return {
        command_name(skill.name): skill.description for skill in skills if visible(skill, circle)
    }


def skill_command(text: str, skills: Iterable[Skill], circle: Circle) -> SkillCommand | None:
    """Which skill `/name …` calls; None when it calls none."""
    line = text.strip()
    if not line.startswith("/") or not line[1:2].strip():
        return None
    typed, *rest = line[1:].split(maxsplit=1)
    wanted = command_name(typed)
    for skill in skills:
        if wanted and command_name(skill.name) == wanted and visible(skill, circle):
            return SkillCommand(skill.name, "".join(rest))
    return None


def why_not(text: str, skills: Skills, circle: Circle) -> str:
    """Why `/name …` calls nothing although there is such a skill; "" when there is none."""
    wanted = command_name(text.split(maxsplit=1)[0].removeprefix("/"))
    for skill in skills.all():
        if command_name(skill.name) == wanted and (reason := hidden_because(skill, circle)):
            return f"The skill `{skill.name}` is hidden here: {reason}."
    for broken in skills.broken():
        if plain_name(broken.folder.name) == wanted:
            return f"The skill `{broken.folder.name}` does not load: {broken.reason}."
    return ""


async def command_message(loader: SkillLoader, command: SkillCommand) -> tuple[LoadedSkill, str]:
    """The user message for a command. Raises `SkillNotFound` and `SkillInvalid`."""
    loaded = await loader.load(command.skill)
    asked = command.rest or "Follow the skill for what we are working on."
    opening = f"[The user called the skill {command.skill!r}: follow it.]"
    return loaded, f"{opening}\n\n{loaded.text}\n\n{asked}"


async def preloaded(loader: SkillLoader, names: Iterable[str]) -> tuple[list[LoadedSkill], str]:
    """For `-s name`: the text before the first user message, each skill once, in order."""
    loaded: dict[str, LoadedSkill] = {}
    for name in names:
        if name.strip():
            each = await loader.load(name)
            loaded.setdefault(each.skill.name, each)
    if not loaded:
        return [], ""
    opening = "[The user chose these skills for this session: follow them where they apply.]"
    texts = [each.text for each in loaded.values()]
    return list(loaded.values()), "\n\n".join([opening, *texts])

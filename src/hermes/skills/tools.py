"""skills_list and skill_view: finding and loading skills."""

from collections.abc import Callable, Iterable

from hermes.core.errors import ToolError
from hermes.core.tool import Effect, Tool, no_concern
from hermes.skills.collection import Skills
from hermes.skills.index import GENERAL
from hermes.skills.loading import SkillLoader
from hermes.skills.search import find
from hermes.skills.skill import Circle, Skill, SkillInvalid, SkillNotFound
from hermes.skills.visibility import visible
from hermes.skills.words import shortened
from hermes.util.threads import in_thread

TOOLSET = "skills"
MOST_LISTED, MOST_FOUND = 100, 12
LISTED_TEXT, FOUND_TEXT = 120, 240
"""Characters of a description."""


def skills_list_tool(skills: Skills, circle: Callable[[], Circle]) -> Tool:
    """`circle` is asked with each call: a session knows its tools only when it has them all."""

    async def skills_list(category: str = "", query: str = "") -> str:
        """List skills, or find them by words.

        query: what you want to do
        """
        return await in_thread(_listed, skills, circle(), category, query)

    return Tool.from_function(skills_list, toolset=TOOLSET, effect=Effect.READ, examine=no_concern)


def skill_view_tool(loader: SkillLoader) -> Tool:
    async def skill_view(name: str, file_path: str = "") -> str:
        """Load a skill's instructions, or one of its linked files.

        file_path: as listed with the skill
        """
        try:
            return (await loader.load(name, file_path)).text
        except (SkillNotFound, SkillInvalid) as error:
            raise ToolError(str(error), hint=error.hint) from error

    return Tool.from_function(skill_view, toolset=TOOLSET, effect=Effect.READ, examine=no_concern)


def _listed(skills: Skills, circle: Circle, category: str, query: str) -> str:
    wanted = category.strip().strip("/").lower()
    shown = [each for each in skills.all() if visible(each, circle)]
    among = [each for each in shown if not wanted or _within(each, wanted)]
    if not among:
        return _nothing(shown, f"there is no category {category!r}" if wanted else "no skills")
    if not query.strip():
        return _all(among)
    found = find(among, query, MOST_FOUND)
    if not found:
        return _nothing(shown, f"no skill fits {query!r}")
    return "\n".join(_line(each, FOUND_TEXT, with_category=True) for each in found)


def _within(skill: Skill, category: str) -> bool:
    held = (skill.category or GENERAL).lower()
    return held == category or held.startswith(f"{category}/")


def _all(among: list[Skill]) -> str:
    by_category: dict[str, list[Skill]] = {}
    for skill in among[:MOST_LISTED]:
        by_category.setdefault(skill.category, []).append(skill)
    lines: list[str] = []
    for category in sorted(by_category):
        lines.append(f"{category or GENERAL}:")
        members = sorted(by_category[category], key=lambda each: each.name)
        lines += [_line(each, LISTED_TEXT) for each in members]
    if len(among) > MOST_LISTED:
        left = _names(among[MOST_LISTED:])
        lines.append(f"{len(among) - MOST_LISTED:,} more ({left}): give a category or a query.")
    return "\n".join(lines)


def _line(skill: Skill, limit: int, *, with_category: bool = False) -> str:
    category = f" [{skill.category}]" if with_category and skill.category else ""
    return f"- {skill.name}{category}: {shortened(skill.description, limit)}"


def _nothing(shown: Iterable[Skill], why: str) -> str:
    names = _names(shown)
    return f"{why}; categories: {names}" if names else why


def _names(skills: Iterable[Skill]) -> str:
    return ", ".join(sorted({skill.category or GENERAL for skill in skills}))

"""skills_list and skill_view: finding and loading skills."""

from collections.abc import Callable, Iterable
from typing import Any

from hermes.core.errors import StoreError, ToolArgumentsInvalid, ToolError, UsageError
from hermes.core.model import ToolSpec
from hermes.core.tool import Effect, Tool, ToolContext, no_concern
from hermes.skills.history_repo import Who
from hermes.skills.index import Skills, shortened
from hermes.skills.loader import SkillLoader
from hermes.skills.prompt import GENERAL, find
from hermes.skills.skill import Circle, Skill, SkillInvalid, SkillNotFound, visible
from hermes.skills.writing.draft import Action, Draft
from hermes.skills.writing.writer import SkillWriter
from hermes.util.text import clean
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


# skill_manage: what the agent learnt, written down as skills.

NEEDED = {
    Action.CREATE: ("content",),
    Action.PATCH: ("old_string",),
    Action.EDIT: ("content",),
    Action.DELETE: (),
    Action.WRITE_FILE: ("file_path", "file_content"),
    Action.REMOVE_FILE: ("file_path",),
}
TEXTS = (
    "content", "category", "old_string", "new_string", "file_path", "file_content", "reason",
)  # fmt: skip


def skill_manage_tool(
    writer: SkillWriter, session_id: Callable[[], str], who: Who = Who.AGENT
) -> Tool:
    """Its writes stay in the agent's own folder of skills and can be undone, so nobody has to
    approve a call. With `skills.review: ask` it only proposes."""

    async def handler(call: ToolContext, arguments: dict[str, Any]) -> str:
        draft = _draft(arguments, session_id(), who)
        try:
            return (await call.cancel.guard(writer.manage(draft))).text
        except (UsageError, StoreError) as error:
            raise ToolError(str(error), hint=error.hint) from error

    return Tool(spec=_spec(), handler=handler, serial=True, toolset="skills")


def _draft(arguments: dict[str, Any], session: str, who: Who) -> Draft:
    try:
        action = Action(str(arguments["action"]))
    except ValueError:
        raise ToolArgumentsInvalid(
            f"there is no action {arguments['action']!r}", hint=f"use {', '.join(Action)}"
        ) from None
    texts = {key: clean(str(arguments.get(key) or "")) for key in TEXTS}
    for key in NEEDED[action]:
        if not texts[key]:
            raise ToolArgumentsInvalid(f"{action.value} needs {key}", hint=f"give {key}")
    return Draft(
        action=action,
        name=clean(str(arguments["name"])).strip(),
        replace_all=bool(arguments.get("replace_all")),
        session=session,
        who=who,
        **texts,
    )


def _spec() -> ToolSpec:
    text = {"type": "string"}
    return ToolSpec(
        name="skill_manage",
        description="Save how a kind of task is done as a skill, and mend skills that turned out "
        "wrong. Prefer patch. Worth it after hard work that will come again; not for one-off "
        "facts. Every change is recorded and can be undone.",
        parameters={
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": list(map(str, Action))},
                "name": {"type": "string", "description": "lower-case-with-hyphens"},
                "content": {
                    "type": "string",
                    "description": "create, edit: the whole SKILL.md: `---`, name and description "
                    "(when to use it), `---`, then steps, pitfalls, how to verify",
                },
                "category": {"type": "string", "description": "create: a folder, such as devops"},
                "old_string": {"type": "string", "description": "patch: text that is there once"},
                "new_string": text,
                "replace_all": {"type": "boolean"},
                "file_path": {
                    "type": "string",
                    "description": "file in references/, templates/, scripts/ or assets/",
                },
                "file_content": text,
                "reason": {"type": "string", "description": "why, in a few words"},
            },
            "required": ["action", "name"],
        },
    )

"""The tools skills_list, skill_view and skill_manage."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from hermes.core.errors import StoreError, ToolArgumentsInvalid, ToolError, UsageError
from hermes.core.model import ToolSpec
from hermes.core.tool import Effect, Tool, ToolContext, no_concern
from hermes.skills.history import Author
from hermes.skills.index import SkillIndex, shorten
from hermes.skills.loader import SkillLoader
from hermes.skills.prompt import GENERAL, search_skills
from hermes.skills.skill import (
    SkillEntry,
    SkillInvalid,
    SkillNotFound,
    VisibilityContext,
    canonical_name,
    is_offered,
)
from hermes.skills.writing.draft import DraftAction, SkillDraft
from hermes.util.concurrency import in_thread
from hermes.util.text import clean

if TYPE_CHECKING:
    from hermes.skills.writing.writer import SkillWriter  # most sessions change no skill

TOOLSET = "skills"
MAX_LISTED, MAX_FOUND = 100, 12
LISTED_CHARS, FOUND_CHARS = 120, 240  #: Characters of a description.
INSTALL = "the user installs it with: hermes skills install {}"


def skills_list_tool(
    skills: SkillIndex,
    context: Callable[[], VisibilityContext],
    optional: SkillIndex | None = None,
) -> Tool:
    """`context` is called for each use, because a session knows its tools only after creation.

    A query also finds the skills in `optional`, which the user can install.
    """

    async def skills_list(category: str = "", query: str = "") -> str:
        """List skills, or find them by words.

        query: what you want to do
        """
        return await in_thread(_list_skills, skills, optional, context(), category, query)

    return Tool.from_function(skills_list, toolset=TOOLSET, effect=Effect.READ, examine=no_concern)


def skill_view_tool(loader: SkillLoader, optional: SkillIndex | None = None) -> Tool:
    async def skill_view(name: str, file_path: str = "") -> str:
        """Load a skill's instructions, or one of its linked files.

        file_path: as listed with the skill
        """
        try:
            return (await loader.load(name, file_path, by_model=True)).text
        except SkillNotFound as error:
            hint = await in_thread(_install_hint, optional, name)
            raise ToolError(str(error), hint=hint or error.hint) from error
        except SkillInvalid as error:
            raise ToolError(str(error), hint=error.hint) from error

    return Tool.from_function(skill_view, toolset=TOOLSET, effect=Effect.READ, examine=no_concern)


def _install_hint(optional: SkillIndex | None, name: str) -> str:
    wanted = canonical_name(name)
    names = [each.name for each in optional.entries()] if optional else []
    return f"it is not installed; {INSTALL.format(wanted)}" if wanted in names else ""


def _list_skills(
    skills: SkillIndex,
    optional: SkillIndex | None,
    context: VisibilityContext,
    category: str,
    query: str,
) -> str:
    wanted = category.strip().strip("/").lower()

    def in_category(each: SkillEntry) -> bool:
        return not wanted or f"{each.category or GENERAL}/".lower().startswith(f"{wanted}/")

    every = skills.entries()
    shown = [each for each in every if is_offered(each, context)]
    among = [each for each in shown if in_category(each)]
    offered: dict[str, SkillEntry] = {}
    if optional is not None and query.strip():
        offered = {each.name: each for each in optional.entries() if is_offered(each, context)}
        offered = {name: each for name, each in offered.items() if in_category(each)}
        for entry in every:
            offered.pop(entry.name, None)
    if not among and not offered:
        return _no_match(shown, f"there is no category {category!r}" if wanted else "no skills")
    if not query.strip():
        return _format_all(among)

    def read(entry: SkillEntry) -> str:
        return (optional if optional and entry.name in offered else skills).instructions(entry)

    found = search_skills([*among, *offered.values()], query, MAX_FOUND, read)
    if not found:
        return _no_match(shown, f"no skill fits {query!r}")
    return "\n".join(
        _format_skill(each, FOUND_CHARS, with_category=True, optional=each.name in offered)
        for each in found
    )


def _format_all(among: list[SkillEntry]) -> str:
    by_category: dict[str, list[SkillEntry]] = {}
    for skill in among[:MAX_LISTED]:
        by_category.setdefault(skill.category, []).append(skill)
    lines: list[str] = []
    for category in sorted(by_category):
        lines.append(f"{category or GENERAL}:")
        members = sorted(by_category[category], key=lambda each: each.name)
        lines += [_format_skill(each, LISTED_CHARS) for each in members]
    if len(among) > MAX_LISTED:
        left = _category_names(among[MAX_LISTED:])
        lines.append(f"{len(among) - MAX_LISTED:,} more ({left}): give a category or a query.")
    return "\n".join(lines)


def _format_skill(
    skill: SkillEntry, limit: int, *, with_category: bool = False, optional: bool = False
) -> str:
    category = f" [{skill.category}]" if with_category and skill.category else ""
    missing = f" (not installed; {INSTALL.format(skill.name)})" if optional else ""
    return f"- {skill.name}{category}{missing}: {shorten(skill.description, limit)}"


def _no_match(shown: Iterable[SkillEntry], why: str) -> str:
    names = _category_names(shown)
    return f"{why}; categories: {names}" if names else why


def _category_names(skills: Iterable[SkillEntry]) -> str:
    return ", ".join(sorted({skill.category or GENERAL for skill in skills}))


# skill_manage

REQUIRED_ARGUMENTS = {
    DraftAction.CREATE: ("content",),
    DraftAction.PATCH: ("old_string",),
    DraftAction.EDIT: ("content",),
    DraftAction.DELETE: (),
    DraftAction.WRITE_FILE: ("file_path", "file_content"),
    DraftAction.REMOVE_FILE: ("file_path",),
}
TEXT_ARGUMENTS = (
    "content", "category", "old_string", "new_string", "file_path", "file_content", "reason",
)  # fmt: skip


def skill_manage_tool(
    writer: "Callable[[], SkillWriter]",
    session_id: Callable[[], str],
    who: Author = Author.AGENT,
    *,
    proposes: bool = False,
) -> Tool:
    """Its writes change what later sessions do. With `proposes` (`skills.review: ask`) they take
    effect only after the user has approved them, so the call itself needs no approval."""

    async def handler(call: ToolContext, arguments: dict[str, Any]) -> str:
        draft = _parse_draft(arguments, session_id(), who)
        try:
            return (await call.cancel.guard(writer().manage(draft))).text
        except (UsageError, StoreError) as error:
            raise ToolError(str(error), hint=error.hint) from error

    effect = Effect.READ if proposes else Effect.PERSIST
    return Tool(_manage_spec(), handler, effect=effect, serial=True, toolset="skills")


def _parse_draft(arguments: dict[str, Any], session: str, who: Author) -> SkillDraft:
    try:
        action = DraftAction(str(arguments["action"]))
    except ValueError:
        raise ToolArgumentsInvalid(
            f"there is no action {arguments['action']!r}", hint=f"use {', '.join(DraftAction)}"
        ) from None
    texts = {key: clean(str(arguments.get(key) or "")) for key in TEXT_ARGUMENTS}
    for key in REQUIRED_ARGUMENTS[action]:
        if not texts[key]:
            raise ToolArgumentsInvalid(f"{action.value} needs {key}", hint=f"give {key}")
    return SkillDraft(
        action=action,
        name=clean(str(arguments["name"])).strip(),
        replace_all=bool(arguments.get("replace_all")),
        session=session,
        who=who,
        **texts,
    )


def _manage_spec() -> ToolSpec:
    text = {"type": "string"}
    return ToolSpec(
        name="skill_manage",
        description="Save how to do a kind of task as a skill, and correct skills that are wrong. "
        "Prefer patch. Use it for difficult work that will be needed again, not for single facts. "
        "Every change is recorded and can be undone.",
        parameters={
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": list(map(str, DraftAction))},
                "name": {"type": "string", "description": "lower-case-with-hyphens"},
                "content": {
                    "type": "string",
                    "description": "create, edit: the whole SKILL.md: `---`, name and description "
                    "(when to use it), `---`, then steps, pitfalls, how to verify",
                },
                "category": {"type": "string", "description": "create: a folder, such as devops"},
                "old_string": {"type": "string", "description": "patch: text that occurs once"},
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

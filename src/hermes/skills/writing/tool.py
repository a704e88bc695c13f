"""skill_manage: what the agent learnt, written down as skills."""

from collections.abc import Callable
from typing import Any

from hermes.core.errors import StoreError, ToolArgumentsInvalid, ToolError, UsageError
from hermes.core.model import ToolSpec
from hermes.core.tool import Tool, ToolContext
from hermes.skills.history.changes import Who
from hermes.skills.writing.drafts import Action, Draft
from hermes.skills.writing.writer import SkillWriter
from hermes.util.text import clean

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

"""`build_skills_system_prompt` of `agent.prompt_builder`."""

from collections.abc import Iterable
from pathlib import Path

from hermes.app.documented.process import process, tell
from hermes.app.skills import SkillShelf, visibility_context


def build_skills_system_prompt(
    available_tools: Iterable[str] | None = None,
    available_toolsets: Iterable[str] | None = None,
) -> str:
    """The list of skills as it stands in the prompt of a conversation in this folder; "" when there
    is none. What tools there are decides which skills are shown; without them all are."""
    shared = process()
    shelf = SkillShelf(shared.loaded, shared.home, shared.extensions.skills, tell)
    context = visibility_context(
        shared.loaded, "cli", available_tools or (), available_toolsets or ()
    )
    return shelf.index(context, Path.cwd())

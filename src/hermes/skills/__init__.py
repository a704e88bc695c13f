"""Skills: folders with a SKILL.md that teach the agent a kind of task.

`SkillIndex` finds them, `skills_prompt` lists them in the prompt, `SkillLoader` renders one for
the model and `SkillHistory` records every change. Sub-packages: `writing`, `hub`, `scanner`.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.skills.history import (
        DEFAULT_LOG_LENGTH, Author, SkillChange, SkillCommit, SkillHistory, UndoRefused,
    )
    from hermes.skills.index import SkillIndex
    from hermes.skills.loader import (
        LoadedSkill, LoadOptions, Placeholders, SkillCommand, SkillEnvironment, SkillLoader,
        command_message, hidden_command_reason, preload_skills, read_linked, skill_command,
        skill_commands,
    )
    from hermes.skills.parse import read_frontmatter, read_instructions
    from hermes.skills.prompt import SkillsPrompt, search_skills
    from hermes.skills.skill import (
        HUB_FOLDER, SKILL_FILE, BrokenSkill, Skill, SkillEntry, SkillInvalid, SkillNotFound,
        SkillRoot, SkillSetting, SkillUsage, Source, UsageRecord, VisibilityContext,
        bundled_folder, canonical_name, hidden_reason, optional_folder, skill_roots,
        unusable_reason,
    )
    from hermes.skills.tools import skill_manage_tool, skill_view_tool, skills_list_tool
    # fmt: on
    # isort: on

__all__ = [
    "DEFAULT_LOG_LENGTH", "HUB_FOLDER", "SKILL_FILE", "Author", "BrokenSkill", "LoadOptions",
    "LoadedSkill", "Placeholders", "Skill", "SkillChange", "SkillCommand", "SkillCommit",
    "SkillEntry", "SkillEnvironment", "SkillHistory", "SkillIndex", "SkillInvalid", "SkillLoader",
    "SkillNotFound", "SkillRoot", "SkillSetting", "SkillUsage", "SkillsPrompt", "Source",
    "UndoRefused", "UsageRecord", "VisibilityContext", "bundled_folder", "canonical_name",
    "command_message", "hidden_command_reason", "hidden_reason", "optional_folder",
    "preload_skills", "read_frontmatter", "read_instructions",
    "read_linked", "search_skills", "skill_command", "skill_commands",
    "skill_manage_tool", "skill_roots", "skill_view_tool", "skills_list_tool", "unusable_reason",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)

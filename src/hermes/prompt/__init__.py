"""The text a model receives besides the conversation: the system prompt, project files, reminders.

`assemble` builds the system prompt of a session; `SubfolderHints` and `nudge` add to it later.
"""

from hermes.prompt.assembly import (
    DEFAULT_AGENT_IDENTITY,
    LAYERS,
    SKILL_TOOLS,
    SOUL,
    NudgeOptions,
    Prompt,
    PromptInputs,
    assemble,
    host_environment,
    nudge,
)
from hermes.prompt.context_files import LocalFileTree, SubfolderHints, paths_in_arguments

__all__ = [
    "DEFAULT_AGENT_IDENTITY",
    "LAYERS",
    "SKILL_TOOLS",
    "SOUL",
    "LocalFileTree",
    "NudgeOptions",
    "Prompt",
    "PromptInputs",
    "SubfolderHints",
    "assemble",
    "host_environment",
    "nudge",
    "paths_in_arguments",
]

"""The text a model receives besides the conversation: the system prompt, project files, reminders.

`assemble` builds the system prompt of a session; `SubfolderHints` and `nudge` add to it later.
"""

from hermes.prompt.assembly import (
    LAYERS,
    SKILL_TOOLS,
    NudgeOptions,
    Prompt,
    PromptInputs,
    assemble,
    host_environment,
    nudge,
)
from hermes.prompt.context_files import LocalFileTree, SubfolderHints, paths_in_arguments

__all__ = [
    "LAYERS",
    "SKILL_TOOLS",
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

"""The text a model receives besides the conversation: the system prompt, project files, reminders.

`assemble` builds the system prompt of a session; `SubfolderHints` and `nudge` add to it later.
"""

from hermes.prompt.assembly import (
    LAYERS,
    SKILL_TOOLS,
    Prompt,
    PromptInputs,
    assemble,
    host_environment,
)
from hermes.prompt.context_files import LocalFileTree, SubfolderHints, paths_in_arguments
from hermes.prompt.nudges import NudgeOptions, nudge

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

"""The prompt's parts under their documented names, for scripts and plugins."""

from pathlib import Path

from hermes.config.home import ensure_hermes_home
from hermes.prompt.assembly import (
    DEFAULT_AGENT_IDENTITY,
    DEVELOPER_ROLE_MODELS,
    GOOGLE_MODEL_OPERATIONAL_GUIDANCE,
    MEMORY_GUIDANCE,
    OPENAI_MODEL_EXECUTION_GUIDANCE,
    PLATFORM_HINTS,
    SESSION_SEARCH_GUIDANCE,
    SKILLS_GUIDANCE,
    TOOL_USE_ENFORCEMENT_GUIDANCE,
    TOOL_USE_ENFORCEMENT_MODELS,
    WSL_ENVIRONMENT_HINT,
    environment_hints,
    load_soul,
    this_machine,
)
from hermes.prompt.context_files import CONTEXT_FILE_MAX_CHARS, LocalTree, project_context
from hermes.security.redaction import Redactor

__all__ = [
    "CONTEXT_FILE_MAX_CHARS",
    "DEFAULT_AGENT_IDENTITY",
    "DEVELOPER_ROLE_MODELS",
    "GOOGLE_MODEL_OPERATIONAL_GUIDANCE",
    "MEMORY_GUIDANCE",
    "OPENAI_MODEL_EXECUTION_GUIDANCE",
    "PLATFORM_HINTS",
    "SESSION_SEARCH_GUIDANCE",
    "SKILLS_GUIDANCE",
    "TOOL_USE_ENFORCEMENT_GUIDANCE",
    "TOOL_USE_ENFORCEMENT_MODELS",
    "WSL_ENVIRONMENT_HINT",
    "build_context_files_prompt",
    "build_environment_hints",
    "load_soul_md",
]


def load_soul_md() -> str | None:
    """SOUL.md of the home in force, which is created if need be; None when there is nothing."""
    return load_soul(ensure_hermes_home(), Redactor().redact) or None


def build_context_files_prompt(cwd: str | Path | None = None, skip_soul: bool = False) -> str:
    """The project files for work in `cwd` (here), then SOUL.md unless it is left out."""
    soul = "" if skip_soul else load_soul_md() or ""
    folder = Path(cwd or ".").absolute()
    return project_context(LocalTree(), str(folder), Redactor().redact, soul=soul)


def build_environment_hints() -> str:
    """Hints for this kind of machine; "" when it is an ordinary one."""
    return environment_hints(this_machine())

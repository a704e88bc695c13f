"""`agent.prompt_builder`: parts of the prompt under their documented names, for scripts."""

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
    host_environment,
    load_soul,
)
from hermes.prompt.context_files import CONTEXT_FILE_MAX_CHARS, LocalFileTree, project_context
from hermes.security import Redactor

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
    """Return SOUL.md of the current home, which is created if necessary; None if it is empty."""
    return load_soul(ensure_hermes_home(), Redactor().redact) or None


def build_context_files_prompt(cwd: str | Path | None = None, skip_soul: bool = False) -> str:
    """Return the project files for work in `cwd` (default: here), followed by SOUL.md."""
    soul = "" if skip_soul else load_soul_md() or ""
    folder = Path(cwd or ".").absolute()
    return project_context(LocalFileTree(), str(folder), Redactor().redact, soul=soul)


def build_environment_hints() -> str:
    """Return hints for WSL, containers and Termux; "" on any other machine."""
    return environment_hints(host_environment())

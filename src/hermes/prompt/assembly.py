"""The system prompt of a session: built once, stored with the session, and sent unchanged.

Each layer is a function from the inputs to its text, or to "" if it does not apply. No layer reads
a clock or an environment variable, so the same inputs and files always give the same prompt.
`nudge` returns later reminders, computed from the conversation alone.
"""

import os
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path

import msgspec

from hermes.config.schema import bundled_platforms
from hermes.core.messages import Message, ToolResult, User
from hermes.prompt.context_files import (
    FileTree,
    LocalFileTree,
    Redact,
    project_context,
    vet_text,
)
from hermes.util.files import inside
from hermes.util.lazy import bundled_manifest
from hermes.util.text import clean

# Texts for the model. Every request pays for them, so they are short.

_MEDIA = "To send a file of your working folder, write MEDIA:/absolute/path in your answer."
_PLAIN = "Markdown does not render; write plain text."

_FOUND = re.split(
    r"^\[([\w ]+)\]\n",
    Path(__file__).with_name("texts.txt").read_text("utf-8"),
    flags=re.MULTILINE,
)
_TEXTS = {name: text.strip() for name, text in zip(_FOUND[1::2], _FOUND[2::2], strict=True)}
"""The texts in `texts.txt`, by the name above each."""

PLATFORM_HINTS = {
    name.removeprefix("platform "): text.replace("{media}", _MEDIA).replace("{plain}", _PLAIN)
    for name, text in _TEXTS.items()
    if name.startswith("platform ")
}
"""By platform. Bundled platforms declare theirs; others have no hint."""


def platform_hint(platform: str) -> str:
    """Return the hint for a platform; `api-server` and `api_server` are the same."""
    name = platform.strip().lower().replace("-", "_")
    if name in PLATFORM_HINTS or name not in bundled_platforms():
        return PLATFORM_HINTS.get(name, "")
    manifest = bundled_manifest("platforms", name)
    return f"{manifest.prompt_hint} {_MEDIA if manifest.capabilities.media_out else ''}".strip()


PROC_VERSION = "/proc/version"
CONTAINER_MARKERS = ("/.dockerenv", "/run/.containerenv")
TERMUX_MARKER = "/data/data/com.termux/files/usr"

WSL_ENVIRONMENT_HINT = _TEXTS["WSL_ENVIRONMENT_HINT"]
CONTAINER_HINT = _TEXTS["CONTAINER_HINT"]
TERMUX_HINT = _TEXTS["TERMUX_HINT"]


class HostEnvironment(msgspec.Struct, frozen=True):
    """Properties of this machine that change how to work on it."""

    wsl: bool = False
    container: bool = False
    termux: bool = False


def detect_environment(proc_version: str, exists: Callable[[str], bool]) -> HostEnvironment:
    """`proc_version` is the text of /proc/version, or ""."""
    return HostEnvironment(
        wsl="microsoft" in proc_version.lower(),
        container=any(map(exists, CONTAINER_MARKERS)),
        termux=exists(TERMUX_MARKER),
    )


@cache
def host_environment() -> HostEnvironment:
    """Return the environment of this machine."""
    try:
        version = Path(PROC_VERSION).read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux, or /proc is not readable
        version = ""
    # Unlike `Path.exists`, this returns False for a path below a folder without access.
    return detect_environment(version, os.path.exists)


def environment_hints(environment: HostEnvironment) -> str:
    hints = (
        (environment.wsl, WSL_ENVIRONMENT_HINT),
        (environment.container, CONTAINER_HINT),
        (environment.termux, TERMUX_HINT),
    )
    return "\n".join(text for applies, text in hints if applies)


DEFAULT_AGENT_IDENTITY = _TEXTS["DEFAULT_AGENT_IDENTITY"]
WORK_GUIDANCE = _TEXTS["WORK_GUIDANCE"]
EDIT_GUIDANCE = _TEXTS["EDIT_GUIDANCE"]
MEMORY_GUIDANCE = _TEXTS["MEMORY_GUIDANCE"]
SESSION_SEARCH_GUIDANCE = _TEXTS["SESSION_SEARCH_GUIDANCE"]
SKILLS_GUIDANCE = _TEXTS["SKILLS_GUIDANCE"]
TOOL_USE_ENFORCEMENT_MODELS = ("gpt", "codex", "gemini", "gemma", "grok")
"""Parts of model names. These models tend to describe work instead of doing it."""

TOOL_USE_ENFORCEMENT_GUIDANCE = _TEXTS["TOOL_USE_ENFORCEMENT_GUIDANCE"]
OPENAI_MODELS = ("gpt", "codex")
"""Parts of model names that get `OPENAI_MODEL_EXECUTION_GUIDANCE`."""

OPENAI_MODEL_EXECUTION_GUIDANCE = _TEXTS["OPENAI_MODEL_EXECUTION_GUIDANCE"]
GOOGLE_MODELS = ("gemini", "gemma")
"""Parts of model names that get `GOOGLE_MODEL_OPERATIONAL_GUIDANCE`."""

GOOGLE_MODEL_OPERATIONAL_GUIDANCE = _TEXTS["GOOGLE_MODEL_OPERATIONAL_GUIDANCE"]
DEVELOPER_ROLE_MODELS = ("gpt-5", "codex")
"""Parts of model names that get the system prompt in the role `developer`. A documented name for
scripts; Hermes itself uses the profile of the model."""

PLACES = {
    "local": "",
    "sandbox": "a sandbox on this machine: the system is read-only, /tmp is private",
    "docker": "a container, not the user's machine",
    "ssh": "another machine, over SSH",
}
"""Where commands run and files are, by `terminal.backend`; other backends describe themselves."""


TOOL_GUIDANCE = {
    "memory": MEMORY_GUIDANCE,
    "session_search": SESSION_SEARCH_GUIDANCE,
    "skill_manage": SKILLS_GUIDANCE,
}
"""By the tool that must be enabled."""

FAMILY_GUIDANCE = (
    (OPENAI_MODELS, OPENAI_MODEL_EXECUTION_GUIDANCE),
    (GOOGLE_MODELS, GOOGLE_MODEL_OPERATIONAL_GUIDANCE),
)

SWITCH_WORDS = {
    **dict.fromkeys(("true", "on", "yes", "always"), True),
    **dict.fromkeys(("false", "off", "no", "never", ""), False),
}
"""Spellings of a boolean in an environment variable or a quoted setting."""


EDIT_TOOLS = frozenset({"write_file", "patch"})


def tool_guidance(tools: frozenset[str]) -> str:
    """Return how to work with `tools`. It is separate from the identity, which SOUL.md replaces."""
    if not tools:
        return ""
    work = [WORK_GUIDANCE, *([EDIT_GUIDANCE] if tools & EDIT_TOOLS else [])]
    keep = [text for tool, text in TOOL_GUIDANCE.items() if tool in tools]
    return "\n\n".join(filter(None, ("\n".join(work), "\n".join(keep))))


def model_guidance(model: str, enforcement: bool | str | tuple[str, ...]) -> str:
    """Return the guidance for this model; "" if `enforcement` excludes it."""
    if not is_enforced(model, enforcement):
        return ""
    family = (text for names, text in FAMILY_GUIDANCE if _name_contains(model, names))
    return "\n\n".join((TOOL_USE_ENFORCEMENT_GUIDANCE, *family))


def is_enforced(model: str, enforcement: bool | str | tuple[str, ...]) -> bool:
    """`enforcement` is a boolean, `auto` (known model families), or parts of model names."""
    if isinstance(enforcement, bool):
        return enforcement
    if isinstance(enforcement, tuple):
        return _name_contains(model, enforcement)
    word = enforcement.strip().lower()
    if word == "auto":
        return _name_contains(model, TOOL_USE_ENFORCEMENT_MODELS)
    return SWITCH_WORDS[word] if word in SWITCH_WORDS else _name_contains(model, (word,))


def _name_contains(model: str, parts: tuple[str, ...]) -> bool:
    name = model.lower()
    return any(part.strip().lower() in name for part in parts if part.strip())


SOUL = "SOUL.md"
SKILL_TOOLS = frozenset({"skills_list", "skill_view", "skill_manage"})
LOCAL_BACKENDS = frozenset({"local", "sandbox"})
"""Terminal backends that run on this machine, so that its environment matters."""


class PromptInputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the system prompt is made of."""

    home: Path  #: The home folder, which holds SOUL.md.
    tools: frozenset[str] = frozenset()  #: Names of the enabled tools.
    model: str
    provider: str
    platform: str = "cli"
    session_id: str  #: "" leaves out the id and the time of the session.
    now: datetime  #: When the session began, in the user's time zone.
    working_folder: str = ""
    place: str = "local"  #: `terminal.backend`: where commands run and files are.
    place_description: str = ""  #: The same in words, for a backend that is not in `PLACES`.
    tree: FileTree | None = None  #: Where project files are read; None for no project files.
    skip_context_files: bool = False  #: Leave out SOUL.md and project files, as for subagents.
    enforcement: bool | str | tuple[str, ...] = "auto"  #: `agent.tool_use_enforcement`.
    system_message: str = ""  #: `agent.system_prompt`, or the system message of an API caller.
    memory_block: str = ""  #: Static text of the external memory provider.
    memory: str = ""
    user_profile: str = ""
    skills_index: str = ""
    environment: HostEnvironment = HostEnvironment()
    redact: Redact = str  #: Removes secrets from SOUL.md and project files.


class PromptLayer(msgspec.Struct, frozen=True):
    name: str
    text: str


class Prompt(msgspec.Struct, frozen=True):
    layers: tuple[PromptLayer, ...]  #: The layers that have text, in order.

    @property
    def text(self) -> str:
        return "\n\n".join(layer.text for layer in self.layers)


def assemble(inputs: PromptInputs) -> Prompt:
    """Build the system prompt."""
    texts = ((name, clean(layer(inputs)).strip()) for name, layer in LAYERS.items())
    return Prompt(tuple(PromptLayer(name, text) for name, text in texts if text))


def load_soul(home: Path, redact: Redact = str) -> str:
    """Return the vetted text of SOUL.md; "" if it is missing, empty or unreadable."""
    return vet_text(SOUL, LocalFileTree().read(inside(str(home), SOUL)) or "", redact)


def _identity(inputs: PromptInputs) -> str:
    soul = "" if inputs.skip_context_files else load_soul(inputs.home, inputs.redact)
    if soul.startswith("[BLOCKED:"):
        return f"{DEFAULT_AGENT_IDENTITY}\n\n{soul}"
    return soul or DEFAULT_AGENT_IDENTITY


def _session(inputs: PromptInputs) -> str:
    """Return the facts about the session, among them the model: some endpoints report another."""
    where = PLACES.get(inputs.place, inputs.place_description)
    named = f"{inputs.model} ({inputs.provider})" if inputs.provider else inputs.model
    began = f"Session began: {inputs.now:%A, %Y-%m-%d %H:%M %Z}"
    facts = (
        *([f"Working folder: {inputs.working_folder}"] if inputs.working_folder else []),
        *([f"Commands and files are in {where}"] if where else []),
        *([began.rstrip(), f"Session: {inputs.session_id}"] if inputs.session_id else []),
        *([f"Model: {named}"] if inputs.model else []),
    )
    return "\n".join(map(_printable, map(clean, facts)))


def _printable(text: str) -> str:
    """Replace line breaks and control characters, which a folder name may contain."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "�" for each in text)


LAYERS: dict[str, Callable[[PromptInputs], str]] = {
    "identity": _identity,
    "tools": lambda inputs: tool_guidance(inputs.tools),
    "model": lambda inputs: (
        model_guidance(inputs.model, inputs.enforcement) if inputs.tools else ""
    ),
    "memory_provider": lambda inputs: inputs.memory_block,
    "system_message": lambda inputs: inputs.system_message,
    "memory": lambda inputs: inputs.memory,
    "user_profile": lambda inputs: inputs.user_profile,
    "skills": lambda inputs: inputs.skills_index if inputs.tools & SKILL_TOOLS else "",
    "context_files": lambda inputs: (
        project_context(inputs.tree, inputs.working_folder, inputs.redact)
        if inputs.tree is not None and not inputs.skip_context_files
        else ""
    ),
    "session": _session,
    "environment": lambda inputs: (
        environment_hints(inputs.environment) if inputs.place in LOCAL_BACKENDS else ""
    ),
    "platform": lambda inputs: platform_hint(inputs.platform),
}
"""The layers, in the order of the prompt."""


MEMORY_TOOL, SKILL_TOOL = "memory", "skill_manage"

MEMORY_NUDGE = "[Reminder: if a lasting fact or preference came up, save it with memory.]"
SKILL_NUDGE = "[Reminder: if this work showed a method worth repeating, save it with skill_manage.]"


class NudgeOptions(msgspec.Struct, frozen=True):
    memory_interval: int = 10
    """`memory.nudge_interval`: user messages without a call of memory; 0 disables it."""
    skill_interval: int = 15
    """`skills.creation_nudge_interval`: tool calls without one of skill_manage; 0 disables it."""


DEFAULT_OPTIONS = NudgeOptions()


def nudge(
    history: Sequence[Message], tools: frozenset[str], options: NudgeOptions = DEFAULT_OPTIONS
) -> str:
    """Return the reminders to add to the last user message; mostly "".

    They depend only on the history up to that message, so they are the same throughout a turn.
    """
    end = _last_user(history, len(history))
    if end < 0:
        return ""
    due = []
    if MEMORY_TOOL in tools and _memory_due(history, end, options.memory_interval):
        due.append(MEMORY_NUDGE)
    if SKILL_TOOL in tools and _skill_due(history, end, options.skill_interval):
        due.append(SKILL_NUDGE)
    return "\n".join(due)


def _memory_due(history: Sequence[Message], end: int, interval: int) -> bool:
    if interval <= 0 or end + 1 < interval:
        return False
    count = 0
    for message in reversed(history[: end + 1]):
        if isinstance(message, User):
            count += 1
        elif isinstance(message, ToolResult) and message.name == MEMORY_TOOL:
            break
    return count > 0 and count % interval == 0


def _skill_due(history: Sequence[Message], end: int, interval: int) -> bool:
    """Return whether the turn before `end` took the count past a multiple of `interval`."""
    if interval <= 0:
        return False
    start = max(0, _last_user(history, end))
    turn, used_skill_tool = _calls_since_skill(history[start:end])
    if not turn:
        return False
    before = 0 if used_skill_tool else _calls_since_skill(history[:start])[0]
    return (before + turn) // interval > before // interval


def _calls_since_skill(history: Sequence[Message]) -> tuple[int, bool]:
    """Return the number of results after the last one of `SKILL_TOOL`, and whether there is one."""
    count = 0
    for message in reversed(history):
        if isinstance(message, ToolResult):
            if message.name == SKILL_TOOL:
                return count, True
            count += 1
    return count, False


def _last_user(history: Sequence[Message], end: int) -> int:
    """Return the index of the last user message before `end`, or -1."""
    return next((at for at in range(end - 1, -1, -1) if isinstance(history[at], User)), -1)

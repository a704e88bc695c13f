"""The system prompt of a session, in layers: built once, stored with it, sent word for word after.

Each layer is one function from the inputs to text, or to "" when it has nothing to say. Nothing
here looks at a clock or a variable, so the same inputs and files always give the same text.
"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from hermes.prompt.context_files import project_context
from hermes.prompt.environment import Environment, environment_hints
from hermes.prompt.guidance import model_guidance, tool_guidance
from hermes.prompt.platforms import platform_hint
from hermes.prompt.soul import load_soul
from hermes.prompt.texts import DEFAULT_AGENT_IDENTITY, PLACES
from hermes.prompt.tree import Tree
from hermes.prompt.vetting import Redact
from hermes.util.text import clean

SKILL_TOOLS = frozenset({"skills_list", "skill_view", "skill_manage"})
ON_THIS_MACHINE = frozenset({"local", "sandbox"})
"""Backends for which the kind of this machine matters."""


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    home: Path
    """The home folder, where SOUL.md is."""
    tools: frozenset[str] = frozenset()
    """Names of the enabled tools."""
    model: str
    provider: str
    platform: str = "cli"
    session_id: str
    now: datetime
    """When the session began, in the user's time zone."""
    working_folder: str
    place: str = "local"
    """`terminal.backend`: where commands run and files are."""
    tree: Tree | None = None
    """Where project files are read; None: they are not looked for."""
    skip_context_files: bool = False
    """Neither SOUL.md nor project files, as for subagents."""
    enforcement: bool | str | tuple[str, ...] = "auto"
    """`agent.tool_use_enforcement`."""
    system_message: str = ""
    """`agent.system_prompt`, or what an API caller gave."""
    memory_block: str = ""
    """Static text of the external memory provider."""
    memory: str = ""
    user_profile: str = ""
    skills_index: str = ""
    environment: Environment = Environment()
    redact: Redact = str
    """SOUL.md and project files pass it: secrets must not reach the model."""


class Layer(msgspec.Struct, frozen=True):
    name: str
    text: str


class Prompt(msgspec.Struct, frozen=True):
    layers: tuple[Layer, ...]
    """Those that have text, in order."""

    @property
    def text(self) -> str:
        return "\n\n".join(layer.text for layer in self.layers)


def assemble(inputs: Inputs) -> Prompt:
    texts = ((name, clean(layer(inputs)).strip()) for name, layer in LAYERS.items())
    return Prompt(tuple(Layer(name, text) for name, text in texts if text))


def identity(inputs: Inputs) -> str:
    soul = "" if inputs.skip_context_files else load_soul(inputs.home, inputs.redact)
    if soul.startswith("[BLOCKED:"):
        return f"{DEFAULT_AGENT_IDENTITY}\n\n{soul}"
    return soul or DEFAULT_AGENT_IDENTITY


def tools(inputs: Inputs) -> str:
    return tool_guidance(inputs.tools)


def model(inputs: Inputs) -> str:
    return model_guidance(inputs.model, inputs.enforcement) if inputs.tools else ""


def memory_provider(inputs: Inputs) -> str:
    return inputs.memory_block


def system_message(inputs: Inputs) -> str:
    return inputs.system_message


def memory(inputs: Inputs) -> str:
    return inputs.memory


def user_profile(inputs: Inputs) -> str:
    return inputs.user_profile


def skills(inputs: Inputs) -> str:
    return inputs.skills_index if inputs.tools & SKILL_TOOLS else ""


def context_files(inputs: Inputs) -> str:
    if inputs.tree is None or inputs.skip_context_files:
        return ""
    return project_context(inputs.tree, inputs.working_folder, inputs.redact)


def session(inputs: Inputs) -> str:
    """Facts about the session. The model is told its name: some endpoints report a wrong one."""
    where = PLACES.get(inputs.place, "")
    named = f"{inputs.model} ({inputs.provider})" if inputs.provider else inputs.model
    facts = (
        f"Working folder: {inputs.working_folder}",
        *([f"Commands and files are in {where}"] if where else []),
        f"Session began: {inputs.now:%A, %Y-%m-%d %H:%M %Z}".rstrip(),
        f"Session: {inputs.session_id}",
        *([f"Model: {named}"] if inputs.model else []),
    )
    return "\n".join(map(_one_line, facts))


def _one_line(fact: str) -> str:
    """Whatever the name of a folder holds."""
    text = clean(fact)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "�" for each in text)


def environment(inputs: Inputs) -> str:
    here = inputs.place in ON_THIS_MACHINE
    return environment_hints(inputs.environment) if here else ""


def platform(inputs: Inputs) -> str:
    return platform_hint(inputs.platform)


LAYERS: dict[str, Callable[[Inputs], str]] = {
    "identity": identity,
    "tools": tools,
    "model": model,
    "memory_provider": memory_provider,
    "system_message": system_message,
    "memory": memory,
    "user_profile": user_profile,
    "skills": skills,
    "context_files": context_files,
    "session": session,
    "environment": environment,
    "platform": platform,
}
"""In the order of the prompt."""

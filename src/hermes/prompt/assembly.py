"""The system prompt of a session, in layers: built once, stored with it, sent word for word after.

Each layer is one function from the inputs to text, or to "" when it has nothing to say. Nothing
here looks at a clock or a variable, so the same inputs and files always give the same text.
"""

import os
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path

import msgspec

from hermes.prompt.context_files import LocalTree, Redact, Tree, project_context, vetted
from hermes.util.paths import inside
from hermes.util.text import clean

# SOUL.md: who the agent is, in the words of its owner.

SOUL = "SOUL.md"


def load_soul(home: Path, redact: Redact = str) -> str:
    """The vetted text of SOUL.md in the home folder; "" when it is missing, empty or unreadable."""
    return vetted(SOUL, LocalTree().read(inside(str(home), SOUL)) or "", redact)


# What the model is told about where its words appear.

_MEDIA = "Send a file of your working folder by writing MEDIA:/absolute/path in your answer."
_PLAIN = "Markdown does not render: write plain text."

PLATFORM_HINTS = {
    "cli": "You are talking in a terminal: plain text, short lines, little Markdown.",
    "telegram": "You are in a Telegram chat. Bold, italic, strike, ||spoiler||, `code`, code"
    f" blocks, links and headers render; tables do not. {_MEDIA}",
    "discord": f"You are in a Discord chat. Markdown renders, tables do not. {_MEDIA}",
    "slack": f"You are in a Slack chat. Markdown renders, tables do not. {_MEDIA}",
    "whatsapp": f"You are in a WhatsApp chat. {_PLAIN} {_MEDIA}",
    "signal": f"You are in a Signal chat. {_PLAIN} {_MEDIA}",
    "matrix": f"You are in a Matrix room. Markdown renders. {_MEDIA}",
    "mattermost": f"You are in a Mattermost chat. Markdown renders, tables too. {_MEDIA}",
    "email": "You are answering by email: plain text with a clear structure, no Markdown, no"
    f" chatter; the subject stays. {_MEDIA}",
    "sms": "You are answering by SMS: plain text, as short as can be, no Markdown, no files.",
    "bluebubbles": f"You are in an iMessage chat. {_PLAIN} Keep it short. {_MEDIA}",
    "weixin": f"You are in a Weixin (WeChat) chat. Markdown renders; keep it compact. {_MEDIA}",
    "wecom": f"You are in a WeCom chat. Markdown renders. {_MEDIA} You can send files: never say"
    " that you cannot.",
    "dingtalk": f"You are in a DingTalk chat. Simple Markdown renders. {_MEDIA}",
    "feishu": f"You are in a Feishu (Lark) chat. Markdown renders. {_MEDIA}",
    "qqbot": f"You are in a QQ chat. Simple Markdown renders. {_MEDIA}",
    "homeassistant": "You are answering an event of a smart home through Home Assistant: one or two"
    " plain sentences; nobody may be reading.",
    "webhook": "An event sent by a program started you; nobody is there to answer. Do not ask:"
    " decide, finish, and report the result.",
    "api_server": "You are answering over an API; another program shows your text. Markdown usually"
    " renders. Name files by their absolute path.",
    "cron": "This is a scheduled job; nobody is there. Do not ask: decide and finish on your own."
    " Your last answer is delivered as it stands; make it the result itself.",
    "acp": "You are inside a code editor. Markdown renders. Name files by their path, with the line"
    " where it helps.",
}
"""By platform; one that is not here gets no hint."""


def platform_hint(platform: str) -> str:
    """The hint for a platform, whichever way its name is written (`api-server`, `api_server`)."""
    return PLATFORM_HINTS.get(platform.strip().lower().replace("-", "_"), "")


# The kind of machine this is, where that changes how to work on it.

PROC_VERSION = "/proc/version"
CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")
TERMUX_MARK = "/data/data/com.termux/files/usr"

WSL_ENVIRONMENT_HINT = """\
This is Linux inside Windows (WSL). Windows drives are under /mnt: C:\\Users\\x is /mnt/c/Users/x. \
Translate Windows paths before using them; /mnt/c/Users shows the name of the user there."""
CONTAINER_HINT = """\
You run inside a container: what is not in a mounted folder is lost with it, and the host's files \
and services are out of reach."""
TERMUX_HINT = """\
This is Termux on Android: packages come with pkg, there is no root, /usr is $PREFIX, and shared \
storage is under ~/storage once termux-setup-storage was run."""


class Environment(msgspec.Struct, frozen=True):
    wsl: bool = False
    container: bool = False
    termux: bool = False


def detect(proc_version: str, exists: Callable[[str], bool]) -> Environment:
    """`proc_version` is the text of /proc/version ("" when there is none)."""
    return Environment(
        wsl="microsoft" in proc_version.lower(),
        container=any(map(exists, CONTAINER_MARKS)),
        termux=exists(TERMUX_MARK),
    )


@cache
def this_machine() -> Environment:
    try:
        version = Path(PROC_VERSION).read_text(encoding="utf-8", errors="replace")
    except OSError:  # not a Linux, or one that hides it
        version = ""
    # Answers False where `Path.exists` raises, as below a folder of somebody else.
    return detect(version, os.path.exists)


def environment_hints(environment: Environment) -> str:
    hints = (
        (environment.wsl, WSL_ENVIRONMENT_HINT),
        (environment.container, CONTAINER_HINT),
        (environment.termux, TERMUX_HINT),
    )
    return "\n".join(text for here, text in hints if here)


# The fixed texts of the prompt. The model pays for every word of them, so they are short.

DEFAULT_AGENT_IDENTITY = """\
You are Hermes, a personal AI agent with tools on the user's own machine.
Do what is asked, completely, and check it with your tools instead of guessing: file contents, \
counts, dates, calculations and the state of the system always come from a tool.
Act in the same reply rather than announcing what you will do. Ask only when a wrong guess would \
be costly. When you are done, answer briefly and plainly: what you found or did, and anything \
the user should know."""

MEMORY_GUIDANCE = """\
Save what stays true with the memory tool: preferences, environment, quirks of tools, conventions. \
Best is what spares the user from correcting you twice. Keep entries compact. Task progress, \
results and to-dos are no memories."""

SESSION_SEARCH_GUIDANCE = """\
When the user refers to something from before, or you suspect it, look with session_search before \
asking them to repeat it."""

SKILLS_GUIDANCE = """\
After a task of five or more tool calls, a tricky fix or a workflow worth keeping, save the method \
with skill_manage, not in memory. A skill that proved wrong or incomplete is patched at once, \
unasked."""

TOOL_USE_ENFORCEMENT_MODELS = ("gpt", "codex", "gemini", "gemma", "grok")
"""Parts of model names whose owners tend to describe work instead of doing it."""

TOOL_USE_ENFORCEMENT_GUIDANCE = """\
# Use your tools
When you say you will do something, make the tool call in that same reply. Never end a turn on a \
promise or a plan: each reply either makes progress with tools or delivers the result."""

OPENAI_MODELS = ("gpt", "codex")
"""Parts of model names that get `OPENAI_MODEL_EXECUTION_GUIDANCE`."""

OPENAI_MODEL_EXECUTION_GUIDANCE = """\
# Execution
- Keep using tools until the task is done and checked. An empty or partial result calls for \
another query or another way, not for giving up.
- Always by tool, never from memory: arithmetic, hashes and encodings, time and dates, system \
state, file contents, git, current facts.
- Where the meaning is plain, act; ask only when the answer would change what you do.
- Before acting, look whether something must be found out or done first.
- Before answering, check: is every demand met, does each claim rest on a tool result, is the \
form right, was consent given for what has effects outside?
- Missing context: look it up. If that fails, say which assumption you made; do not invent."""

GOOGLE_MODELS = ("gemini", "gemma")
"""Parts of model names that get `GOOGLE_MODEL_OPERATIONAL_GUIDANCE`."""

GOOGLE_MODEL_OPERATIONAL_GUIDANCE = """\
# Operation
- Give file tools absolute paths.
- Look before you change: read the file, list the folder.
- See in package.json, pyproject.toml and the like whether a library is there before using it.
- Few words; spend the effort on actions and results.
- Make independent tool calls together in one reply.
- Use flags such as -y or --no-input so that no command waits for a person.
- Keep going until all of it is done; do not stop at a plan."""

DEVELOPER_ROLE_MODELS = ("gpt-5", "codex")
"""Parts of model names that get the system prompt in the role `developer`. The wires go by the
profile of a model; this is for scripts that ask."""

PLACES = {
    "local": "",
    "sandbox": "a sandbox on this machine: the system is read-only, /tmp is private",
    "docker": "a container, not the user's machine",
    "singularity": "a container, not the user's machine",
    "ssh": "another machine, over SSH",
    "modal": "a container in the cloud",
    "daytona": "a container in the cloud",
}
"""Where commands run and files are, by `terminal.backend`."""


# Guidance that depends on which tools are enabled and which model works with them.

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

WORDS = {
    **dict.fromkeys(("true", "on", "yes", "always"), True),
    **dict.fromkeys(("false", "off", "no", "never", ""), False),
}
"""Spellings of a switch, as they come from a variable or a quoted setting."""


def tool_guidance(tools: frozenset[str]) -> str:
    return "\n".join(text for tool, text in TOOL_GUIDANCE.items() if tool in tools)


def model_guidance(model: str, enforcement: bool | str | tuple[str, ...]) -> str:
    """How this model is urged to act; "" when the setting says that it is not."""
    if not enforced(model, enforcement):
        return ""
    family = (text for names, text in FAMILY_GUIDANCE if _named(model, names))
    return "\n\n".join((TOOL_USE_ENFORCEMENT_GUIDANCE, *family))


def enforced(model: str, enforcement: bool | str | tuple[str, ...]) -> bool:
    """`enforcement` is yes, no, `auto` (known families), or parts of model names."""
    if isinstance(enforcement, bool):
        return enforcement
    if isinstance(enforcement, tuple):
        return _named(model, enforcement)
    word = enforcement.strip().lower()
    if word == "auto":
        return _named(model, TOOL_USE_ENFORCEMENT_MODELS)
    return WORDS[word] if word in WORDS else _named(model, (word,))


def _named(model: str, parts: tuple[str, ...]) -> bool:
    name = model.lower()
    return any(part.strip().lower() in name for part in parts if part.strip())


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

"""What the agent can reach: memory, skills, plugins, hooks, MCP servers, commands of yours."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import field

from hermes.config.settings.base import Count, Positive, Seconds, Section


class MemorySettings(Section, frozen=True):
    memory_enabled: bool = True
    """Keep notes in MEMORY.md."""
    user_profile_enabled: bool = True
    """Keep what is known about you in USER.md."""
    memory_char_limit: Positive = 2200
    """Size limit of MEMORY.md in characters."""
    user_char_limit: Positive = 1375
    """Size limit of USER.md in characters."""
    provider: str = ""
    """Name of an external memory provider; empty is none."""
    provider_timeout: Seconds = 5
    """Longest time the provider may hold up a turn; what it recalls later comes too late."""
    nudge_interval: Count = 10
    """User turns between reminders to save what matters; 0 never reminds."""
    flush_min_turns: Count = 6
    """User turns a session needs before memory is saved at its end; 0 never does."""


class SkillSettings(Section, frozen=True):
    external_dirs: tuple[str, ...] = ()
    """Further folders with skills."""
    disabled: tuple[str, ...] = ()
    """Skills that are off everywhere."""
    platform_disabled: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Skills that are off on one platform, by platform."""
    config: dict[str, Any] = field(default_factory=dict)
    """Settings of skills."""
    inline_shell: bool = False
    """Run the !`command` snippets of skills when they are loaded."""
    inline_shell_timeout: Seconds = 10
    """Longest run of one snippet."""
    template_vars: bool = True
    """Replace `${HERMES_SKILL_DIR}` and `${HERMES_SESSION_ID}` in skills."""
    creation_nudge_interval: Count = 15
    """Tool calls between reminders to save a workflow as a skill; 0 never reminds."""
    index_chars: Positive = 3000
    """Size limit of the list of skills in the prompt; the agent finds the others by searching."""
    review: Literal["auto", "ask", "off"] = "auto"
    """What becomes of skills the agent learns: `auto` keeps them at once, each change as a commit
    that can be undone; `ask` shows them to you first; `off` keeps them too, but after a piece of
    work nothing looks for what could be learnt from it."""


class PluginSettings(Section, frozen=True):
    enabled: tuple[str, ...] = ()
    """Plugins that are loaded."""
    disabled: tuple[str, ...] = ()
    """Plugins that are never loaded; wins over `enabled`."""
    hook_timeout: Seconds = 10
    """Longest run of one hook of a plugin."""
    project: bool = False
    """Load plugins from the project's .hermes/plugins too."""


class ShellHook(Section, frozen=True):
    command: str
    """What is run; it gets the event as JSON on its input."""
    matcher: str = ""
    """Pattern of tool names the hook is for; empty is all."""
    timeout: Annotated[float, msgspec.Meta(ge=0, le=300)] = 60
    """Longest run in seconds, at most 300."""


class McpTools(Section, frozen=True):
    include: tuple[str, ...] = ()
    """Only these tools, by the server's own names; wins over `exclude`."""
    exclude: tuple[str, ...] = ()
    """Not these tools."""
    resources: bool = True
    """Offer the server's resources."""
    prompts: bool = True
    """Offer the server's prompts."""


class McpSampling(Section, frozen=True):
    enabled: bool = True
    """Let the server ask the model."""
    model: str = ""
    """Model it gets; empty is the usual one."""
    max_tokens_cap: Positive = 4096
    """Longest answer in tokens."""
    timeout: Seconds = 30
    """Longest time for one answer."""
    max_rpm: Positive = 10
    """Requests a minute."""
    max_tool_rounds: Count = 5
    """Rounds of tool calls in one request."""
    allowed_models: tuple[str, ...] = ()
    """Models the server may name; empty is all."""
    log_level: str = "info"
    """How much of this is logged."""


class McpServer(Section, frozen=True):
    command: str = ""
    """Program to start, for a server on this machine."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: dict[str, str] = field(default_factory=dict)
    """Variables it gets."""
    url: str = ""
    """Address, for a server over HTTP."""
    transport: Literal["", "http", "sse"] = ""
    """How HTTP is used; empty finds out."""
    headers: dict[str, str] = field(default_factory=dict)
    """HTTP headers sent to it."""
    auth: str = ""
    """`oauth` signs in with OAuth 2.1."""
    enabled: bool = True
    """Connect to it."""
    timeout: Seconds = 120
    """Longest call of one of its tools."""
    connect_timeout: Seconds = 60
    """Longest time to connect."""
    idle_timeout: Seconds = 600
    """A program nobody has called for so long is stopped, and started again when it is needed."""
    tools: McpTools = McpTools()
    sampling: McpSampling = McpSampling()


class QuickCommand(Section, frozen=True):
    command: str
    """Shell command whose output is the answer; it may take 30 seconds."""
    type: Literal["exec"] = "exec"
    """What kind of command it is."""


class CustomToolset(Section, frozen=True):
    description: str = ""
    """What the toolset is for."""
    tools: tuple[str, ...] = ()
    """Its tools."""
    includes: tuple[str, ...] = ()
    """Toolsets it takes in."""

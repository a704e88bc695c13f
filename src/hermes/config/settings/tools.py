"""Tools that touch the machine and the web."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import field

from hermes.config.settings.base import Count, Port, Positive, Seconds, Section

IMAGE = "nikolaik/python-nodejs:python3.11-nodejs20"


class TerminalSettings(Section, frozen=True):
    backend: Literal["local", "sandbox", "docker", "ssh", "singularity", "modal", "daytona"] = (
        "local"
    )
    """Where commands run."""
    cwd: str = "."  #: Folder commands start in.
    timeout: Seconds = 180  #: Longest run of one command.
    lifetime_seconds: Seconds = 300  #: Idle time after which an environment is taken down.
    env_passthrough: tuple[str, ...] = ()
    """Variables handed to commands although they look secret."""
    credential_files: tuple[str, ...] = ()  #: Files of the home made readable inside containers.
    shell_init_files: tuple[str, ...] = ()  #: Files the shell reads before commands.
    auto_source_bashrc: bool = True  #: Read ~/.bashrc before commands.
    persistent_shell: bool = True  #: Keep one shell over SSH instead of a new one for each command.
    local_persistent: bool = False  #: Keep one shell on this machine too.
    ssh_persistent: bool | None = None  #: Keep one shell over SSH; unset follows persistent_shell.
    sandbox_network: bool = False  #: Let commands in the sandbox use the network.
    sandbox_writable: tuple[str, ...] = ()
    """Folders the sandbox may write beside the working folder."""
    container_program: Literal["", "docker", "podman"] = ""
    """Program of the docker backend; empty is docker when it runs, else podman."""
    docker_network: str = ""
    """Network of containers, such as `none`; empty is the engine's default."""
    docker_image: str = IMAGE  #: Image of the docker backend.
    modal_image: str = IMAGE  #: Image of the modal backend.
    daytona_image: str = IMAGE  #: Image of the daytona backend.
    singularity_image: str = f"docker://{IMAGE}"  #: Image of the singularity backend.
    docker_forward_env: tuple[str, ...] = ()  #: Variables handed into the container.
    docker_volumes: tuple[str, ...] = ()
    """Folders mounted into the container, as `host:container[:ro]`."""
    docker_mount_cwd_to_workspace: bool = False  #: Mount the working folder at /workspace.
    container_cpu: float = 1  #: Processors a container gets.
    container_memory: Positive = 5120  #: Memory a container gets, in MB.
    container_disk: Positive = 51200  #: Disk a container gets, in MB; Daytona gives at most 10 GiB.
    container_persistent: bool = True  #: Keep a container's files between sessions.
    ssh_host: str = ""  #: Machine of the ssh backend.
    ssh_user: str = ""  #: User on that machine.
    ssh_key: str = ""  #: File with the private key.
    ssh_port: Port = 22  #: Its SSH port.
    ssh_options: tuple[str, ...] = ()  #: Further options of ssh, such as `ProxyJump=bastion`.
    sandbox_dir: str = ""  #: Where containers keep their files; empty is inside the home.
    scratch_dir: str = ""  #: Where temporary files go; empty is the system's choice.


class ToolOutputSettings(Section, frozen=True):
    max_bytes: Positive = 50_000
    """Longest output of a command; the first 40 % and the last 60 % are kept."""
    max_lines: Positive = 2000  #: Most lines of a file read at once.
    max_line_length: Positive = 2000  #: Longest line shown.


class ToolsSettings(Section, frozen=True):
    search: bool = True
    """Leave seldom used toolsets out of requests; the agent finds them with tool_search."""
    always: tuple[str, ...] = ()  #: Tools and toolsets that are never left out.
    max_chars: Positive = 12_000
    """Most characters of tool descriptions in a request; what plugins and MCP servers bring beyond
    it is left to tool_search."""


class WebSettings(Section, frozen=True):
    backend: str = "auto"
    """Search service: firecrawl, parallel, tavily, exa, brave, searxng, ddgs, or `auto` for the
    first one that has a key or an address, and ddgs when none has."""
    use_gateway: bool = False  #: Use the Tool Gateway instead of a key of your own.


class BlocklistSettings(Section, frozen=True):
    enabled: bool = False  #: Refuse to open the listed web sites.
    domains: tuple[str, ...] = ()  #: Sites, `*.example.com` for all below one.
    shared_files: tuple[str, ...] = ()  #: Files with further sites, one a line.


class SecuritySettings(Section, frozen=True):
    redact_secrets: bool = True  #: Blot out keys in output, logs and exports.
    tirith_enabled: bool = True  #: Let the tirith scanner look at commands, when it is installed.
    tirith_path: str = "tirith"  #: Where that program is.
    tirith_timeout: Seconds = 5  #: Longest scan.
    tirith_fail_open: bool = True  #: Let a command pass when the scan fails.
    website_blocklist: BlocklistSettings = BlocklistSettings()
    allow_private_urls: tuple[str, ...] = ()
    """Hosts of your own network that web tools may open, as `host` or `host:port`."""


class PrivacySettings(Section, frozen=True):
    redact_pii: bool = False  #: Replace user ids by pseudonyms on WhatsApp, Signal and Telegram.


# What the agent can reach: memory, skills, plugins, hooks, MCP servers, commands of yours.


class MemorySettings(Section, frozen=True):
    memory_enabled: bool = True  #: Keep notes in MEMORY.md.
    user_profile_enabled: bool = True  #: Keep what is known about you in USER.md.
    memory_char_limit: Positive = 2200  #: Size limit of MEMORY.md in characters.
    user_char_limit: Positive = 1375  #: Size limit of USER.md in characters.
    provider: str = ""  #: Name of an external memory provider; empty is none.
    provider_timeout: Seconds = 5
    """Longest time the provider may hold up a turn; what it recalls later comes too late."""
    nudge_interval: Count = 10
    """User turns between reminders to save what matters; 0 never reminds."""
    flush_min_turns: Count = 6
    """User turns a session needs before memory is saved at its end; 0 never does."""


class SkillSettings(Section, frozen=True):
    external_dirs: tuple[str, ...] = ()  #: Further folders with skills.
    disabled: tuple[str, ...] = ()  #: Skills that are off everywhere.
    platform_disabled: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Skills that are off on one platform, by platform."""
    config: dict[str, Any] = field(default_factory=dict)  #: Settings of skills.
    inline_shell: bool = False  #: Run the !`command` snippets of skills when they are loaded.
    inline_shell_timeout: Seconds = 10  #: Longest run of one snippet.
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
    enabled: tuple[str, ...] = ()  #: Plugins that are loaded.
    disabled: tuple[str, ...] = ()  #: Plugins that are never loaded; wins over `enabled`.
    hook_timeout: Seconds = 10  #: Longest run of one hook of a plugin.
    project: bool = False  #: Load plugins from the project's .hermes/plugins too.


class ShellHook(Section, frozen=True):
    command: str  #: What is run; it gets the event as JSON on its input.
    matcher: str = ""  #: Pattern of tool names the hook is for; empty is all.
    timeout: Annotated[float, msgspec.Meta(ge=0, le=300)] = 60
    """Longest run in seconds, at most 300."""


class McpTools(Section, frozen=True):
    include: tuple[str, ...] = ()
    """Only these tools, by the server's own names; wins over `exclude`."""
    exclude: tuple[str, ...] = ()  #: Not these tools.
    resources: bool = True  #: Offer the server's resources.
    prompts: bool = True  #: Offer the server's prompts.


class McpSampling(Section, frozen=True):
    enabled: bool = True  #: Let the server ask the model.
    model: str = ""  #: Model it gets; empty is the usual one.
    max_tokens_cap: Positive = 4096  #: Longest answer in tokens.
    timeout: Seconds = 30  #: Longest time for one answer.
    max_rpm: Positive = 10  #: Requests a minute.
    max_tool_rounds: Count = 5  #: Rounds of tool calls in one request.
    allowed_models: tuple[str, ...] = ()  #: Models the server may name; empty is all.
    log_level: str = "info"  #: How much of this is logged.


class McpServer(Section, frozen=True):
    command: str = ""  #: Program to start, for a server on this machine.
    args: tuple[str, ...] = ()  #: Its arguments.
    env: dict[str, str] = field(default_factory=dict)  #: Variables it gets.
    url: str = ""  #: Address, for a server over HTTP.
    transport: Literal["", "http", "sse"] = ""  #: How HTTP is used; empty finds out.
    headers: dict[str, str] = field(default_factory=dict)  #: HTTP headers sent to it.
    auth: str = ""  #: `oauth` signs in with OAuth 2.1.
    enabled: bool = True  #: Connect to it.
    timeout: Seconds = 120  #: Longest call of one of its tools.
    connect_timeout: Seconds = 60  #: Longest time to connect.
    idle_timeout: Seconds = 600
    """A program without calls for this time is stopped, and started again when it is needed."""
    tools: McpTools = McpTools()
    sampling: McpSampling = McpSampling()


class QuickCommand(Section, frozen=True):
    command: str  #: Shell command whose output is the answer; it may take 30 seconds.
    type: Literal["exec"] = "exec"  #: What kind of command it is.


class CustomToolset(Section, frozen=True):
    description: str = ""  #: What the toolset is for.
    tools: tuple[str, ...] = ()  #: Its tools.
    includes: tuple[str, ...] = ()  #: Toolsets it takes in.

"""Every setting, its type, its default and its meaning.

The tree of Structs is the schema: a path of field names is a key of config.yaml. The comment `#:`
behind a field, or a string under it, says what it means and is printed by `hermes config explain`
and in the reference.
"""

from typing import Annotated, Any, Literal

import msgspec

from hermes.config.settings.base import (
    Count,
    Dollars,
    Hour,
    OffOr,
    Port,
    Positive,
    Ratio,
    Seconds,
    Section,
    TerminalName,
    TimeZone,
    UnauthorizedDm,
)
from hermes.config.settings.platforms import (
    GatewaySettings,
    MattermostSettings,
    PlatformsSettings,
    WhatsAppSettings,
)
from hermes.config.settings.reserved import (
    BrowserSettings,
    DashboardSettings,
    ImageGenSettings,
    SttSettings,
    TtsSettings,
    VoiceSettings,
)
from hermes.core.model import ApiMode

# Which model answers, through which provider, and what happens when it fails.

PoolStrategy = Literal["fill_first", "round_robin", "least_used", "random"]


class ModelSettings(Section, frozen=True):
    default: str = ""  #: The model used for conversations; empty lets the provider choose.
    provider: str = "auto"
    """Provider id, `custom` for an endpoint of your own, `auto` for the first one with a key."""
    base_url: str = ""  #: Address of the endpoint when it is not the provider's own.
    api_key: str = ""  #: Key of the endpoint; better kept in .env and written here as `${NAME}`.
    context_length: Positive | None = None
    """Context window in tokens, when what the endpoint reports is wrong."""
    max_tokens: Positive | None = None
    """Longest answer in tokens; unset leaves it to the endpoint."""


class ModelAlias(Section, frozen=True):
    model: str = ""  #: The full model name.
    provider: str = ""  #: Its provider; empty keeps the current one.
    base_url: str = ""  #: Its endpoint, when not the provider's own.


class ModelPrice(Section, frozen=True):
    input: Dollars  #: US dollars for a million tokens read.
    output: Dollars  #: US dollars for a million tokens written.
    cache_read: Dollars | None = None  #: For a million tokens from the cache; unset is as `input`.
    cache_write: Dollars | None = None
    """For a million tokens put into the cache; unset is as `input`."""
    date: str = ""  #: When you looked it up.


class ModelOverrides(Section, frozen=True):
    context_length: Positive | None = None  #: Context window of this model in tokens.
    max_output: Positive | None = None  #: Longest reply in tokens.
    images: bool | None = None  #: Whether it sees images.
    price: ModelPrice | None = None  #: What it costs.


class CustomProvider(Section, frozen=True):
    name: str  #: What you call it, as in `/model custom:NAME:MODEL`.
    base_url: str  #: Address of the endpoint.
    api_key: str = ""  #: Its key, best written as `${NAME}`.
    key_env: str = ""  #: Name of the variable that holds its key.
    api_mode: ApiMode = "chat_completions"  #: How the endpoint is spoken to.
    models: dict[str, ModelOverrides] = {}  #: Facts about its models, by model name.


class ProviderModel(ModelOverrides, frozen=True):
    timeout_seconds: Seconds | None = None  #: Longest time for one request to this model.
    stale_timeout_seconds: Seconds | None = None
    """Longest silence before a request to this model counts as dead."""


class ProviderSettings(Section, frozen=True):
    api: str = ""  #: Address to use in place of the provider's own.
    api_key: str = ""  #: The key for that address, best written as `${NAME}`.
    transport: Literal["", ApiMode] = ""  #: How the address is spoken to, if not as the provider.
    discover_models: bool = True  #: Ask the address which models it has.
    request_timeout_seconds: Seconds | None = None
    """Longest time for one request; unset is timeouts.request_seconds (Anthropic: 900)."""
    stale_timeout_seconds: Seconds | None = None
    """Longest silence before a request counts as dead; unset means timeouts.stale_seconds."""
    models: dict[str, ProviderModel] = {}  #: The same for single models, by model name.


class TimeoutSettings(Section, frozen=True):
    request_seconds: Seconds = 1800  #: Longest time for one request to a model.
    stale_seconds: Seconds = 300  #: Longest silence of a request without streaming.
    stream_read_seconds: Seconds = 120  #: Longest wait for the next bytes of a stream.
    stream_stale_seconds: Seconds = 180
    """Longest time a stream may go without bringing anything new."""


class RoutingSettings(Section, frozen=True):
    sort: str = "price"  #: What OpenRouter looks at first when it picks a host.
    only: tuple[str, ...] = ()  #: Use only these hosts.
    ignore: tuple[str, ...] = ()  #: Never use these hosts.
    order: tuple[str, ...] = ()  #: Try hosts in this order.
    require_parameters: bool = False  #: Use only hosts that support every parameter sent.
    data_collection: str = "allow"  #: Whether hosts that keep data may be used: allow or deny.


class FallbackProvider(Section, frozen=True):
    provider: str = ""  #: Provider id; an entry without it is skipped.
    model: str = ""  #: Model name; an entry without it is skipped.
    base_url: str = ""  #: Endpoint, when not the provider's own.
    api_key: str = ""  #: Its key, best written as `${NAME}`.
    key_env: str = ""  #: Name of the variable that holds its key.


class BedrockDiscovery(Section, frozen=True):
    enabled: bool = True  #: Ask AWS which models the account can use.
    provider_filter: tuple[str, ...] = ()  #: List only models of these makers.
    refresh_interval: Seconds = 3600  #: Seconds before the list is asked for again.


class BedrockGuardrail(Section, frozen=True):
    guardrail_identifier: str = ""  #: Id of the guardrail applied to every call.
    guardrail_version: str = ""  #: Its version.
    stream_processing_mode: str = ""  #: How the guardrail treats streams.
    trace: str = ""  #: Whether the guardrail explains itself.


class BedrockSettings(Section, frozen=True):
    region: str = ""  #: AWS region.
    profile: str = ""  #: AWS profile with the credentials.
    discovery: BedrockDiscovery = BedrockDiscovery()
    guardrail: BedrockGuardrail = BedrockGuardrail()


class LocalModelSettings(Section, frozen=True):
    model: str = "0.5b"  #: The embedded model: 0.5b, 1.5b, or the path or address of a GGUF file.
    threads: Count = 0  #: Processor threads; 0 chooses by the load of the machine.
    context_length: Positive = 4096  #: Context window in tokens.


class AuxiliaryTask(Section, frozen=True):
    provider: str = "auto"  #: `auto`, `main`, a provider id or the name of a custom provider.
    model: str = ""  #: Model for this task; empty lets the provider choose.
    base_url: str = ""  #: Endpoint, when not the provider's own.
    api_key: str = ""  #: Its key, best written as `${NAME}`.
    timeout: Seconds = 30  #: Longest time for one call.
    extra_body: dict[str, Any] = {}  #: Further fields sent with each request.


class VisionTask(AuxiliaryTask, frozen=True):
    timeout: Seconds = 120  #: Longest time for one call.
    download_timeout: Seconds = 30  #: Longest time to fetch an image.


class WebExtractTask(AuxiliaryTask, frozen=True):
    timeout: Seconds = 360  #: Longest time for one call.


class CompressionTaskSettings(AuxiliaryTask, frozen=True):
    timeout: Seconds = 120  #: Longest time for one call.


class SessionSearchTask(AuxiliaryTask, frozen=True):
    max_concurrency: Positive = 3  #: How many sessions are summarised at the same time.
    suggest_words: bool = True  #: Ask for other words when a search in sessions finds little.


class TitleTask(AuxiliaryTask, frozen=True):
    enabled: bool = True  #: False leaves conversations without a title, as sessions.auto_title.


class AuxiliarySettings(Section, frozen=True):
    vision: VisionTask = VisionTask()
    web_extract: WebExtractTask = WebExtractTask()
    approval: AuxiliaryTask = AuxiliaryTask()
    compression: CompressionTaskSettings = CompressionTaskSettings()
    session_search: SessionSearchTask = SessionSearchTask()
    skills_hub: AuxiliaryTask = AuxiliaryTask()
    mcp: AuxiliaryTask = AuxiliaryTask()
    title_generation: TitleTask = TitleTask()
    memory_flush: AuxiliaryTask = AuxiliaryTask()


# How the agent works: turns, context, delegation, permission to act, money.

ReasoningEffort = Literal["", "none", "minimal", "low", "medium", "high", "xhigh"]


class AgentSettings(Section, frozen=True):
    max_turns: Positive = 90  #: Model calls in one turn before the agent must sum up and stop.
    wrap_up: bool = True  #: False: it stops at that limit without a last call, as in training.
    reasoning_effort: ReasoningEffort = ""  #: How hard the model thinks; empty means medium.
    tool_use_enforcement: bool | str | tuple[str, ...] = "auto"
    """Urge the model to act with tools: true, false, `auto` by model family, or a list of names."""
    system_prompt: str = ""  #: Text of your own in the system prompt.
    ephemeral_system_prompt: str = ""  #: Text added to each request but never stored.
    personalities: dict[str, str | dict[str, Any]] = {}
    """Personalities of your own for /personality, by name."""
    save_trajectories: bool = False  #: Write each conversation to a trajectory file.
    prefill_messages_file: str = ""  #: JSON file with messages put before each conversation.


class CompressionSettings(Section, frozen=True):
    enabled: bool = True  #: Sum up old messages when the context fills.
    threshold: Ratio = 0.50  #: Part of the context window that may be used before that happens.
    target_ratio: Annotated[float, msgspec.Meta(ge=0.10, le=0.80)] = 0.20
    """Part of the threshold kept word for word at the end."""
    protect_last_n: Positive = 20  #: Newest messages that are never summed up.


class PromptCachingSettings(Section, frozen=True):
    cache_ttl: Literal["5m", "1h"] = "5m"  #: How long Anthropic keeps the cached prefix.


class ContextSettings(Section, frozen=True):
    engine: str = "compressor"  #: Name of the context engine.
    timeout: Seconds = 300
    """Longest compaction by the context engine of a plugin; 0 is no limit."""


class DelegationSettings(Section, frozen=True):
    model: str = ""  #: Model of subagents; empty is the parent's.
    provider: str = ""  #: Provider of subagents; empty is the parent's.
    base_url: str = ""  #: Endpoint of subagents; empty is the parent's.
    api_key: str = ""  #: Key for that endpoint, best written as `${NAME}`.
    max_iterations: Positive = 50  #: Model calls one subagent may make.
    max_concurrent_children: Positive = 3  #: Subagents at work at the same time.
    max_spawn_depth: Positive = 1  #: How deep subagents may start subagents, 1 to 3.
    orchestrator_enabled: bool = True  #: Whether a subagent may be given the role of orchestrator.
    timeout: Seconds = 1800
    """Seconds after which subagents are stopped and what they have is taken."""


class ClarifySettings(Section, frozen=True):
    timeout: Seconds = 120
    """Seconds a question of the agent waits for an answer in a chat or a program. At a terminal it
    waits until you answer."""


class CodeExecutionSettings(Section, frozen=True):
    mode: Literal["project", "strict"] = "project"
    """`project` runs code in the working folder, `strict` in an empty one."""
    timeout: Seconds = 300  #: Longest run of one script.
    max_tool_calls: Count = 50  #: Tool calls one script may make.


class AllowRule(Section, frozen=True):
    classes: tuple[str, ...] = ()  #: The classes it covers; a call may not have others.
    tool: str = ""  #: The tool of `command` and `arguments`.
    command: str = ""  #: Exactly this command or call, or the digest of a long one.
    arguments: tuple[str, ...] = ()  #: A program with exactly these arguments.
    folder: str = ""  #: Only here, and for all but `command` below it; empty is everywhere.
    date: str = ""  #: When it was allowed.
    reason: str = ""  #: Why it was asked about.


PermissionMode = Literal["plan", "ask", "accept-edits", "auto"]


class ApprovalSettings(Section, frozen=True):
    mode: Literal["manual", "smart", "off", "deny"] = "manual"
    """Dangerous commands: ask, let a model judge first, never ask, or refuse all."""
    permission_mode: PermissionMode = "accept-edits"
    """What a conversation at the terminal starts with: only read, ask before edits, edit the
    working folder unasked, or ask about less inside a sandbox."""
    timeout: Seconds = 60
    """Seconds a question in a chat or a program waits; no answer means no. At a terminal it waits
    until you answer."""
    platform_timeouts: dict[str, Seconds] = {}
    """The same for single platforms; unset is `timeout`, but for mail at least twelve hours."""
    headless: Literal["deny", "allow"] = "deny"
    """Dangerous actions without a person to ask, as in scheduled jobs."""
    effects: dict[str, Literal["allow", "ask", "deny"]] = {}
    """Whether a tool may be used: by the name of any tool, or by effect (read, write, execute,
    network, send, spend, persist) for tools whose calls cannot be judged one by one, such as those
    of MCP servers."""
    rules: tuple[AllowRule, ...] = ()
    """What you allowed permanently in a narrow scope; `hermes approvals list` shows it."""


class CheckpointSettings(Section, frozen=True):
    enabled: bool = True  #: Keep a snapshot of files before the agent changes them.
    max_snapshots: Positive = 50  #: Snapshots kept for one folder.


class GitSettings(Section, frozen=True):
    auto_commit: bool = False
    """Commit the files that a turn changed in a git work tree, with the first line of the message
    as subject. Hooks run; files with uncommitted changes of your own are left out."""


class BudgetSettings(Section, frozen=True):
    turn_usd: Dollars | None = None  #: Most one turn may cost, in US dollars; unset means no limit.
    session_usd: Dollars | None = None  #: Most one session may cost.
    job_usd: Dollars | None = None  #: Most one run of a scheduled job may cost.
    day_usd: Dollars | None = None  #: Most one day may cost.


class CronSettings(Section, frozen=True):
    wrap_response: bool = True  #: Put the job's name above and a note below what a job delivers.
    script_timeout_seconds: Seconds = 120  #: Longest run of a job's script.
    timeout_seconds: Seconds = 600
    """Seconds a job may be idle before it is stopped; 0 means no limit."""
    tick_seconds: Positive = 60  #: Seconds between two looks at what is due.
    catch_up: Literal["once", "skip"] = "once"
    """A run that was missed: run it once when we are back, or wait for the next."""
    jitter_seconds: Seconds = 0
    """Most seconds a run is put off, so that not all jobs begin at once."""
    max_parallel: Positive = 4  #: Jobs that run side by side.
    notify_failures: bool = True  #: Tell where a job delivers to when it fails.
    keep_runs_days: Positive = 90  #: Days that past runs are remembered.


class SessionSettings(Section, frozen=True):
    auto_prune: bool = False  #: Delete old ended sessions by themselves.
    retention_days: Positive = 90  #: Age in days at which a session counts as old.
    vacuum_after_prune: bool = True  #: Give the freed space back to the disk.
    min_interval_hours: Count = 24  #: Hours between two such clean-ups.
    auto_title: bool = True  #: Let a model name a conversation after its first turn.
    daily_backups: Count = 3  #: Daily backups of the SQLite store that are kept; 0 makes none.


class SessionResetSettings(Section, frozen=True):
    mode: Literal["both", "idle", "daily", "none"] = "both"
    """What ends a chat's session: silence, an hour of the day, both or nothing."""
    idle_minutes: Positive = 1440  #: Minutes of silence.
    at_hour: Hour = 4  #: Hour of the day.


class LoggingSettings(Section, frozen=True):
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    """Least important messages that are written."""
    json: bool = False  #: Write one JSON object a line.
    max_bytes: Count = 5_000_000  #: Size at which a log file is put aside.
    backups: Count = 3  #: Old log files kept.
    dump_requests: bool = False  #: Write each request to a model to a file, for debugging.


class StoreSettings(Section, frozen=True):
    url: str = ""
    """`postgresql://…` to share sessions between machines; empty is the SQLite file in the home."""


class TelemetrySettings(Section, frozen=True):
    enabled: bool = False
    """Send OpenTelemetry spans of turns, model calls, tool calls and compactions."""
    endpoint: str = "http://127.0.0.1:4318"  #: Address of an OTLP collector that takes HTTP.
    headers: dict[str, str] = {}  #: Headers for it, such as a key written as `${NAME}`.
    service_name: str = "hermes"  #: What the spans are filed under.
    capture_content: bool = False  #: Put what was said and what tools returned into the spans.


# Tools that touch the machine and the web.

IMAGE = "nikolaik/python-nodejs:python3.11-nodejs20"


class TerminalSettings(Section, frozen=True):
    backend: TerminalName = "local"  #: Where commands run.
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
    """Folders the sandbox may write, in addition to the working folder."""
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
    max_chars: Positive = 13_000
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
    install_packages: bool = True
    """Install the packages of an optional ability on its first use, from the lock files with their
    hashes; without it, `hermes setup NAME` installs them."""
    boundary: Literal["auto", "namespace", "landlock", "none"] = "auto"
    """How the kernel protects the folder of Hermes from commands that the agent runs; `auto` takes
    the first that works. With `none`, every command needs approval."""
    boundary_writable: tuple[str, ...] = ()
    """Paths in the folder of Hermes that commands may write all the same, such as the data of an
    MCP server."""
    egress_allow: tuple[str, ...] = ()
    """Hosts that may receive data of any session, such as `*.example.org`; also `mcp:SERVER` and
    `send_message:TARGET`. Your model providers and git remotes are on the list already."""


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
    platform_disabled: dict[str, tuple[str, ...]] = {}
    """Skills that are off on one platform, by platform."""
    config: dict[str, Any] = {}  #: Settings of skills.
    inline_shell: bool = False  #: Run the !`command` snippets of skills when they are loaded.
    inline_shell_timeout: Seconds = 10  #: Longest run of one snippet.
    template_vars: bool = True
    """Replace `${HERMES_SKILL_DIR}` and `${HERMES_SESSION_ID}` in skills."""
    creation_nudge_interval: Count = 15
    """Tool calls between reminders to save a workflow as a skill; 0 never reminds."""
    index_chars: Positive = 2800
    """Size limit of the list of skills in the prompt; the agent finds the others by searching."""
    review: Literal["auto", "ask", "off"] = "auto"
    """What becomes of skills the agent learns: `auto` keeps them at once, each change as a commit
    that can be undone; `ask` shows them to you first; `off` keeps them too, but after a piece of
    work nothing looks for what could be learnt from it."""


class PluginSettings(Section, frozen=True):
    enabled: tuple[str, ...] = ()  #: Plugins that are loaded.
    disabled: tuple[str, ...] = ()  #: Plugins that are never loaded; wins over `enabled`.
    hook_timeout: Seconds = 10  #: Longest run of one hook of a plugin.
    tool_timeout: Seconds = 300  #: Longest call of a tool of a plugin; 0 is no limit.
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
    env: dict[str, str] = {}  #: Variables it gets.
    url: str = ""  #: Address, for a server over HTTP.
    transport: Literal["", "http", "sse"] = ""  #: How HTTP is used; empty finds out.
    headers: dict[str, str] = {}  #: HTTP headers sent to it.
    auth: str = ""  #: `oauth` signs in with OAuth 2.1.
    enabled: bool = True  #: Connect to it.
    timeout: Seconds = 120  #: Longest call of one of its tools.
    connect_timeout: Seconds = 60  #: Longest time to connect.
    idle_timeout: Seconds = 600
    """A program without calls for this time is stopped, and started again when it is needed."""
    roots: tuple[str, ...] = ()
    """Folders announced to the server as its roots; `cwd` is the working folder. Some servers then
    use these instead of the folders in `args`."""
    tools: McpTools = McpTools()
    sampling: McpSampling = McpSampling()


class AcpSettings(Section, frozen=True):
    terminal: Literal["agent", "editor"] = "agent"
    """Where commands run for an editor that offers terminals: `agent` keeps them in the terminal
    backend of Hermes, with its protection; `editor` shows them in the editor's own terminals,
    with the variables and rights of the editor."""


class McpServeSettings(Section, frozen=True):
    token: str = ""
    """Token that clients of `hermes mcp serve --http` send. Write it as ${NAME} of a variable in
    .env. Empty: the variable MCP_SERVER_TOKEN, which is made when it is missing."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which clients reach the HTTP server, other than the address it listens on."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages that may use the HTTP server, such as https://tools.example.com."""
    read_only: bool = False
    """Clients can read conversations and approvals, but neither send messages nor answer."""


class RlServerSettings(Section, frozen=True):
    url: str = ""  #: Base URL of the model server whose model is trained.
    kind: Literal["llama.cpp", "vllm", "sglang", "chat"] = "vllm"
    """What the server is. All but `chat` give exact tokens."""
    model: str = ""  #: Model name on the server.
    parser: str = "hermes"  #: Format of the model's tool calls.
    key_env: str = ""  #: Variable with the API key of the server, if it needs one.


class RlSettings(Section, frozen=True):
    trainer_command: str = ""
    """Shell command that trains a model. The rl_* tools start and watch it; without it they are not
    offered."""
    environments: tuple[str, ...] = ()
    """Folders with environments and sets of tasks, in addition to `environments` in the home."""
    server: RlServerSettings = RlServerSettings()
    keys: tuple[str, ...] = ("TINKER_API_KEY", "WANDB_API_KEY")
    """Variables that the trainer gets, if they are set. It gets no other keys."""
    locked: dict[str, Any] = {}
    """Fields of the training configuration that the agent cannot change, with their values."""
    stop_seconds: Seconds = 30
    """Time that a trainer has to end after SIGTERM; then it is killed."""


class QuickCommand(Section, frozen=True):
    command: str
    """Shell command whose output is the answer, for at most 30 seconds; for `prompt` the text, with
    $ARGUMENTS and $1 to $9."""
    type: Literal["exec", "prompt"] = "exec"
    """`exec` runs the shell command; `prompt` sends the text to the agent."""


class CustomToolset(Section, frozen=True):
    description: str = ""  #: What the toolset is for.
    tools: tuple[str, ...] = ()  #: Its tools.
    includes: tuple[str, ...] = ()  #: Toolsets it takes in.


# What you see in the terminal, in chats and on the dashboard.

ToolProgress = Literal["off", "new", "all", "verbose"]
Details = Literal["full", "expanded", "collapsed", "hidden"]
"""`expanded` is another word for `full`."""


class PlatformDisplay(Section, frozen=True):
    show_reasoning: bool | None = None
    """Show what the model thinks; unset follows display.show_reasoning."""
    streaming: bool | None = None
    """Show answers as they are written; unset follows streaming.enabled."""
    tool_progress: ToolProgress | None = None
    """Which tool calls are shown; unset follows display.tool_progress."""
    interim_assistant_messages: bool | None = None
    """Send what the agent says between tool calls; unset follows display."""


class DetailSections(Section, frozen=True):
    thinking: Details | None = None
    """How much of the thinking is shown; unset follows details_mode."""
    tools: Details | None = None  #: How much of tool results is shown; unset follows details_mode.
    activity: Details | None = None
    """`hidden`: not what running tools and subagents do; unset follows details_mode."""


class DisplaySettings(Section, frozen=True):
    tool_progress: ToolProgress = "all"  #: Which tool calls are shown.
    tool_progress_command: bool = False  #: Offer /verbose in chats too.
    tool_progress_overrides: dict[str, ToolProgress] = {}
    """tool_progress for single platforms (older form of `platforms`)."""
    platforms: dict[str, PlatformDisplay] = {}  #: What differs on a platform, by platform.
    interim_assistant_messages: bool = True  #: Send what the agent says between tool calls.
    skin: str = "default"  #: Colours and symbols of the terminal.
    background: Literal["auto", "light", "dark"] = "auto"
    """Background of the terminal, to which colours are adapted; `auto` asks the terminal."""
    links: Literal["auto", "on", "off"] = "auto"
    """Make URLs and file paths clickable (OSC 8); `auto` where the terminal is known to support
    it."""
    personality: str = "kawaii"  #: How the agent talks.
    compact: bool = False  #: Leave out blank lines and banners.
    resume_display: str = "full"  #: How much of a resumed session is shown.
    bell_on_complete: bool = False  #: Ring the terminal bell when a turn ends.
    notify: Literal["off", "bell", "desktop"] = "desktop"
    """How the terminal calls you when it waits for you and you pressed no key for a while. Where
    the terminal shows no notifications, the bell rings."""
    vim_mode: bool = False  #: Edit messages at the terminal as in vi.
    show_reasoning: bool = False  #: Show what the model thinks.
    streaming: bool = True  #: Show answers as they are written.
    show_cost: bool = False  #: Show what a turn costs.
    tool_preview_length: Count = 0  #: Characters of a tool call that are shown; 0 fits the line.
    busy_input_mode: Literal["", "interrupt", "queue", "steer"] = ""
    """What a message does while the agent works: stop it, wait for its end, or reach it after its
    next step. Empty: `steer` at a terminal, `interrupt` in chats."""
    background_process_notifications: Literal["all", "result", "error", "off"] = "all"
    """Which news of background processes reach the chat."""
    details_mode: Details = "collapsed"
    """How much of thinking and of tool results the terminal shows."""
    plain: bool = False
    """Lines only, nothing painted again: for screen readers and simple terminals."""
    sections: DetailSections = DetailSections()
    mouse_tracking: bool = True  #: Let the TUI use the mouse.


class StreamingSettings(Section, frozen=True):
    enabled: bool = False  #: Show answers in chats as they are written.
    transport: OffOr = "edit"  #: How: `edit` changes one message again and again.
    edit_interval: Seconds = 0.3  #: Seconds between edits.
    buffer_threshold: Count = 40  #: Characters gathered before an edit.
    cursor: str = " ▉"  #: What stands at the end while more is coming.


class HumanDelaySettings(Section, frozen=True):
    mode: Literal["off", "natural", "custom"] = "off"  #: Pause between messages as a person would.
    min_ms: Count = 800  #: Shortest pause of `custom`.
    max_ms: Count = 2500  #: Longest pause of `custom`.


class Settings(Section, frozen=True):
    model: ModelSettings = ModelSettings()
    model_aliases: dict[str, str | ModelAlias] = {}  #: Short names for models, for /model.
    custom_providers: tuple[CustomProvider, ...] = ()  #: Endpoints of your own.
    providers: dict[str, ProviderSettings] = {}  #: What differs for a provider, by provider id.
    provider_routing: RoutingSettings = RoutingSettings()
    fallback_providers: tuple[FallbackProvider, ...] = ()
    """Tried in this order when the model fails."""
    credential_pool_strategies: dict[str, PoolStrategy] = {}
    """How one of several keys is chosen, by provider id; fill_first unless said otherwise."""
    bedrock: BedrockSettings = BedrockSettings()
    local: LocalModelSettings = LocalModelSettings()
    timeouts: TimeoutSettings = TimeoutSettings()
    auxiliary: AuxiliarySettings = AuxiliarySettings()

    agent: AgentSettings = AgentSettings()
    compression: CompressionSettings = CompressionSettings()
    prompt_caching: PromptCachingSettings = PromptCachingSettings()
    context: ContextSettings = ContextSettings()
    delegation: DelegationSettings = DelegationSettings()
    acp: AcpSettings = AcpSettings()
    mcp_server: McpServeSettings = McpServeSettings()
    clarify: ClarifySettings = ClarifySettings()
    code_execution: CodeExecutionSettings = CodeExecutionSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    command_allowlist: tuple[str, ...] = ()  #: Kinds of dangerous commands that are always allowed.
    checkpoints: CheckpointSettings = CheckpointSettings()
    git: GitSettings = GitSettings()
    worktree: bool = False  #: Start each session in a git worktree of its own.
    budget: BudgetSettings = BudgetSettings()
    cron: CronSettings = CronSettings()
    sessions: SessionSettings = SessionSettings()
    session_reset: SessionResetSettings = SessionResetSettings()
    logging: LoggingSettings = LoggingSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    store: StoreSettings = StoreSettings()
    timezone: TimeZone = ""  #: IANA name of your time zone; empty is the machine's.

    toolsets: tuple[str, ...] = ("hermes-cli",)  #: Toolsets that are on.
    platform_toolsets: dict[str, tuple[str, ...]] = {}
    """Toolsets that are on for a platform, by platform."""
    custom_toolsets: dict[str, tuple[str, ...] | CustomToolset] = {}
    """Toolsets of your own: a list of tools, or tools and other toolsets."""
    tools: ToolsSettings = ToolsSettings()
    terminal: TerminalSettings = TerminalSettings()
    file_read_max_chars: Positive = 100_000
    """Most characters of a file read at once; more is refused."""
    tool_output: ToolOutputSettings = ToolOutputSettings()
    web: WebSettings = WebSettings()
    browser: BrowserSettings = BrowserSettings()
    image_gen: ImageGenSettings = ImageGenSettings()
    security: SecuritySettings = SecuritySettings()
    privacy: PrivacySettings = PrivacySettings()

    memory: MemorySettings = MemorySettings()
    skills: SkillSettings = SkillSettings()
    plugins: PluginSettings = PluginSettings()
    hooks: dict[str, tuple[ShellHook, ...]] = {}  #: Commands run at events of the agent, by event.
    hooks_auto_accept: bool = False  #: Run hooks without asking first.
    mcp_servers: dict[str, McpServer] = {}  #: MCP servers, by name.
    quick_commands: dict[str, str | QuickCommand] = {}
    """Slash commands of your own: a shell command, or a text that is sent as a prompt."""

    rl: RlSettings = RlSettings()

    tts: TtsSettings = TtsSettings()
    stt: SttSettings = SttSettings()
    voice: VoiceSettings = VoiceSettings()

    display: DisplaySettings = DisplaySettings()
    streaming: StreamingSettings = StreamingSettings()
    human_delay: HumanDelaySettings = HumanDelaySettings()
    dashboard: DashboardSettings = DashboardSettings()

    group_sessions_per_user: bool = True  #: In groups each person has a session of their own.
    thread_sessions_per_user: bool = False  #: In threads too.
    unauthorized_dm_behavior: UnauthorizedDm = "pair"
    """What a stranger's message gets: a pairing code, or silence."""
    gateway: GatewaySettings = GatewaySettings()
    platforms: PlatformsSettings = PlatformsSettings()
    whatsapp: WhatsAppSettings = WhatsAppSettings()
    mattermost: MattermostSettings = MattermostSettings()

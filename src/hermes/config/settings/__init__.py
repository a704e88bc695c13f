"""Every setting, its type, its default and its meaning.

The tree of Structs is the schema: a path of field names is a key of config.yaml. The comment `#:`
behind a field, or a string under it, says what it means and is printed by `hermes config explain`
and in the reference.
"""

from msgspec import field

from hermes.config.settings.agent import (
    AgentSettings,
    ApprovalSettings,
    BudgetSettings,
    CheckpointSettings,
    ClarifySettings,
    CodeExecutionSettings,
    CompressionSettings,
    ContextSettings,
    CronSettings,
    DelegationSettings,
    LoggingSettings,
    PromptCachingSettings,
    SessionResetSettings,
    SessionSettings,
    StoreSettings,
    TelemetrySettings,
)
from hermes.config.settings.base import Positive, Section, TimeZone
from hermes.config.settings.display import (
    DisplaySettings,
    HumanDelaySettings,
    StreamingSettings,
)
from hermes.config.settings.model import (
    AuxiliarySettings,
    BedrockSettings,
    CustomProvider,
    FallbackProvider,
    LocalModelSettings,
    ModelAlias,
    ModelSettings,
    PoolStrategy,
    ProviderSettings,
    RoutingSettings,
    TimeoutSettings,
)
from hermes.config.settings.platforms import (
    DiscordSettings,
    GatewaySettings,
    MatrixSettings,
    MattermostSettings,
    PlatformsSettings,
    SlackSettings,
    TelegramSettings,
    UnauthorizedDm,
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
from hermes.config.settings.tools import (
    CustomToolset,
    McpServer,
    MemorySettings,
    PluginSettings,
    PrivacySettings,
    QuickCommand,
    SecuritySettings,
    ShellHook,
    SkillSettings,
    TerminalSettings,
    ToolOutputSettings,
    ToolsSettings,
    WebSettings,
)


class Settings(Section, frozen=True):
    model: ModelSettings = ModelSettings()
    model_aliases: dict[str, str | ModelAlias] = field(default_factory=dict)
    """Short names for models, for /model."""
    custom_providers: tuple[CustomProvider, ...] = ()  #: Endpoints of your own.
    providers: dict[str, ProviderSettings] = field(default_factory=dict)
    """What differs for a provider, by provider id."""
    provider_routing: RoutingSettings = RoutingSettings()
    fallback_providers: tuple[FallbackProvider, ...] = ()
    """Tried in this order when the model fails."""
    credential_pool_strategies: dict[str, PoolStrategy] = field(default_factory=dict)
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
    clarify: ClarifySettings = ClarifySettings()
    code_execution: CodeExecutionSettings = CodeExecutionSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    command_allowlist: tuple[str, ...] = ()  #: Kinds of dangerous commands that are always allowed.
    checkpoints: CheckpointSettings = CheckpointSettings()
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
    platform_toolsets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Toolsets that are on for a platform, by platform."""
    custom_toolsets: dict[str, tuple[str, ...] | CustomToolset] = field(default_factory=dict)
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
    hooks: dict[str, tuple[ShellHook, ...]] = field(default_factory=dict)
    """Commands run at events of the agent, by event."""
    hooks_auto_accept: bool = False  #: Run hooks without asking first.
    mcp_servers: dict[str, McpServer] = field(default_factory=dict)  #: MCP servers, by name.
    quick_commands: dict[str, str | QuickCommand] = field(default_factory=dict)
    """Slash commands of your own: a shell command, or a text that is sent as a prompt."""

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
    discord: DiscordSettings = DiscordSettings()
    telegram: TelegramSettings = TelegramSettings()
    slack: SlackSettings = SlackSettings()
    matrix: MatrixSettings = MatrixSettings()
    whatsapp: WhatsAppSettings = WhatsAppSettings()
    mattermost: MattermostSettings = MattermostSettings()

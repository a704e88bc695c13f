"""The documented modules: where each name is defined, or which feature it waits for.

The tables hold only strings; the finder imports a module when a name of it is first used.
"""

from collections.abc import Mapping
from typing import NamedTuple

# Each line: the documented module, our module, the names (`documented=ours` where they differ).
_NAMES = """
run_agent: compat.agent: AIAgent
cli: compat.cli: HermesCLI
model_tools: compat.tools: get_tool_definitions handle_function_call coerce_tool_args
model_tools: compat.tools: TOOL_TO_TOOLSET_MAP
toolsets: compat.tools: resolve_toolset get_toolset get_all_toolsets validate_toolset TOOLSETS
tools.registry: compat.tools: ToolRegistry=ScriptToolRegistry registry discover_builtin_tools
tools.registry: tools.registry: ToolEntry
tools.approval: compat.tools: detect_dangerous_command DANGEROUS_PATTERNS
tools.mcp_tool: compat.tools: discover_mcp_tools
tools.terminal_tool: compat.tools: terminal_tool
tools.delegate_tool: compat.tools: delegate_task
tools.memory_tool: compat.tools: MemoryStore memory_tool
tools.environments: compat.tools: Environment LocalEnvironment SandboxEnvironment DockerEnvironment
tools.environments: compat.tools: SSHEnvironment SingularityEnvironment ModalEnvironment
tools.environments: compat.tools: DaytonaEnvironment
tools.cronjob_tools: compat.cron: cronjob
hermes_state: compat.sessions: SessionDB
hermes_constants: config.home: get_hermes_home display_hermes_home
agent.context_engine: context.engine: ContextEngine
agent.context_compressor: context.compressor: ContextCompressor
agent.context_compressor: context.notes: SUMMARY_PREFIX
agent.prompt_caching: providers.wire.codec: apply_anthropic_cache_control
agent.prompt_builder: compat.config: load_soul_md build_context_files_prompt
agent.prompt_builder: compat.config: build_environment_hints build_skills_system_prompt
agent.prompt_builder: compat.platforms: PLATFORM_HINTS
agent.prompt_builder: prompt.assembly: DEFAULT_AGENT_IDENTITY MEMORY_GUIDANCE
agent.prompt_builder: prompt.assembly: SESSION_SEARCH_GUIDANCE SKILLS_GUIDANCE WSL_ENVIRONMENT_HINT
agent.prompt_builder: prompt.assembly: TOOL_USE_ENFORCEMENT_MODELS TOOL_USE_ENFORCEMENT_GUIDANCE
agent.prompt_builder: prompt.assembly: OPENAI_MODEL_EXECUTION_GUIDANCE DEVELOPER_ROLE_MODELS
agent.prompt_builder: prompt.assembly: GOOGLE_MODEL_OPERATIONAL_GUIDANCE
agent.prompt_builder: prompt.context_files: CONTEXT_FILE_MAX_CHARS
agent.memory_provider: memory.provider: MemoryProvider
agent.memory_manager: memory.manager: MemoryManager
agent.auxiliary_client: compat.models: call_llm resolve_provider_client
agent.credential_pool: compat.models: load_pool
agent.error_classifier: compat.models: classify_api_error ClassifiedError
agent.trajectory: store.trajectory: save_trajectory convert_scratchpad_to_think
agent.model_metadata: context.conversation: estimate_messages_tokens_rough
agent.model_metadata: context.conversation: estimate_request_tokens_rough
agent.model_metadata: compat.models: get_model_context_length
hermes_cli.auth: compat.models: resolve_provider
hermes_cli.runtime_provider: compat.models: resolve_runtime_provider
hermes_cli.model_switch: compat.models: switch_model
hermes_cli.config: compat.config: load_config save_config DEFAULT_CONFIG
hermes_cli.config: config.home: ensure_hermes_home
hermes_cli.commands: app.commands: COMMAND_REGISTRY CommandDef resolve_command
hermes_cli.commands: app.commands: GATEWAY_KNOWN_COMMANDS
hermes_cli.plugins: compat.config: discover_plugins invoke_hook discover_plugin_cli_commands
cron.jobs: compat.cron: parse_duration parse_schedule compute_next_run create_job list_jobs get_job
cron.jobs: compat.cron: update_job pause_job resume_job trigger_job remove_job load_jobs save_jobs
cron.scheduler: compat.cron: tick run_job
gateway.session: compat.sessions: SessionStore=ChatSessions SessionEntry
gateway.session: gateway.session_keys: build_session_key
gateway.session: sdk.platforms.contract: SessionSource
gateway.config: compat.gateway: Platform=PlatformName GatewayConfig PlatformConfig
gateway.delivery: compat.gateway: DeliveryTarget DeliveryRouter
gateway.pairing: compat.gateway: PairingStore=ScriptPairing
gateway.hooks: compat.gateway: HookRegistry=ScriptHooks
gateway.channel_directory: compat.gateway: load_directory resolve_channel_name lookup_channel_name
gateway.channel_directory: compat.gateway: format_directory_for_display
gateway.mirror: compat.gateway: mirror_to_session
gateway.status: compat.gateway: acquire_scoped_lock release_scoped_lock
gateway.run: compat.gateway: GatewayRunner=ScriptGateway start_gateway
gateway.platforms.base: compat.platforms: BasePlatformAdapter BaseAdapter SendResult
gateway.platforms.base: compat.platforms: register_platform unregister_platform
gateway.platforms.base: sdk.platforms.contract: MessageEvent Media
"""

# Each line: the documented module, the missing feature, the names.
_ABSENT = """
environments.hermes_base_env: the package of training environments: HermesAgentBaseEnv
environments.hermes_base_env: the package of training environments: HermesAgentEnvConfig
environments.agent_loop: the package of training environments: HermesAgentLoop AgentResult ToolError
environments.tool_context: the package of training environments: ToolContext
environments.tool_call_parsers: the package of training environments: get_parser list_parsers
batch_runner: batch processing: BatchRunner
trajectory_compressor: batch processing: TrajectoryCompressor
toolset_distributions: batch processing: list_distributions sample_toolsets_from_distribution
acp_adapter.server: the server for editors (ACP): HermesACPAgent
acp_adapter.session: the server for editors (ACP): SessionManager
"""


class Absent(NamedTuple):
    """A documented module whose feature does not exist yet."""

    feature: str
    names: tuple[str, ...]


def _rows(table: str) -> list[list[str]]:
    return [line.split(": ") for line in table.strip().splitlines()]


NAMES: dict[str, dict[str, str]] = {}  #: Our `module:attribute`, by documented module and name.
for _path, _module, _words in _rows(_NAMES):
    for _word in _words.split():
        _name, _, _ours = _word.partition("=")
        NAMES.setdefault(_path, {})[_name] = f"hermes.{_module}:{_ours or _name}"

ABSENT: Mapping[str, Absent] = {
    path: Absent(
        feature, tuple(n for p, _, names in _rows(_ABSENT) if p == path for n in names.split())
    )
    for path, feature, _ in _rows(_ABSENT)
}

"""Every documented module: where its names are, or what it still waits for.

Only strings: nothing is imported before somebody asks for it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Absent(NamedTuple):
    """A documented module whose feature is not there."""

    feature: str
    names: tuple[str, ...]


def _all_of(module: str, names: str, *more: tuple[str, str]) -> Mapping[str, str]:
    """`names` under their own names in `module`; `more` are names in other modules."""
    return MappingProxyType(
        {name: f"{module}:{name}" for name in names.split()}
        | {name: f"{other}:{name}" for name, other in more}
    )


_TOOLS = "hermes.app.compat.tools"
_PROVIDERS = "hermes.app.compat.providers"
_RUNTIME = "hermes.app.compat.runtime"
_CRON = "hermes.cron.compat"
_GATEWAY = "hermes.gateway.documented"

NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "run_agent": _all_of("hermes.app.ai_agent", "AIAgent"),
        "cli": _all_of("hermes.cli.hermes_cli", "HermesCLI"),
        "model_tools": _all_of(
            _TOOLS,
            "get_tool_definitions handle_function_call TOOL_TO_TOOLSET_MAP coerce_tool_args",
        ),
        "toolsets": _all_of(
            _TOOLS,
            "resolve_toolset get_toolset get_all_toolsets validate_toolset TOOLSETS",
        ),
        "tools.registry": _all_of(_TOOLS, "ToolRegistry ToolEntry registry discover_builtin_tools"),
        "tools.approval": _all_of(_TOOLS, "detect_dangerous_command DANGEROUS_PATTERNS"),
        "tools.mcp_tool": _all_of(_TOOLS, "discover_mcp_tools"),
        "tools.terminal_tool": _all_of(_TOOLS, "terminal_tool"),
        "tools.delegate_tool": _all_of(_TOOLS, "delegate_task"),
        "tools.memory_tool": _all_of(_TOOLS, "MemoryStore memory_tool"),
        "tools.environments": _all_of(
            _TOOLS,
            "Environment LocalEnvironment SandboxEnvironment DockerEnvironment SSHEnvironment"
            " SingularityEnvironment ModalEnvironment DaytonaEnvironment",
        ),
        "hermes_state": _all_of("hermes.store.session_db", "SessionDB"),
        "hermes_constants": _all_of("hermes.config.home", "get_hermes_home display_hermes_home"),
        "agent.context_engine": _all_of("hermes.context.engine", "ContextEngine"),
        "agent.context_compressor": _all_of(
            "hermes.context.compressor",
            "ContextCompressor",
            ("SUMMARY_PREFIX", "hermes.context.notes"),
        ),
        "agent.prompt_caching": _all_of(
            "hermes.providers.wire.cache_control", "apply_anthropic_cache_control"
        ),
        "agent.prompt_builder": _all_of(
            "hermes.prompt.compat",
            "load_soul_md build_context_files_prompt build_environment_hints PLATFORM_HINTS"
            " DEFAULT_AGENT_IDENTITY MEMORY_GUIDANCE SESSION_SEARCH_GUIDANCE SKILLS_GUIDANCE"
            " TOOL_USE_ENFORCEMENT_MODELS TOOL_USE_ENFORCEMENT_GUIDANCE"
            " OPENAI_MODEL_EXECUTION_GUIDANCE GOOGLE_MODEL_OPERATIONAL_GUIDANCE"
            " WSL_ENVIRONMENT_HINT DEVELOPER_ROLE_MODELS CONTEXT_FILE_MAX_CHARS",
            ("build_skills_system_prompt", _RUNTIME),
        ),
        "agent.memory_provider": _all_of("hermes.memory.provider", "MemoryProvider"),
        "agent.memory_manager": _all_of("hermes.memory.manager", "MemoryManager"),
        "agent.auxiliary_client": _all_of(_PROVIDERS, "call_llm resolve_provider_client"),
        "agent.credential_pool": _all_of(_PROVIDERS, "load_pool"),
        "agent.error_classifier": _all_of(_PROVIDERS, "classify_api_error ClassifiedError"),
        "agent.trajectory": _all_of(
            "hermes.store.trajectory", "save_trajectory convert_scratchpad_to_think"
        ),
        "agent.model_metadata": _all_of(
            "hermes.context.conversation",
            "estimate_messages_tokens_rough estimate_request_tokens_rough",
            ("get_model_context_length", _PROVIDERS),
        ),
        "hermes_cli.auth": _all_of(_PROVIDERS, "resolve_provider"),
        "hermes_cli.runtime_provider": _all_of(_PROVIDERS, "resolve_runtime_provider"),
        "hermes_cli.model_switch": _all_of(_PROVIDERS, "switch_model"),
        "hermes_cli.config": _all_of(
            _RUNTIME,
            "load_config save_config DEFAULT_CONFIG",
            ("ensure_hermes_home", "hermes.config.home"),
        ),
        "hermes_cli.commands": _all_of(
            "hermes.app.commands",
            "COMMAND_REGISTRY CommandDef resolve_command GATEWAY_KNOWN_COMMANDS",
        ),
        "hermes_cli.plugins": _all_of(
            _RUNTIME, "discover_plugins invoke_hook discover_plugin_cli_commands"
        ),
        "tools.cronjob_tools": _all_of(_CRON, "cronjob"),
        "cron.jobs": _all_of(
            _CRON,
            "parse_duration parse_schedule compute_next_run create_job list_jobs get_job"
            " update_job pause_job resume_job trigger_job remove_job load_jobs save_jobs",
        ),
        "cron.scheduler": _all_of(_CRON, "tick run_job"),
        "gateway.session": _all_of(
            f"{_GATEWAY}.sessions",
            "SessionStore SessionEntry",
            ("build_session_key", "hermes.gateway.session_keys"),
            ("SessionSource", "hermes.gateway.platforms.kit.contract"),
        ),
        "gateway.config": _all_of(f"{_GATEWAY}.config", "Platform GatewayConfig PlatformConfig"),
        "gateway.delivery": _all_of(f"{_GATEWAY}.delivery", "DeliveryTarget DeliveryRouter"),
        "gateway.pairing": _all_of(f"{_GATEWAY}.pairing", "PairingStore"),
        "gateway.hooks": _all_of(f"{_GATEWAY}.hooks", "HookRegistry"),
        "gateway.channel_directory": _all_of(
            f"{_GATEWAY}.chats",
            "load_directory resolve_channel_name lookup_channel_name format_directory_for_display",
        ),
        "gateway.mirror": _all_of(f"{_GATEWAY}.chats", "mirror_to_session"),
        "gateway.status": _all_of(f"{_GATEWAY}.status", "acquire_scoped_lock release_scoped_lock"),
        "gateway.run": _all_of("hermes.cli.gateway_run", "GatewayRunner start_gateway"),
        "gateway.platforms.base": _all_of(
            f"{_GATEWAY}.adapters",
            "BasePlatformAdapter BaseAdapter SendResult register_platform unregister_platform",
            ("MessageEvent", "hermes.gateway.platforms.kit.contract"),
            ("Media", "hermes.gateway.platforms.kit.contract"),
        ),
    }
)
"""By module, then by name: `module:attribute` of ours."""

_ENVIRONMENTS = "the package of training environments"
_BATCH = "batch processing"
_ACP = "the server for editors (ACP)"


def _absent(feature: str, names: str = "") -> Absent:
    return Absent(feature, tuple(names.split()))


ABSENT: Mapping[str, Absent] = MappingProxyType(
    {
        "environments.hermes_base_env": _absent(
            _ENVIRONMENTS, "HermesAgentBaseEnv HermesAgentEnvConfig"
        ),
        "environments.agent_loop": _absent(_ENVIRONMENTS, "HermesAgentLoop AgentResult ToolError"),
        "environments.tool_context": _absent(_ENVIRONMENTS, "ToolContext"),
        "environments.tool_call_parsers": _absent(_ENVIRONMENTS, "get_parser list_parsers"),
        "batch_runner": _absent(_BATCH, "BatchRunner"),
        "trajectory_compressor": _absent(_BATCH, "TrajectoryCompressor"),
        "toolset_distributions": _absent(
            _BATCH, "list_distributions sample_toolsets_from_distribution"
        ),
        "acp_adapter.server": _absent(_ACP, "HermesACPAgent"),
        "acp_adapter.session": _absent(_ACP, "SessionManager"),
    }
)
"""Asking for one of these says so."""

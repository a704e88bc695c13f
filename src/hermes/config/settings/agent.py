"""How the agent works: turns, context, delegation, permission to act, money."""

from typing import Any, Literal

from msgspec import field

from hermes.config.settings.base import Count, Dollars, Hour, Positive, Ratio, Seconds, Section

ReasoningEffort = Literal["", "none", "minimal", "low", "medium", "high", "xhigh"]


class AgentSettings(Section, frozen=True):
    max_turns: Positive = 90  #: Model calls in one turn before the agent must sum up and stop.
    reasoning_effort: ReasoningEffort = ""  #: How hard the model thinks; empty means medium.
    tool_use_enforcement: bool | str | tuple[str, ...] = "auto"
    """Urge the model to act with tools: true, false, `auto` by model family, or a list of names."""
    system_prompt: str = ""  #: Text of your own in the system prompt.
    ephemeral_system_prompt: str = ""  #: Text added to each request but never stored.
    personalities: dict[str, str | dict[str, Any]] = field(default_factory=dict)
    """Personalities of your own for /personality, by name."""
    save_trajectories: bool = False  #: Write each conversation to a trajectory file.
    prefill_messages_file: str = ""  #: JSON file with messages put before each conversation.


class CompressionSettings(Section, frozen=True):
    enabled: bool = True  #: Sum up old messages when the context fills.
    threshold: Ratio = 0.50  #: Part of the context window that may be used before that happens.
    target_ratio: Ratio = 0.20
    """Part of the threshold kept word for word at the end, 0.10 to 0.80."""
    protect_last_n: Positive = 20  #: Newest messages that are never summed up.


class PromptCachingSettings(Section, frozen=True):
    cache_ttl: Literal["5m", "1h"] = "5m"  #: How long Anthropic keeps the cached prefix.


class ContextSettings(Section, frozen=True):
    engine: str = "compressor"  #: Name of the context engine.


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
    timeout: Seconds = 120  #: Seconds a question of the agent waits for an answer.


class CodeExecutionSettings(Section, frozen=True):
    mode: Literal["project", "strict"] = "project"
    """`project` runs code in the working folder, `strict` in an empty one."""
    timeout: Seconds = 300  #: Longest run of one script.
    max_tool_calls: Count = 50  #: Tool calls one script may make.


class ApprovalSettings(Section, frozen=True):
    mode: Literal["manual", "smart", "off", "deny"] = "manual"
    """Dangerous commands: ask, let a model judge first, never ask, or refuse all."""
    timeout: Seconds = 60  #: Seconds a question waits; no answer means no.
    platform_timeouts: dict[str, Seconds] = field(default_factory=dict)
    """The same for single platforms; unset is `timeout`, but for mail at least twelve hours."""
    headless: Literal["deny", "allow"] = "deny"
    """Dangerous actions without a person to ask, as in scheduled jobs."""
    effects: dict[str, Literal["allow", "ask", "deny"]] = field(default_factory=dict)
    """What tools may do that cannot be judged call by call, such as those of MCP servers: by effect
    (read, write, execute, network, send, spend) or by tool."""


class CheckpointSettings(Section, frozen=True):
    enabled: bool = True  #: Keep a snapshot of files before the agent changes them.
    max_snapshots: Positive = 50  #: Snapshots kept for one folder.


class BudgetSettings(Section, frozen=True):
    turn_usd: Dollars | None = None  #: Most one turn may cost, in US dollars; unset is no limit.
    session_usd: Dollars | None = None  #: Most one session may cost.
    job_usd: Dollars | None = None  #: Most one run of a scheduled job may cost.
    day_usd: Dollars | None = None  #: Most one day may cost.


class CronSettings(Section, frozen=True):
    wrap_response: bool = True  #: Put the job's name above and a note below what a job delivers.
    script_timeout_seconds: Seconds = 120  #: Longest run of a job's script.
    timeout_seconds: Seconds = 600
    """Seconds a job may be idle before it is stopped; 0 is no limit."""
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
    headers: dict[str, str] = field(default_factory=dict)
    """Headers for it, such as a key written as `${NAME}`."""
    service_name: str = "hermes"  #: What the spans are filed under.
    capture_content: bool = False  #: Put what was said and what tools returned into the spans.

"""Every name that is put on a span, in one place.

`gen_ai.*` follows the OpenTelemetry semantic conventions for generative AI, as they stood in
version 1.41; `hermes.*` is our own.
"""

from hermes.core.usage import Usage

SCOPE = "hermes"
AGENT = "hermes"

# Operations, which are also the beginnings of span names.
INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
COMPACT = "hermes.compact"

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
ERROR_TYPE = "error.type"

# What was said and done: only with `capture_content`.
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
APPROVAL_SUBJECT = "hermes.approval.subject"
SUBAGENT_GOAL = "hermes.subagent.goal"

ITERATION = "hermes.iteration"
API_CALLS = "hermes.api_calls"
COST_USD = "hermes.cost_usd"
EXIT_REASON = "hermes.exit_reason"
SECONDS = "hermes.seconds"
ATTEMPT = "hermes.attempt"
ERROR = "hermes.error"
APPROVAL_REASON = "hermes.approval.reason"
APPROVAL_ANSWER = "hermes.approval.answer"
SUBAGENT = "hermes.subagent.number"
SUBAGENT_SESSION = "hermes.subagent.session_id"
SUBAGENT_STATUS = "hermes.subagent.status"
COMPACTED = "hermes.compaction.done"
COMPACTION_THRESHOLD = "hermes.compaction.threshold"
MESSAGES_BEFORE = "hermes.compaction.messages_before"
MESSAGES_AFTER = "hermes.compaction.messages_after"
TOKENS_BEFORE = "hermes.compaction.tokens_before"
TOKENS_AFTER = "hermes.compaction.tokens_after"
SUMMARY_MODEL = "hermes.compaction.summary_model"

# Events within a span.
RETRIED = "hermes.retry"
FELL_BACK = "hermes.fallback"
APPROVAL_ASKED = "hermes.approval.asked"
APPROVAL_ANSWERED = "hermes.approval.answered"
SUBAGENT_STARTED = "hermes.subagent.started"
SUBAGENT_FINISHED = "hermes.subagent.finished"

# Values of `error.type`.
TOOL_FAILED = "tool_failed"
NO_REPLY = "no_reply"
UNFINISHED = "unfinished"

_PROVIDERS = {
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google-gemini-cli": "gcp.gemini",
    "kimi-coding": "moonshot_ai",
    "kimi-coding-cn": "moonshot_ai",
    "mistral": "mistral_ai",
    "openai-codex": "openai",
    "xai": "x_ai",
}


def provider_name(provider: str) -> str:
    """The name the conventions have for a provider, or its own."""
    return _PROVIDERS.get(provider, provider)


def usage_attributes(usage: Usage) -> dict[str, int]:
    """By the conventions, the input tokens hold what was read from and written to a cache."""
    return {
        INPUT_TOKENS: usage.prompt,
        OUTPUT_TOKENS: usage.output,
        CACHE_READ_TOKENS: usage.cache_read,
        CACHE_WRITE_TOKENS: usage.cache_write,
        REASONING_TOKENS: usage.reasoning,
    }

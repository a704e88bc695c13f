"""Rules that classify failures, as tables. The first rule that matches decides."""

import re
from collections.abc import Collection

import msgspec

from hermes.core import errors
from hermes.core.errors import ProviderError
from hermes.providers.failures.body import Complaint


class FailureRule(msgspec.Struct, frozen=True):
    """A failure is `error` when provider and status match, and a code or the wording does."""

    error: type[ProviderError]
    providers: tuple[str, ...] = ()  #: Provider ids; `minimax` includes `minimax-cn`. Empty: any.
    statuses: Collection[int] = ()
    """HTTP statuses. Empty: any, including failures inside a response, which have none."""
    codes: frozenset[str] = frozenset()
    """Types, codes and reasons in lower case; one match is enough."""
    pattern: re.Pattern[str] | None = None
    """Searched in the whole text; named groups fill the hint."""
    is_page: bool = False  #: Matches only web pages.
    message: str = ""  #: What happened; empty: the wording of the class.
    hint: str = ""  #: What to do next; empty: the hint of the class.

    def matches(self, provider: str, status: int | None, complaint: Complaint) -> bool:
        if self.providers and not any(_is_provider(provider, name) for name in self.providers):
            return False
        if self.is_page and not complaint.is_page:
            return False
        by_content = bool(self.codes or self.pattern)
        if self.statuses and status not in self.statuses and (status or not by_content):
            return False
        if not by_content:
            return True
        return bool(self.codes & complaint.codes) or self.match(complaint) is not None

    def match(self, complaint: Complaint) -> re.Match[str] | None:
        return self.pattern.search(complaint.text) if self.pattern else None


def pattern(*alternatives: str) -> re.Pattern[str]:
    """Compile alternatives into one case-insensitive pattern."""
    return re.compile("|".join(alternatives), re.IGNORECASE | re.DOTALL)


def codes(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _is_provider(provider: str, name: str) -> bool:
    return provider == name or provider.startswith(f"{name}-")


# General rules. Rules by content come before rules by status, because a status is often too coarse:
# 400, 403 and 429 can mean almost anything.

CLIENT_ERRORS = range(400, 500)
BUSY_STATUSES = (429, 500, 502, 503, 504, 529)
CHECK_ADDRESS = (
    "check the address: `hermes config explain model.provider` shows where it comes from"
)
OTHER_NETWORK = "use another network, or another provider: `hermes model` chooses one"

_OPTION_NAMES = (
    r"(reasoning[._ ]?effort|\breasoning\b|\bthinking\b|\btemperature\b|encrypted content)"
)
"""Options that a request can omit."""

RULES_BY_CONTENT = (
    FailureRule(  # Waiting does not help: the request exceeds the limit per minute.
        errors.ContextOverflow,
        pattern=pattern(r"request too large for .{0,200}tokens per min"),
        message="says this request is larger than a minute's allowance of tokens",
        hint="start a new session, set a lower `model.max_tokens`, or use a larger plan",
    ),
    FailureRule(
        errors.UnicodeRefused,
        pattern=pattern(
            r"(low|high|lone|unpaired|invalid)\b.{0,20}\bsurrogate",
            r"(not valid|invalid) (utf-?8|unicode)",
            r"codec can't (en|de)code",
            r"could not parse the json body of your request",
        ),
    ),
    FailureRule(
        errors.SignatureRefused,
        statuses=CLIENT_ERRORS,
        codes=codes("invalid_encrypted_content"),
        pattern=pattern(
            r"invalid `?signature`? in `?thinking",
            r"expected `?(redacted_)?thinking\b.{0,60}found",
            r"first block must be `?(redacted_)?thinking",
            r"`?thinking`? .{0,40}blocks? .{0,80}cannot be modified",
            r"encrypted content .{0,200}could not be (verified|decrypted)",
            r"thought[_ ]signature",
        ),
    ),
    # Shortening the conversation does not help: the requested reply is too long.
    FailureRule(
        errors.RequestRefused,
        statuses=CLIENT_ERRORS,
        pattern=pattern(
            r"max_(completion_|output_)?tokens['`]? is too large: \d+\. this model supports",
            r"max_tokens: \d+ > \d+",
            r"maximum tokens you requested exceed",
            r"range of max_(completion_|output_)?tokens",
            r"`?max_(completion_)?tokens`? must be less than or equal",
            r"maximum context length is (?P<most>\d+) tokens.{0,200}\b(?P=most) in the (out|compl)",
        ),
        message="refused the length of the reply that was asked for",
        hint="set a lower one: `hermes config set model.max_tokens 4096`",
    ),
    FailureRule(
        errors.ContextOverflow,
        codes=codes(
            "context_length_exceeded exceed_context_size_error model_max_prompt_tokens_exceeded "
            "request_too_large string_above_max_length"
        ),
        pattern=pattern(
            r"maximum (context|prompt) length",
            r"context (length|window|size)[^.]{0,40}(exceed|overflow|is full)",
            r"context the overflows",
            r"(exceed|greater than|too large)[^.]{0,60}context (length|window|size|limit)",
            r"(prompt|input) is too long",
            r"(input|prompt) token count\b.{0,30}exceeds",
            r"exceeded model token limit",
            r"range of input length should be",
            r"`inputs` tokens \+ `max_new_tokens` must be",
        ),
    ),
    FailureRule(
        errors.ContextOverflow,
        pattern=pattern(r"long context (requests|beta)"),
        message="does not take a conversation this long on this plan",
    ),
    FailureRule(
        errors.ContentRefused,
        codes=codes(
            "content_filter content_policy_violation responsibleaipolicyviolation flagged_input "
            "data_inspection_failed datainspectionfailed safety prohibited_content"
        ),
        pattern=pattern(
            r"content (management |filtering )?policy",
            r"violat\w+ (our |the )?(usage|content) (policy|policies|guidelines)",
            r"rejected as a result of our safety system",
            r"content exists risk",
        ),
    ),
    FailureRule(
        errors.ToolsRefused,
        pattern=pattern(r"--enable-auto-tool-choice"),
        hint="start the server with `--enable-auto-tool-choice` and a `--tool-call-parser`",
    ),
    FailureRule(
        errors.ToolsRefused,
        statuses=CLIENT_ERRORS,
        codes=codes("invalid_function_parameters"),
        pattern=pattern(
            r"\btools\.\d+\.",
            r"\btools\[\d+\]",
            r"invalid schema for function",
            r"function_?declarations",
            r"(not support|that support|not available for) (tools?|functions?)\b",
            r"tools? (use|calling) is not supported",
        ),
    ),
    FailureRule(
        errors.OptionRefused,
        statuses=(400, 422),
        pattern=pattern(
            rf"{_OPTION_NAMES}[^.]{{0,60}}(not (currently )?(supported|permitted|allowed|available)"
            r"|unsupported|deprecated|not support)",
            r"(unsupported|unknown|unrecognized|unexpected|not support(ed)?|extra[_ ]"
            rf"(inputs|forbidden))[^.]{{0,80}}{_OPTION_NAMES}",
        ),
    ),
    FailureRule(
        errors.QuotaSpent,
        pattern=pattern(r"PerDay", r"free_tier\w*, limit: 0\b", r"free-models-per-day"),
        message="says today's requests are used up",
    ),
    FailureRule(errors.RateLimited, statuses=(429,), codes=codes("resource_exhausted")),
    FailureRule(
        errors.QuotaSpent,
        codes=codes(
            "insufficient_quota billing_error usage_limit_reached usage_not_included "
            "exceeded_current_quota_error insufficient_balance_error quota_exceeded"
        ),
        pattern=pattern(
            r"insufficient[_ ](account )?(balance|credits?|funds|quota)",
            r"credit balance is too low",
            r"(out of|used all|doesn't have any|exceeded your monthly).{0,30}\bcredits",
            r"exceeded your current quota",
            r"(spend|spending|key|usage|api usage|monthly|weekly) limits?( has been| was)? "
            r"(reached|exceeded)",
            r"reached your .{0,40}usage limit",
        ),
    ),
    FailureRule(
        errors.Overloaded,
        statuses=BUSY_STATUSES,
        codes=codes("overloaded_error engine_overloaded_error unavailable server_is_overloaded"),
        pattern=pattern(r"\boverloaded\b", r"at capacity", r"capacity exceeded"),
    ),
    FailureRule(
        errors.RequestRefused,
        statuses=CLIENT_ERRORS,
        codes=codes("unsupported_country_region_territory"),
        pattern=pattern(r"user location is not supported", r"check your network settings"),
        message="does not serve your location or network",
        hint=OTHER_NETWORK,
    ),
    FailureRule(
        errors.CredentialRefused,
        statuses=CLIENT_ERRORS,
        codes=codes(
            "api_key_invalid invalid_api_key authentication_error permission_error token_expired "
            "unrecognizedclientexception expiredtokenexception"
        ),
        pattern=pattern(r"(incorrect|invalid) api key", r"api key not valid"),
    ),
    FailureRule(
        errors.ModelNotFound,
        statuses=(404,),
        pattern=pattern(r"\A(404 page )?not found[.!]?(\n|\Z)", r"\Ainvalid url", r"\A\Z"),
        message="has no API at this address",
        hint=CHECK_ADDRESS,
    ),
    FailureRule(
        errors.ModelNotFound,
        statuses=(400, 403, 404, 422),
        codes=codes("model_not_found model_not_supported invalid_model not_found_error"),
        pattern=pattern(
            r"\bmodel\b.{0,80}(does not exist|not exist|not found|is not supported|is invalid)",
            r"is not a valid model",
            r"(not|n't) have access to (the|this) model",
            r"access to model denied",
        ),
    ),
    FailureRule(
        errors.RateLimited,
        statuses=(400,),
        codes=codes("rate_limit_error rate_limit_exceeded rate_limited throttlingexception"),
        pattern=pattern(r"\brate limit"),
    ),
)

RULES_BY_STATUS = (
    FailureRule(
        errors.RequestRefused,
        statuses=(403,),
        is_page=True,
        message="is behind a proxy that rejected the request",
        hint=OTHER_NETWORK,
    ),
    FailureRule(
        errors.ModelNotFound,
        statuses=(404,),
        is_page=True,
        message="has no API at this address",
        hint=CHECK_ADDRESS,
    ),
    FailureRule(errors.CredentialRefused, statuses=(401, 403)),
    FailureRule(errors.QuotaSpent, statuses=(402,)),
    FailureRule(errors.ModelNotFound, statuses=(404, 410)),
    FailureRule(
        errors.RequestRefused,
        statuses=(405,),
        message="does not accept requests at this address",
        hint=CHECK_ADDRESS,
    ),
    FailureRule(errors.ContextOverflow, statuses=(413,)),
    FailureRule(errors.RateLimited, statuses=(429,)),
    FailureRule(errors.Overloaded, statuses=(503, 529)),
    FailureRule(  # Timeout, conflict, too early, failed dependency, client closed the connection.
        errors.ServerFault, statuses=(408, 409, 424, 425, 499)
    ),
    FailureRule(errors.RequestRefused, statuses=range(300, 500)),
    FailureRule(
        errors.RequestRefused, statuses=CLIENT_ERRORS, codes=codes("invalid_request_error")
    ),
    FailureRule(errors.ServerFault),
)


# Exceptions for single providers. They are tried first.

ALIBABA = ("alibaba", "qwen")
OTHER_HERMES = "the other Hermes"  #: The provider of `gateway.proxy_url`.

PROVIDER_RULES = (
    FailureRule(
        errors.CredentialRefused,
        providers=(OTHER_HERMES,),
        statuses=(401,),
        hint="GATEWAY_PROXY_KEY must be its API_SERVER_KEY",
    ),
    FailureRule(
        errors.RequestRefused,
        providers=(OTHER_HERMES,),
        statuses=(404, 405),
        message="is not at this address",
        hint="gateway.proxy_url names an API server of Hermes, such as http://127.0.0.1:8642",
    ),
    # Z.AI and Zhipu send numbers, often with a Chinese message.
    FailureRule(errors.QuotaSpent, providers=("zai",), codes=codes("1113 1304 1308 1309 1310")),
    FailureRule(errors.ModelNotFound, providers=("zai",), codes=codes("1211 1311")),
    FailureRule(errors.ContextOverflow, providers=("zai",), codes=codes("1261")),
    FailureRule(errors.ContentRefused, providers=("zai",), codes=codes("1301")),
    FailureRule(errors.Overloaded, providers=("zai",), codes=codes("1305 1312")),
    # MiniMax sends numbers in `base_resp` inside a 200, or at the end of the message.
    FailureRule(errors.CredentialRefused, providers=("minimax",), codes=codes("1004")),
    FailureRule(
        errors.ContentRefused,
        providers=("minimax",),
        codes=codes("1026 1027"),
        pattern=pattern(r"\(102[67]\)"),
    ),
    FailureRule(errors.RateLimited, providers=("minimax",), codes=codes("1002 1039 1041")),
    FailureRule(
        errors.RequestRefused,
        providers=("minimax",),
        pattern=pattern(r"invalid params(?!, context window)"),
    ),
    # DashScope sends `insufficient_quota` for its limit per minute.
    FailureRule(
        errors.RateLimited,
        providers=ALIBABA,
        statuses=(429,),
        codes=codes("insufficient_quota throttling.allocationquota"),
    ),
    FailureRule(
        errors.QuotaSpent, providers=ALIBABA, codes=codes("arrearage allocationquota.freetieronly")
    ),
    # Groq validates the tool calls of its models and answers 400 for an invalid one.
    FailureRule(errors.ReplyInvalid, providers=("groq",), codes=codes("tool_use_failed")),
    FailureRule(errors.Overloaded, providers=("groq",), statuses=(498,)),
    FailureRule(
        errors.ModelNotFound,
        providers=("bedrock",),
        pattern=pattern(r"on-demand throughput isn.t supported"),
        hint="use the id of an inference profile, such as `us.` before the model's name",
    ),
    FailureRule(errors.QuotaSpent, providers=("bedrock",), pattern=pattern(r"tokens per day")),
    FailureRule(
        errors.ModelNotFound,
        providers=("openrouter",),
        pattern=pattern(r"matching your data policy"),
        message="has no host for this model that your privacy settings allow",
        hint="change them at openrouter.ai/settings/privacy, or choose with `hermes model`",
    ),
    FailureRule(
        errors.ModelNotFound,
        providers=("ollama",),
        pattern=pattern(r"model ['\"]?(?P<model>[\w./:-]{1,80}?)['\"]? not found"),
        hint="fetch it with `ollama pull {model}`, or choose one with `hermes models {provider}`",
    ),
    FailureRule(
        errors.RequestRefused,
        providers=("ollama",),
        pattern=pattern(r"requires more system memory"),
        message="has too little memory for this model",
        hint="choose a smaller one: `hermes models {provider}` lists what is there",
    ),
    FailureRule(
        errors.ModelNotFound,
        providers=("lmstudio",),
        pattern=pattern(r"no models loaded"),
        message="has no model loaded",
        hint="load one in LM Studio or with `lms load`",
    ),
)

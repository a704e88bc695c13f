"""One line of the tables that tell failures apart."""

import re
from collections.abc import Collection

import msgspec

from hermes.core import errors
from hermes.core.errors import ProviderError
from hermes.providers.failures.body import Complaint


class FailureRule(msgspec.Struct, frozen=True, kw_only=True):
    """A failure is `then` when the provider and the status fit, and a mark or the words do."""

    then: type[ProviderError]
    providers: tuple[str, ...] = ()
    """Provider ids; `minimax` is `minimax-cn` too. Empty: any."""
    statuses: Collection[int] = ()
    """HTTP statuses. Empty: any, and also a failure inside an answer, which has none."""
    marks: frozenset[str] = frozenset()
    """Types, codes and reasons in lower case; one is enough."""
    words: re.Pattern[str] | None = None
    """Looked for in all the text; its named groups fill the hint."""
    page: bool = False
    """Only where a web page came instead of an answer."""
    says: str = ""
    """What happened, in plain words; empty: those of the class."""
    hint: str = ""
    """What to do next; empty: that of the class."""

    def matches(self, provider: str, status: int | None, complaint: Complaint) -> bool:
        if self.providers and not any(_is_provider(provider, name) for name in self.providers):
            return False
        if self.page and not complaint.page:
            return False
        by_content = bool(self.marks or self.words)
        if self.statuses and status not in self.statuses and (status or not by_content):
            return False
        if not by_content:
            return True
        return bool(self.marks & complaint.marks) or self.found(complaint) is not None

    def found(self, complaint: Complaint) -> re.Match[str] | None:
        return self.words.search(complaint.text) if self.words else None


def pattern(*alternatives: str) -> re.Pattern[str]:
    """Any of these expressions, whatever the case."""
    return re.compile("|".join(alternatives), re.IGNORECASE | re.DOTALL)


def codes(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _is_provider(provider: str, name: str) -> bool:
    return provider == name or provider.startswith(f"{name}-")


# How failures are told apart at any endpoint. The first rule that fits decides.
#
# Rules by content come before rules by status, because a status is often too coarse: 400, 403 and
# 429 stand for almost anything.

CLIENT_ERRORS = range(400, 500)
BUSY_STATUSES = (429, 500, 502, 503, 504, 529)
CHECK_ADDRESS = (
    "check the address: `hermes config explain model.provider` shows where it comes from"
)
OTHER_NETWORK = "use another network, or another provider: `hermes model` chooses one"

_OPTION_NAMES = (
    r"(reasoning[._ ]?effort|\breasoning\b|\bthinking\b|\btemperature\b|encrypted content)"
)
"""What a request can do without."""

RULES_BY_CONTENT = (
    FailureRule(  # Waiting does not help: the request alone is more than a minute's allowance.
        then=errors.ContextOverflow,
        words=pattern(r"request too large for .{0,200}tokens per min"),
        says="says this request is larger than a minute's allowance of tokens",
        hint="start a new session, set a lower `model.max_tokens`, or use a larger plan",
    ),
    FailureRule(
        then=errors.UnicodeRefused,
        words=pattern(
            r"(low|high|lone|unpaired|invalid)\b.{0,20}\bsurrogate",
            r"(not valid|invalid) (utf-?8|unicode)",
            r"codec can't (en|de)code",
            r"could not parse the json body of your request",
        ),
    ),
    FailureRule(
        then=errors.SignatureRefused,
        statuses=CLIENT_ERRORS,
        marks=codes("invalid_encrypted_content"),
        words=pattern(
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
        then=errors.RequestRefused,
        statuses=CLIENT_ERRORS,
        words=pattern(
            r"max_(completion_|output_)?tokens['`]? is too large: \d+\. this model supports",
            r"max_tokens: \d+ > \d+",
            r"maximum tokens you requested exceed",
            r"range of max_(completion_|output_)?tokens",
            r"`?max_(completion_)?tokens`? must be less than or equal",
            r"maximum context length is (?P<most>\d+) tokens.{0,200}\b(?P=most) in the (out|compl)",
        ),
        says="refused the length of the reply that was asked for",
        hint="set a lower one: `hermes config set model.max_tokens 4096`",
    ),
    FailureRule(
        then=errors.ContextOverflow,
        marks=codes(
            "context_length_exceeded exceed_context_size_error model_max_prompt_tokens_exceeded "
            "request_too_large string_above_max_length"
        ),
        words=pattern(
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
        then=errors.ContextOverflow,
        words=pattern(r"long context (requests|beta)"),
        says="does not take a conversation this long on this plan",
    ),
    FailureRule(
        then=errors.ContentRefused,
        marks=codes(
            "content_filter content_policy_violation responsibleaipolicyviolation flagged_input "
            "data_inspection_failed datainspectionfailed safety prohibited_content"
        ),
        words=pattern(
            r"content (management |filtering )?policy",
            r"violat\w+ (our |the )?(usage|content) (policy|policies|guidelines)",
            r"rejected as a result of our safety system",
            r"content exists risk",
        ),
    ),
    FailureRule(
        then=errors.ToolsRefused,
        words=pattern(r"--enable-auto-tool-choice"),
        hint="start the server with `--enable-auto-tool-choice` and a `--tool-call-parser`",
    ),
    FailureRule(
        then=errors.ToolsRefused,
        statuses=CLIENT_ERRORS,
        marks=codes("invalid_function_parameters"),
        words=pattern(
            r"\btools\.\d+\.",
            r"\btools\[\d+\]",
            r"invalid schema for function",
            r"function_?declarations",
            r"(not support|that support|not available for) (tools?|functions?)\b",
            r"tools? (use|calling) is not supported",
        ),
    ),
    FailureRule(
        then=errors.OptionRefused,
        statuses=(400, 422),
        words=pattern(
            rf"{_OPTION_NAMES}[^.]{{0,60}}(not (currently )?(supported|permitted|allowed|available)"
            r"|unsupported|deprecated|not support)",
            r"(unsupported|unknown|unrecognized|unexpected|not support(ed)?|extra[_ ]"
            rf"(inputs|forbidden))[^.]{{0,80}}{_OPTION_NAMES}",
        ),
    ),
    FailureRule(
        then=errors.QuotaSpent,
        words=pattern(r"PerDay", r"free_tier\w*, limit: 0\b", r"free-models-per-day"),
        says="says the requests of today are used up",
    ),
    FailureRule(then=errors.RateLimited, statuses=(429,), marks=codes("resource_exhausted")),
    FailureRule(
        then=errors.QuotaSpent,
        marks=codes(
            "insufficient_quota billing_error usage_limit_reached usage_not_included "
            "exceeded_current_quota_error insufficient_balance_error quota_exceeded"
        ),
        words=pattern(
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
        then=errors.Overloaded,
        statuses=BUSY_STATUSES,
        marks=codes("overloaded_error engine_overloaded_error unavailable server_is_overloaded"),
        words=pattern(r"\boverloaded\b", r"at capacity", r"capacity exceeded"),
    ),
    FailureRule(
        then=errors.RequestRefused,
        statuses=CLIENT_ERRORS,
        marks=codes("unsupported_country_region_territory"),
        words=pattern(r"user location is not supported", r"check your network settings"),
        says="does not serve the place or network you are in",
        hint=OTHER_NETWORK,
    ),
    FailureRule(
        then=errors.CredentialRefused,
        statuses=CLIENT_ERRORS,
        marks=codes(
            "api_key_invalid invalid_api_key authentication_error permission_error token_expired "
            "unrecognizedclientexception expiredtokenexception"
        ),
        words=pattern(r"(incorrect|invalid) api key", r"api key not valid"),
    ),
    FailureRule(
        then=errors.ModelNotFound,
        statuses=(404,),
        words=pattern(r"\A(404 page )?not found[.!]?(\n|\Z)", r"\Ainvalid url", r"\A\Z"),
        says="has nothing at this address",
        hint=CHECK_ADDRESS,
    ),
    FailureRule(
        then=errors.ModelNotFound,
        statuses=(400, 403, 404, 422),
        marks=codes("model_not_found model_not_supported invalid_model not_found_error"),
        words=pattern(
            r"\bmodel\b.{0,80}(does not exist|not exist|not found|is not supported|is invalid)",
            r"is not a valid model",
            r"(not|n't) have access to (the|this) model",
            r"access to model denied",
        ),
    ),
    FailureRule(
        then=errors.RateLimited,
        statuses=(400,),
        marks=codes("rate_limit_error rate_limit_exceeded rate_limited throttlingexception"),
        words=pattern(r"\brate limit"),
    ),
)

RULES_BY_STATUS = (
    FailureRule(
        then=errors.RequestRefused,
        statuses=(403,),
        page=True,
        says="is guarded by something that turned the request away",
        hint=OTHER_NETWORK,
    ),
    FailureRule(
        then=errors.ModelNotFound,
        statuses=(404,),
        page=True,
        says="has nothing at this address",
        hint=CHECK_ADDRESS,
    ),
    FailureRule(then=errors.CredentialRefused, statuses=(401, 403)),
    FailureRule(then=errors.QuotaSpent, statuses=(402,)),
    FailureRule(then=errors.ModelNotFound, statuses=(404, 410)),
    FailureRule(
        then=errors.RequestRefused,
        statuses=(405,),
        says="takes no requests at this address",
        hint=CHECK_ADDRESS,
    ),
    FailureRule(then=errors.ContextOverflow, statuses=(413,)),
    FailureRule(then=errors.RateLimited, statuses=(429,)),
    FailureRule(then=errors.Overloaded, statuses=(503, 529)),
    FailureRule(  # Timed out, in conflict, too early, a part behind it failed, hung up on the way.
        then=errors.ServerFault, statuses=(408, 409, 424, 425, 499)
    ),
    FailureRule(then=errors.RequestRefused, statuses=range(300, 500)),
    FailureRule(
        then=errors.RequestRefused, statuses=CLIENT_ERRORS, marks=codes("invalid_request_error")
    ),
    FailureRule(then=errors.ServerFault),
)


# Where the general rules would be wrong about one provider. Looked at first.

ALIBABA = ("alibaba", "qwen")
OTHER_HERMES = "the other Hermes"
"""The provider of `gateway.proxy_url`."""

PROVIDER_RULES = (
    FailureRule(
        then=errors.CredentialRefused,
        providers=(OTHER_HERMES,),
        statuses=(401,),
        hint="GATEWAY_PROXY_KEY must be its API_SERVER_KEY",
    ),
    FailureRule(
        then=errors.RequestRefused,
        providers=(OTHER_HERMES,),
        statuses=(404, 405),
        says="is not at this address",
        hint="gateway.proxy_url names an API server of Hermes, such as http://127.0.0.1:8642",
    ),
    # Z.AI and Zhipu give numbers, often with a message in Chinese.
    FailureRule(
        then=errors.QuotaSpent, providers=("zai",), marks=codes("1113 1304 1308 1309 1310")
    ),
    FailureRule(then=errors.ModelNotFound, providers=("zai",), marks=codes("1211 1311")),
    FailureRule(then=errors.ContextOverflow, providers=("zai",), marks=codes("1261")),
    FailureRule(then=errors.ContentRefused, providers=("zai",), marks=codes("1301")),
    FailureRule(then=errors.Overloaded, providers=("zai",), marks=codes("1305 1312")),
    # MiniMax gives numbers in `base_resp` inside a 200, or at the end of the message.
    FailureRule(then=errors.CredentialRefused, providers=("minimax",), marks=codes("1004")),
    FailureRule(
        then=errors.ContentRefused,
        providers=("minimax",),
        marks=codes("1026 1027"),
        words=pattern(r"\(102[67]\)"),
    ),
    FailureRule(then=errors.RateLimited, providers=("minimax",), marks=codes("1002 1039 1041")),
    FailureRule(
        then=errors.RequestRefused,
        providers=("minimax",),
        words=pattern(r"invalid params(?!, context window)"),
    ),
    # DashScope says `insufficient_quota` for its limit per minute.
    FailureRule(
        then=errors.RateLimited,
        providers=ALIBABA,
        statuses=(429,),
        marks=codes("insufficient_quota throttling.allocationquota"),
    ),
    FailureRule(
        then=errors.QuotaSpent,
        providers=ALIBABA,
        marks=codes("arrearage allocationquota.freetieronly"),
    ),
    # Groq checks the tool calls its models write, and answers 400 for one it cannot read.
    FailureRule(then=errors.ReplyInvalid, providers=("groq",), marks=codes("tool_use_failed")),
    FailureRule(then=errors.Overloaded, providers=("groq",), statuses=(498,)),
    FailureRule(
        then=errors.ModelNotFound,
        providers=("bedrock",),
        words=pattern(r"on-demand throughput isn.t supported"),
        hint="use the id of an inference profile, such as `us.` before the model's name",
    ),
    FailureRule(then=errors.QuotaSpent, providers=("bedrock",), words=pattern(r"tokens per day")),
    FailureRule(
        then=errors.ModelNotFound,
        providers=("openrouter",),
        words=pattern(r"matching your data policy"),
        says="has no host for this model that your privacy settings allow",
        hint="change them at openrouter.ai/settings/privacy, or choose with `hermes model`",
    ),
    FailureRule(
        then=errors.ModelNotFound,
        providers=("ollama",),
        words=pattern(r"model ['\"]?(?P<model>[\w./:-]{1,80}?)['\"]? not found"),
        hint="fetch it with `ollama pull {model}`, or choose one with `hermes models {provider}`",
    ),
    FailureRule(
        then=errors.RequestRefused,
        providers=("ollama",),
        words=pattern(r"requires more system memory"),
        says="has too little memory for this model",
        hint="choose a smaller one: `hermes models {provider}` lists what is there",
    ),
    FailureRule(
        then=errors.ModelNotFound,
        providers=("lmstudio",),
        words=pattern(r"no models loaded"),
        says="has no model loaded",
        hint="load one in LM Studio or with `lms load`",
    ),
)

"""Where the general rules would be wrong about one provider. Looked at first."""

from hermes.core import errors
from hermes.providers.failures.rule import Rule, marks, words

ALIBABA = ("alibaba", "qwen")
OTHER_HERMES = "the other Hermes"
"""The provider of `gateway.proxy_url`."""

SPECIAL = (
    Rule(
        then=errors.CredentialRefused,
        providers=(OTHER_HERMES,),
        statuses=(401,),
        hint="GATEWAY_PROXY_KEY must be its API_SERVER_KEY",
    ),
    Rule(
        then=errors.RequestRefused,
        providers=(OTHER_HERMES,),
        statuses=(404, 405),
        says="is not at this address",
        hint="gateway.proxy_url names an API server of Hermes, such as http://127.0.0.1:8642",
    ),
    # Z.AI and Zhipu give numbers, often with a message in Chinese.
    Rule(then=errors.QuotaSpent, providers=("zai",), marks=marks("1113 1304 1308 1309 1310")),
    Rule(then=errors.ModelNotFound, providers=("zai",), marks=marks("1211 1311")),
    Rule(then=errors.ContextOverflow, providers=("zai",), marks=marks("1261")),
    Rule(then=errors.ContentRefused, providers=("zai",), marks=marks("1301")),
    Rule(then=errors.Overloaded, providers=("zai",), marks=marks("1305 1312")),
    # MiniMax gives numbers in `base_resp` inside a 200, or at the end of the message.
    Rule(then=errors.CredentialRefused, providers=("minimax",), marks=marks("1004")),
    Rule(
        then=errors.ContentRefused,
        providers=("minimax",),
        marks=marks("1026 1027"),
        words=words(r"\(102[67]\)"),
    ),
    Rule(then=errors.RateLimited, providers=("minimax",), marks=marks("1002 1039 1041")),
    Rule(
        then=errors.RequestRefused,
        providers=("minimax",),
        words=words(r"invalid params(?!, context window)"),
    ),
    # DashScope says `insufficient_quota` for its limit per minute.
    Rule(
        then=errors.RateLimited,
        providers=ALIBABA,
        statuses=(429,),
        marks=marks("insufficient_quota throttling.allocationquota"),
    ),
    Rule(
        then=errors.QuotaSpent,
        providers=ALIBABA,
        marks=marks("arrearage allocationquota.freetieronly"),
    ),
    # Groq checks the tool calls its models write, and answers 400 for one it cannot read.
    Rule(then=errors.ReplyInvalid, providers=("groq",), marks=marks("tool_use_failed")),
    Rule(then=errors.Overloaded, providers=("groq",), statuses=(498,)),
    Rule(
        then=errors.ModelNotFound,
        providers=("bedrock",),
        words=words(r"on-demand throughput isn.t supported"),
        hint="use the id of an inference profile, such as `us.` before the model's name",
    ),
    Rule(then=errors.QuotaSpent, providers=("bedrock",), words=words(r"tokens per day")),
    Rule(
        then=errors.ModelNotFound,
        providers=("openrouter",),
        words=words(r"matching your data policy"),
        says="has no host for this model that your privacy settings allow",
        hint="change them at openrouter.ai/settings/privacy, or choose with `hermes model`",
    ),
    Rule(
        then=errors.ModelNotFound,
        providers=("ollama",),
        words=words(r"model ['\"]?(?P<model>[\w./:-]{1,80}?)['\"]? not found"),
        hint="fetch it with `ollama pull {model}`, or choose one with `hermes models {provider}`",
    ),
    Rule(
        then=errors.RequestRefused,
        providers=("ollama",),
        words=words(r"requires more system memory"),
        says="has too little memory for this model",
        hint="choose a smaller one: `hermes models {provider}` lists what is there",
    ),
    Rule(
        then=errors.ModelNotFound,
        providers=("lmstudio",),
        words=words(r"no models loaded"),
        says="has no model loaded",
        hint="load one in LM Studio or with `lms load`",
    ),
)

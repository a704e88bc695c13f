"""Which model answers, through which provider, and what happens when it fails."""

from typing import Any, Literal

from msgspec import field

from hermes.config.settings.base import Count, Dollars, Positive, Seconds, Section
from hermes.core.model import ApiMode

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
    models: dict[str, ModelOverrides] = field(default_factory=dict)
    """Facts about its models, by model name."""


class ProviderModel(ModelOverrides, frozen=True):
    timeout_seconds: Seconds | None = None  #: Longest time for one request to this model.
    stale_timeout_seconds: Seconds | None = None
    """Longest silence before a request to this model counts as dead."""


class ProviderSettings(Section, frozen=True):
    request_timeout_seconds: Seconds | None = None
    """Longest time for one request; unset is timeouts.request_seconds (Anthropic: 900)."""
    stale_timeout_seconds: Seconds | None = None
    """Longest silence before a request counts as dead; unset means timeouts.stale_seconds."""
    models: dict[str, ProviderModel] = field(default_factory=dict)
    """The same for single models, by model name."""


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
    extra_body: dict[str, Any] = field(default_factory=dict)
    """Further fields sent with each request."""


class VisionTask(AuxiliaryTask, frozen=True):
    timeout: Seconds = 120  #: Longest time for one call.
    download_timeout: Seconds = 30  #: Longest time to fetch an image.


class WebExtractTask(AuxiliaryTask, frozen=True):
    timeout: Seconds = 360  #: Longest time for one call.


class CompressionTaskSettings(AuxiliaryTask, frozen=True):
    timeout: Seconds = 120  #: Longest time for one call.


class SessionSearchTask(AuxiliaryTask, frozen=True):
    max_concurrency: Positive = 3  #: How many sessions are summarised at the same time.


class AuxiliarySettings(Section, frozen=True):
    vision: VisionTask = VisionTask()
    web_extract: WebExtractTask = WebExtractTask()
    approval: AuxiliaryTask = AuxiliaryTask()
    compression: CompressionTaskSettings = CompressionTaskSettings()
    session_search: SessionSearchTask = SessionSearchTask()
    skills_hub: AuxiliaryTask = AuxiliaryTask()
    mcp: AuxiliaryTask = AuxiliaryTask()
    title_generation: AuxiliaryTask = AuxiliaryTask()
    memory_flush: AuxiliaryTask = AuxiliaryTask()

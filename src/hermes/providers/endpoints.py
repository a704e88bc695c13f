"""Endpoints and targets: where requests go, and which hosts may receive which key.

A new provider is one record in `endpoints.json`. How to reach an API is code in
`hermes.providers.wire`; a quirk of a provider or model is a field of `ModelProfile`.
"""

from functools import lru_cache
from typing import Literal

import msgspec

from hermes.core.errors import ConfigError
from hermes.core.messages import ToolCall
from hermes.core.model import Price, TextDelta, WireMode
from hermes.util import http

ReasoningFormat = Literal["", "effort", "object", "budget", "adaptive", "switch", "enable_thinking"]
"""How a request asks for reasoning effort: not at all; `reasoning_effort: "low"`; `reasoning:
{"effort": "low"}`; Anthropic's `thinking` with a token budget; the same without a budget, with
`output_config.effort`; `thinking: {"type": "enabled"}`; `enable_thinking: true`."""


class ModelProfile(msgspec.Struct, frozen=True):
    context_length: int = 128_000
    max_output: int | None = None  #: Longest reply in tokens; None when unknown.
    price: Price | None = None  #: None when unknown.
    images: bool | None = None  #: Whether it accepts images; None when unknown.
    tools: bool = True
    reasoning: ReasoningFormat = ""
    developer_role: bool = False  #: Send the system message with the role `developer`.
    thinking_field: str = ""  #: Field in which earlier reasoning is sent back; empty for none.
    cache_marks: bool = False  #: The endpoint caches only prefixes marked with `cache_control`.
    max_tokens_field: str = "max_tokens"
    temperature: bool = True  #: False where the endpoint refuses a temperature.
    streaming: Literal["both", "always", "never"] = "both"
    """Which of streamed and whole replies the endpoint supports."""
    stream_usage: bool = True  #: False where the endpoint refuses `stream_options`.
    strict: bool = False
    """The endpoint refuses unknown fields in messages, such as those of another provider."""
    nine_letter_ids: bool = False  #: Ids of tool calls must have nine letters or digits.
    small: bool = False  #: Too small for native tool calls; wrapped in `providers.small_model`.
    is_agent: bool = False
    """The model is an agent: it acts before it answers, so a request must not be repeated."""
    extra_body: dict[str, object] = {}  #: Fields added to every request.
    keep_alive: bool = True  #: False where the server may close a connection between two requests.


AuthScheme = Literal["bearer", "x-api-key", "aws"]
"""`aws` signs each request with AWS Signature 4, or sends a Bedrock API key as a bearer token."""


class LoginSpec(msgspec.Struct, frozen=True):
    """How the user logs in instead of adding a key; the device flow of RFC 8628 by default."""

    client_id: str
    device_url: str
    token_url: str
    scope: str = ""
    flow: Literal["device", "codex", "google"] = "device"
    """`codex` is OpenAI's variant of the device flow; `google` needs an OAuth client of the user
    and a browser redirect to this machine."""
    pkce: bool = False
    exchange_url: str = ""
    """Where the token is exchanged for a short-lived one that is sent to the endpoint."""


class Endpoint(msgspec.Struct, frozen=True):
    id: str
    label: str
    base_url: str = ""
    """Empty when the user must set one. `{region}` is replaced by `bedrock.region`."""
    api_mode: WireMode = "chat_completions"
    custom_url_api_mode: WireMode | None = None
    """API of another base URL set in place of its own; None: the same API."""
    auth: AuthScheme = "bearer"
    key_vars: tuple[str, ...] = ()  #: Variables that may hold the key, best first.
    shared_key_vars: tuple[str, ...] = ()
    """Those of `key_vars` that are often set for other programs; `auto` ignores them."""
    base_url_vars: tuple[str, ...] = ()
    key_hosts: tuple[str, ...] = ()
    """Further hosts that may receive its key; `*` matches one label of a host name."""
    aliases: tuple[str, ...] = ()
    needs_key: bool = True
    default_model: str = ""
    small_model: str = ""  #: Cheap and fast model for auxiliary tasks. Empty: the default model.
    models_path: str = "/models"
    """Path of the model list after `base_url`; empty when there is none."""
    headers: dict[str, str] = {}  #: Sent with every request.
    login: LoginSpec | None = None
    request_seconds: float | None = None
    """Longest duration of one request; None: `timeouts.request_seconds`."""
    profile: ModelProfile = ModelProfile()
    """Applies to all its models unless the facts of a model differ."""


# In the order of `auto`: the first endpoint with a key of its own is used. Facts about single
# models are in `hermes.providers.catalog`; a profile here applies to every model of its endpoint.
# Only logins with a public protocol are listed. Nous Portal has one too, but it is not documented;
# its users create an API key on the portal.
with open(f"{__file__.removesuffix('.py')}.json", "rb") as _file:  # noqa: PTH123 - pathlib is slow to load
    ENDPOINTS = msgspec.json.decode(_file.read(), type=tuple[Endpoint, ...])
LOGINS = {endpoint.id: endpoint.login for endpoint in ENDPOINTS if endpoint.login}


def find_endpoint(name: str) -> Endpoint | None:
    """Return the endpoint with this id or alias."""
    return next((e for e in ENDPOINTS if name == e.id or name in e.aliases), None)


def own_key_variables() -> frozenset[str]:
    """Return the variables with model keys, without those that other programs share."""
    return frozenset(
        name for each in ENDPOINTS for name in each.key_vars if name not in each.shared_key_vars
    )


# A target: one endpoint, one model and the keys for it.

ENV, MANUAL, OAUTH, GIVEN = "env", "manual", "oauth", "given"
"""Prefixes of credential ids: a variable, a key added by the user, a login made here, a key set
with the choice. Any other id belongs to the login of another program."""


def variable_name(credential_id: str) -> str:
    """Return the variable that an id names, or an empty string."""
    kind, _, name = credential_id.partition(":")
    return name if kind == ENV else ""


class Credential(msgspec.Struct, frozen=True):
    """One key or token."""

    id: str
    """Stable name within its pool: `env:OPENROUTER_API_KEY`, `manual:1f3a`, `oauth`, `given`."""
    secret: str  #: The value to send.
    kind: Literal["api_key", "oauth"] = "api_key"
    label: str = ""  #: Name given by the user.
    source: str = ""  #: Origin for messages: `OPENROUTER_API_KEY in ~/.hermes/.env`.
    expires_at: float | None = None  #: Seconds since the epoch; None when it does not expire.
    base_url: str = ""  #: Base URL that belongs to the credential; empty: that of the endpoint.
    headers: dict[str, str] = {}  #: Further headers it needs, such as an account id.

    @property
    def is_foreign(self) -> bool:
        """Whether it is the login of another program on this machine.

        It is used where its provider was chosen, but does not make `auto` choose the provider.
        """
        return self.id.partition(":")[0] not in (ENV, MANUAL, OAUTH, GIVEN)

    @property
    def variable(self) -> str:
        """The variable it came from, or an empty string."""
        return variable_name(self.id)

    def __repr__(self) -> str:
        return f"Credential({self.id!r}, kind={self.kind!r}, source={self.source!r})"


class Timeouts(msgspec.Struct, frozen=True):
    """Time limits in seconds."""

    connect: float = 10.0
    request: float = 1800.0  #: For one whole request.
    silence: float = 300.0  #: Without any data, for a request without streaming.
    read: float = 120.0  #: Until the next bytes of a stream.
    stale: float = 180.0  #: Without new content in a stream; comments do not count.


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint, a model and the credentials for it."""

    provider: str  #: Provider id; `custom:NAME` for a named custom endpoint.
    model: str
    base_url: str
    api_mode: WireMode = "chat_completions"
    auth: AuthScheme = "bearer"
    source: str = ""  #: Why this one was chosen, for the user.
    credentials: tuple[Credential, ...] = ()  #: Best first. Empty when none is needed.
    profile: ModelProfile = ModelProfile()
    timeouts: Timeouts = Timeouts()
    headers: dict[str, str] = {}
    cache_ttl: Literal["5m", "1h"] = "5m"  #: Lifetime of a marked prefix.
    key_owner: str = ""  #: The provider whose keys these are, when it is not `provider`.
    region: str = ""  #: For AWS signatures.


class RemoteToolProgress(TextDelta, frozen=True, tag="remote_tool"):
    """A remote agent began to use one of its own tools.

    A text delta without text: code that does not know it shows nothing and counts it as progress.
    """

    text: str = ""
    call: ToolCall = ToolCall("", "", "{}")


# Hosts and keys. A key is sent to its own provider over TLS and to no other host: not to a base URL
# that replaces the provider's, not to a look-alike name, not along a redirect (the HTTP client
# follows none). URLs are parsed by the function that the HTTP client uses, so that both see the
# same host.


def may_receive_key(endpoint: Endpoint, url: str) -> bool:
    """Return whether the keys of `endpoint` may be sent to `url`."""
    parsed = http.parse_http_url(url)
    if parsed is None:
        return False
    own = http.parse_http_url(endpoint.base_url)
    if own is not None and parsed.origin == own.origin:
        return True
    if (parsed.scheme, parsed.port) != ("https", 443):
        return False
    return any(_host_matches(pattern, parsed.host) for pattern in endpoint.key_hosts)


OPENAI_VARIABLE = "OPENAI_API_KEY"
"""Many programs use it for any compatible endpoint, so its value may be the key of another one."""


def is_openai_key(secret: str) -> bool:
    """Return whether only OpenAI makes keys of this form."""
    return secret.strip().startswith(("sk-proj-", "sk-svcacct-", "sk-admin-"))


@lru_cache(maxsize=256)
def endpoint_of_host(url: str) -> Endpoint | None:
    """Return the endpoint that this host belongs to, or None."""
    parsed = http.parse_http_url(url)
    host = parsed.host if parsed is not None else ""
    # Parsing each address would take longer than the rest of choosing a model.
    some = (e for e in ENDPOINTS if e.key_hosts or (host and host in e.base_url))
    return next((e for e in some if may_receive_key(e, url)), None)


def is_loopback(url: str) -> bool:
    """Return whether `url` is an HTTP address on this machine."""
    parsed = http.parse_http_url(url)
    return parsed is not None and http.is_loopback(parsed.host)


def check_base_url(url: str, source: str) -> str:
    """Return `url` without a trailing slash. Raises `ConfigError` when it is not usable.

    `source` names the setting or variable it came from.
    """
    parsed = http.parse_http_url(url)
    if parsed is not None and not (parsed.has_login or parsed.query or parsed.fragment):
        return url.rstrip("/")
    hint = "an example of an address: http://127.0.0.1:8080/v1"
    scheme, _, rest = url.partition("://")
    if "@" in rest:  # a password must not be shown
        hint = "leave out the part before @; a key goes into model.api_key"
        url = f"{scheme}://…@{rest.rpartition('@')[2]}"
    raise ConfigError(f"{source}: {url!r} is not a valid address", hint=hint)


def _host_matches(pattern: str, host: str) -> bool:
    """Match host names; `*` stands for exactly one label, so a pattern covers no other domain."""
    wanted, labels = pattern.split("."), host.split(".")
    return len(wanted) == len(labels) and all(
        want in ("*", label) for want, label in zip(wanted, labels, strict=True)
    )

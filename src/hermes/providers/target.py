"""Where a request goes: `Target`, `Credential` and time limits."""

from typing import Literal

import msgspec

from hermes.config.settings import ProviderModel, ProviderSettings, Settings
from hermes.core.messages import ToolCall
from hermes.core.model import TextDelta, WireMode
from hermes.providers.endpoints import AuthScheme, Endpoint, ModelProfile

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


def timeouts_for(settings: Settings, endpoint: Endpoint, model: str, *, here: bool) -> Timeouts:
    """Return the limits set for the model, else for the provider, else in general.

    A server on this machine (`here`) may process a long prompt for minutes before its first token,
    so only the limit of the whole request applies.
    """
    general = settings.timeouts
    provider = settings.providers.get(endpoint.id, ProviderSettings())
    own = provider.models.get(model, ProviderModel())
    request = (
        own.timeout_seconds
        or provider.request_timeout_seconds
        or endpoint.request_seconds
        or general.request_seconds
    )
    stale = own.stale_timeout_seconds or provider.stale_timeout_seconds
    if stale or here:
        patience = float(stale or request)
        return Timeouts(request=request, silence=patience, read=patience, stale=patience)
    return Timeouts(
        request=request,
        silence=general.stale_seconds,
        read=general.stream_read_seconds,
        stale=general.stream_stale_seconds,
    )

"""Where requests go: the result of the resolver."""

from typing import Literal

import msgspec

from hermes.config.settings import Settings
from hermes.config.settings.model import ProviderModel, ProviderSettings
from hermes.core.messages import ToolCall
from hermes.core.model import TextDelta, WireMode
from hermes.providers.endpoints import AuthScheme, Endpoint, ModelProfile

ENV, MANUAL, OAUTH, GIVEN = "env", "manual", "oauth", "given"
"""How the id of a credential begins: a variable, a key added by hand, a login made here, a key said
together with the choice. Any other id is that of another program's login."""


def variable_name(credential_id: str) -> str:
    """The variable an id names, or empty."""
    kind, _, name = credential_id.partition(":")
    return name if kind == ENV else ""


class Credential(msgspec.Struct, frozen=True):
    """One key or token."""

    id: str
    """Stable name within its pool: `env:OPENROUTER_API_KEY`, `manual:1f3a`, `oauth`, `given`."""
    secret: str
    """What is sent."""
    kind: Literal["api_key", "oauth"] = "api_key"
    label: str = ""
    """What the user called it."""
    source: str = ""
    """Where it came from, in words: `OPENROUTER_API_KEY in ~/.hermes/.env`."""
    expires_at: float | None = None
    """Seconds since the epoch; None when it does not expire."""
    base_url: str = ""
    """The address the credential brought along; empty: that of the endpoint."""
    headers: dict[str, str] = {}
    """What else must be sent with it (an account id, say)."""

    @property
    def is_foreign(self) -> bool:
        """The login of another program on this machine: used where its provider was chosen, but
        no reason for `auto` to choose it."""
        return self.id.partition(":")[0] not in (ENV, MANUAL, OAUTH, GIVEN)

    @property
    def variable(self) -> str:
        """The variable it came from, or empty."""
        return variable_name(self.id)

    def __repr__(self) -> str:
        return f"Credential({self.id!r}, kind={self.kind!r}, source={self.source!r})"


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds."""

    connect: float = 10.0
    request: float = 1800.0
    """Longest time for one request."""
    silence: float = 300.0
    """Longest silence of a request without streaming."""
    read: float = 120.0
    """Longest wait for the next bytes of a stream."""
    stale: float = 180.0
    """Longest time a stream may go without bringing anything new; comments are nothing new."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint, a model and the credentials for it."""

    provider: str
    """Provider id; `custom:NAME` for a named endpoint of the user's own."""
    model: str
    base_url: str
    api_mode: WireMode = "chat_completions"
    auth: AuthScheme = "bearer"
    source: str = ""
    """Why this one, in words a user understands."""
    credentials: tuple[Credential, ...] = ()
    """Best first. Empty when none is needed."""
    profile: ModelProfile = ModelProfile()
    timeouts: Timeouts = Timeouts()
    headers: dict[str, str] = {}
    cache_ttl: Literal["5m", "1h"] = "5m"
    """How long a marked prefix is kept."""
    key_owner: str = ""
    """The provider whose keys these are, when it is another one."""
    region: str = ""
    """For AWS signatures."""


# What an agent that answers for a model does meanwhile.


class RemoteToolProgress(TextDelta, frozen=True, tag="remote_tool"):
    """It began to use a tool of its own. A delta without text: who does not know it shows nothing,
    and takes it for the sign of life it is."""

    text: str = ""
    call: ToolCall = ToolCall("", "", "{}")


# How long a request may take, by provider and model.


def timeouts_for(settings: Settings, endpoint: Endpoint, model: str, *, here: bool) -> Timeouts:
    """What the settings say of the model, else of the provider, else of all.

    A server on this machine (`here`) may read a long prompt for minutes before its first word, so
    it is only held to the limit of the whole request.
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

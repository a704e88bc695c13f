"""Where requests go: the result of the resolver."""

from typing import Literal

import msgspec

from hermes.core.model import WireMode
from hermes.providers.endpoint import Auth
from hermes.providers.profile import Profile

ENV, MANUAL, OAUTH, GIVEN = "env", "manual", "oauth", "given"
"""How the id of a credential begins: a variable, a key added by hand, a login made here, a key said
together with the choice. Any other id is that of another program's login."""


def variable_in(credential_id: str) -> str:
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
        return variable_in(self.id)

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
    auth: Auth = "bearer"
    source: str = ""
    """Why this one, in words a user understands."""
    credentials: tuple[Credential, ...] = ()
    """Best first. Empty when none is needed."""
    profile: Profile = Profile()
    timeouts: Timeouts = Timeouts()
    headers: dict[str, str] = {}
    cache_ttl: Literal["5m", "1h"] = "5m"
    """How long a marked prefix is kept."""
    key_owner: str = ""
    """The provider whose keys these are, when it is another one."""
    region: str = ""
    """For AWS signatures."""

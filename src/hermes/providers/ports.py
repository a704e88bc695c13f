"""What the resolver and the policies need of the credentials."""

from collections.abc import Collection
from typing import Protocol

from hermes.providers.endpoint import Endpoint
from hermes.providers.profile import Profile
from hermes.providers.target import Credential


class Keys(Protocol):
    """Where keys are found."""

    def variable(self, name: str) -> str | None:
        """A variable of .env or of the process; empty is not set."""
        ...

    def is_saved(self, name: str) -> bool:
        """Whether the variable stands in .env, and so was put there on purpose."""
        ...

    def credentials(self, endpoint: Endpoint) -> tuple[Credential, ...]:
        """Everything that could be sent to the endpoint, best first; resting ones too."""
        ...


class Models(Protocol):
    """What is known of models."""

    def profile(self, endpoint: Endpoint, base_url: str, model: str) -> Profile: ...


class Pool(Protocol):
    """The credentials of one target while requests are made."""

    @property
    def size(self) -> int: ...

    async def take(self, avoid: Collection[str] = ()) -> Credential:
        """The next one by the pool's strategy, with a token that is not about to expire.

        One whose id is in `avoid` is taken only when there is no other.

        Raises `CredentialsExhausted` when all rest, and says until when.
        """
        ...

    async def renew(self, credential: Credential) -> Credential | None:
        """After a 401: the credential with a new token, or None when it has none to get."""
        ...

    async def rest(self, credential: Credential, seconds: float, reason: str) -> None:
        """Do not hand it out for so long. Kept over restarts."""
        ...

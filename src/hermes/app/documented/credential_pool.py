"""`agent.credential_pool`: the keys of a provider."""

from hermes.app.documented.process import Process, process
from hermes.providers import Credential, Endpoint


class LoadedPool:
    """The keys and logins that requests to a provider may use, best first."""

    def __init__(self, shared: Process, endpoint: Endpoint) -> None:
        self._shared, self._endpoint = shared, endpoint
        self.provider = endpoint.id

    def has_credentials(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def sources(self) -> list[str]:
        """Where each comes from, in words."""
        return [each.source for each in self._found]

    def select(self) -> str:
        """A key to be sent now, by the strategy of `credential_pool_strategies`; an expiring token
        is renewed first. Raises `CredentialMissing` or `CredentialsExhausted`."""
        pool = self._shared.providers.keyring.pool(self._endpoint, self._found)
        return self._shared.run(pool.take()).secret

    @property
    def _found(self) -> tuple[Credential, ...]:
        return self._shared.providers.keyring.credentials(self._endpoint)


def load_pool(provider: str) -> LoadedPool:
    """Raises `ConfigError` when there is no such provider."""
    shared = process()
    return LoadedPool(shared, shared.providers.resolver.endpoint(provider))

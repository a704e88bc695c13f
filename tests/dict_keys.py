"""Keys from a dict, for tests of what is done with them."""

from hermes.providers.endpoints import Credential, Endpoint


class DictKeys:
    """Variables from a dict; those in `saved` stand in .env."""

    def __init__(self, variables: dict[str, str], saved: tuple[str, ...] = ()) -> None:
        self._variables, self._saved = variables, saved
        self.bound: set[str] = set()  #: Addresses that the user allowed a key at.

    def variable(self, name: str) -> str | None:
        return self._variables.get(name)

    def is_saved(self, name: str) -> bool:
        return name in self._saved

    def is_bound(self, variable: str, secret: str, base_url: str) -> bool:
        return base_url in self.bound

    def credentials(self, endpoint: Endpoint) -> tuple[Credential, ...]:
        found = [(name, self._variables.get(name)) for name in endpoint.key_vars]
        return tuple(
            Credential(id=f"env:{name}", secret=key, source=f"{name} is set")
            for name, key in found
            if key
        )

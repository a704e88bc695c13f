"""How a connection over HTTP gets its credentials."""

from typing import Protocol


class Authoriser(Protocol):
    """Gives the credentials of one server, and renews them. They go to its own host only."""

    async def headers(self) -> dict[str, str]:
        """The headers that authorise a request now; {} when there are none yet.

        Raises a `HermesError` when nobody can be asked for them."""
        ...

    async def refused(self, response_status: int, www_authenticate: str) -> bool:
        """The server said 401 or 403. True: the credentials were renewed, and the request is worth
        one more try."""
        ...

"""What homeservers say when they refuse."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from hermes.gateway.platforms.matrix.client import MatrixClient, MatrixError
from hermes.util.loopback_http import LoopbackServer, Outgoing

LIMITED = {"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests"}


class Limiting:
    """A homeserver that is asked too often."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body: dict[str, Any] = {}
        self._server = LoopbackServer(lambda _request: self._answer())
        self.url, self.close = f"http://127.0.0.1:{self._server.port}", self._server.close

    def _answer(self) -> Outgoing:
        headers = {"Content-Type": "application/json", **self.headers}
        return Outgoing(429, headers, [msgspec.json.encode(LIMITED | self.body)])


@pytest.fixture
def homeserver() -> Iterator[Limiting]:
    server = Limiting()
    yield server
    server.close()


@pytest.mark.parametrize(
    ("body", "headers", "seconds"),
    [
        ({"retry_after_ms": 1500}, {}, 1.5),
        ({}, {"Retry-After": "7"}, 7.0),
        ({"retry_after_ms": 1500}, {"Retry-After": "7"}, 1.5),
        ({}, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.0),
        ({}, {}, 0.0),
    ],
)
async def test_how_long_to_wait_is_heard_wherever_it_stands(
    homeserver: Limiting, body: dict[str, Any], headers: dict[str, str], seconds: float
) -> None:
    homeserver.body, homeserver.headers = body, headers
    wire = MatrixClient(homeserver.url)
    try:
        with pytest.raises(MatrixError) as told:
            await wire.get("/_matrix/client/v3/sync")
    finally:
        await wire.close()
    assert (told.value.code, told.value.seconds) == ("M_LIMIT_EXCEEDED", seconds)

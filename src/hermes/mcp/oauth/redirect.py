"""Where the browser comes back to after a login: an address on this machine, for one visit."""

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs

import msgspec

from hermes.mcp.oauth.failures import LoginFailed
from hermes.util.loopback_http import LoopbackServer, Outgoing, RecordedRequest
from hermes.util.threads import in_thread

PATH = "/callback"
DONE = "You are signed in. You can close this page and go back to Hermes."
DECLINED = "The login was not granted. You can close this page."
STRANGE = "This is not the login that is waited for."


class Outcome(msgspec.Struct, frozen=True):
    """What the browser brought: a code, or why there is none."""

    code: str
    error: str = ""
    description: str = ""
    issuer: str = ""
    """Who says so (RFC 9207), or nothing."""

    def __repr__(self) -> str:
        return f"Outcome(error={self.error!r})"


def outcome_of(address: str, state: str) -> Outcome | None:
    """What an address says; None when it is not the answer to the question with this state."""
    query = address.partition("#")[0].rpartition("?")[2]
    fields = {name: values[0] for name, values in parse_qs(query).items()}
    if not hmac.compare_digest(fields.get("state", "").encode(), state.encode()):
        return None
    code, error = fields.get("code", ""), fields.get("error", "")
    if not code and not error:
        return None
    said = fields.get("error_description", "")
    return Outcome("" if error else code, error, said, fields.get("iss", ""))


@asynccontextmanager
async def redirect_listener(
    state: str, port: int
) -> AsyncIterator[tuple[str, asyncio.Future[Outcome]]]:
    """The address to send the browser to, and what it will have brought. Port 0 is any.

    Raises `LoginFailed` when the port is taken.
    """
    loop = asyncio.get_running_loop()
    arrival: asyncio.Future[Outcome] = loop.create_future()

    def arrived(outcome: Outcome) -> None:
        if not arrival.done():
            arrival.set_result(outcome)

    def respond(request: RecordedRequest) -> Outgoing:
        path = request.path.partition("?")[0]
        outcome = None
        if (request.method, path) == ("GET", PATH):
            outcome = outcome_of(request.path, state)
        if outcome is None:
            return _page(404, STRANGE)
        with suppress(RuntimeError):  # the login is over and the loop closed
            loop.call_soon_threadsafe(arrived, outcome)
        return _page(200, DONE if outcome.code else DECLINED)

    try:
        server = LoopbackServer(respond, port)
    except OSError as error:
        raise LoginFailed(
            f"the browser cannot come back to port {port}: {(error.strerror or '').lower()}",
            hint="stop what uses it, or choose another one with --port",
        ) from error
    try:
        yield f"http://127.0.0.1:{server.port}{PATH}", arrival
    finally:
        await in_thread(server.close)


def _page(status: int, words: str) -> Outgoing:
    body = f"<!doctype html><title>Hermes</title><p>{words}</p>".encode()
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "Connection": "close",
    }
    return Outgoing(status, headers, [body])

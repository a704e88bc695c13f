"""Where the browser comes back to after a login: an address on this machine, for one visit."""

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

PATH = "/oauth2callback"
VISIT_SECONDS = 10.0
"""Browsers open connections that they do not use."""

DONE = "You are logged in. You can close this page."
DECLINED = "The login was declined. You can close this page."
STRANGE = "This is not the login that is waited for."


class Outcome(NamedTuple):
    """What the browser brought: a code, or why there is none."""

    code: str
    error: str = ""


def outcome_of(query: str, state: str) -> Outcome | None:
    """What a query says; None when it is not the answer to the question with this state."""
    fields = {name: values[0] for name, values in parse_qs(query).items()}
    if not hmac.compare_digest(fields.get("state", "").encode(), state.encode()):
        return None
    code, error = fields.get("code", ""), fields.get("error", "")
    return Outcome(code, error) if code or error else None


def pasted_outcome(text: str, state: str) -> Outcome | None:
    """The same for what a person copied: the address the browser ended at, or the code in it.

    None when it is the address of another login.
    """
    text = text.strip()
    if "=" in text or "://" in text:
        return outcome_of(text.partition("#")[0].rpartition("?")[2], state)
    return Outcome(unquote(text))


@asynccontextmanager
async def redirect_listener(state: str) -> AsyncIterator[tuple[str, asyncio.Future[Outcome]]]:
    """The address to send the browser to, and what it will have brought."""
    arrival: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    visits: set[asyncio.Task[None]] = set()

    def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(_visit(reader, writer, state, arrival))
        visits.add(task)
        task.add_done_callback(visits.discard)

    server = await asyncio.start_server(visited, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{PATH}", arrival
    finally:
        server.close()
        for visit in visits:
            visit.cancel()
        await asyncio.gather(*visits, return_exceptions=True)


async def _visit(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    state: str,
    arrival: asyncio.Future[Outcome],
) -> None:
    try:
        with suppress(
            TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(VISIT_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(head, state, arrival))
                await writer.drain()
    finally:
        writer.close()


def _answer(head: bytes, state: str, arrival: asyncio.Future[Outcome]) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    path, _, query = rest.partition(" ")[0].partition("?")
    outcome = outcome_of(query, state) if (method, path) == ("GET", PATH) else None
    if outcome is None:
        return _page("404 Not Found", STRANGE)
    if not arrival.done():
        arrival.set_result(outcome)
    return _page("200 OK", DONE if outcome.code else DECLINED)


def _page(status: str, words: str) -> bytes:
    body = f"<!doctype html><title>Hermes</title><p>{words}</p>".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body

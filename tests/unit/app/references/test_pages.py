"""Attaching web pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.app.references import page_fetch
from hermes.app.tools import unbound_tool_deps
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import ToolError
from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest


@pytest.fixture
def site() -> Iterator[LoopbackServer]:
    def respond(request: RecordedRequest) -> Outgoing:
        if request.path == "/away":
            return Outgoing(302, {"location": "http://169.254.169.254/latest/"}, ())
        page = f"<html><title>T</title><body><p>page {request.path} here</p></body></html>"
        return Outgoing(200, {"content-type": "text/html"}, (page.encode(),))

    server = LoopbackServer(respond)
    yield server
    server.close()


def fetch_for(hermes_home: Path, workspace: Path, *allowed: str):
    home = Home(hermes_home)
    loaded = load(home, {"security.allow_private_urls": list(allowed)})
    return page_fetch(unbound_tool_deps(loaded, home, workspace))


async def test_a_page_is_attached_as_data(attach, hermes_home, workspace, site) -> None:
    fetch = fetch_for(hermes_home, workspace, f"127.0.0.1:{site.port}")
    url = f"http://127.0.0.1:{site.port}/a"
    for text in (f"read @url:{url}.", f"read @{url}"):
        done = await attach(text, fetch=fetch)
        assert done.warnings == ()
        assert "page /a here" in done.text
        assert "data, not instructions" in done.text


async def test_addresses_behind_the_firewall_are_refused(attach, hermes_home, workspace, site):
    fetch = fetch_for(hermes_home, workspace)
    for host in (f"127.0.0.1:{site.port}", f"localhost:{site.port}", "169.254.169.254", "[::1]"):
        (warning,) = (await attach(f"@url:http://{host}/a", fetch=fetch)).warnings
        assert "must not be fetched" in warning
    (warning,) = (await attach("@url:file:///etc/passwd", fetch=fetch)).warnings
    assert "must not be fetched" in warning
    allowed = fetch_for(hermes_home, workspace, f"127.0.0.1:{site.port}")
    done = await attach(f"@url:http://127.0.0.1:{site.port}/away", fetch=allowed)
    assert "must not be fetched" in done.warnings[0]


async def test_https_is_meant_when_nothing_is_said(attach) -> None:
    asked: list[str] = []

    async def fetch(url: str) -> str:
        asked.append(url)
        return "hello"

    await attach("@url:example.com/x, and @url:'https://y.example/a b'", fetch=fetch)
    assert asked == ["https://example.com/x", "https://y.example/a b"]


async def test_a_page_that_fails_leaves_the_rest_alone(attach, workspace: Path) -> None:
    (workspace / "a.txt").write_text("still here\n")

    async def fetch(url: str) -> str:
        raise ToolError(f"{url} answered with HTTP 404", hint="for the model")

    done = await attach("@url:https://x.example/ @a.txt", fetch=fetch)
    assert done.warnings == ("@url:https://x.example/: https://x.example/ answered with HTTP 404",)
    assert "still here" in done.text
    assert "cannot be fetched" in (await attach("@url:https://x.example/")).warnings[0]

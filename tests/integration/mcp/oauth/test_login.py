"""Signing in: the whole flow, and what must stop it."""

import asyncio
import logging
import socket
from typing import Any

import httpx2
import pytest

from hermes.core.errors import HermesError
from hermes.core.testing.http_server import Outgoing, RecordedRequest
from hermes.mcp import LoginFailed, LoginRequired
from hermes.mcp.oauth import McpLoginPrompt
from hermes.mcp.transport import ServerUnreachable
from tests.cases import cases
from tests.integration.mcp.oauth.guarded import LoginSite, Site, browse, form_of, query_of, reply
from tests.integration.mcp.oauth.scene import Scene


async def test_signing_in_gives_a_login_that_only_its_owner_can_read(scene: Scene) -> None:
    made = await scene.sign_in()
    assert scene.stored() == made
    assert made.access_token in scene.login.tokens
    assert made.expires_at == scene.clock.time + 3600
    assert made.scope == "tickets:read"
    assert scene.store.path.name == "tickets.json"
    assert scene.store.path.stat().st_mode & 0o777 == 0o600
    assert scene.folder.stat().st_mode & 0o777 == 0o700


async def test_the_login_server_is_asked_for_this_server_and_with_pkce(scene: Scene) -> None:
    await scene.sign_in()
    (asked,) = (query_of(each) for each in scene.login.seen("/authorize"))
    (redeemed,) = (form_of(each) for each in scene.login.seen("/token"))
    assert asked["resource"] == redeemed["resource"] == scene.guarded.url
    assert asked["code_challenge_method"] == "S256"
    assert len(redeemed["code_verifier"]) >= 43
    assert scene.shown[0].startswith(f"{scene.login.origin}/authorize?")


async def test_no_token_goes_to_another_place(scene: Scene) -> None:
    made = await scene.sign_in()
    await scene.authorizer().headers()
    said = [f"{each.path}{each.headers}{each.raw!r}" for each in scene.guarded.requests]
    assert not any(made.refresh_token in each for each in said)
    assert not any(made.access_token in each for each in said), "none was asked for yet"


async def test_nothing_secret_is_logged_or_shown(scene, caplog):
    caplog.set_level(logging.DEBUG)
    made = await scene.sign_in()
    scene.clock.time += 4000
    await scene.authorizer().headers()
    new = scene.stored()
    redeemed = form_of(scene.login.seen("/token")[0])
    hidden = (made.access_token, made.refresh_token, new.access_token, new.refresh_token)
    for secret in (*hidden, redeemed["code"], redeemed["code_verifier"]):
        assert secret not in caplog.text
        assert secret not in repr((made, new))
        assert secret not in str(scene.shown)


@pytest.mark.parametrize("place", ["/.well-known/oauth-protected-resource", "named", "nowhere"])
async def test_the_description_is_found_where_it_may_be(scene: Scene, place: str) -> None:
    page = scene.guarded.pages.pop(scene.guarded.place)
    if place == "named":
        scene.guarded.pages["/elsewhere"] = page
        scene.guarded.challenge = (
            f'Bearer resource_metadata="{scene.guarded.origin}/elsewhere", scope="named:scope"'
        )
    elif place == "nowhere":  # a server of early 2025 is its own login server
        scene.login.metadata["issuer"] = scene.login.issuer = scene.guarded.origin
        at = "/.well-known/oauth-authorization-server"
        scene.guarded.pages[at] = scene.login.pages[f"{at}/tenant"]
    else:
        scene.guarded.pages[place] = page
    made = await scene.sign_in()
    assert made.resource == scene.guarded.url
    expected = {"named": "named:scope", "nowhere": ""}.get(place, "tickets:read")
    assert made.scope == expected


@pytest.mark.parametrize(
    "place",
    ["/.well-known/openid-configuration/tenant", "/tenant/.well-known/openid-configuration"],
)
async def test_openid_discovery_is_understood(scene: Scene, place: str) -> None:
    pages = scene.login.pages
    pages[place] = pages.pop("/.well-known/oauth-authorization-server/tenant")
    scene.login.metadata |= {
        "jwks_uri": f"{scene.login.origin}/keys",
        "scopes_supported": ["openid", "offline_access"],
        "registration_client_uri": None,
    }
    assert (await scene.sign_in()).scope == "tickets:read offline_access"
    assert query_of(scene.login.seen("/authorize")[0])["prompt"] == "consent"


async def test_html_in_place_of_metadata_is_skipped(scene: Scene) -> None:
    def page(_request: RecordedRequest) -> Outgoing:
        return Outgoing(200, {"Content-Type": "text/html"}, [b"<html>welcome"])

    scene.guarded.challenge = "Bearer"
    description = scene.guarded.pages[scene.guarded.place]
    scene.guarded.pages[scene.guarded.place] = page
    scene.guarded.pages["/.well-known/oauth-protected-resource"] = description
    assert (await scene.sign_in()).access_token


async def test_a_description_may_be_a_redirect_away(scene: Scene) -> None:
    page = scene.guarded.pages[scene.guarded.place]
    scene.guarded.pages["/moved"] = page
    scene.guarded.pages[scene.guarded.place] = lambda _: reply(302, Location="/moved")
    assert (await scene.sign_in()).access_token


def _spoil(part, fields):
    def spoil(scene):
        pages = {"description": scene.guarded.description, "metadata": scene.login.metadata}
        pages[part].update(fields)

    return spoil


def _loop(scene: Scene) -> None:
    place = scene.guarded.place
    scene.guarded.pages[place] = lambda _: reply(302, Location=place)


def _astray(scene: Scene) -> None:
    scene.guarded.pages[scene.guarded.place] = lambda _: reply(302, Location="http://example.com/")


def _endless(scene: Scene) -> None:
    scene.guarded.pages[scene.guarded.place] = lambda _: Outgoing(200, {}, [b"x" * 300_000])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        *((_spoil(part, fields), words) for part, fields, words in cases(__file__)["spoiled"]),
        (_loop, "redirects more than 3 times"),
        (_astray, "not protected by TLS"),
        (_endless, "more than 256,000 bytes"),
    ],
)
async def test_invalid_metadata_stops_before_the_user_is_asked(scene, spoil, words):
    spoil(scene)
    with pytest.raises(LoginFailed, match=words):
        await scene.sign_in()
    assert not scene.store.path.exists()
    assert scene.shown == []


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"iss": "https://evil.example.com"}, "another login server"),
        ({"iss": ""}, "another login server"),
        ({"code": "", "error": "access_denied"}, "was not granted"),
        ({"error": "server_error", "error_description": "ow\x1b[2J"}, r"server_error: ow\[2J$"),
        ({"code": "made-up"}, "invalid_grant: wrong code"),
    ],
)
async def test_a_login_that_goes_wrong_stores_nothing(scene, answers, words):
    scene.login.answers = answers
    with pytest.raises(LoginFailed, match=words):
        await scene.sign_in()
    assert not scene.store.path.exists()


async def test_an_answer_with_another_state_is_not_listened_to(scene: Scene) -> None:
    queries = ("code=evil&state=guess", "code=evil", "", "state=")
    answers: list[httpx2.Response] = []

    async def meddle(address: str) -> None:
        back = httpx2.URL(address).params["redirect_uri"]
        async with httpx2.AsyncClient(trust_env=False) as client:
            answers.extend([await client.get(f"{back}?{query}") for query in queries])
        await browse(address)

    made = await scene.sign_in_as(McpLoginPrompt(scene.shown.append, meddle))
    assert [each.status_code for each in answers] == [404] * 4
    assert made.access_token in scene.login.tokens


async def test_the_address_can_be_pasted_from_another_machine(scene: Scene) -> None:
    ends: list[str] = []

    async def elsewhere() -> str:
        async with httpx2.AsyncClient(trust_env=False) as client:
            ends.append((await client.get(scene.shown[0])).headers["location"])
        return f"  {ends[0]}\n"

    made = await scene.sign_in_as(McpLoginPrompt(scene.shown.append, None, elsewhere))
    assert made.access_token in scene.login.tokens


@pytest.mark.parametrize("text", ["code-only", "http://127.0.0.1/callback?code=x&state=other"])
async def test_pasted_text_that_is_not_the_redirect_address_is_refused(scene, text):
    async def paste() -> str:
        return text

    with pytest.raises(LoginFailed, match="not the address at which the login"):
        await scene.sign_in_as(McpLoginPrompt(scene.shown.append, None, paste))


async def test_login_times_out(scene: Scene) -> None:
    async def nothing() -> str:
        return ""

    with pytest.raises(LoginRequired, match="in time"):
        await scene.sign_in_as(McpLoginPrompt(scene.shown.append, None, nothing), seconds=0.05)


async def test_a_client_of_ones_own_with_a_secret(scene: Scene) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    scene.login.metadata["registration_endpoint"] = ""
    scene.login.clients["mine:1"] = {
        "client_id": "mine:1",
        "client_secret": "p%ss/word",
        "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
    }
    wishes = {"client_id": "mine:1", "client_secret": "p%ss/word", "port": port}
    made = await scene.sign_in(scope="only:this", **wishes)
    assert made.scope == "only:this"
    scene.clock.time += 4000
    await scene.authorizer().headers()
    assert scene.stored().access_token != made.access_token
    again = await scene.sign_in()
    assert again.client == made.client, "it need not be named a second time"
    assert scene.login.seen("/register") == []
    with LoginSite() as other:
        scene.guarded.description["authorization_servers"] = [other.issuer]
        assert (await scene.sign_in()).client.id == "client-0", "no other site gets its secret"
        assert all("p%ss" not in str(each.headers) for each in other.requests)


async def test_a_secret_from_registering_is_used(scene: Scene) -> None:
    scene.login.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]

    def register(request: RecordedRequest) -> Outgoing:
        answer = {"client_id": "c", "client_secret": "s e c r e t", **request.body}
        scene.login.clients["c"] = answer
        return reply(201, answer)

    scene.login.pages["/register"] = register
    made = await scene.sign_in()
    assert (made.client.method, made.client.secret) == ("client_secret_basic", "s e c r e t")


async def test_a_registration_that_is_refused(scene: Scene) -> None:
    scene.login.pages["/register"] = lambda _: reply(
        400, {"error": "invalid_redirect_uri", "error_description": "no loopback here"}
    )
    with pytest.raises(LoginFailed, match="HTTP 400: invalid_redirect_uri: no loopback here"):
        await scene.sign_in()


async def test_taken_port_is_reported(scene: Scene) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(LoginFailed, match="cannot come back to port"),
    ):
        await scene.sign_in(port=taken.getsockname()[1])


async def test_a_code_is_not_carried_to_another_place(scene: Scene) -> None:
    with Site() as evil:
        place = f"{evil.origin}/token"
        scene.login.pages["/token"] = lambda _: reply(307, Location=place)
        with pytest.raises(LoginFailed, match="redirects to another address"):
            await scene.sign_in()
        assert evil.requests == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"token_type": "mac"}, "kind Bearer"),
        ({"access_token": "two\nlines"}, "that can be used"),
        ({"access_token": ""}, "that can be used"),
        ({"refresh_token": "ü"}, "that can be used"),
    ],
)
async def test_tokens_that_cannot_be_used(scene: Scene, fields: dict[str, str], words: str) -> None:
    good = {"access_token": "a", "token_type": "Bearer"}
    scene.login.pages["/token"] = lambda _: reply(200, {**good, **fields})
    with pytest.raises(LoginFailed, match=words):
        await scene.sign_in()


@pytest.mark.parametrize("lasting", ["nonsense", -5, None, "nan"])
async def test_a_lifetime_that_makes_no_sense_is_not_known(scene: Scene, lasting: Any) -> None:
    fields = {"access_token": "a", "token_type": "bearer", "expires_in": lasting}
    scene.login.pages["/token"] = lambda _: reply(200, fields)
    assert (await scene.sign_in()).expires_at is None


async def test_a_server_without_tls_is_not_signed_in_to(scene: Scene) -> None:
    with pytest.raises(LoginFailed, match="not protected by TLS"):
        await scene.sign_in(url="http://mcp.example.com/mcp")


async def test_unreachable_server_is_reported(scene: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/mcp"
    with pytest.raises(ServerUnreachable, match="the MCP server tickets cannot be reached"):
        await scene.sign_in(url=url)


async def test_failing_login_server_is_reported(scene: Scene) -> None:
    scene.login.pages["/token"] = lambda _: reply(503, {"error": "busy"})
    with pytest.raises(ServerUnreachable, match="HTTP 503: busy"):
        await scene.sign_in()


async def test_stopping_keeps_the_login_there_was(scene: Scene) -> None:
    before = await scene.sign_in()

    async def wait() -> str:
        await asyncio.Event().wait()
        return ""

    task = asyncio.create_task(scene.sign_in_as(McpLoginPrompt(scene.shown.append, None, wait)))
    while len(scene.shown) < 2:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.stored() == before


async def test_a_damaged_file_is_replaced(scene: Scene) -> None:
    await scene.sign_in()
    scene.store.path.write_text("{")
    with pytest.raises(HermesError, match="is damaged"):
        await scene.authorizer().headers()
    made = await scene.sign_in()
    assert scene.stored() == made

"""Logging in with a Google account, in a browser here or on another machine."""

import asyncio
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest

from hermes.core.errors import CredentialMissing, CredentialRefused, ProviderError
from hermes.providers.login.flows import (
    GOOGLE_CLIENT_ID,
    GOOGLE_CLIENT_SECRET,
    GOOGLE_SCOPES,
    LoginPrompt,
    ReadPaste,
    google_client,
    google_login,
    require_google_client,
)
from hermes.providers.login.oauth import Tokens
from tests.unit.providers.credentials.google_server import CODE, GoogleServer
from tests.unit.providers.credentials.parts import Bench, HandClock


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    server = GoogleServer()
    yield server
    server.close()


class Person:
    """Is shown an address, and goes there with a browser when told to."""

    def __init__(self, bench: Bench, google: GoogleServer) -> None:
        self._client, self._google = bench.client, google
        self.clock = HandClock()
        self.shown = asyncio.Event()

    def _show(self, consent: LoginPrompt) -> None:
        self.url = urlsplit(consent.url)
        self.asked = self._google.asked = dict(parse_qsl(self.url.query))
        self.shown.set()

    def logs_in(self, paste: ReadPaste | None = None, seconds: float = 30) -> asyncio.Task[Tokens]:
        login = google_login(
            self._google.client,
            "google-gemini-cli",
            self._client,
            self.clock,
            self._show,
            paste=paste,
            seconds=seconds,
        )
        return asyncio.create_task(login)

    def landing(self, **fields: str) -> str:
        """The address the browser ends at."""
        return f"{self.asked['redirect_uri']}?{urlencode({'state': self.asked['state'], **fields})}"

    async def comes_back(self, **fields: str) -> httpx2.Response:
        await self.shown.wait()
        return await self._client.get(self.landing(**fields))


@pytest.fixture
def person(bench: Bench, google: GoogleServer) -> Person:
    return Person(bench, google)


async def test_the_browser_brings_the_code(person: Person, google: GoogleServer) -> None:
    login = person.logs_in()
    page = await person.comes_back(code=CODE, scope="email")
    assert (page.status_code, "You are logged in" in page.text) == (200, True)
    tokens = await login
    assert (tokens.access_token, tokens.refresh_token) == ("ya29.1", "1//r")
    assert tokens.expires_at == person.clock.time + 3599
    assert (tokens.token_url, tokens.client_id) == (google.client.token_url, "my-client")
    assert "my-secret" not in repr(tokens) + repr(google.client)


async def test_the_question_asks_for_what_is_needed_and_proves_who_asked(
    person: Person, google: GoogleServer
) -> None:
    login = person.logs_in()
    await person.comes_back(code=CODE)
    await login
    assert f"{google.url}/auth" == person.url._replace(query="").geturl()
    asked = person.asked
    assert asked["scope"].split() == list(GOOGLE_SCOPES)
    assert (asked["access_type"], asked["prompt"]) == ("offline", "consent")
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert urlsplit(asked["redirect_uri"]).hostname == "127.0.0.1"
    assert len(google.forms[0]["code_verifier"]) >= 43
    assert len(asked["state"]) >= 32


async def test_a_stranger_at_the_door_is_turned_away(
    person: Person, google: GoogleServer, bench: Bench
) -> None:
    login = person.logs_in()
    stranger = await person.comes_back(state="guessed", code="evil")
    address = person.asked["redirect_uri"]
    icon = await bench.client.get(address.replace("oauth2callback", "favicon.ico"))
    poster = await bench.client.post(person.landing(code="evil"))
    assert [page.status_code for page in (stranger, icon, poster)] == [404, 404, 404]
    assert not login.done()
    await person.comes_back(code=CODE)
    await login
    assert [form["code"] for form in google.forms] == [CODE]


async def test_nobody_listens_any_more_and_idle_connections_are_not_waited_for(
    person: Person, bench: Bench
) -> None:
    login = person.logs_in()
    await person.shown.wait()
    port = urlsplit(person.asked["redirect_uri"]).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await person.comes_back(code=CODE)
    await login
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(httpx2.ConnectError):
        await bench.client.get(person.landing(code=CODE))


async def test_a_login_that_is_declined_says_so(person: Person) -> None:
    login = person.logs_in()
    page = await person.comes_back(error="access_denied")
    assert "declined" in page.text
    with pytest.raises(CredentialRefused, match="was declined in the browser"):
        await login


async def test_any_other_end_is_named(person: Person) -> None:
    login = person.logs_in()
    await person.comes_back(error="admin_policy_enforced")
    with pytest.raises(CredentialRefused, match="admin_policy_enforced"):
        await login


async def test_the_wait_ends(person: Person) -> None:
    with pytest.raises(CredentialRefused, match="not completed in time") as caught:
        await person.logs_in(seconds=0.05)
    assert "hermes auth add google-gemini-cli" in caught.value.hint


def pasting(text: str) -> ReadPaste:
    async def paste() -> str:
        return text

    return paste


@pytest.mark.parametrize("pasted", [CODE, f" {CODE}\n", "4%2F0Ab-c_d"])
async def test_the_code_alone_can_be_pasted(person: Person, pasted: str) -> None:
    assert (await person.logs_in(pasting(pasted))).access_token == "ya29.1"


async def test_the_address_of_the_page_that_does_not_load_can_be_pasted(person: Person) -> None:
    async def paste() -> str:
        return f"{person.landing(code=CODE, scope='email')}#\n"

    assert (await person.logs_in(paste)).access_token == "ya29.1"


@pytest.mark.parametrize(
    "pasted",
    ["http://127.0.0.1:1/oauth2callback?state=old&code=4/0", "https://accounts.google.com", "a=b"],
)
async def test_what_is_not_of_this_login_is_refused(
    person: Person, google: GoogleServer, pasted: str
) -> None:
    with pytest.raises(CredentialRefused, match="is not the address this login ends at"):
        await person.logs_in(pasting(pasted))
    assert google.forms == []


async def test_nothing_pasted_leaves_the_browser(person: Person) -> None:
    login = person.logs_in(pasting(""))
    await person.comes_back(code=CODE)
    assert (await login).access_token == "ya29.1"


async def test_the_browser_ends_the_wait_for_something_pasted(person: Person) -> None:
    given_up = asyncio.Event()

    async def paste() -> str:
        try:
            return await asyncio.Future()
        finally:
            given_up.set()

    login = person.logs_in(paste)
    await person.comes_back(code=CODE)
    await login
    await given_up.wait()


async def test_a_code_that_is_refused_ends_it(person: Person) -> None:
    with pytest.raises(ProviderError, match="gave no tokens: status 400"):
        await person.logs_in(pasting("4/another"))


async def test_a_login_without_google_cloud_is_of_no_use(
    person: Person, google: GoogleServer
) -> None:
    google.scope = GOOGLE_SCOPES[1]
    with pytest.raises(CredentialRefused, match="without access to Google Cloud") as caught:
        await person.logs_in(pasting(CODE))
    assert "every box" in caught.value.hint


def test_the_client_is_the_users_own() -> None:
    values = {GOOGLE_CLIENT_ID: " id ", GOOGLE_CLIENT_SECRET: "secret"}
    client = google_client(values.get)
    assert client is not None
    assert (client.id, client.secret) == ("id", "secret")
    assert client.token_url == "https://oauth2.googleapis.com/token"
    assert google_client({GOOGLE_CLIENT_ID: "id"}.get) is None
    with pytest.raises(CredentialMissing) as caught:
        require_google_client({}.get, "google-gemini-cli")
    assert GOOGLE_CLIENT_ID in caught.value.hint

"""Logging in with a code: waiting, being slowed down, refused, too late."""

import asyncio
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest

from hermes.core.errors import (
    CredentialMissing,
    CredentialRefused,
    ProviderError,
    ReplyInvalid,
    Transient,
)
from hermes.core.testing.http_server import Stop
from hermes.providers.endpoints import LOGINS, LoginSpec
from hermes.providers.login.flows import (
    LoginPrompt,
    ReadPaste,
    codex_login,
    device_code_login,
    google_login,
    read_codex_cli_tokens,
)
from hermes.providers.login.tokens import (
    GOOGLE_CLIENT_ID,
    GOOGLE_CLIENT_SECRET,
    GOOGLE_SCOPES,
    Tokens,
    google_client,
    require_google_client,
)
from tests.cases import table_test
from tests.unit.providers.credentials.google_server import CODE, GoogleServer
from tests.unit.providers.credentials.oauth_server import CLIENT, OAuthServer, jwt, said
from tests.unit.providers.credentials.parts import Bench
from tests.unit.providers.hand_clock import HandClock


class Person:
    def __init__(self, bench: Bench) -> None:
        self.bench, self.clock = bench, HandClock()
        self.invited: list[LoginPrompt] = []

    async def logs_in(self, login: LoginSpec) -> str:
        flow = codex_login if login.flow == "codex" else device_code_login
        tokens = await flow(login, "shop", self.bench.client, self.clock, self.invited.append)
        self.tokens = tokens
        return tokens.access_token


@pytest.fixture
def person(bench: Bench) -> Person:
    return Person(bench)


async def test_the_person_gets_an_address_and_a_code(person: Person, server: OAuthServer) -> None:
    assert await person.logs_in(server.login()) == "access-1"
    (shown,) = person.invited
    assert (shown.url, shown.code, shown.seconds) == (f"{server.url}/activate", "ABCD-1234", 600)
    tokens = person.tokens
    assert (tokens.refresh_token, tokens.expires_at) == ("refresh-1", person.clock.time + 3600)
    assert (tokens.token_url, tokens.client_id) == (f"{server.url}/token", CLIENT)
    assert server.sent("/device/code") == [{"client_id": CLIENT, "scope": "models"}]


async def test_polling_follows_the_interval_of_the_server(person, server):
    server.polls = ["authorization_pending", "slow_down", "authorization_pending", 429]
    await person.logs_in(server.login())
    assert person.clock.slept == [5, 5, 10, 10, 15]


async def test_without_a_pace_it_asks_every_five_seconds(person, server):
    server.interval = None
    server.polls = ["authorization_pending"]
    await person.logs_in(server.login())
    assert person.clock.slept == [5, 5]


async def test_pkce_verifier_is_sent_with_the_poll(person: Person, server: OAuthServer) -> None:
    assert await person.logs_in(server.login(pkce=True)) == "access-1"
    (start,) = server.sent("/device/code")
    (poll,) = server.sent("/token")
    assert start["code_challenge_method"] == "S256"
    assert len(poll["code_verifier"]) >= 43


@table_test
async def test_a_login_that_fails_says_why(person, server, answer, words):
    server.polls = ["authorization_pending", answer]
    with pytest.raises(CredentialRefused) as caught:
        await person.logs_in(server.login())
    assert words in str(caught.value)


async def test_login_ends_when_the_code_expires(person: Person, server: OAuthServer) -> None:
    server.polls, server.interval = ["authorization_pending"] * 1000, 99
    with pytest.raises(CredentialRefused, match="before the code expired") as caught:
        await person.logs_in(server.login())
    assert sum(person.clock.slept) == 594
    assert "hermes auth add shop" in caught.value.hint


async def test_a_short_outage_does_not_end_it(person: Person, server: OAuthServer) -> None:
    server.polls = [Stop.CUT, 503, "authorization_pending"]
    assert await person.logs_in(server.login()) == "access-1"
    assert person.clock.slept == [5, 10, 20, 20]


async def test_a_long_outage_does(person: Person, server: OAuthServer) -> None:
    server.polls = [503] * 50
    with pytest.raises(Transient, match="status 503"):
        await person.logs_in(server.login())
    assert len(server.sent("/token")) == 5


async def test_unreachable_server_is_named(person: Person, server: OAuthServer) -> None:
    login = server.login()
    server.close()
    with pytest.raises(Transient, match="cannot reach shop"):
        await person.logs_in(login)


async def test_server_without_a_code_is_reported(person: Person) -> None:
    server = Scripted({"error": "device_flow_disabled"})
    try:
        with pytest.raises(ProviderError, match="sent no login code") as caught:
            await person.logs_in(server.login())
    finally:
        server.close()
    assert "(device_flow_disabled)" in str(caught.value)


@table_test
async def test_unsafe_address_or_code_is_not_shown(person, bench, url, code):
    answer = {"device_code": "d", "user_code": code, "verification_uri": url}
    server = Scripted(answer)
    try:
        with pytest.raises(ReplyInvalid):
            await person.logs_in(server.login())
    finally:
        server.close()
    assert person.invited == []


class Scripted(OAuthServer):
    def __init__(self, answer: dict[str, str]) -> None:
        super().__init__()
        self._answer = answer

    def _device_code(self, form):
        return said(self._answer)


async def test_stopping_leaves_nothing(person: Person, server: OAuthServer) -> None:
    server.polls = ["authorization_pending"] * 1000
    waiting = asyncio.create_task(person.logs_in(server.login()))
    while not server.sent("/token"):
        await asyncio.sleep(0.005)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not person.bench.store.path.exists()


async def test_the_form_of_openai_brings_tokens_in_two_steps(person, server):
    server.polls, server.interval = [403, 404], 7
    assert await person.logs_in(server.codex()) == "access-1"
    assert person.clock.slept == [7, 7, 7]
    (shown,) = person.invited
    assert (shown.url, shown.code, shown.seconds) == (f"{server.url}/codex/device", "WXYZ", 900)
    assert person.tokens.token_url == f"{server.url}/oauth/token"


async def test_the_form_of_openai_ends_on_any_other_refusal(person, server):
    server.polls = [403, 400]
    with pytest.raises(CredentialRefused, match="ended the login: status 400"):
        await person.logs_in(server.codex())


async def test_the_form_of_openai_runs_out_after_a_quarter_of_an_hour(person, server):
    server.polls, server.interval = [403] * 1000, 200
    with pytest.raises(CredentialRefused, match="before the code expired"):
        await person.logs_in(server.codex())
    assert sum(person.clock.slept) == 800


def test_the_login_of_the_codex_cli_can_be_read(bench: Bench) -> None:
    folder = bench.user_home / ".codex"
    assert read_codex_cli_tokens(folder, LOGINS["openai-codex"]) is None
    access = jwt(exp=1_800_000_000)
    identity = jwt(**{"https://api.openai.com/auth": {"chatgpt_account_id": "acc-1"}})
    held = {"access_token": access, "refresh_token": "r", "id_token": identity}
    bench.write(".codex/auth.json", {"OPENAI_API_KEY": None, "tokens": held})
    tokens = read_codex_cli_tokens(folder, LOGINS["openai-codex"])
    assert tokens is not None
    assert (tokens.access_token, tokens.refresh_token) == (access, "r")
    assert (tokens.expires_at, tokens.account_id) == (1_800_000_000, "acc-1")


@pytest.mark.parametrize("content", [{}, {"tokens": 1}, {"tokens": {"access_token": "a"}}, []])
def test_a_codex_file_without_a_login_is_none(bench: Bench, content: object) -> None:
    bench.write(".codex/auth.json", content)
    assert read_codex_cli_tokens(bench.user_home / ".codex", LOGINS["openai-codex"]) is None


@pytest.mark.parametrize(
    "login", [LOGINS[name] for name in ("openai-codex", "copilot", "qwen-oauth")]
)
def test_every_known_login_goes_over_tls(login: LoginSpec) -> None:
    urls = [login.device_url, login.token_url, login.exchange_url or login.token_url]
    assert all(url.startswith("https://") for url in urls)


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    server = GoogleServer()
    yield server
    server.close()


class GooglePerson:
    """Is shown an address, and goes there with a browser when reported to."""

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
def google_person(bench: Bench, google: GoogleServer) -> GooglePerson:
    return GooglePerson(bench, google)


async def test_the_browser_brings_the_code(google_person, google):
    login = google_person.logs_in()
    page = await google_person.comes_back(code=CODE, scope="email")
    assert (page.status_code, "You are signed in" in page.text) == (200, True)
    tokens = await login
    assert (tokens.access_token, tokens.refresh_token) == ("ya29.1", "1//r")
    assert tokens.expires_at == google_person.clock.time + 3599
    assert (tokens.token_url, tokens.client_id) == (google.client.token_url, "my-client")
    assert "my-secret" not in repr(tokens) + repr(google.client)


async def test_authorization_url_has_scopes_and_pkce(google_person, google):
    login = google_person.logs_in()
    await google_person.comes_back(code=CODE)
    await login
    assert f"{google.url}/auth" == google_person.url._replace(query="").geturl()
    asked = google_person.asked
    assert asked["scope"].split() == list(GOOGLE_SCOPES)
    assert (asked["access_type"], asked["prompt"]) == ("offline", "consent")
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert urlsplit(asked["redirect_uri"]).hostname == "127.0.0.1"
    assert len(google.forms[0]["code_verifier"]) >= 43
    assert len(asked["state"]) >= 32


async def test_redirect_without_the_state_gets_404(google_person, google, bench):
    login = google_person.logs_in()
    stranger = await google_person.comes_back(state="guessed", code="evil")
    address = google_person.asked["redirect_uri"]
    icon = await bench.client.get(address.replace("oauth2callback", "favicon.ico"))
    poster = await bench.client.post(google_person.landing(code="evil"))
    assert [page.status_code for page in (stranger, icon, poster)] == [404, 404, 404]
    assert not login.done()
    await google_person.comes_back(code=CODE)
    await login
    assert [form["code"] for form in google.forms] == [CODE]


async def test_port_is_closed_after_the_login_despite_idle_connections(google_person, bench):
    login = google_person.logs_in()
    await google_person.shown.wait()
    port = urlsplit(google_person.asked["redirect_uri"]).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await google_person.comes_back(code=CODE)
    await login
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(httpx2.ConnectError):
        await bench.client.get(google_person.landing(code=CODE))


async def test_a_login_that_is_declined_says_so(google_person: GooglePerson) -> None:
    login = google_person.logs_in()
    page = await google_person.comes_back(error="access_denied")
    assert "declined" in page.text
    with pytest.raises(CredentialRefused, match="was declined in the browser"):
        await login


async def test_any_other_end_is_named(google_person: GooglePerson) -> None:
    login = google_person.logs_in()
    await google_person.comes_back(error="admin_policy_enforced")
    with pytest.raises(CredentialRefused, match="admin_policy_enforced"):
        await login


async def test_the_wait_ends(google_person: GooglePerson) -> None:
    with pytest.raises(CredentialRefused, match="not completed in time") as caught:
        await google_person.logs_in(seconds=0.05)
    assert "hermes auth add google-gemini-cli" in caught.value.hint


def pasting(text: str) -> ReadPaste:
    async def paste() -> str:
        return text

    return paste


@pytest.mark.parametrize("pasted", [CODE, f" {CODE}\n", "4%2F0Ab-c_d"])
async def test_the_code_alone_can_be_pasted(google_person: GooglePerson, pasted: str) -> None:
    assert (await google_person.logs_in(pasting(pasted))).access_token == "ya29.1"


async def test_the_address_of_the_page_that_does_not_load_can_be_pasted(google_person):
    async def paste() -> str:
        return f"{google_person.landing(code=CODE, scope='email')}#\n"

    assert (await google_person.logs_in(paste)).access_token == "ya29.1"


@pytest.mark.parametrize(
    "pasted",
    ["http://127.0.0.1:1/oauth2callback?state=old&code=4/0", "https://accounts.google.com", "a=b"],
)
async def test_pasted_address_of_another_login_is_refused(google_person, google, pasted):
    with pytest.raises(CredentialRefused, match="is not the address this login ends at"):
        await google_person.logs_in(pasting(pasted))
    assert google.forms == []


async def test_nothing_pasted_leaves_the_browser(google_person: GooglePerson) -> None:
    login = google_person.logs_in(pasting(""))
    await google_person.comes_back(code=CODE)
    assert (await login).access_token == "ya29.1"


async def test_the_browser_ends_the_wait_for_something_pasted(google_person):
    given_up = asyncio.Event()

    async def paste() -> str:
        try:
            return await asyncio.Future()
        finally:
            given_up.set()

    login = google_person.logs_in(paste)
    await google_person.comes_back(code=CODE)
    await login
    await given_up.wait()


async def test_a_code_that_is_refused_ends_it(google_person: GooglePerson) -> None:
    with pytest.raises(ProviderError, match="gave no tokens: status 400"):
        await google_person.logs_in(pasting("4/another"))


async def test_a_login_without_google_cloud_is_of_no_use(google_person, google):
    google.scope = GOOGLE_SCOPES[1]
    with pytest.raises(CredentialRefused, match="without access to Google Cloud") as caught:
        await google_person.logs_in(pasting(CODE))
    assert "every box" in caught.value.hint


def test_the_client_is_the_users_own() -> None:
    values = {GOOGLE_CLIENT_ID: " id ", GOOGLE_CLIENT_SECRET: "secret"}
    client = google_client(values.get)
    assert client is not None
    assert (client.client_id, client.client_secret) == ("id", "secret")
    assert client.token_url == "https://oauth2.googleapis.com/token"
    assert google_client({GOOGLE_CLIENT_ID: "id"}.get) is None
    with pytest.raises(CredentialMissing) as caught:
        require_google_client({}.get, "google-gemini-cli")
    assert GOOGLE_CLIENT_ID in caught.value.hint

"""With every key set, a hostile address learns none of them."""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from hermes.app.app import App
from hermes.app.model_choice import ModelFilter
from hermes.app.providers import Providers
from hermes.app.sessions import SessionRequest
from hermes.cli.context import ProgressLine
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import HermesError, KeyNotBound
from hermes.core.events import TurnFinished
from hermes.core.messages import User
from hermes.core.model import ModelRequest
from hermes.core.testing import ModelServer, Redirect
from hermes.core.testing.model_server import echo
from hermes.ops import CredentialService
from hermes.providers.endpoints import ENDPOINTS
from hermes.providers.policy.budget import Budget, BudgetLimits
from hermes.providers.resolver import auxiliary_targets
from hermes.util.concurrency import SystemClock
from tests.cases import table_test

KEYS = {
    variable: f"secret-of-{variable.lower()}"
    for endpoint in ENDPOINTS
    for variable in (*endpoint.key_vars, *endpoint.shared_key_vars)
}
KEYED = [endpoint for endpoint in ENDPOINTS if endpoint.key_vars and endpoint.base_url]
HOSTILE_VARS = [(e.id, variable) for e in KEYED for variable in e.base_url_vars]


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """An endpoint that answers everything and remembers what it was sent; every key is set."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with ModelServer(echo) as server:
        yield server


def leaked(server: ModelServer, *allowed: str) -> set[str]:
    """The variables whose keys the server has seen."""
    seen = "\n".join(
        f"{request.path} {request.headers} {request.raw.decode('utf-8', 'replace')}"
        for request in server.requests
    )
    return {name for name, value in KEYS.items() if value in seen} - set(allowed)


def home_with(hermes_home: Path, config: str) -> Home:
    hermes_home.mkdir(exist_ok=True)
    (hermes_home / "config.yaml").write_text(config)
    return Home(hermes_home)


async def ask(home: Home, folder: Path) -> TurnFinished | HermesError:
    """One question, as `hermes chat -q` asks it."""
    app = App(home, load(home), ProgressLine(StringIO()), lambda _: None)
    async with app:
        try:
            agent = await app.agent(SessionRequest(working_folder=folder))
        except HermesError as error:
            return error
        events = [event async for event in agent.run(User.say("hello"))]
    assert isinstance(events[-1], TurnFinished)
    return events[-1]


@pytest.mark.parametrize("endpoint", KEYED, ids=lambda e: e.id)
async def test_an_address_in_a_providers_place(endpoint, hostile, hermes_home, tmp_path):
    config = f"model: {{provider: {endpoint.id}, base_url: '{hostile.url}/v1', default: m}}"
    await ask(home_with(hermes_home, config), tmp_path)
    assert leaked(hostile) == set()


@pytest.mark.parametrize(("provider", "variable"), HOSTILE_VARS)
async def test_an_address_in_a_variable(
    provider, variable, hostile, hermes_home, tmp_path, monkeypatch
):
    monkeypatch.setenv(variable, f"{hostile.url}/v1")
    home = home_with(hermes_home, f"model: {{provider: {provider}, default: m}}")
    await ask(home, tmp_path)
    assert leaked(hostile) == set()


@pytest.mark.parametrize("endpoint", KEYED, ids=lambda e: e.id)
async def test_model_list_is_not_requested_with_a_foreign_key(endpoint, hostile, hermes_home):
    address = f"base_url: '{hostile.url}/v1', api_key: own"
    config = f"model: {{provider: {endpoint.id}, {address}, default: m}}"
    home = home_with(hermes_home, config)
    loaded = load(home)
    async with Providers(home, loaded, SystemClock(), ProgressLine(StringIO())) as providers:
        target = providers.known_target(providers.main_choice())
        await providers.lister.models(target, ModelFilter(), refresh=True)
    assert leaked(hostile) == set()


async def test_an_endpoint_of_ones_own_gets_the_openai_key_after_it_was_allowed(
    hostile, hermes_home, tmp_path
):
    config = f"model: {{provider: custom, base_url: '{hostile.url}/v1', default: m}}"
    home = home_with(hermes_home, config)
    assert isinstance(await ask(home, tmp_path), KeyNotBound)
    assert leaked(hostile) == set()
    CredentialService(home, load(home), SystemClock()).bind("OPENAI_API_KEY", f"{hostile.url}/v1")
    end = await ask(home, tmp_path)
    assert end.exit_reason == "answered"
    assert leaked(hostile) == {"OPENAI_API_KEY"}


@table_test
async def test_other_ways_to_name_an_address(entry, hostile, hermes_home, tmp_path):
    await ask(home_with(hermes_home, entry.format(url=f"{hostile.url}/v1")), tmp_path)
    assert leaked(hostile) == set()


@pytest.mark.parametrize("provider", ["auto", "groq", "anthropic", "custom"])
async def test_auxiliary_tasks_at_an_address_of_their_own(provider, hostile, hermes_home):
    task = f"{{provider: {provider}, base_url: '{hostile.url}/v1', model: m}}"
    home = home_with(hermes_home, f"auxiliary: {{compression: {task}}}")
    loaded, clock = load(home), SystemClock()
    async with Providers(home, loaded, clock, ProgressLine(StringIO())) as providers:
        main = providers.known_target(providers.main_choice())
        asked = loaded.settings.auxiliary.compression
        try:
            targets = auxiliary_targets("compression", asked, main, providers.resolver)
        except HermesError:
            targets = ()
        budget = Budget(BudgetLimits(), None, "", clock)
        for target in targets:
            request = ModelRequest((User.say("hello"),))
            await providers.maker.model(target, budget).call(request, lambda _event: None)
    assert leaked(hostile, "OPENAI_API_KEY") == set()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_takes_no_key_along(status, hostile, hermes_home, tmp_path):
    elsewhere = f"{hostile.url}/v1/chat/completions"
    with ModelServer([Redirect(elsewhere, status)]) as server:
        config = f"model: {{provider: custom, base_url: '{server.url}/v1', default: m}}"
        home = home_with(hermes_home, config)
        auth = CredentialService(home, load(home), SystemClock())
        auth.bind("OPENAI_API_KEY", f"{server.url}/v1")
        end = await ask(home, tmp_path)
        assert KEYS["OPENAI_API_KEY"] in str(server.requests[0].headers)
    assert end.exit_reason == "failed"
    assert "redirects to" in end.error
    assert hostile.requests == []

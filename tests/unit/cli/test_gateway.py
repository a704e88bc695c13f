"""`hermes gateway` as a user sees it; processes and services are in tests/integration/gateway."""

import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes.cli.commands import gateway
from hermes.cli.context import Cli, run_command
from hermes.cli.main import Parser
from hermes.config.environment import read_dotenv
from hermes.config.home import Home
from hermes.gateway.pairing import parse_user_list
from hermes.gateway.platforms import registry
from hermes.gateway.process import (
    AdapterState,
    GatewayState,
    ReadinessProblem,
    claim_home,
    running_gateway,
    write_state,
)
from hermes.sdk.platforms import Capabilities, CredentialField, PlatformManifest, UserIdFormat
from tests.cases import cases
from tests.unit.cli.terminal import Hermes, Outcome

CASES = cases(__file__)

TOKEN = "123:secret-token"
CARRIER = PlatformManifest(
    "carrier", "Carrier Pigeon", "x:X", Capabilities(max_chars=10), env_prefix="CARRIER",
    users=UserIdFormat("[0-9]+", "a number"),
    credentials=(
        CredentialField("CARRIER_TOKEN", "Token", "ask the loft"),
        CredentialField("CARRIER_LOFT", "Loft", secret=False, required=False),
        CredentialField("CARRIER_RING", "Ring", secret=False, required=False, rare=True),
    ),
)  # fmt: skip


@pytest.fixture
def hermes(hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hermes:
    monkeypatch.setattr("hermes.gateway.services.BOOTED", tmp_path / "no-systemd")
    return Hermes("gateway", hermes_home)


@pytest.fixture
def carrier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "manifests", lambda: {"carrier": CARRIER})


def state_of(pid: int, now: float) -> GatewayState:
    adapters = (
        AdapterState("telegram", "connected", last_in=now - 61),
        AdapterState(
            "discord", "waiting", "main", "the token is refused", hint="copy it", waiting_out=2
        ),
    )
    return GatewayState(
        pid, "running", now, now, adapters, waiting_in=1, turns=3, last_in=now - 5, cron="2 jobs",
        troubles=("no metrics",),
    )  # fmt: skip


def test_no_gateway_runs_at_first(hermes: Hermes, hermes_home: Path) -> None:
    done = hermes("status").expect(1)
    assert done.out == f"gateway   not running in {Home(hermes_home).display()}\n"
    facts = json.loads(hermes("status", "--json").out)
    assert (facts["running"], facts["gateway"], facts["service"]) == (False, None, None)
    assert hermes("stop").out.startswith("none runs in ")
    assert hermes("stop", "--all").out == "no gateway of yours runs\n"


def test_a_running_gateway_shows_how_its_platforms_fare(hermes: Hermes, hermes_home: Path) -> None:
    now = time.time()
    with claim_home(Home(hermes_home), now=now - 3700) as me:
        assert "starting: process" in hermes("status").out
        write_state(hermes_home, state_of(me.pid, now))
        lines = hermes("status").out.splitlines()
        facts = json.loads(hermes("status", "--json").out)
    assert lines[0] == f"gateway   running: process {me.pid}, for 1h 1m"
    assert lines[1] == "queue     1 in, 0 out, 3 turns running"
    assert lines[3] == "cron      2 jobs"
    assert lines[4] == "trouble   no metrics"
    assert lines[5].startswith("telegram      connected: in 1m ")
    assert lines[6].startswith(
        "discord@main  waiting (the token is refused): in never, out never, 2"
    )
    assert lines[7:] == ["              copy it"]
    assert (facts["running"], facts["pid"], facts["stale"]) == (True, me.pid, False)
    assert [each["platform"] for each in facts["gateway"]["adapters"]] == ["telegram", "discord"]


def test_state_of_an_earlier_gateway_is_ignored(hermes: Hermes, hermes_home: Path) -> None:
    with claim_home(Home(hermes_home), now=time.time()):
        write_state(hermes_home, state_of(1, time.time()))
        assert json.loads(hermes("status", "--json").out)["gateway"] is None


def test_status_reports_a_gateway_that_hangs(hermes: Hermes, hermes_home: Path) -> None:
    with claim_home(Home(hermes_home), now=time.time()) as me:
        write_state(hermes_home, state_of(me.pid, time.time() - 600))
        assert "it has said nothing of itself for 10m" in hermes("status").out
        assert json.loads(hermes("status", "--json").out)["stale"]


def test_status_of_a_gateway_that_is_not_ready_names_the_reason(
    hermes: Hermes, hermes_home: Path
) -> None:
    problem = ReadinessProblem("store", "the session store is unavailable", "look at it")
    with claim_home(Home(hermes_home), now=time.time()) as me:
        write_state(hermes_home, replace(state_of(me.pid, time.time()), problems=(problem,)))
        lines = hermes("status").expect(1).out.splitlines()
        facts = json.loads(hermes("status", "--json").expect(1).out)
        write_state(hermes_home, state_of(me.pid, time.time()))
        hermes("status").expect(0)
    assert lines[-2:] == [
        "not ready (store): the session store is unavailable",
        "          look at it",
    ]
    assert (facts["ready"], facts["problems"][0]["part"]) == (False, "store")


def test_run_is_the_gateway_while_it_runs(hermes, hermes_home, monkeypatch):
    seen: dict[str, Any] = {}

    def start(home: Home, loaded: Any, **options: Any) -> int:
        seen.update(options, running=running_gateway(home.root), again=hermes("run"))
        return 7

    monkeypatch.setattr("hermes.gateway.start_gateway", start)
    assert hermes("run", "--quiet").code == 7
    assert seen["quiet"]
    assert seen["running"] is not None
    assert seen["again"].code == 1
    assert "running already" in seen["again"].err
    assert running_gateway(hermes_home) is None


def test_a_service_needs_a_service_manager(hermes: Hermes) -> None:
    for words in (("install",), ("uninstall",), ("install", "--system")):
        hermes(*words).expect(1, err="has no systemd")
    assert "--run-as needs --system" in hermes("install", "--run-as", "ann").err
    assert "no user 'nobody-here'" in hermes("install", "--system", "--run-as", "nobody-here").err


def test_the_platforms_of_this_hermes_are_found_without_their_libraries(hermes: Hermes) -> None:
    before = set(sys.modules)
    done = hermes("setup", "--non-interactive").expect()
    for name in ("telegram", "discord", "email", "webhook"):
        assert name in done.out
    assert not {"telegram", "discord", "imapclient", "starlette"} & (set(sys.modules) - before)


def test_setup_without_a_terminal_says_why_nothing_was_asked(hermes: Hermes) -> None:
    hermes("setup").expect(
        2, out="telegram", err=["not a terminal", "hermes gateway setup telegram"]
    )


@pytest.mark.usefixtures("carrier")
def test_a_platform_is_set_up_by_options(hermes: Hermes, hermes_home: Path) -> None:
    done = hermes(
        "setup", "Carrier", "--from-stdin", "--allowed-users", "6, 5,", "--home-channel", "c1",
        stdin=f"# of the loft\nCARRIER_TOKEN='{TOKEN}'\n",
    )  # fmt: skip
    assert done.code == 0
    assert TOKEN not in done.out + done.err
    saved = read_dotenv(hermes_home / ".env", {})
    assert saved == {
        "CARRIER_TOKEN": TOKEN,
        "CARRIER_ALLOWED_USERS": "5,6",
        "CARRIER_HOME_CHANNEL": "c1",
    }
    assert (hermes_home / ".env").stat().st_mode & 0o777 == 0o600
    assert " * 1  carrier  Carrier Pigeon" in hermes("setup").out


@pytest.mark.usefixtures("carrier")
def test_credentials_are_taken_from_the_environment(hermes, hermes_home, monkeypatch):
    monkeypatch.setenv("CARRIER_TOKEN", TOKEN)
    done = hermes("setup", "carrier", "--from-env")
    assert "hermes pairing approve carrier" in done.err
    assert read_dotenv(hermes_home / ".env", {}) == {"CARRIER_TOKEN": TOKEN}


@pytest.mark.usefixtures("carrier")
@pytest.mark.parametrize(("words", "stdin", "message"), CASES["invalid setup arguments are"])
def test_invalid_setup_arguments_are_refused(hermes, hermes_home, words, stdin, message):
    hermes("setup", *words, stdin=stdin).expect(2, err=message)
    assert not (hermes_home / ".env").exists()


class Typed(io.StringIO):
    def isatty(self) -> bool:
        return True


def typed(home: Path, lines: str, *words: str) -> str:
    """Return what a user sees who types `lines`."""
    out = Typed()
    cli = Cli(Home(home), Typed(lines), out, io.StringIO())
    parser = Parser(prog="hermes gateway")
    gateway.COMMAND.configure(parser)
    assert run_command(parser.parse_args(["setup", *words]), cli) == 0
    return out.getvalue()


@pytest.mark.usefixtures("carrier")
def test_a_person_is_asked_and_the_token_is_not_shown(hermes_home, monkeypatch):
    monkeypatch.setattr("getpass.getpass", lambda _prompt: TOKEN)
    seen = typed(hermes_home, "1\n\n@bob, 5\n5\nc1\n")
    assert TOKEN not in seen
    assert "@bob cannot be the id of a user on Carrier Pigeon; an id is a number\n" in seen
    assert "not asked: Ring (hermes gateway setup carrier --more)" in seen
    assert read_dotenv(hermes_home / ".env", {}) == {
        "CARRIER_TOKEN": TOKEN,
        "CARRIER_ALLOWED_USERS": "5",
        "CARRIER_HOME_CHANNEL": "c1",
    }


@pytest.mark.usefixtures("carrier")
def test_advanced_settings_are_asked_for_on_request(hermes_home, monkeypatch):
    monkeypatch.setattr("getpass.getpass", lambda _prompt: TOKEN)
    assert "not asked" not in typed(hermes_home, "north\nr7\n\n\n", "carrier", "--more")
    assert read_dotenv(hermes_home / ".env", {}) == {
        "CARRIER_TOKEN": TOKEN,
        "CARRIER_LOFT": "north",
        "CARRIER_RING": "r7",
    }


@pytest.mark.parametrize(("platform", "users", "invalid"), CASES["only what can be an id is let"])
def test_only_what_can_be_an_id_is_let_in(hermes, hermes_home, platform, users, invalid):
    words = ("setup", platform, "--non-interactive", "--no-install", "--allowed-users")
    wrong = hermes(*words, invalid)
    assert "  an id is " in wrong.err
    assert not (hermes_home / ".env").exists()
    hermes(*words, users)
    saved = read_dotenv(hermes_home / ".env", {})[f"{platform.upper()}_ALLOWED_USERS"]
    assert parse_user_list(platform, saved) == parse_user_list(platform, users)


def test_libraries_that_no_extra_has_are_named(hermes, monkeypatch):
    needy = PlatformManifest(
        "carrier", "Carrier", "x:X", CARRIER.capabilities, needs=("no_such_module",)
    )
    monkeypatch.setattr(registry, "manifests", lambda: {"carrier": needy})
    done: Outcome = hermes("setup", "carrier", "--non-interactive")
    assert done.code == 1
    assert "no_such_module" in done.err and "the documentation of its plugin" in done.err
    assert hermes("setup", "carrier", "--non-interactive", "--no-install").code == 0

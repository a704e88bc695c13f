"""`hermes auth` as a user sees it."""

import json
import time
from pathlib import Path

import pytest

from hermes.providers import endpoints
from hermes.providers.credentials.auth_file import AuthFile
from hermes.providers.endpoints import Endpoint
from tests.cases import cases
from tests.unit.cli.terminal import Hermes
from tests.unit.providers.credentials.oauth_server import OAuthServer, jwt

CASES = cases(__file__)

KEY = "sk-or-v1-0123456789abcdef"
OTHER = "sk-or-v1-fedcba9876543210"


@pytest.fixture
def hermes(hermes_home: Path) -> Hermes:
    return Hermes("auth", hermes_home)


@pytest.fixture
def store(hermes_home: Path) -> AuthFile:
    return AuthFile(hermes_home / "auth.json")


def rests(store: AuthFile, index: int, seconds: float) -> None:
    with store.change() as data:
        entry = data["credential_pool"]["openrouter"][index]
        entry |= {"resting_until": time.time() + seconds, "rest_reason": "rate limited"}


def test_without_keys_it_says_how_to_begin(hermes: Hermes, hermes_home: Path) -> None:
    hermes().expect(out=["no keys and no logins yet", "hermes auth add PROVIDER"])
    assert not hermes_home.exists()


def test_adding_a_key_says_that_another_model_still_answers(hermes: Hermes) -> None:
    hermes("add", "openrouter", "--api-key", KEY)
    added = hermes("add", "anthropic", "--api-key", OTHER)
    added.expect(out=["the model is still anthropic/claude-sonnet-5.5 on openrouter"])
    added.expect(out="to use anthropic: hermes model set anthropic:claude")


def test_a_key_is_added_listed_and_removed(hermes: Hermes, store: AuthFile) -> None:
    assert hermes("add", "openrouter", "--api-key", KEY, "--label", "work").out == (
        "added sk-o…cdef to openrouter (key 1 of 1)\n"
        "now using anthropic/claude-sonnet-5.5 on openrouter; to test it: hermes model test\n"
    )
    assert hermes("add", "openrouter", stdin=f"{OTHER}\n").code == 0
    assert store.path.stat().st_mode & 0o777 == 0o600
    listed = hermes("list").out.splitlines()
    assert listed[0] == "openrouter (fill_first)"
    assert listed[1].startswith("  1  sk-o…cdef  key  ready  work, added with `hermes auth` to ~/")
    assert listed[2].startswith("  2  sk-o…3210  key  ready  added with `hermes auth`")
    assert hermes("remove", "openrouter", "work", "--yes").out == "removed work from openrouter\n"
    assert hermes("remove", "openrouter", "1", "--yes").code == 0
    assert store.read().get("credential_pool") == {}
    assert "no keys" in hermes("list", "openrouter").out


def test_a_whole_key_is_never_shown(hermes: Hermes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "short-key-1")
    outcomes = [
        hermes("add", "openrouter", "--api-key", KEY),
        hermes("add", "openrouter", "--api-key", KEY),
        hermes("add", "openrouter", "--api-key", "short-key-1"),
        hermes(),
        hermes("list", "--json"),
        hermes("remove", "openrouter", "2"),
        hermes("remove", "openrouter", "2", "--yes"),
    ]
    text = "".join(outcome.out + outcome.err for outcome in outcomes)
    assert KEY not in text and "short-key-1" not in text and "********" in text


def test_a_key_that_is_there_is_not_added_twice(hermes, store, monkeypatch):
    hermes("add", "openrouter", "--api-key", KEY)
    hermes("add", "openrouter", "--api-key", KEY).expect(out="has this key already")
    monkeypatch.setenv("OPENROUTER_API_KEY", OTHER)
    again = hermes("add", "openrouter", "--api-key", OTHER)
    assert "has this key already: OPENROUTER_API_KEY in the environment" in again.out
    assert len(store.read()["credential_pool"]["openrouter"]) == 1


@pytest.mark.parametrize(
    ("words", "stdin", "message"),
    [*CASES["mistakes"], (("add", "openrouter"), "x" * 20_000, "this is not a key")],
)
def test_mistakes_are_one_clear_line(hermes, store, words, stdin, message):
    outcome = hermes(*words, stdin=stdin).expect(2, err=message)
    assert len(outcome.err.splitlines()) <= 2
    assert not store.path.exists()


def test_a_label_names_one_key(hermes: Hermes) -> None:
    hermes("add", "openrouter", "--api-key", KEY, "--label", "work")
    hermes("add", "openrouter", "--api-key", OTHER, "--label", "work").expect(
        2, err="with the label 'work' already"
    )


def test_keys_of_variables_are_listed_and_say_where_to_remove_them(
    hermes, hermes_home, monkeypatch
):
    hermes_home.mkdir()
    (hermes_home / ".env").write_text(f"OPENROUTER_API_KEY={KEY}\n")
    monkeypatch.setenv("DEEPSEEK_API_KEY", OTHER)
    listed = hermes("list").out
    assert "OPENROUTER_API_KEY in ~/.hermes/.env" in listed
    assert "DEEPSEEK_API_KEY in the environment" in listed
    hermes("remove", "openrouter", "1", "--yes").expect(
        2,
        err=[
            "this key comes from OPENROUTER_API_KEY in ~/.hermes/.env",
            "hermes config unset OPENROUTER_API_KEY",
        ],
    )
    assert "unset DEEPSEEK_API_KEY" in hermes("remove", "deepseek", "1").err


def test_login_of_another_program_cannot_be_removed(hermes: Hermes, user_home: Path) -> None:
    file = user_home / ".claude" / ".credentials.json"
    file.parent.mkdir()
    held = {"accessToken": "sk-ant-oat01-0123456789abcdef", "refreshToken": "r", "expiresAt": 1}
    file.write_text(json.dumps({"claudeAiOauth": held}))
    listed = hermes("list", "anthropic").out
    assert "login  ready  login of claude-code in ~/.claude/.credentials.json" in listed
    hermes("remove", "anthropic", "claude-code", "--yes").expect(2, err="log out in that program")
    assert file.exists()


def test_a_resting_key_says_until_when_and_why_and_can_be_woken(hermes, store):
    for key in (KEY, OTHER):
        hermes("add", "openrouter", "--api-key", key)
    rests(store, 0, 3600.5)
    assert "(in 1h) because: rate limited" in hermes("list").out
    (document,) = json.loads(hermes("list", "openrouter", "--json").out)
    assert document["strategy"] == "fill_first"
    states = [(one["index"], one["state"]) for one in document["credentials"]]
    assert states == [(1, "resting"), (2, "ready")]
    assert hermes("reset", "openrouter").out == "1 key of openrouter can be used again\n"
    assert "resting" not in hermes("list").out
    assert hermes("reset", "--all").out == "nothing rests\n"
    rests(store, 1, 60)
    assert hermes("reset", "--all").out == "1 key of all providers can be used again\n"


def test_removing_without_a_terminal_needs_yes(hermes: Hermes, store: AuthFile) -> None:
    hermes("add", "openrouter", "--api-key", KEY)
    hermes("remove", "openrouter", "1").expect(2, err="needs --yes")
    assert len(store.read()["credential_pool"]["openrouter"]) == 1


@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, 0), ("", 1, 1)])
def test_a_person_is_asked(hermes, store, answer, code, left):
    hermes("add", "openrouter", "--api-key", KEY)
    asked = hermes("remove", "openrouter", "1", typed=f"{answer}\n")
    asked.expect(code, out="Remove sk-o…cdef (manual:")
    assert len(store.read().get("credential_pool", {}).get("openrouter", [])) == left


def test_keys_for_endpoints_of_ones_own(hermes: Hermes, hermes_home: Path) -> None:
    hermes_home.mkdir()
    own = "custom_providers:\n- {name: Mine, base_url: http://127.0.0.1:9/v1}\n"
    (hermes_home / "config.yaml").write_text(own)
    assert hermes("add", "custom:mine", "--api-key", KEY).code == 0
    assert hermes("list").out.startswith("custom:Mine\n")
    (hermes_home / "config.yaml").write_text("")
    assert hermes("list").out.startswith("custom:Mine\n")
    assert hermes("add", "custom:other", "--api-key", KEY).code == 2
    assert hermes("remove", "custom:Mine", "1", "--yes").code == 0


def test_a_strategy_is_shown(hermes: Hermes, hermes_home: Path) -> None:
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text(
        "credential_pool_strategies: {openrouter: round_robin}\n"
    )
    for key in (KEY, OTHER):
        hermes("add", "openrouter", "--api-key", key)
    assert hermes("list").out.startswith("openrouter (round_robin)\n")


def test_a_damaged_file_stops_with_what_to_do(hermes: Hermes, store: AuthFile) -> None:
    store.path.parent.mkdir()
    store.path.write_text("{")
    for words in (("list",), ("add", "openrouter", "--api-key", KEY), ("reset", "--all")):
        hermes(*words).expect(3, err="~/.hermes/auth.json is damaged")
    assert store.path.read_text() == "{"


def test_entries_of_unknown_form_are_mentioned(hermes: Hermes, store: AuthFile) -> None:
    with store.change() as data:
        data["credential_pool"] = {"openrouter": [{"theirs": 1}]}
    assert "kept and not used: 1" in hermes("list").err


class TestLogin:
    @pytest.fixture
    def server(self, monkeypatch: pytest.MonkeyPatch):
        server = OAuthServer()
        server.interval = 0
        shop = Endpoint(
            id="shop", label="The Shop", base_url="https://shop.example", login=server.login()
        )
        codex = Endpoint(id="openai-codex", label="ChatGPT", login=server.codex())
        monkeypatch.setattr(endpoints, "ENDPOINTS", (shop, codex))
        yield server
        server.close()

    def test_a_code_is_shown_and_the_login_kept(self, hermes, server, store):
        outcome = hermes("add", "shop").expect(
            out=f"Open   {server.url}/activate\nCode   ABCD-1234\n"
        )
        assert "logged in for shop\nto use shop: hermes model set shop:MODEL\n" in outcome.out
        assert "access-1" not in outcome.out
        held = store.read()["providers"]["shop"]
        assert (held["access_token"], held["refresh_token"]) == ("access-1", "refresh-1")
        assert "login  ready  login in ~/.hermes/auth.json" in hermes("list").out
        assert hermes("remove", "shop", "1", "--yes").code == 0
        assert store.read()["providers"] == {}

    def test_a_refusal_stores_nothing(self, hermes, server, store):
        server.polls = ["authorization_pending", "access_denied"]
        hermes("add", "shop").expect(4, err="was declined in the browser")
        assert not store.path.exists()

    def test_a_new_login_replaces_one_that_is_gone(self, hermes, server, store):
        hermes("add", "shop")
        with store.change() as data:
            data["providers"]["shop"]["gone"] = True
            data["credential_pool"] = {"shop": [{"id": "oauth", "resting_until": 9e9}]}
        assert "gone, log in again" in hermes("list").out
        hermes("add", "shop", "--type", "oauth")
        assert "ready" in hermes("list").out

    def test_the_login_of_the_codex_cli_is_offered_and_copied_on_demand(
        self, hermes, server, store, user_home, monkeypatch
    ):
        folder = user_home / "elsewhere"
        monkeypatch.setenv("CODEX_HOME", str(folder))
        assert "no login of another program" in hermes("add", "openai-codex", "--import").err
        folder.mkdir()
        tokens = {"access_token": jwt(exp=9e9), "refresh_token": "cli", "account_id": "acc"}
        (folder / "auth.json").write_text(json.dumps({"tokens": tokens}))
        outcome = hermes("add", "openai-codex")
        assert "the Codex CLI is logged in (~/elsewhere/auth.json)" in outcome.err
        assert store.read()["providers"]["openai-codex"]["refresh_token"] == "refresh-1"
        assert hermes("add", "openai-codex", "--import").code == 0
        held = store.read()["providers"]["openai-codex"]
        assert (held["refresh_token"], held["account_id"]) == ("cli", "acc")
        assert json.loads((folder / "auth.json").read_text())["tokens"] == tokens

    def test_key_can_be_added_to_a_login(self, hermes: Hermes, server: OAuthServer) -> None:
        hermes("add", "shop")
        assert "(key 2 of 2)" in hermes("add", "shop", "--api-key", KEY).out
        piped = hermes("add", "shop", "--type", "api-key", stdin=OTHER)
        assert "(key 3 of 3)" in piped.out

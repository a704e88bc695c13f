"""A server behind a login, from `hermes mcp login` to the end of the login."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pexpect
import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from hermes.mcp.oauth import LoginStore, McpLogin
from tests.integration.chat.conftest import HERMES, UNTITLED, at, hermes, terminal, untitled, work
from tests.integration.mcp.oauth.guarded import WRITE, GuardedSite, LoginSite

__all__ = ["hermes", "terminal", "untitled", "work"]

BROWSER = f"{sys.executable} {Path(__file__).with_name('browser.py')} %s"
LOOK = ToolCall("c1", "mcp_tickets_look", "{}")


@pytest.fixture
def guarded() -> Iterator[GuardedSite]:
    with LoginSite() as login, GuardedSite(login) as site:
        yield site


@pytest.fixture
def store(hermes_home: Path) -> LoginStore:
    return LoginStore(hermes_home / "mcp-tokens", "tickets")


@pytest.fixture
def signed_in(hermes, hermes_home, guarded, monkeypatch):
    monkeypatch.setenv("BROWSER", BROWSER)
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text(UNTITLED)
    added = hermes("mcp", "add", "tickets", "--url", guarded.url, "--auth", "oauth")
    assert "it needs a login: hermes mcp login tickets" in added.stdout
    done = hermes("mcp", "login", "tickets")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("signed in to tickets: 2 tools\n")
    return guarded


def held(store: LoginStore) -> McpLogin:
    login = store.load()
    assert login is not None
    return login


def said(hermes: Any, *steps: Any) -> tuple[list[str], "subprocess.CompletedProcess[str]"]:
    """What tools reported the model in a conversation, and how that ended."""
    with ModelServer([*steps, "Done."]) as server:
        done = hermes("chat", "-q", "go", *at(server))
        assert (done.stdout, done.returncode) == ("Done.\n", 0), done.stderr
        messages = server.calls[-1].body["messages"]
    return [each["content"] for each in messages if each["role"] == "tool"], done


def test_a_conversation_uses_the_login_and_renews_it(hermes, signed_in, store, hermes_home):
    before = held(store)
    assert "look done" in said(hermes, LOOK)[0][0]
    store.save(msgspec.structs.replace(before, expires_at=time.time() - 5))
    assert "look done" in said(hermes, LOOK)[0][0]
    after = held(store)
    assert after.refresh_token != before.refresh_token
    assert store.path.stat().st_mode & 0o777 == 0o600
    logs = "".join(path.read_text() for path in (hermes_home / "logs").glob("*"))
    assert "tickets" in logs
    for secret in (before.access_token, before.refresh_token, after.access_token):
        assert secret not in logs
    assert json.loads(hermes("mcp", "list", "--json").stdout)[0]["login"] == "signed in"


def test_conversations_at_the_same_time_renew_it_once(hermes, signed_in, store, work):
    store.save(msgspec.structs.replace(held(store), expires_at=1.0))
    renewals = len(signed_in.login.seen("/token"))
    command = [*HERMES, "mcp", "test", "tickets", "--json"]
    both = [
        subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    results = [json.loads(each.communicate(timeout=60)[0]) for each in both]
    assert [each["ok"] for each in results] == [True] * 3
    assert len(signed_in.login.seen("/token")) == renewals + 1
    assert held(store).access_token in signed_in.login.tokens


def test_token_the_server_forgot_is_replaced_silently(hermes, signed_in, store):
    store.save(msgspec.structs.replace(held(store), obtained_at=1.0))
    signed_in.login.tokens.clear()
    reported, done = said(hermes, LOOK)
    assert "look done" in reported[0]
    assert done.stderr == ""


def test_revoked_login_is_reported_with_the_command_to_sign_in(hermes, signed_in, store):
    signed_in.login.tokens.clear()
    signed_in.login.refreshes.clear()
    store.save(msgspec.structs.replace(held(store), obtained_at=1.0))
    reported, done = said(hermes, LOOK, ToolCall("c2", "mcp_tickets_look", "{}"))
    assert all("the login has ended" in each for each in reported)
    assert done.stderr.count("`hermes mcp login tickets` signs in") == 1
    assert hermes("mcp", "test", "tickets").stdout.splitlines()[-1] == (
        "✗ login: the login has ended (`hermes mcp login tickets` signs in)"
    )
    assert hermes("mcp", "login", "tickets").returncode == 0
    assert "look done" in said(hermes, LOOK)[0][0]


def test_more_rights_are_asked_for_when_they_are_needed(hermes, signed_in, store):
    write = ToolCall("c1", "mcp_tickets_write", "{}")
    reported, done = said(hermes, write)
    assert f"has not the rights for this ({WRITE})" in reported[0]
    assert "`hermes mcp login tickets` signs in" in done.stderr
    hermes("mcp", "login", "tickets")
    assert held(store).scope == f"tickets:read {WRITE}"
    assert "write done" in said(hermes, write)[0][0]


def test_token_for_another_audience_is_refused(hermes, signed_in, store):
    signed_in.audience = "https://somebody.example.com/mcp"
    reported, _ = said(hermes, LOOK)
    assert "does not let us in (HTTP 401)" in reported[0]
    assert len(signed_in.login.seen("/token")) == 1, "a new token would be no better"


@pytest.fixture
def at_a_terminal(terminal: Any, hermes_home: Path, guarded: GuardedSite) -> Any:
    settings = {"url": guarded.url, "auth": "oauth"}
    (hermes_home / "config.yaml").write_text(json.dumps({"mcp_servers": {"tickets": settings}}))
    return terminal


def test_signing_in_on_a_terminal_with_a_browser(at_a_terminal, monkeypatch):
    monkeypatch.setenv("BROWSER", BROWSER)
    child = at_a_terminal("mcp", "login", "tickets")
    child.expect("signed in to tickets: 2 tools")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_pasting_the_address_on_a_terminal(at_a_terminal: Any) -> None:
    child = at_a_terminal("mcp", "login", "tickets", "--no-browser")
    child.expect(r"Open\s+(\S+)")
    address = child.match[1]
    child.expect("Waiting")
    child.sendline(httpx2.get(address, trust_env=False).headers["location"])
    child.expect("signed in to tickets: 2 tools")
    child.expect(pexpect.EOF)


def test_stopping_a_login_on_a_terminal(at_a_terminal: Any, store: LoginStore) -> None:
    child = at_a_terminal("mcp", "login", "tickets", "--no-browser")
    child.expect("Waiting")
    child.sendintr()
    child.expect("the login was stopped; nothing was stored")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert not store.path.exists()


def test_signing_out(hermes: Any, signed_in: GuardedSite, store: LoginStore) -> None:
    assert hermes("mcp", "logout", "tickets").stdout == "signed out of tickets\n"
    assert signed_in.login.tokens == {}
    reported, _ = said(hermes, LOOK)
    assert "no user has signed in to it yet" in reported[0]
    assert hermes("mcp", "remove", "tickets", "--yes").stdout == "removed tickets\n"
    assert hermes("mcp", "list").stdout.startswith("no MCP servers yet")

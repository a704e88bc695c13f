"""`hermes webhook` as a user sees it."""

import hashlib
import hmac
import json
import stat
from pathlib import Path

import pytest

from hermes.cli.commands import webhook
from hermes.gateway.platforms.webhook import subscriptions
from hermes.util.loopback_http import LoopbackServer, Outgoing, RecordedRequest
from tests.unit.cli.terminal_of import Run, runner


@pytest.fixture
def hermes(hermes_home: Path) -> Run:
    return runner("webhook", webhook, hermes_home)


def routes(home: Path) -> dict[str, subscriptions.Route]:
    return subscriptions.load(home / "webhook_subscriptions.json")


def test_an_address_is_added_with_a_secret_that_is_shown_once(
    hermes: Run, hermes_home: Path
) -> None:
    done = hermes(
        "subscribe", "github-issues", "--events", "issues, push", "--prompt", "New: {issue.title}",
        "--deliver", "telegram", "--deliver-chat-id", "-100", "--skills", "triage",
    )  # fmt: skip
    assert done.code == 0
    assert "http://127.0.0.1:8644/webhooks/github-issues" in done.out
    kept = routes(hermes_home)["github-issues"]
    assert len(kept.secret) == 64
    assert kept.secret in done.out
    assert (kept.events, kept.skills) == (("issues", "push"), ("triage",))
    assert (kept.deliver, kept.deliver_extra) == ("telegram", {"chat_id": "-100"})
    file = hermes_home / "webhook_subscriptions.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    shown = hermes("list").out + hermes("ls", "--json").out
    assert "github-issues" in shown
    assert kept.secret not in shown


def test_a_secret_of_ones_own_is_kept_and_not_repeated(hermes: Run, hermes_home: Path) -> None:
    done = hermes("add", "x", "--secret", "a-secret-of-my-own")
    assert "a-secret-of-my-own" not in done.out + done.err
    assert routes(hermes_home)["x"].secret == "a-secret-of-my-own"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("a b",), "cannot be the name of a route"),
        (("x", "--secret", "short"), "fewer than 16 characters"),
        (("taken",), "there is an address 'taken' already"),
        (("fixed",), "is a route of config.yaml"),
    ],
)
def test_what_cannot_be_is_told(
    hermes: Run, hermes_home: Path, words: tuple[str, ...], told: str
) -> None:
    hermes("add", "taken")
    config = "platforms: {webhook: {extra: {routes: {fixed: {}}}}}"
    (hermes_home / "config.yaml").write_text(config)
    before = routes(hermes_home)
    done = hermes("subscribe", *words)
    assert done.code == 2
    assert told in done.err
    assert routes(hermes_home) == before


def test_an_address_is_replaced_by_force_and_removed(hermes: Run, hermes_home: Path) -> None:
    hermes("add", "x")
    first = routes(hermes_home)["x"].secret
    made = json.loads(hermes("add", "x", "--force", "--json").out)
    assert made["secret"] == routes(hermes_home)["x"].secret != first
    assert hermes("rm", "x").out == "removed x\n"
    assert hermes("list").out.startswith("there are no addresses yet")
    assert hermes("remove", "x").code == 2


def test_a_trial_call_is_signed(hermes: Run, hermes_home: Path) -> None:
    calls: list[RecordedRequest] = []

    def respond(request: RecordedRequest) -> Outgoing:
        calls.append(request)
        status = 202 if request.path == "/webhooks/x" else 404
        return Outgoing(status, {"content-type": "text/plain"}, [b"taken"])

    server = LoopbackServer(respond)
    hermes_home.mkdir()
    port = f"platforms: {{webhook: {{extra: {{port: {server.port}}}}}}}"
    (hermes_home / "config.yaml").write_text(port)
    hermes("add", "x")
    try:
        done = hermes("test", "x", "--payload", "-", "--event", "push", stdin='{"a": 1}')
    finally:
        server.close()
    assert (done.code, done.out) == (0, "202  taken\n")
    [call] = calls
    secret = routes(hermes_home)["x"].secret
    digest = hmac.new(secret.encode(), call.raw, hashlib.sha256).hexdigest()
    assert call.headers["x-hub-signature-256"] == f"sha256={digest}"
    assert call.headers["x-github-event"] == "push"
    assert call.body == {"a": 1}


def test_a_gateway_that_does_not_run_is_told(hermes: Run, hermes_home: Path) -> None:
    hermes("add", "x")
    (hermes_home / "config.yaml").write_text("platforms: {webhook: {extra: {port: 1}}}")
    done = hermes("test", "x")
    assert done.code == 1
    assert "hermes gateway status" in done.err
    assert hermes("test", "y").code == 2
    assert hermes("test", "x", "--payload", "-", stdin="{").code == 2

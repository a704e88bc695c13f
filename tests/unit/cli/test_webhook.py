"""`hermes webhook` as a user sees it."""

import json
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest

from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest
from hermes.gateway.platforms.webhook import subscriptions
from hermes.sdk.platforms import verify_signature
from tests.cases import cases
from tests.unit.cli.terminal import Hermes

CASES = cases(__file__)


@pytest.fixture
def hermes(hermes_home: Path) -> Hermes:
    return Hermes("webhook", hermes_home)


def routes(home: Path) -> dict[str, subscriptions.WebhookRoute]:
    return subscriptions.load_routes(home / "webhook_subscriptions.json")


def test_an_address_is_added_with_a_secret_that_is_shown_once(hermes, hermes_home):
    skill = hermes_home / "skills" / "triage" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: triage\ndescription: sort them\n---\nSort.\n")
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
    assert "github-issues" in shown and kept.secret not in shown


def test_a_secret_of_ones_own_is_kept_and_not_repeated(hermes: Hermes, hermes_home: Path) -> None:
    done = hermes("add", "x", "--secret", "a-secret-of-my-own")
    assert "a-secret-of-my-own" not in done.out + done.err
    assert routes(hermes_home)["x"].secret == "a-secret-of-my-own"


def test_a_short_secret_is_taken_with_a_warning(hermes: Hermes, hermes_home: Path) -> None:
    message = "warning: x has a secret of fewer than 16 characters"
    assert message in hermes("add", "x", "--secret", "short").err
    assert message in hermes("list").err
    assert routes(hermes_home)["x"].secret == "short"


@pytest.mark.parametrize(("words", "message"), CASES["invalid route is refused"])
def test_invalid_route_is_refused(hermes, hermes_home, words, message):
    hermes("add", "taken")
    config = "platforms: {webhook: {extra: {host: 0.0.0.0, routes: {fixed: {}}}}}"
    (hermes_home / "config.yaml").write_text(config)
    before = routes(hermes_home)
    hermes("subscribe", *words).expect(2, err=message)
    assert routes(hermes_home) == before


def test_missing_setup_is_a_warning(hermes: Hermes, hermes_home: Path) -> None:
    hermes("add", "x", "--deliver", "telegram:5").expect(
        err=[
            "telegram is not set up; `hermes gateway setup telegram`",
            "hermes config set WEBHOOK_ENABLED true",
        ]
    )
    env = "TELEGRAM_BOT_TOKEN=1:a\nWEBHOOK_ENABLED=true\n"
    (hermes_home / ".env").write_text(env)
    assert "warning" not in hermes("add", "y", "--deliver", "telegram:5").err
    assert "telegram has no home channel" in hermes("add", "z", "--deliver", "telegram").err
    comments = ("--deliver", "github_comment", "--force")
    assert "GITHUB_TOKEN" in hermes("add", "x", *comments).err
    (hermes_home / ".env").write_text(f"{env}GITHUB_TOKEN=g\n")
    assert "warning" not in hermes("add", "x", *comments).err


def test_unsigned_calls_are_for_this_machine(hermes: Hermes, hermes_home: Path) -> None:
    hermes_home.mkdir()
    config = "platforms: {webhook: {enabled: true, extra: {host: 127.0.0.1}}}"
    (hermes_home / "config.yaml").write_text(config)
    done = hermes("add", "x", "--secret", "INSECURE_NO_AUTH")
    assert (done.code, done.err) == (0, "warning: x accepts unsigned calls: INSECURE_NO_AUTH\n")


def test_routes_of_config_are_listed_too(hermes: Hermes, hermes_home: Path) -> None:
    hermes("add", "mine")
    config = "platforms: {webhook: {extra: {routes: {fixed: {secret: '${NOBODY}'}, bare: {}}}}}"
    (hermes_home / "config.yaml").write_text(config)
    (hermes_home / ".env").write_text("WEBHOOK_SECRET=${NOWHERE}\n")
    done = hermes("list")
    assert [line.rpartition("/")[2] for line in done.out.splitlines()] == [
        "mine  (all events → log)",
        "fixed  (all events → log) (config.yaml)",
        "bare  (all events → log) (config.yaml)",
    ]
    assert "fixed accepts no calls: its secret is missing: ${NOBODY} is not set" in done.err
    assert "bare accepts no calls: its secret is missing: ${NOWHERE} is not set" in done.err
    rows = json.loads(hermes("list", "--json").out)
    assert [(row["name"], row["source"]) for row in rows] == [
        ("mine", "subscriptions"),
        ("fixed", "config.yaml"),
        ("bare", "config.yaml"),
    ]
    assert hermes("test", "fixed").code == 2


def test_an_address_is_replaced_by_force_and_removed(hermes: Hermes, hermes_home: Path) -> None:
    hermes("add", "x")
    first = routes(hermes_home)["x"].secret
    made = json.loads(hermes("add", "x", "--force", "--json").out)
    assert made["secret"] == routes(hermes_home)["x"].secret != first
    assert hermes("rm", "x").out == "removed x\n"
    assert hermes("list").out.startswith("there are no addresses yet")
    assert hermes("remove", "x").code == 2


class Gateway:
    """Stands where the gateway would, and knows one address."""

    def __init__(self, home: Path, status: int, answer: bytes) -> None:
        self.calls: list[RecordedRequest] = []
        self._status, self._answer = status, answer
        self.server = LoopbackServer(self._respond)
        home.mkdir(exist_ok=True)
        port = f"platforms: {{webhook: {{extra: {{port: {self.server.port}}}}}}}"
        (home / "config.yaml").write_text(port)

    def _respond(self, request: RecordedRequest) -> Outgoing:
        self.calls.append(request)
        status = self._status if request.path == "/webhooks/x" else 404
        return Outgoing(status, {"content-type": "text/plain"}, [self._answer])


def test_a_trial_call_is_signed_and_new_each_time(hermes: Hermes, hermes_home: Path) -> None:
    gateway = Gateway(hermes_home, 202, b"taken")
    hermes("add", "x")
    words = ("test", "x", "--payload", "-", "--event", "push")
    with closing(gateway.server):
        for _ in range(2):
            done = hermes(*words, stdin='{"a": 1}')
            assert (done.code, done.out) == (0, "202  taken\n")
    for call in gateway.calls:
        proof = verify_signature(
            [(name.encode(), value.encode()) for name, value in call.headers.items()],
            call.raw,
            routes(hermes_home)["x"].secret,
            time.time(),
        )
        assert proof.signed and proof.timestamp
        assert call.headers["x-github-event"] == "push"
        assert call.body == {"a": 1}
    assert len({call.raw for call in gateway.calls}) == 2
    assert len({call.headers["x-webhook-id"] for call in gateway.calls}) == 2


@pytest.mark.parametrize(("status", "events", "message"), CASES["trial call that leads to"])
def test_a_trial_call_that_leads_to_nothing_is_a_failure(
    hermes, hermes_home, status, events, message
):
    gateway = Gateway(hermes_home, 200, json.dumps({"status": status, "route": "x"}).encode())
    hermes("add", "x", "--events", events)
    with closing(gateway.server):
        done = hermes("test", "x")
    assert done.code == 1
    assert message in done.err


def test_delivery_test_without_a_running_gateway_fails(hermes: Hermes, hermes_home: Path) -> None:
    hermes("add", "x")
    (hermes_home / "config.yaml").write_text("platforms: {webhook: {extra: {port: 1}}}")
    hermes("test", "x").expect(1, err="hermes gateway status")
    assert hermes("test", "y").code == 2
    assert hermes("test", "x", "--payload", "-", stdin="{").code == 2

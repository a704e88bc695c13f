"""Genuine calls: who sends them how, and what they are told."""

from pathlib import Path

import pytest

from hermes.core.errors import ConfigError, UsageError
from hermes.gateway.platforms.webhook import subscriptions
from hermes.gateway.platforms.webhook.subscriptions import Route
from tests.unit.gateway.webhook.switchboard import NOW, SECRET, Switchboard, digest, encoded, github

BODY = encoded({"event_type": "deploy", "ref": "main"})
NEW = "the-secret-of-a-new-route"


async def test_gitlab_shows_the_token(tmp_path: Path) -> None:
    board = Switchboard(tmp_path)
    said = {
        "Content-Type": "application/json",
        "X-GitLab-Token": SECRET,
        "X-Gitlab-Event": "Merge Request Hook",
        "Idempotency-Key": "u-1",
    }
    assert (await board.post("/webhooks/one", BODY, said)).status_code == 202
    (call,) = board.kept
    assert (call.event, call.delivery) == ("Merge Request Hook", "u-1")


@pytest.mark.parametrize("name", ["X-Webhook-Signature", "X-Signature", "x-signature"])
@pytest.mark.parametrize("prefix", ["", "sha256="])
async def test_any_program_can_sign(tmp_path: Path, name: str, prefix: str) -> None:
    board = Switchboard(tmp_path)
    said = {"Content-Type": "application/json", name: prefix + digest(BODY).upper()}
    assert (await board.post("/webhooks/one", BODY, said)).status_code == 202
    assert board.kept[0].event == "deploy"


async def test_a_call_with_a_timestamp(tmp_path: Path) -> None:
    board = Switchboard(tmp_path)
    stamp = str(int(NOW - 200))
    signed = digest(stamp.encode() + b"." + BODY)
    said = {"Content-Type": "application/json", "X-Signature": signed, "X-Timestamp": stamp}
    assert (await board.post("/webhooks/one", BODY, said)).status_code == 202


async def test_the_same_words_signed_at_another_time_are_news(tmp_path: Path) -> None:
    board = Switchboard(tmp_path)
    for stamp in (str(int(NOW)), str(int(NOW + 1))):
        signed = digest(stamp.encode() + b"." + BODY)
        said = {"Content-Type": "application/json", "X-Signature": signed, "X-Timestamp": stamp}
        assert (await board.post("/webhooks/one", BODY, said)).status_code == 202
    assert len({call.delivery for call in board.kept}) == 2


async def test_events_that_nobody_wants_are_ignored(tmp_path: Path) -> None:
    board = Switchboard(tmp_path, {"one": Route(secret=SECRET, events=("issues", "merge_request"))})
    for event, status in (("issues", 202), ("push", 200), ("Merge Request Hook", 202), ("", 200)):
        body = encoded({"event": event})
        answer = await board.call(body, X_GitHub_Event=event, X_GitHub_Delivery=f"e-{event}")
        assert answer.status_code == status
        assert answer.json()["status"] == ("accepted" if status == 202 else "ignored")


async def test_the_first_call_of_github_only_tries_the_address(tmp_path: Path) -> None:
    board = Switchboard(tmp_path)
    answer = await board.call(BODY, X_GitHub_Event="ping")
    assert (answer.json()["status"], board.kept) == ("ignored", [])


async def test_a_call_that_cannot_be_kept_is_asked_for_again(tmp_path: Path) -> None:
    board = Switchboard(tmp_path)
    board.takes = False
    answer = await board.call(BODY)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    board.takes = True
    assert (await board.call(BODY)).status_code == 202


async def test_calls_without_a_name_are_told_apart_later(tmp_path: Path) -> None:
    """The same words within minutes may be a copy; an hour later they are news."""
    board = Switchboard(tmp_path)
    said = {"Content-Type": "application/json", "X-Signature": digest(BODY)}
    for seconds, status in ((0, "accepted"), (60, "duplicate"), (3600, "accepted")):
        board.clock.at += seconds
        assert (await board.post("/webhooks/one", BODY, said)).json()["status"] == status
    assert len({call.delivery for call in board.kept}) == 2


async def test_a_route_added_to_the_file_works_at_once(tmp_path: Path) -> None:
    board = Switchboard(tmp_path)
    path = tmp_path / subscriptions.FILE
    said = {"Content-Type": "application/json", "X-Hub-Signature-256": github(BODY, NEW)}
    assert (await board.post("/webhooks/fresh", BODY, said)).status_code == 404
    subscriptions.save(path, {"fresh": Route(secret=NEW)})
    assert (await board.post("/webhooks/fresh", BODY, said)).status_code == 202
    path.write_text("{ broken")
    assert (await board.post("/webhooks/fresh", BODY, said)).json()["status"] == "duplicate"
    path.unlink()
    assert (await board.post("/webhooks/fresh", BODY, said)).status_code == 404


async def test_a_route_of_the_file_does_not_replace_one_of_the_settings(tmp_path: Path) -> None:
    board = Switchboard(tmp_path)
    subscriptions.save(tmp_path / subscriptions.FILE, {"one": Route(secret="mine")})
    assert (await board.call(BODY, X_Hub_Signature_256=github(BODY, "mine"))).status_code == 401
    assert (await board.call(BODY)).status_code == 202


def test_subscriptions_are_kept_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "home" / subscriptions.FILE
    routes = {"a": Route(secret="s", events=("push",), deliver_extra={"chat_id": "1"})}
    subscriptions.save(path, routes)
    assert path.stat().st_mode & 0o777 == 0o600
    assert subscriptions.load(path) == routes
    assert subscriptions.load(tmp_path / "none.json") == {}


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"a": {"promt": "x"}}', '{"a b": {}}', '{"a": {"events": "push"}}']
)
def test_a_file_that_is_wrong_says_where(tmp_path: Path, text: str) -> None:
    path = tmp_path / subscriptions.FILE
    path.write_text(text)
    with pytest.raises(ConfigError, match=subscriptions.FILE.partition(".")[0]):
        subscriptions.load(path)


@pytest.mark.parametrize("name", ["", "a/b", "..", "a:b", "-a", "ü", "x" * 65, "a\n"])
def test_names_of_routes_are_plain(name: str) -> None:
    with pytest.raises(UsageError):
        subscriptions.check_name(name)

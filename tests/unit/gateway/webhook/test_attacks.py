"""Calls of people who have no secret, or a copy of somebody's call. Nothing of them is kept."""

import asyncio
import unicodedata
from pathlib import Path

import pytest

from hermes.gateway.platforms.kit import http_server
from hermes.gateway.platforms.webhook.subscriptions import NO_AUTH, Route
from tests.unit.gateway.webhook.switchboard import (
    NOW,
    OTHER,
    SECRET,
    Switchboard,
    digest,
    encoded,
    github,
)

BODY = encoded({"action": "opened", "issue": {"title": "It is broken"}})
GOOD = digest(BODY)
HUB = "X-Hub-Signature-256"
JSON = ("Content-Type", "application/json")


@pytest.fixture
def board(tmp_path: Path) -> Switchboard:
    return Switchboard(tmp_path)


async def test_a_genuine_call_is_kept(board: Switchboard) -> None:
    """What all the others differ from by a little."""
    answer = await board.call(BODY)
    assert answer.status_code == 202
    assert answer.json()["delivery_id"] == "d-1"
    assert [call.delivery for call in board.kept] == ["d-1"]


FORGED: dict[str, list[tuple[str, str]]] = {
    "no signature": [],
    "an empty signature": [(HUB, "")],
    "a made-up signature": [(HUB, f"sha256={'0' * 64}")],
    "the secret of another route": [(HUB, github(BODY, OTHER))],
    "no secret at all": [(HUB, github(BODY, ""))],
    "the name of the route as secret": [(HUB, github(BODY, "one"))],
    "the signature of another body": [(HUB, github(BODY + b" "))],
    "a truncated signature": [(HUB, f"sha256={GOOD[:32]}")],
    "one digit of it": [(HUB, f"sha256={GOOD[:1]}")],
    "a longer signature": [(HUB, f"sha256={GOOD}00")],
    "no digits": [(HUB, "sha256=")],
    "no algorithm": [(HUB, GOOD)],
    "SHA-1 under the name of SHA-256": [(HUB, f"sha1={digest(BODY, algorithm='sha1')}")],
    "SHA-1 said to be SHA-256": [(HUB, f"sha256={digest(BODY, algorithm='sha1')}")],
    "SHA-512": [(HUB, f"sha512={digest(BODY, algorithm='sha512')}")],
    "the older header of GitHub": [
        ("X-Hub-Signature", f"sha1={digest(BODY, algorithm='sha1')}"),
    ],
    "no algorithm called none": [(HUB, "none=")],
    "blanks between digits": [(HUB, f"sha256={GOOD[:2]} {GOOD[2:]}")],
    "two signatures, the second right": [(HUB, f"sha256={'0' * 64}"), (HUB, github(BODY))],
    "two signatures, the first right": [(HUB, github(BODY)), (HUB, f"sha256={'0' * 64}")],
    "two signatures in one header": [(HUB, f"{github(BODY)}, sha256={'0' * 64}")],
    "a wrong one beside another kind": [
        (HUB, f"sha256={'0' * 64}"),
        ("X-Webhook-Signature", GOOD),
    ],
    "a right token beside a wrong signature": [
        (HUB, f"sha256={'0' * 64}"),
        ("X-Gitlab-Token", SECRET),
    ],
    "a wrong token": [("X-Gitlab-Token", SECRET[:-1])],
    "an empty token": [("X-Gitlab-Token", "")],
    "a longer token": [("X-Gitlab-Token", SECRET + "x")],
    "the token with other letters": [("X-Gitlab-Token", SECRET.upper())],
    "the signature as a token": [("X-Gitlab-Token", GOOD)],
    "the token of another route": [("X-Gitlab-Token", OTHER)],
    "a signature where a timestamp is missing from it": [
        ("X-Webhook-Signature", GOOD),
        ("X-Webhook-Timestamp", str(int(NOW))),
    ],
    "an old timestamp": [
        ("X-Webhook-Signature", digest(b"%d." % (NOW - 301) + BODY)),
        ("X-Webhook-Timestamp", str(int(NOW - 301))),
    ],
    "a timestamp of the future": [
        ("X-Webhook-Signature", digest(b"%d." % (NOW + 301) + BODY)),
        ("X-Webhook-Timestamp", str(int(NOW + 301))),
    ],
    "an old call with a new timestamp": [
        ("X-Webhook-Signature", digest(b"%d." % (NOW - 301) + BODY)),
        ("X-Webhook-Timestamp", str(int(NOW))),
    ],
    "an old call without its timestamp": [
        ("X-Webhook-Signature", digest(b"%d." % (NOW - 301) + BODY)),
    ],
    "two timestamps": [
        ("X-Webhook-Signature", digest(b"%d." % NOW + BODY)),
        ("X-Webhook-Timestamp", str(int(NOW))),
        ("X-Timestamp", str(int(NOW - 9000))),
    ],
    "a timestamp that is no number": [
        ("X-Webhook-Signature", digest(b"1e9." + BODY)),
        ("X-Webhook-Timestamp", "1e9"),
    ],
    "a negative timestamp": [
        ("X-Webhook-Signature", digest(b"-1." + BODY)),
        ("X-Webhook-Timestamp", "-1"),
    ],
}


@pytest.mark.parametrize("headers", FORGED.values(), ids=FORGED)
async def test_a_forged_call_is_refused(board: Switchboard, headers: list[tuple[str, str]]) -> None:
    answer = await board.post("/webhooks/one", BODY, [JSON, *headers])
    assert (answer.status_code, board.kept) == (401, [])
    assert answer.json() == {"error": "the signature is missing or wrong"}


@pytest.mark.parametrize("digits", ["٠", "０", "𝟎"])
async def test_digits_of_other_scripts_are_no_digits(board: Switchboard, digits: str) -> None:
    """They count as digits in many programs, and their bytes arrive as they are."""
    wide = "".join(chr(ord(digits) + int(c)) if c.isdecimal() else c for c in GOOD)
    assert unicodedata.decimal(digits) == 0
    headers = [(b"content-type", b"application/json"), (HUB.encode(), f"sha256={wide}".encode())]
    answer = await board.post("/webhooks/one", BODY, headers)  # type: ignore[arg-type]
    assert (answer.status_code, board.kept) == (401, [])


async def test_a_copied_call_is_taken_once(board: Switchboard) -> None:
    await board.call(BODY)
    answer = await board.call(BODY)
    assert (answer.json()["status"], len(board.kept)) == ("duplicate", 1)


async def test_a_copied_call_under_another_name_is_taken_once(board: Switchboard) -> None:
    """GitHub signs the body, not the name of the delivery."""
    await board.call(BODY)
    answer = await board.call(BODY, X_GitHub_Delivery="d-2", X_GitHub_Event="push")
    assert (answer.json()["status"], len(board.kept)) == ("duplicate", 1)


async def test_a_copied_call_does_not_work_on_another_route(board: Switchboard) -> None:
    headers = {"Content-Type": "application/json", HUB: github(BODY)}
    assert (await board.post("/webhooks/two", BODY, headers)).status_code == 401


async def test_a_copied_call_with_a_timestamp_dies_with_it(board: Switchboard) -> None:
    stamp = str(int(NOW))
    said = {
        "Content-Type": "application/json",
        "X-Webhook-Signature": digest(stamp.encode() + b"." + BODY),
        "X-Webhook-Timestamp": stamp,
    }
    assert (await board.post("/webhooks/one", BODY, said)).status_code == 202
    board.clock.at += 299
    for copy in (said, {**said, "X-Webhook-Id": "another-name"}):
        assert (await board.post("/webhooks/one", BODY, copy)).json()["status"] == "duplicate"
    board.clock.at += 2
    assert (await board.post("/webhooks/one", BODY, said)).status_code == 401
    assert len(board.kept) == 1


async def test_one_route_cannot_use_up_the_names_of_another(board: Switchboard) -> None:
    await board.call(BODY)
    headers = {"Content-Type": "application/json", HUB: github(BODY, OTHER)}
    headers["X-GitHub-Delivery"] = "d-1"
    assert (await board.post("/webhooks/two", BODY, headers)).status_code == 202
    assert {(call.route, call.delivery) for call in board.kept} == {("one", "d-1"), ("two", "d-1")}


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a b", "a:b", "x" * 500, "ü", "\t", "a/b", "'; drop table --"]
)
async def test_a_hostile_delivery_id_is_made_harmless(board: Switchboard, name: str) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (HUB.encode(), github(BODY).encode()),
        (b"x-github-delivery", name.encode()),
    ]
    await board.post("/webhooks/one", BODY, headers)  # type: ignore[arg-type]
    (call,) = board.kept
    assert call.delivery.isascii()
    assert call.delivery.isalnum()
    assert len(call.delivery) == 32


@pytest.mark.parametrize(
    "path",
    [
        "/webhooks/nobody",
        "/webhooks/ONE",
        "/webhooks/one/",
        "/webhooks/one/two",
        "/webhooks//one",
        "/webhooks/",
        "/webhooks/..%2fone",
        "/webhooks/%2e%2e/webhooks/two",
        "/webhooks/one%00",
        "/webhooks/one%20",
        "/webhooks/on%C3%A9",
        "/webhooks/ｏｎｅ",
        "/webhooks/__class__",
        "/health/../webhooks/one%2f",
    ],
)
async def test_a_path_that_is_no_route_leads_nowhere(board: Switchboard, path: str) -> None:
    headers = {"Content-Type": "application/json", HUB: github(BODY)}
    answer = await board.post(path, BODY, headers)
    assert (answer.status_code, board.kept) == (404, [])


async def test_a_refusal_says_nothing_of_what_is_there(board: Switchboard) -> None:
    headers = {"Content-Type": "application/json", HUB: github(BODY, "x")}
    for path in ("/webhooks/one", "/webhooks/nobody"):
        answer = await board.post(path, BODY, headers)
        assert list(answer.json()) == ["error"]
        assert SECRET not in answer.text


async def test_a_huge_body_is_refused_unread(board: Switchboard) -> None:
    body = b" " * 10_001
    answer = await board.call(body)
    assert (answer.status_code, board.kept) == (413, [])


async def test_a_huge_body_without_a_length_is_refused_on_the_way(
    board: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read for a while, so that its sender sees the answer, and not for ever."""
    monkeypatch.setattr(http_server, "MAX_DISCARDED_BYTES", 50_000)
    sent = 0

    async def endless():  # type: ignore[no-untyped-def]
        nonlocal sent
        while True:
            sent += 1000
            yield b" " * 1000

    answer = await board.post("/webhooks/one", endless(), {"Content-Type": "application/json"})
    assert (answer.status_code, sent) == (413, 61_000)


async def test_a_body_that_never_ends_is_given_up(tmp_path: Path) -> None:
    board = Switchboard(tmp_path, body_seconds=0.05)

    async def slow():  # type: ignore[no-untyped-def]
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    answer = await board.post("/webhooks/one", slow(), {"Content-Type": "application/json"})
    assert (answer.status_code, board.kept) == (408, [])


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'"\\ud800"', "application/json", 400),
        (b"[" * 5000, "application/json", 400),
        (b'{"a":1e999}', "application/json", 400),
        (b"payload=%7B", "application/x-www-form-urlencoded", 400),
        (b"a=%ff", "application/x-www-form-urlencoded", 400),
        (b"<x/>", "text/xml", 415),
        (b"{}", "text/plain", 415),
        (b"{}", "application/json; charset=utf-8", 202),
        (b"[1]", "application/cloudevents+json", 202),
        (b"payload=%7B%7D", "application/x-www-form-urlencoded", 202),
        (b"a=1&b=2", "application/x-www-form-urlencoded", 202),
    ],
)
async def test_a_body_must_be_readable(
    board: Switchboard, body: bytes, kind: str, status: int
) -> None:
    answer = await board.call(body, Content_Type=kind, X_Hub_Signature_256=github(body))
    assert (answer.status_code, len(board.kept)) == (status, int(status == 202))


async def test_nobody_without_the_secret_uses_up_the_rate_of_a_route(tmp_path: Path) -> None:
    board = Switchboard(tmp_path, per_minute=2)
    for number in range(20):
        await board.call(BODY, X_Hub_Signature_256=github(BODY, f"guess {number}"))
    statuses = []
    for number in range(3):
        body = encoded({"n": number})
        answer = await board.call(body, X_GitHub_Delivery=f"n-{number}")
        statuses.append(answer.status_code)
    assert statuses == [202, 202, 429]
    board.clock.at += 61
    assert (await board.call(encoded({"n": 9}), X_GitHub_Delivery="n-9")).status_code == 202


async def test_only_calls_that_make_work_use_up_the_rate(tmp_path: Path) -> None:
    """A busy repository sends many events that a route does not want, and some again."""
    routes = {"one": Route(secret=SECRET, events=("issues",))}
    board = Switchboard(tmp_path, routes, per_minute=2)
    for number in range(5):
        body = encoded({"n": number})
        answer = await board.call(body, X_GitHub_Event="push", X_GitHub_Delivery=f"p-{number}")
        assert answer.json()["status"] == "ignored"
        answer = await board.call(BODY)
        assert answer.json()["status"] == ("duplicate" if number else "accepted")
    assert (await board.call(encoded({"n": 9}), X_GitHub_Delivery="n-9")).status_code == 202


async def test_unsigned_calls_are_taken_on_loopback_only(tmp_path: Path) -> None:
    routes = {"one": Route(secret=NO_AUTH)}
    for on_loopback, status in ((True, 202), (False, 401)):
        board = Switchboard(tmp_path, routes, on_loopback=on_loopback)
        answer = await board.post("/webhooks/one", BODY, dict([JSON]))
        assert answer.status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.org", "Content-Type": "application/json"},
        {"Origin": "null", "Content-Type": "application/json"},
        {"Host": "rebound.evil.org:8644", "Content-Type": "application/json"},
        {"Host": "127.0.0.1.evil.org", "Content-Type": "application/json"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ],
)
async def test_a_page_in_a_browser_cannot_use_an_unsigned_route(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    board = Switchboard(tmp_path, {"one": Route(secret=NO_AUTH)})
    answer = await board.post("/webhooks/one", BODY, headers)
    assert (answer.status_code, board.kept) == (403, [])


async def test_the_word_for_no_secret_is_no_secret(tmp_path: Path) -> None:
    """Signing with it, or with nothing, does not help where it is not allowed."""
    for secret in (NO_AUTH, ""):
        board = Switchboard(tmp_path, {"one": Route(secret=secret)}, on_loopback=False)
        answer = await board.call(BODY, X_Hub_Signature_256=github(BODY, secret))
        assert (answer.status_code, board.kept) == (401, [])


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        ("${REVIEW_SECRET}", "${REVIEW_SECRET} is not set"),
        ("prefix-${A}-${B}", "${A} and ${B} are not set"),
    ],
)
@pytest.mark.parametrize("common", [False, True])
async def test_a_secret_that_everybody_knows_is_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, secret: str, why: str, common: bool
) -> None:
    route = Route(secret="" if common else secret)
    board = Switchboard(tmp_path, {"one": route}, secret=secret if common else SECRET)
    for _ in range(2):
        answer = await board.call(BODY, X_Hub_Signature_256=github(BODY, secret))
        assert (answer.status_code, board.kept) == (401, [])
    (line,) = caplog.messages
    assert line.startswith("webhook route one takes no calls: ")
    assert why in line


async def test_a_route_without_a_secret_uses_the_common_one(tmp_path: Path) -> None:
    board = Switchboard(tmp_path, {"one": Route()}, secret=SECRET)
    assert (await board.call(BODY)).status_code == 202

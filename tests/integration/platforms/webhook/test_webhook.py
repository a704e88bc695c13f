"""Webhooks over real sockets: a call comes in, its answer goes where the route says."""

import asyncio
import contextlib
import hashlib
import hmac
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from hermes.config.settings.platforms import WebhookPlatform
from hermes.core.errors import UsageError
from hermes.core.ports import Attachments
from hermes.core.testing.http_server import LoopbackServer, RecordedRequest
from hermes.core.testing.http_server import Outgoing as Reply
from hermes.gateway.platforms.manifests import WEBHOOK
from hermes.gateway.platforms.webhook.adapter import WebhookAdapter
from hermes.sdk.platforms import (
    AdapterError,
    ChatTarget,
    CredentialsRefused,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
    TimeLimitedProtocol,
)
from hermes.sdk.testing.platforms.harness import Harness, Inbox, failure, query_of

SECRET = "the-secret-of-the-route"
TOKEN = "ghp_the_token_of_the_owner"
CALL = {"action": "opened", "number": 7, "repository": {"full_name": "ann/garden"}}
PLACE = {"repo": "{repository.full_name}", "pr_number": "{number}"}


class Kept:
    """An outbox of chats."""

    def __init__(self) -> None:
        self.sent: dict[str, tuple[str, str]] = {}
        self.attachments: list[Attachments | None] = []

    async def send(
        self, target: str, text: str, *, key: str = "", attachments: Attachments | None = None
    ) -> str:
        self.attachments.append(attachments)
        if target.startswith("nowhere"):
            raise UsageError("there is no chat nowhere")
        self.sent.setdefault(key, (target, text))
        return f"delivery {key}"


class FakeGitHub:
    """Comments of one repository, as the REST API has them."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.requests: list[RecordedRequest] = []
        self.next: list[tuple[int, dict[str, str]]] = []
        self.loses_answers = False
        self._server = LoopbackServer(self._answer)
        self.url = f"http://127.0.0.1:{self._server.port}"
        self.close: Callable[[], None] = self._server.close

    def _answer(self, request: RecordedRequest) -> Reply:
        self.requests.append(request)
        path = request.path.partition("?")[0]
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return _reply(401, {})
        if path != "/repos/ann/garden/issues/7/comments":
            return _reply(404, {})
        if request.method == "GET":
            return _reply(200, self.comments)
        if self.next:
            status, headers = self.next.pop(0)
            return _reply(status, {}, headers)
        self.comments.append({"id": len(self.comments) + 1, "body": request.body["body"]})
        return _reply(502 if self.loses_answers else 201, self.comments[-1])


def _reply(status: int, body: Any, headers: dict[str, str] | None = None) -> Reply:
    said = {"Content-Type": "application/json", **(headers or {})}
    return Reply(status, said, [msgspec.json.encode(body)])


class Stage(Harness):
    manifest = WEBHOOK

    def __init__(self, folder: Path, github: FakeGitHub) -> None:
        super().__init__(folder)
        self.github, self.outbox, self.inbox = github, Kept(), Inbox()
        self.variables = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": github.url}
        self.extra = {"outbox": self.outbox}
        self.listening: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "secret": SECRET}
        self.routes: dict[str, Any] = {"one": {"prompt": "{action} {number}"}}
        self.unset: dict[str, tuple[str, ...]] = {}
        self.adapters: list[WebhookAdapter] = []

    def adapter(self) -> WebhookAdapter:
        extra = WebhookPlatform().extra
        extra = msgspec.structs.replace(extra, **self.listening, routes=self.routes)
        self.connection = WebhookPlatform(extra=extra)
        unset = self.unset
        context = msgspec.structs.replace(self.context(), unset=lambda name: unset.get(name, ()))
        return WebhookAdapter(context)

    async def started(self) -> WebhookAdapter:
        """A connected adapter; the fixture disconnects it."""
        adapter = self.adapter()
        await adapter.connect(self.inbox.receive)
        self.adapters.append(adapter)
        return adapter

    async def call(
        self, adapter: WebhookAdapter, delivery: str = "d-1", route: str = "one", **more: str
    ) -> httpx2.Response:
        body = msgspec.json.encode({**CALL, "of": delivery, **more})
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Delivery": delivery,
            "X-GitHub-Event": "pull_request",
            "X-Hub-Signature-256": _signed(body),
        }
        return await self.post(adapter, body, headers, route)

    async def post(
        self, adapter: WebhookAdapter, body: bytes, headers: dict[str, str], route: str = "one"
    ) -> httpx2.Response:
        async with httpx2.AsyncClient(verify=False) as web:
            url = f"http://127.0.0.1:{adapter.port}/webhooks/{route}"
            return await web.post(url, content=body, headers=headers)


def _signed(body: bytes) -> str:
    return "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()


@pytest.fixture
def github():
    server = FakeGitHub()
    yield server
    server.close()


@pytest.fixture
async def stage(tmp_path, github):
    stage = Stage(tmp_path, github)
    yield stage
    for adapter in stage.adapters:
        await adapter.disconnect()


async def raw(port: int, text: bytes, *, then_leave: bool = False) -> bytes:
    """What the server answers to these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    await writer.drain()
    if then_leave:
        writer.write_eof()
    async with asyncio.timeout(100):
        answer = await reader.read(65536)
    writer.close()
    return answer


async def test_a_call_becomes_a_message(stage):
    adapter = await stage.started()
    async with httpx2.AsyncClient(verify=False) as web:
        health = await web.get(f"http://127.0.0.1:{adapter.port}/health")
        assert health.json() == {"status": "ok", "platform": "webhook"}
    answer = await stage.call(adapter)
    assert (answer.status_code, answer.json()["delivery_id"]) == (202, "d-1")
    (event,) = stage.inbox.kept
    assert event.source.platform == "webhook"
    assert event.source.chat_id == event.message_id == "one:d-1"
    assert event.source.user_id == "webhook:one"
    assert event.text.endswith("\n\nopened 7")
    assert event.addressed
    await adapter.probe()
    await adapter.disconnect()
    await adapter.disconnect()


async def test_call_that_is_not_stored_is_refused_and_accepted_on_retry(stage):
    stage.inbox.refusals, adapter = 1, await stage.started()
    answer = await stage.call(adapter)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    assert (await stage.call(adapter)).status_code == 202
    stage.inbox.faults = 1
    assert (await stage.call(adapter, "d-2")).status_code == 503
    assert (await stage.call(adapter, "d-2")).status_code == 202
    assert [event.message_id for event in stage.inbox.kept] == ["one:d-1", "one:d-2"]


async def test_probe_fails_when_the_server_does_not_answer(stage):
    adapter = stage.adapter()
    assert isinstance(await failure(adapter.probe()), NotConnected)
    for _ in range(2):
        await adapter.connect(stage.inbox.receive)
        await adapter.probe()
        await adapter.disconnect()
        assert isinstance(await failure(adapter.probe()), NotConnected)


async def test_used_port_is_reported(stage):
    adapter = await stage.started()
    stage.listening["port"] = adapter.port
    error = await failure(stage.adapter().connect(stage.inbox.receive))
    assert isinstance(error, NotConnected)
    assert str(adapter.port) in str(error)


async def test_unset_secret_is_logged_at_start(stage, caplog):
    stage.listening["secret"] = ""
    stage.routes |= {"two": {"secret": "${REVIEW_SECRET}"}, "three": {"secret": SECRET}}
    stage.unset = {"WEBHOOK_SECRET": ("MY_SECRET",)}
    adapter = await stage.started()
    assert [line for line in caplog.messages if "accepts no calls" in line] == [
        "webhook route one accepts no calls: its secret is missing: ${MY_SECRET} is not set",
        "webhook route two accepts no calls: its secret is missing: ${REVIEW_SECRET} is not set",
    ]
    assert (await stage.call(adapter)).status_code == 401
    assert (await stage.call(adapter, route="three")).status_code == 202


@pytest.mark.parametrize("routes", [{"a b": {}}, {"a": {"promt": "x"}}, {"a": {"events": 1}}])
async def test_invalid_route_is_reported_at_start(stage, routes):
    stage.routes = routes
    error = await failure(stage.adapter().connect(stage.inbox.receive))
    assert isinstance(error, CredentialsRefused)


async def test_an_answer_goes_to_the_log(stage, caplog):
    adapter = await stage.started()
    await stage.call(adapter)
    with caplog.at_level(logging.INFO):
        await adapter.send(ChatTarget("webhook", "one:d-1"), OutgoingMessage("all done"), "k-1")
    assert "all done" in caplog.text


async def test_an_answer_goes_to_the_chat_of_the_route_once(stage):
    stage.routes["one"] |= {"deliver": "telegram", "deliver_extra": {"chat_id": "-100{number}"}}
    adapter = await stage.started()
    await stage.call(adapter)
    await adapter.disconnect()
    adapter = await stage.started()  # the call itself is gone by now
    target = ChatTarget("webhook", "one:d-1")
    for _ in range(2):
        assert await adapter.send(target, OutgoingMessage("all done"), "k-1")
    assert stage.outbox.sent == {"webhook:k-1": ("telegram:-1007", "all done")}
    query = query_of("k-1")
    assert await adapter.was_delivered(query, target, OutgoingMessage("all done")) is None


async def test_far_too_large_body_gets_413(stage):
    """Not by a connection that is reset while it sends."""
    adapter = await stage.started()
    for _ in range(3):
        answer = await stage.post(adapter, bytes(50_000_000), {"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()) == (413, {"error": "the body is too large"})


async def test_an_answer_to_a_chat_that_is_not_there_is_refused(stage, caplog):
    stage.routes["one"] |= {"deliver": "nowhere:1"}
    adapter = await stage.started()
    await stage.call(adapter)
    sending = adapter.send(ChatTarget("webhook", "one:d-1"), OutgoingMessage("x"), "k-1")
    assert isinstance(await failure(sending), SendRefused)
    assert "the answer to webhook call one:d-1 cannot be delivered: nowhere:1" in caplog.text
    unknown = adapter.send(ChatTarget("webhook", "missing:d-1"), OutgoingMessage("x"), "k-2")
    assert isinstance(await failure(unknown), SendRefused)
    await adapter.disconnect()
    late = adapter.send(ChatTarget("webhook", "one:d-1"), OutgoingMessage("x"), "k-3")
    assert isinstance(await failure(late), NotConnected)


async def test_an_answer_becomes_a_comment_once(stage):
    stage.routes["one"] |= {"deliver": "github_comment", "deliver_extra": PLACE}
    adapter = await stage.started()
    await stage.call(adapter)
    target, message = ChatTarget("webhook", "one:d-1"), OutgoingMessage("looks good")
    query = query_of("k-1")
    assert await adapter.was_delivered(query, target, message) is None
    stage.github.loses_answers = True
    error = await failure(adapter.send(target, message, "k-1"))
    assert isinstance(error, SendUnsure)
    assert TOKEN not in str(error)
    assert await adapter.was_delivered(query, target, message) == "1"
    assert stage.github.comments[0]["body"].startswith("looks good\n\n<!-- hermes:")
    other = query_of("k-2")
    assert await adapter.was_delivered(other, target, message) is None


@pytest.mark.parametrize(
    ("said", "extra", "place"),
    [
        ({"number": 7}, {}, "ann/garden/issues/7"),
        ({"number": 8, "issue": {"number": 7}}, {}, "ann/garden/issues/7"),
        ({"issue": {"number": 8}, "pull_request": {"number": 7}}, {}, "ann/garden/issues/7"),
        ({"number": 8}, {"issue_number": 7}, "ann/garden/issues/7"),
        ({"number": 7}, {"repo": "ann/meadow"}, "ann/meadow/issues/7"),
    ],
)
async def test_a_comment_goes_where_the_call_came_from(stage, said, extra, place):
    stage.routes["one"] |= {"deliver": "github_comment", "deliver_extra": extra}
    adapter = await stage.started()
    body = msgspec.json.encode({"repository": {"full_name": "ann/garden"}, **said})
    headers = {"X-GitHub-Delivery": "d-1", "X-Hub-Signature-256": _signed(body)}
    assert (await stage.post(adapter, body, headers)).status_code == 202
    with contextlib.suppress(SendRefused):  # there is one issue only
        await adapter.send(ChatTarget("webhook", "one:d-1"), OutgoingMessage("hi"), "k-1")
    (asked,) = stage.github.requests
    assert asked.path == f"/repos/{place}/comments"


async def test_github_errors_are_distinguished(stage):
    stage.routes["one"] |= {"deliver": "github_comment", "deliver_extra": PLACE}
    adapter = await stage.started()
    await stage.call(adapter)
    cases: list[tuple[int, dict[str, str], type[AdapterError]]] = [
        (404, {}, SendRefused), (403, {}, SendRefused), (422, {}, SendRefused),
        (403, {"x-ratelimit-remaining": "0"}, SendLater), (429, {"retry-after": "7"}, SendLater),
        (500, {}, SendLater), (504, {}, SendUnsure),
    ]  # fmt: skip
    for status, headers, expected in cases:
        stage.github.next = [(status, headers)]
        error = await failure(
            adapter.send(ChatTarget("webhook", "one:d-1"), OutgoingMessage("x"), "k-1")
        )
        assert type(error) is expected
        if "retry-after" in headers:
            assert getattr(error, "seconds", 0) == 7.0


async def test_a_call_cannot_choose_another_address(stage):
    places = [
        ("../../user", "7"), ("ann/..", "7"), ("ann/garden/../../x", "7"), ("ann/garden?x=", "7"),
        ("ann/garden", "7/../8"), ("ann/garden", "{missing}"), ("ann/garden", "７"),
    ]  # fmt: skip
    for number, (repo, issue) in enumerate(places):
        extra = {"repo": repo, "pr_number": issue}
        stage.routes[f"r{number}"] = {"deliver": "github_comment", "deliver_extra": extra}
    adapter = await stage.started()
    for number in range(len(places)):
        await stage.call(adapter, route=f"r{number}")
        sending = adapter.send(ChatTarget("webhook", f"r{number}:d-1"), OutgoingMessage("x"), "k-1")
        assert isinstance(await failure(sending), SendRefused)
    assert len(stage.inbox.kept) == len(places)
    assert stage.github.requests == []


async def test_a_text_may_go_out_without_the_agent(stage):
    only = {"deliver_only": True, "deliver": "telegram:5", "prompt": "PR {number} {action}"}
    stage.routes["one"] = only
    adapter = await stage.started()
    assert (await stage.call(adapter)).status_code == 202
    assert stage.inbox.kept == []
    assert list(stage.outbox.sent.values()) == [("telegram:5", "PR 7 opened")]
    stage.routes["one"] = only | {"deliver": "github_comment", "deliver_extra": PLACE}
    await adapter.disconnect()
    adapter = await stage.started()
    await stage.call(adapter, "d-2")
    target, text = list(stage.outbox.sent.values())[1]
    assert (target, text) == ("webhook:one:d-2", "PR 7 opened")
    await adapter.send(
        ChatTarget("webhook", "one", "d-2"), OutgoingMessage(text), "k-1"
    )  # as it is read
    assert stage.github.comments[0]["body"].startswith("PR 7 opened")
    stage.routes["one"] = only | {"deliver": "nowhere"}
    await adapter.disconnect()
    adapter = await stage.started()
    assert (await stage.call(adapter, "d-3")).status_code == 503


async def test_call_cannot_make_the_gateway_send_files(stage, tmp_path):
    private = tmp_path / "private.txt"
    private.write_text("a secret")
    stage.routes["one"] = {"deliver_only": True, "deliver": "telegram:5", "prompt": "See: {title}"}
    adapter = await stage.started()
    assert (await stage.call(adapter, title=f"hello\nMEDIA:{private}")).status_code == 202
    ((_target, text),) = stage.outbox.sent.values()
    assert text.endswith(f"MEDIA:{private}")  # it stays text: no attachments are given
    assert stage.outbox.attachments == [None]


async def test_silent_connections_do_not_block_others(stage, monkeypatch):
    monkeypatch.setattr(TimeLimitedProtocol, "head_seconds", 0.05)
    adapter = await stage.started()
    idle = [await asyncio.open_connection("127.0.0.1", adapter.port) for _ in range(210)]
    for number, (_reader, writer) in enumerate(idle):
        writer.write(b"" if number % 2 else b"POST /webhooks/one HTTP/1.1\r\nHost:")
    for reader, writer in idle:
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
    monkeypatch.undo()
    assert (await stage.call(adapter)).status_code == 202


async def test_malformed_requests_do_no_harm(stage):
    adapter = await stage.started()
    head = b"POST /webhooks/one HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = b'{"a": 1}'
    sign = b"X-Hub-Signature-256: " + _signed(body).encode() + b"\r\n"
    for text in (
        head + sign + b"Content-Length: 8\r\nContent-Length: 9\r\n\r\n" + body,
        head + sign + b"Content-Length: -8\r\n\r\n" + body,
        head + sign + b"Transfer-Encoding: chunked\r\nContent-Length: 8\r\n\r\nzz\r\n" + body,
        head + sign + sign + b"Content-Length: 8\r\n\r\n" + body,
        head + sign.lower() + sign + b"Content-Length: 8\r\n\r\n" + body,
        head + b"X-Hub-Signature-256:\r\n " + sign[21:-9] + b"\r\nContent-Length: 8\r\n\r\n" + body,
        b"GET /webhooks/one HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /webhooks/../webhooks/one HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"POST http://evil.org/webhooks/one HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ):
        answer = await raw(adapter.port, text, then_leave=True)
        assert not answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 5")), text
    cut = head + sign + b"Content-Length: 8\r\n\r\n" + body[:4]
    await raw(adapter.port, cut, then_leave=True)
    huge = head + sign + b"Content-Length: 99999999999\r\n\r\n"
    assert b" 413 " in await raw(adapter.port, huge)
    assert stage.inbox.offered == []
    await adapter.probe()


@pytest.mark.parametrize(
    "named",
    [
        {"X-GitHub-Delivery": "d-2", "X-Hub-Signature-256": "{}"},
        {"X-Request-ID": "d-2", "X-Webhook-Signature": "{}"},
        {"X-Signature": "{}"},
    ],
)
async def test_replayed_github_call_is_refused_after_a_restart(stage, named):
    """GitHub signs no time, so it could be played again on any day, under any name."""
    adapter = await stage.started()
    assert (await stage.call(adapter)).json()["status"] == "accepted"
    await adapter.disconnect()
    adapter = await stage.started()
    body = msgspec.json.encode({**CALL, "of": "d-1"})
    headers = {name: value.format(_signed(body)) for name, value in named.items()}
    said = {"Content-Type": "application/json", "X-GitHub-Event": "pull_request", **headers}
    answer = await stage.post(adapter, body, said)
    assert answer.json()["status"] == "duplicate"
    assert len(stage.inbox.kept) == 1
    # What GitHub itself delivers once more has the same name.
    assert (await stage.call(adapter)).status_code in (200, 202)


async def test_same_body_of_another_sender_is_accepted_after_a_restart(stage):
    body = b'{"disk": "full"}'
    said = {"Content-Type": "application/json", "X-Signature": _signed(body)}
    for name in ("one", "two"):
        adapter = await stage.started()
        answer = await stage.post(adapter, body, {**said, "X-Request-ID": name})
        assert answer.json()["status"] == "accepted"
        await adapter.disconnect()

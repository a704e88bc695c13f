"""Connections, token locks, ordered queues and error translation."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.sdk.platforms import (
    Adapter,
    AdapterContext,
    AdapterError,
    ChatQueues,
    ChatTarget,
    ConnectedAdapter,
    Connection,
    CredentialsRefused,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
    TokenInUse,
    acquire_scoped_lock,
    release_scoped_lock,
    serve_http,
    translate_errors,
)
from hermes.sdk.testing.platforms.harness import Inbox, describe_error, failure
from tests.unit.sdk.platforms.kinds import (
    MANIFEST,
    TOKEN,
    Asking,
    Bridged,
    Called,
    Listening,
    Platform,
    Small,
    SmallAdapter,
)

KINDS = (Asking, Listening, Called, Bridged)


@pytest.fixture
async def platform() -> AsyncIterator[Platform]:
    platform = Platform()
    await platform.start()
    yield platform
    await platform.stop()


def context(folder: Path, **variables: str) -> AdapterContext:
    return AdapterContext(MANIFEST, variables.get, None, None, *[folder] * 3)


def small(folder: Path, platform: Platform, kind: type[Small], token: str = TOKEN) -> SmallAdapter:
    return SmallAdapter(context(folder, TOKEN=token, URL=platform.url), kind)


async def comes_and_goes(adapter: Adapter) -> None:
    await adapter.connect(Inbox().receive)
    await adapter.disconnect()


async def say(platform: Platform, adapter: SmallAdapter, text: str) -> None:
    """Send a user message on the platform."""
    if isinstance(adapter.connection, Bridged):
        stdin = adapter.connection.process.stdin
        assert stdin
        stdin.write(f"{text}\n".encode())
        return
    await platform.said.put(text)
    if isinstance(adapter.connection, Called):
        platform.hook = f"http://127.0.0.1:{adapter.connection.port}"
        await platform.deliver()


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_of_platform_brings_messages_and_leaves_nothing_behind(
    platform: Platform, tmp_path: Path, kind: type[Small]
) -> None:
    adapter, inbox, before = small(tmp_path, platform, kind), Inbox(), asyncio.all_tasks()
    await adapter.connect(inbox.receive)
    await say(platform, adapter, "hello")
    await inbox.take("hello")
    await adapter.probe()
    assert (
        await adapter.send(ChatTarget("small", "a chat"), OutgoingMessage("hi"), "1") == "right:1"
    )
    await adapter.disconnect()
    await adapter.disconnect()
    ours = {task for task in asyncio.all_tasks() - before if task.get_name() == "small"}
    assert ours == set()
    assert isinstance(await failure(adapter.probe()), NotConnected)
    await comes_and_goes(small(tmp_path, platform, kind))  # the lock is free


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_says_that_its_token_is_refused_and_lets_go_of_it(platform, tmp_path, kind):
    for _ in range(2):
        wrong = small(tmp_path, platform, kind, "wrong")
        assert isinstance(await failure(wrong.connect(Inbox().receive)), CredentialsRefused)
        assert not wrong.is_connected


@pytest.mark.parametrize("kind", [Asking, Listening, Bridged])
async def test_broken_connection_is_reported_and_reconnects(platform, tmp_path, kind):
    adapter, inbox = small(tmp_path, platform, kind), Inbox()
    await adapter.connect(inbox.receive)
    if kind is Bridged:
        await say(platform, adapter, "!")
    async with asyncio.timeout(10):
        while adapter.connection.trouble is None:
            platform.drop()
            await asyncio.sleep(0.001)
        assert isinstance(await failure(adapter.probe()), NotConnected)
        while adapter.connection.trouble is not None:
            await asyncio.sleep(0.001)
    await say(platform, adapter, "again")
    await inbox.take("again")
    await adapter.probe()
    await adapter.disconnect()


async def test_token_is_used_by_one_gateway_only(platform: Platform, tmp_path: Path) -> None:
    first, second = (small(tmp_path, platform, Listening) for _ in range(2))
    await first.connect(Inbox().receive)
    error = await failure(second.connect(Inbox().receive))
    assert isinstance(error, TokenInUse)
    assert str(tmp_path) in str(error)  # whose it is
    await first.connect(Inbox().receive)  # anew, by the one that has it
    await first.disconnect()
    await comes_and_goes(second)


class Steps(Connection):
    """Says what is let go of, and when."""

    identities = ("one", "two")

    def __init__(self, context: AdapterContext, fault: Exception | None = None) -> None:
        super().__init__(context, Inbox().receive)
        self.fault, self.over = fault, list[str]()
        self.may_end = asyncio.Event()

    async def open(self) -> None:
        self.resources.callback(self.over.append, "first")
        self.run_until_closed(self.work())
        self.resources.callback(self.over.append, "last")
        await asyncio.sleep(0)
        if self.fault:
            raise self.fault

    async def work(self) -> None:
        try:
            await self.may_end.wait()
            raise self.fault or NotConnected("the reason")
        except asyncio.CancelledError:
            self.over.append("work")
            raise


class StepsAdapter(ConnectedAdapter[Steps]):
    def make_connection(self, _receive: object) -> Steps:
        return self.next

    async def send(self, *_given: object) -> str:
        raise NotImplementedError


def stepping(folder: Path, fault: Exception | None = None) -> StepsAdapter:
    adapter = StepsAdapter(context(folder))
    adapter.next = Steps(adapter.context, fault)
    return adapter


@pytest.mark.parametrize("fault", [None, ValueError("half way")])
async def test_resources_close_in_reverse_order_even_after_a_failed_connect(tmp_path, fault):
    adapter = stepping(tmp_path, fault)
    if fault:
        with pytest.raises(ValueError, match="half way"):
            await adapter.connect(Inbox().receive)
    else:
        await adapter.connect(Inbox().receive)
        assert adapter.next.over == []
        await adapter.disconnect()
    assert adapter.next.over == ["last", "work", "first"]


async def test_a_connect_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    adapter = stepping(tmp_path)
    connecting = asyncio.create_task(adapter.connect(Inbox().receive))
    await asyncio.sleep(0)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert adapter.next.over == ["last", "work", "first"]
    assert not adapter.is_connected


async def test_connection_made_after_disconnect_is_closed(tmp_path: Path) -> None:
    adapter = stepping(tmp_path)
    connecting = asyncio.create_task(adapter.connect(Inbox().receive))
    await asyncio.sleep(0)
    await adapter.disconnect()
    with pytest.raises(NotConnected, match="while it connected"):
        await connecting
    assert not adapter.is_connected
    await comes_and_goes(stepping(tmp_path))


async def test_failing_close_does_not_prevent_the_others(tmp_path: Path) -> None:
    adapter = stepping(tmp_path)
    await adapter.connect(Inbox().receive)

    def stubborn() -> None:
        raise OSError("no")

    adapter.connection.resources.callback(stubborn)
    with pytest.raises(OSError, match="no"):
        await adapter.disconnect()
    assert adapter.next.over == ["last", "work", "first"]
    await comes_and_goes(stepping(tmp_path))  # the locks are free too


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (None, "the reason"),
        (CredentialsRefused("not you"), "not you"),
        (ValueError("of ours"), "Small: the connection ended; no messages arrive any more"),
    ],
)
async def test_the_probe_says_why_work_has_ended(tmp_path, fault, told, caplog):
    adapter = stepping(tmp_path)
    await adapter.connect(Inbox().receive)
    await adapter.probe()
    adapter.connection.fault = fault
    adapter.connection.may_end.set()
    with pytest.raises(AdapterError, match=told) as caught:
        async with asyncio.timeout(10):
            while True:
                await adapter.probe()
                await asyncio.sleep(0)
    assert isinstance(caught.value, CredentialsRefused) == isinstance(fault, CredentialsRefused)
    assert ("of ours" in caplog.text) == isinstance(fault, ValueError)
    await adapter.disconnect()


async def test_a_port_that_is_taken_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        connection = Steps(context(tmp_path))
        error = await failure(serve_http(connection, None, "127.0.0.1", port, hint="take another"))
    assert str(port) in str(error)
    assert error.hint == "take another"


TOKEN = "123:secret-token"


def test_second_lock_is_refused_with_the_holder(tmp_path: Path) -> None:
    lock = acquire_scoped_lock("telegram", TOKEN, tmp_path, holder="profile work")
    with pytest.raises(TokenInUse) as caught:
        acquire_scoped_lock("telegram", TOKEN, tmp_path)
    assert f"process {os.getpid()}, profile work" in str(caught.value)
    assert "hermes gateway stop" in caught.value.hint
    assert isinstance(caught.value, NotConnected)  # so it is tried again
    release_scoped_lock(lock)
    release_scoped_lock(lock)  # twice is fine
    release_scoped_lock(None)
    release_scoped_lock(acquire_scoped_lock("telegram", TOKEN, tmp_path))


def test_other_tokens_and_platforms_are_free(tmp_path: Path) -> None:
    locks = [
        acquire_scoped_lock(scope, token, tmp_path)
        for scope, token in (("telegram", TOKEN), ("telegram", "other"), ("discord", TOKEN))
    ]
    for lock in locks:
        release_scoped_lock(lock)


def test_the_token_is_written_nowhere(tmp_path: Path) -> None:
    lock = acquire_scoped_lock("telegram", TOKEN, tmp_path)
    for path in tmp_path.iterdir():
        assert "secret" not in path.name
        assert b"secret" not in path.read_bytes()
        assert not path.stat().st_mode & 0o077
    release_scoped_lock(lock)


async def test_a_chat_keeps_its_order_despite_errors_and_does_not_hold_up_others(caplog):
    lanes, done, gate = ChatQueues("Somewhere"), [], asyncio.Event()

    async def slow() -> None:
        await gate.wait()
        done.append("a1")

    async def broken() -> None:
        raise ValueError("oh")

    async def note(name: str) -> None:
        done.append(name)

    async def until(count: int) -> None:
        async with asyncio.timeout(10):
            while len(done) < count:
                await asyncio.sleep(0)

    for chat, work in (("a", slow), ("a", broken), ("a", lambda: note("a2"))):
        lanes.put(chat, work)
    lanes.put("b", lambda: note("b1"))
    await until(1)
    assert done == ["b1"]
    gate.set()
    await until(3)
    lanes.put("a", lambda: note("again"))
    await until(4)
    assert done == ["b1", "a1", "a2", "again"]
    assert "Somewhere" in caplog.text
    await lanes.close()


async def test_unfinished_work_is_dropped_on_close() -> None:
    lanes, done = ChatQueues("Somewhere"), []

    async def forever() -> None:
        await asyncio.Event().wait()

    async def never() -> None:
        done.append("never")

    lanes.put("a", forever)
    lanes.put("a", never)
    await asyncio.sleep(0)
    await lanes.close()
    assert done == []


TROUBLE = (ValueError, OSError)


def meaning(error: Exception) -> AdapterError:
    return SendRefused("no") if isinstance(error, ValueError) else SendUnsure("who knows")


def test_the_error_itself_is_left_out() -> None:
    with pytest.raises(SendRefused) as caught, translate_errors(meaning, TROUBLE):
        raise ValueError("https://platform.example/bot-secret-token")
    assert "secret" not in describe_error(caught.value)


def test_repeatable_call_is_never_unsure() -> None:
    with pytest.raises(SendUnsure), translate_errors(meaning, TROUBLE):
        raise OSError
    with (
        pytest.raises(SendLater, match="who knows"),
        translate_errors(meaning, TROUBLE, repeatable=True),
    ):
        raise OSError
    with pytest.raises(SendRefused), translate_errors(meaning, TROUBLE, repeatable=True):
        raise ValueError


def test_other_errors_are_raised_unchanged() -> None:
    with pytest.raises(KeyError), translate_errors(meaning, TROUBLE):
        raise KeyError

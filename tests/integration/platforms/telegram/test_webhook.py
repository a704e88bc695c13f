"""Telegram calls us: the secret counts, and 200 is said only to what was kept."""

import socket

import aiohttp
import pytest

from hermes.sdk.platforms import CredentialsRefused, NotConnected, OutgoingMessage
from hermes.sdk.testing.platforms.harness import File, Inbox, connected, failure
from tests.fakes.telegram.harness import TelegramHarness

SECRET = "very-secret_Word"
HEADER = "X-Telegram-Bot-Api-Secret-Token"


@pytest.fixture
async def hooked(telegram):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    telegram.variables |= {
        "TELEGRAM_WEBHOOK_URL": f"http://127.0.0.1:{port}/hook",
        "TELEGRAM_WEBHOOK_PORT": str(port),
        "TELEGRAM_WEBHOOK_SECRET": SECRET,
    }
    yield telegram


async def status(telegram: TelegramHarness, secret: str | None, body: bytes, **more: str) -> int:
    headers = {} if secret is None else {HEADER: secret}
    url, method = telegram.variables["TELEGRAM_WEBHOOK_URL"], more.get("method", "POST")
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=body, headers=headers) as answer,
    ):
        return answer.status


async def test_messages_come_and_answers_go(hooked):
    async with connected(hooked) as (adapter, inbox):
        await hooked.says("by call")
        event = await inbox.take("by call")
        await adapter.send(event.source.target, OutgoingMessage("answer"), "key-1")
        await adapter.probe()
    assert [shown.text for shown in await hooked.shown()] == ["answer"]


async def test_rejected_update_is_delivered_again(hooked):
    inbox = Inbox()
    inbox.refusals, inbox.faults = 1, 1
    async with connected(hooked, inbox):
        await hooked.says("one")
        await hooked.says("two")
        await inbox.take("two")
        assert inbox.once() == ["one", "two"]


@pytest.mark.parametrize("secret", [None, "", "very-secret_Worx", "VERY-SECRET_WORD", "ü"])
async def test_a_call_with_another_secret_is_forged(hooked, secret):
    async with connected(hooked) as (_, inbox):
        assert await status(hooked, secret, b'{"update_id": 1}') == 403
        assert inbox.offered == []


async def test_calls_that_make_no_sense_are_refused(hooked):
    async with connected(hooked) as (_, inbox):
        assert await status(hooked, SECRET, b"{") == 400
        assert await status(hooked, SECRET, b"[1]") == 400
        assert await status(hooked, SECRET, b'{"update_id": "x"}') == 400
        assert await status(hooked, SECRET, b"", method="GET") == 405
        assert await status(hooked, SECRET, bytes(1_000_001)) == 413
        assert inbox.offered == []


async def test_without_a_secret_a_new_one_is_made(hooked):
    hooked.variables.pop("TELEGRAM_WEBHOOK_SECRET")
    async with connected(hooked) as (_, inbox):
        assert await status(hooked, "", b'{"update_id": 1}') == 403
        await hooked.says("by the right one")
        await inbox.take("by the right one")


async def test_a_webhook_changed_by_others_is_noticed(hooked):
    async with connected(hooked) as (adapter, _):
        hooked.fake.webhook = {"url": "https://somebody.else"}
        assert isinstance(await failure(adapter.probe()), NotConnected)


async def test_a_port_in_use_is_named(hooked):
    port = int(hooked.variables["TELEGRAM_WEBHOOK_PORT"])
    with socket.create_server(("0.0.0.0", port)):
        error = await failure(hooked.adapter().connect(Inbox().receive))
    assert isinstance(error, NotConnected)
    assert str(port) in str(error)


async def test_invalid_values_are_refused_with_the_variable(hooked):
    for name, value in (("PORT", "99999"), ("PORT", "x"), ("SECRET", "with blanks")):
        before = hooked.variables[f"TELEGRAM_WEBHOOK_{name}"]
        hooked.variables[f"TELEGRAM_WEBHOOK_{name}"] = value
        error = await failure(hooked.adapter().connect(Inbox().receive))
        assert isinstance(error, CredentialsRefused)
        assert f"TELEGRAM_WEBHOOK_{name}" in str(error)
        hooked.variables[f"TELEGRAM_WEBHOOK_{name}"] = before


async def test_an_album_by_calls_is_one_message(hooked):
    """Each part must be answered before the next is called in."""
    files = tuple(File("image", f"{n}.png", bytes([n])) for n in range(3))
    async with connected(hooked) as (_, inbox):
        await hooked.says("three", files=files)
        assert len((await inbox.take("three")).media) == 3


async def test_failed_webhook_calls_are_reported_once(hooked, caplog):
    inbox = Inbox()
    inbox.refusals = 1_000_000
    async with connected(hooked, inbox) as (adapter, _):
        await hooked.says("never kept")
        await inbox.until(lambda box: bool(box.offered), "the message")
        trouble = {"last_error_date": 1_700_000_000, "last_error_message": "Connection refused"}
        hooked.fake.webhook |= trouble
        for _ in range(3):
            await adapter.probe()
        said = [each for each in caplog.messages if "Connection refused" in each]
        assert len(said) == 1

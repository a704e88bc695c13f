"""Long polling: nothing is acknowledged before it is kept."""

import asyncio

import msgspec
import pytest

from hermes.sdk.platforms import CredentialsRefused, MessageEvent, NotConnected
from hermes.sdk.testing.platforms.harness import Inbox, connected, failure
from hermes_plugins.platforms.telegram.manifest import (
    TelegramExtra,
    TelegramPlatform,
    TelegramSettings,
)


async def test_update_is_confirmed_only_when_accepted(telegram):
    arrived, may_end = asyncio.Event(), asyncio.Event()

    async def receive(event: MessageEvent) -> bool:
        arrived.set()
        await may_end.wait()
        return True

    adapter = telegram.adapter()
    await adapter.connect(receive)
    try:
        await telegram.says("precious")
        await arrived.wait()
        assert len(telegram.fake.world.updates) == 1
        may_end.set()
        while telegram.fake.world.updates:
            await asyncio.sleep(0.01)
    finally:
        await adapter.disconnect()


async def test_a_gateway_killed_while_keeping_gets_it_again(telegram):
    arrived = asyncio.Event()

    async def receive(event: MessageEvent) -> bool:
        arrived.set()
        await asyncio.Event().wait()
        return True

    adapter = telegram.adapter()
    await adapter.connect(receive)
    await telegram.says("precious")
    await arrived.wait()
    await adapter.disconnect()
    async with connected(telegram) as (_, inbox):
        await inbox.take("precious")


async def test_a_passing_conflict_is_got_over(telegram):
    async with connected(telegram) as (adapter, inbox):
        while telegram.fake._waiting is None:
            await asyncio.sleep(0.01)
        await telegram.fake._updates({})  # another client polls once
        await telegram.says("still ours")
        await inbox.take("still ours")
        await adapter.probe()


async def test_another_poller_is_named_as_the_trouble(telegram):
    async with connected(telegram) as (adapter, _):
        while telegram.fake._waiting is None:
            await asyncio.sleep(0.01)
        telegram.fake.webhook = {"url": "https://somebody.else"}  # answers 409 from now on
        telegram.fake._waiting.set()
        for _ in range(500):
            try:
                await adapter.probe()
            except NotConnected as error:
                assert "another program" in str(error)
                return
            await asyncio.sleep(0.01)
        pytest.fail("the probe was content with a connection that gets nothing")


async def test_a_bad_gateway_in_between_loses_nothing(telegram):
    async with connected(telegram) as (_, inbox):
        await telegram.says("one")
        await inbox.take("one")
        telegram.fake.poll_troubles.extend(["bad_gateway", "rate_limited", "cut_before"])
        await telegram.says("two")
        await inbox.take("two")
        await telegram.says("three")
        await inbox.take("three")
        assert inbox.once() == ["one", "two", "three"]


async def test_unreadable_update_does_not_block_later_ones(telegram):
    async with connected(telegram) as (_, inbox):
        await telegram.fake.push("message", {"message_id": "?", "chat": 7})
        await telegram.says("after it")
        await inbox.take("after it")
        assert len(inbox.offered) == 1


async def test_edited_messages_are_not_asked_for(telegram):
    async with connected(telegram) as (_, inbox):
        await telegram.says("first words")
        await inbox.take("first words")
        message = next(iter(telegram.chat().messages.values()))
        await telegram.fake.push("edited_message", {**message, "text": "other words"})
        await telegram.says("done")
        await inbox.take("done")
        assert inbox.texts() == ["first words", "done"]


async def test_a_webhook_that_was_set_before_is_removed(telegram):
    telegram.fake.webhook = {"url": "https://old.example"}
    async with connected(telegram) as (_, inbox):
        await telegram.says("hello")
        await inbox.take("hello")
    assert telegram.fake.webhook == {}


async def test_the_menu_has_our_commands_under_telegrams_names(telegram):
    async with connected(telegram) as (_, inbox):
        names = [command["command"] for command in telegram.fake.world.commands]
        assert names == ["stop", "reload_mcp"]
        await telegram.says("/reload_mcp now")
        await inbox.take("/reload-mcp now")


async def test_missing_token_is_refused_with_where_to_get_one(telegram):
    telegram.variables.pop("TELEGRAM_BOT_TOKEN")
    error = await failure(telegram.adapter().connect(Inbox().receive))
    assert isinstance(error, CredentialsRefused)
    assert "@BotFather" in error.hint


async def test_a_proxy_is_used(telegram):
    telegram.variables["TELEGRAM_API_BASE_URL"] = "http://telegram.invalid"
    telegram.settings = TelegramSettings(proxy_url=telegram.fake.url)
    async with connected(telegram) as (adapter, inbox):
        await telegram.says("through the proxy")
        await inbox.take("through the proxy")
        await adapter.probe()


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "nonsense://x"])
async def test_invalid_proxy_is_refused_and_releases_the_lock(telegram, proxy):
    telegram.settings = TelegramSettings(proxy_url=proxy)
    error = await failure(telegram.adapter().connect(Inbox().receive))
    assert isinstance(error, NotConnected)
    telegram.settings = TelegramSettings()
    async with connected(telegram):
        pass


async def test_fallback_addresses_are_tried_when_the_first_is_away(telegram):
    telegram.variables["TELEGRAM_API_BASE_URL"] = f"http://127.0.0.2:{telegram.fake.port}"
    extra = TelegramExtra(fallback_ips=("127.0.0.3", "127.0.0.1"))
    telegram.connection = msgspec.structs.replace(TelegramPlatform(), extra=extra)
    async with connected(telegram) as (_, inbox):
        await telegram.says("around the corner")
        await inbox.take("around the corner")


async def test_after_a_conflict_what_was_missed_is_asked_for_at_once(telegram):
    async with connected(telegram) as (_, inbox):
        await telegram.says("one")
        await inbox.take("one")
        polls = telegram.fake.polls
        telegram.fake.poll_troubles.append("conflict")
        before = len(polls)
        await telegram.says("two")
        await inbox.take("two")
        await telegram.says("three")
        await inbox.take("three")
        assert 0.0 in polls[before:]


async def test_a_page_of_a_server_before_telegram_does_not_revoke_the_token(telegram):
    """404 is what Telegram itself says to a token it does not know, but in its own words."""
    async with connected(telegram) as (adapter, inbox):
        await telegram.says("one")
        await inbox.take("one")
        telegram.fake.poll_troubles.extend(["not_found_page", "forbidden_page"])
        await telegram.says("two")
        await inbox.take("two")
        await telegram.says("three")
        await inbox.take("three")
        await adapter.probe()


async def test_a_menu_larger_than_telegram_takes_is_shown_shortened(telegram):
    telegram.commands = tuple((f"command{number}", "words " * 60) for number in range(120))
    async with connected(telegram):
        shown = telegram.fake.world.commands
        assert [each["command"] for each in shown] == [f"command{n}" for n in range(100)]
        assert all(each["description"].endswith("…") for each in shown)


async def test_a_menu_that_is_refused_all_the_same_is_cut(telegram, monkeypatch):
    monkeypatch.setattr("tests.fakes.telegram.api.MAX_MENU", 2_000)
    telegram.commands = tuple((f"command{number}", "words " * 60) for number in range(120))
    async with connected(telegram):
        shown = telegram.fake.world.commands
        assert 20 < len(shown) < 50
        assert shown[0]["command"] == "command0"

"""Parsing Discord messages."""

from pathlib import Path
from typing import Any

import aiohttp
import discord
import pytest

from hermes.config.settings.platforms import Platform
from hermes.sdk.platforms import (
    AdapterContext,
    AdapterError,
    Button,
    CredentialsRefused,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes_plugins.platforms.discord.client import (
    BatchTimes,
    DiscordOptions,
    map_connect_error,
    map_error,
    read_options,
)
from hermes_plugins.platforms.discord.inbound import embed_text
from hermes_plugins.platforms.discord.manifest import MANIFEST, DiscordSettings
from hermes_plugins.platforms.discord.outbound import (
    button_view,
    edit_params,
    make_nonce,
    message_params,
    parse_id,
    thread_title,
)


class Answer:
    """What the library keeps of an answer."""

    reason = ""

    def __init__(self, status: int) -> None:
        self.status = status


def answered(status: int, code: int = 0) -> discord.HTTPException:
    return discord.HTTPException(Answer(status), {"code": code, "message": "no"})  # type: ignore[arg-type]


def closed(code: int) -> discord.ConnectionClosed:
    return discord.ConnectionClosed(None, shard_id=None, code=code)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (discord.RateLimited(3.5), SendLater),
        (answered(400, 50035), SendRefused),
        (answered(403, 50013), SendRefused),
        (answered(404, 10003), SendRefused),
        (answered(413, 40005), SendRefused),
        (answered(401), NotConnected),
        (answered(500), SendLater),
        (answered(503), SendLater),
        (answered(502), SendUnsure),
        (answered(504), SendUnsure),
        (aiohttp.ServerDisconnectedError(), SendUnsure),
        (aiohttp.ClientConnectorError(None, OSError(111, "refused")), SendLater),  # type: ignore[arg-type]
        (TimeoutError(), SendUnsure),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_response_maps_to_the_send_error(error: Exception, kind: type[AdapterError]) -> None:
    assert type(map_error(error)) is kind


def test_retry_delay_is_the_one_of_discord() -> None:
    error = map_error(discord.RateLimited(3.5))
    assert isinstance(error, SendLater)
    assert error.seconds == 3.5


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (discord.LoginFailure("no"), CredentialsRefused),
        (discord.PrivilegedIntentsRequired(None), CredentialsRefused),
        (closed(4004), CredentialsRefused),
        (closed(4009), NotConnected),
        (answered(401), CredentialsRefused),
        (answered(503), NotConnected),
        (discord.RateLimited(3.5), NotConnected),
        (OSError("no route"), NotConnected),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_exception_maps_to_the_connection_error(error: Exception, kind: type[AdapterError]) -> None:
    assert type(map_connect_error(error)) is kind


def test_a_nonce_fits_and_is_the_same_each_time() -> None:
    assert make_nonce("a" * 300) == make_nonce("a" * 300) != make_nonce("b")
    assert len(make_nonce("a")) == 25


def test_a_message_asks_discord_to_show_it_once() -> None:
    with message_params(
        OutgoingMessage("hi"), "key", discord.AllowedMentions.none(), limit=10
    ) as params:
        assert params.payload == {
            "content": "hi",
            "nonce": make_nonce("key"),
            "enforce_nonce": True,
            "allowed_mentions": {"parse": []},
            "tts": False,
        }


async def test_buttons_stand_in_rows_of_five_and_an_edit_takes_them_away() -> None:
    view = button_view(tuple(Button(str(n), f"d{n}") for n in range(30)))
    rows: list[Any] = view.to_components()
    assert [len(row["components"]) for row in rows] == [5] * 5
    without = edit_params(OutgoingMessage("done"), discord.AllowedMentions.none())
    assert without.payload is not None
    assert without.payload["components"] == []


def test_a_thread_is_named_after_what_was_asked() -> None:
    assert thread_title("<@123> what is <:smile:1> this?\nplease") == "what is this? please"
    assert thread_title("<@123>") == "Talk"
    assert len(thread_title("word " * 50)) <= 80


def test_chat_id_that_is_not_a_number_is_invalid() -> None:
    assert parse_id("123") == 123
    with pytest.raises(SendRefused):
        parse_id("#general")


def test_a_card_reads_as_text() -> None:
    card = discord.Embed(title="Build", description="failed", url="https://example.org")
    card.add_field(name="Branch", value="main")
    card.set_footer(text="today")
    assert embed_text(card) == "Build\nhttps://example.org\nfailed\nBranch: main\ntoday"


def read(tmp_path: Path, **variables: str) -> DiscordOptions:
    given = (MANIFEST, variables.get, DiscordSettings(), Platform(token="from-settings"))
    return read_options(AdapterContext(*given, *[tmp_path] * 3))


def test_options_have_the_documented_defaults(tmp_path: Path) -> None:
    options = read(tmp_path)
    assert (options.token, options.bots, options.sync) == ("from-settings", "none", "safe")
    assert options.ignore_others
    assert (options.needs_roles, options.proxy, options.reply_references) == (False, None, True)
    assert options.base_url == "https://discord.com/api/v10"


def test_variables_count_before_settings(tmp_path: Path) -> None:
    options = read(
        tmp_path,
        DISCORD_BOT_TOKEN=" token ",
        DISCORD_ALLOW_BOTS="Mentions",
        DISCORD_IGNORE_NO_MENTION="off",
        DISCORD_ALLOWED_ROLES="1",
        DISCORD_PROXY="http://127.0.0.1:1",
    )
    assert (options.token, options.bots, options.ignore_others) == ("token", "mentions", False)
    assert (options.needs_roles, options.proxy) == (True, "http://127.0.0.1:1")


def test_unknown_sync_policy_is_refused_with_the_valid_ones(tmp_path: Path) -> None:
    with pytest.raises(CredentialsRefused, match="DISCORD_COMMAND_SYNC_POLICY") as caught:
        read(tmp_path, DISCORD_COMMAND_SYNC_POLICY="sometimes")
    assert "safe, bulk, off" in caught.value.hint


def test_batch_times_are_read_from_variables(tmp_path: Path) -> None:
    delay, split = "HERMES_DISCORD_TEXT_BATCH_DELAY", "HERMES_DISCORD_TEXT_BATCH_SPLIT_DELAY"
    assert read(tmp_path).batch_times == BatchTimes(0.6, 0.1)
    said = {f"{delay}_SECONDS": "0", split: "1.5"}
    assert read(tmp_path, **said).batch_times == BatchTimes(0.0, 1.5)
    for value in ("soon", "-1", "nan", "3600"):
        with pytest.raises(CredentialsRefused, match=f"{split}_SECONDS"):
            read(tmp_path, **{f"{split}_SECONDS": value})

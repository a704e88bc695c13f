"""Where a message goes, as people write it."""

from pathlib import Path

import pytest

from hermes.core.errors import UsageError
from hermes.gateway.directory import ChatDirectory, TargetResolver
from hermes.gateway.platforms.kit.contract import (
    Capabilities,
    ChatInfo,
    ChatTarget,
    PlatformManifest,
)

ABLE = Capabilities(max_chars=100)
PLATFORMS = {
    name: PlatformManifest(
        name, name.title(), "x:X", ABLE, env_prefix=name.upper(), home_variable=home
    )
    for name, home in {
        "telegram": "",
        "discord": "",
        "slack": "",
        "matrix": "MATRIX_HOME_ROOM",
        "email": "EMAIL_HOME_ADDRESS",
    }.items()
} | {"api_server": PlatformManifest("api_server", "API", "x:X", ABLE, chats=False)}
VARIABLES = {
    "TELEGRAM_HOME_CHANNEL": "-100:17",
    "TELEGRAM_HOME_CHANNEL_NAME": "Family",
    "MATRIX_HOME_ROOM": "!r:x.org",
    "EMAIL_HOME_ADDRESS": "ann@x.org",
    "DISCORD_HOME_CHANNEL": "#gone",
}


@pytest.fixture
def targets(tmp_path: Path) -> TargetResolver:
    known = ChatDirectory(tmp_path / "channel_directory.json")
    known.add_chats("discord", [ChatInfo("11", "ops", "channel"), ChatInfo("12", "dev", "channel")])
    known.add_chats("telegram", [ChatInfo("-300", "@family", "group")])
    known.add_chats("discord", [ChatInfo("13", "home/#new", "group")])
    known.add_chats("slack", [ChatInfo("C1", "ops", "channel")], "work")
    return TargetResolver(PLATFORMS, VARIABLES.get, known)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("telegram", ChatTarget("telegram", "-100", "17")),
        ("Telegram:", ChatTarget("telegram", "-100", "17")),
        (" telegram:-200 ", ChatTarget("telegram", "-200")),
        ("telegram:-200:3", ChatTarget("telegram", "-200", "3")),
        ("discord:#ops", ChatTarget("discord", "11")),
        ("discord:home/#new", ChatTarget("discord", "13")),
        ("discord:12", ChatTarget("discord", "12")),
        ("slack:#ops", ChatTarget("slack", "C1", account="work")),
        ("slack@work:C2:17.5", ChatTarget("slack", "C2", "17.5", "work")),
        ("matrix", ChatTarget("matrix", "!r:x.org")),
        ("matrix:#room:x.org", ChatTarget("matrix", "#room:x.org")),
        ("matrix:!r:x.org:$e:x", ChatTarget("matrix", "!r:x.org", "$e:x")),
        ("telegram:@DailyNews", ChatTarget("telegram", "@DailyNews")),
        ("telegram:@DailyNews:17", ChatTarget("telegram", "@DailyNews", "17")),
        ("telegram:@family", ChatTarget("telegram", "-300")),
        ("email", ChatTarget("email", "ann@x.org")),
        ("email:bob@x.org", ChatTarget("email", "bob@x.org")),
    ],
)
def test_what_people_write_is_understood(
    targets: TargetResolver, text: str, target: ChatTarget
) -> None:
    assert targets.resolve(text) == target


def test_origin_is_where_it_was_asked(targets: TargetResolver) -> None:
    origin = ChatTarget("telegram", "5")
    assert targets.resolve("origin", origin) == origin
    with pytest.raises(UsageError, match="there is no chat this was asked in"):
        targets.resolve("origin")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("signal:5", "there is no platform 'signal'", "telegram, discord"),
        ("api_server:x", "there is no platform 'api_server'", "telegram"),
        ("", "no target was named", "telegram, discord"),
        ("local", "'local' is a file, which jobs write: a message goes to a chat", "telegram"),
        ("slack", "slack has no home channel", "SLACK_HOME_CHANNEL"),
        ("telegram:@x y", "no chat of telegram is called @x y", "@family"),
        ("telegram:#news", "no chat of telegram is called #news", "@family"),
        ("discord:#opps", "no chat of discord is called #opps", "dev, home/#new, ops"),
        ("discord", "no chat of discord is called #gone", "dev, home/#new, ops"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    targets: TargetResolver, text: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as error:
        targets.resolve(text)
    assert str(error.value) == message
    assert hint in error.value.hint


def test_an_unknown_name_spoils_no_list(targets: TargetResolver) -> None:
    assert sorted(targets.homes()) == ["email", "matrix", "telegram"]
    assert targets.describe() == [
        "telegram (home channel: Family)",
        "telegram:-300 (group: @family)",
        "discord (no home channel)",
        "discord:11 (channel: ops)",
        "discord:12 (channel: dev)",
        "discord:13 (group: home/#new)",
        "slack (no home channel)",
        "slack@work:C1 (channel: ops)",
        "matrix (home channel: !r:x.org)",
        "email (home channel: ann@x.org)",
    ]

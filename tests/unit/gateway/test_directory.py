"""Names of chats, and targets as people write them."""

import stat
import tomllib
from pathlib import Path

import pytest

from hermes.core.errors import UsageError
from hermes.gateway import directory
from hermes.gateway.directory import ChatDirectory, KnownChat, TargetResolver
from hermes.sdk.platforms import Capabilities, ChatInfo, ChatTarget, PlatformManifest, SessionSource

CASES = tomllib.loads(Path(__file__).with_name("directory.toml").read_text("utf-8"))


@pytest.fixture
def known(tmp_path):
    return ChatDirectory(tmp_path / "channel_directory.json")


def again(known: ChatDirectory) -> ChatDirectory:
    known.save()
    return ChatDirectory(known._path)


def test_reported_and_seen_chats_survive_a_restart(known):
    known.add_chats("discord", [ChatInfo("1", "ops", "channel")])
    known.note_source(SessionSource("telegram", "5", user_id="5", user_name="Ann"))
    known.note_source(SessionSource("telegram", "-7", "group", user_id="5", chat_name="Family"))
    later = again(known)
    assert later.platforms() == ["discord", "telegram"]
    assert later.name_of("discord", "1") == "ops"
    assert later.name_of("telegram", "5") == "Ann"
    assert later.find("telegram", "#family") == KnownChat("-7", "Family", "group")
    assert stat.S_IMODE(later._path.stat().st_mode) == 0o600


def test_a_new_name_replaces_the_old_one(known):
    known.add_chats("discord", [ChatInfo("1", "ops")])
    known.add_chats("discord", [ChatInfo("1", "dev\x1b[31m")])
    assert known.find("discord", "#DEV").id == "1"
    with pytest.raises(UsageError, match="no chat of discord is called #ops") as missing:
        known.find("discord", "#ops")
    assert missing.value.hint == "there are dev"


def test_ambiguous_chat_name_lists_the_ids(known):
    known.add_chats("discord", [ChatInfo("1", "ops"), ChatInfo("2", "#OPS", thread_id="9")])
    with pytest.raises(UsageError, match="2 chats of discord are called ops") as both:
        known.find("discord", "ops")
    assert both.value.hint == "name one by id: discord:1, discord:2:9"


def test_an_account_narrows_it_down(known):
    known.add_chats("slack", [ChatInfo("1", "ops")], "work")
    known.add_chats("slack", [ChatInfo("1", "ops")], "home")
    assert known.find("slack", "ops", "home").account == "home"


def test_nothing_is_written_when_nothing_changed(known):
    known.add_chats("discord", [ChatInfo("1", "ops")])
    later = again(known)
    later._path.unlink()
    later.add_chats("discord", [ChatInfo("1", "ops")])
    later.save()
    assert not later._path.exists()


def test_a_damaged_file_costs_the_names_and_nothing_else(known, caplog):
    known._path.write_text("[")
    later = ChatDirectory(known._path)
    assert later.platforms() == []
    assert known._path.read_text() == "["
    assert "begins anew" in caplog.text


def test_directory_is_bounded(known, monkeypatch):
    monkeypatch.setattr(directory, "MAX_CHATS", 2)
    known.add_chats("discord", [ChatInfo(str(number), f"c{number}") for number in range(5)])
    assert [chat.id for chat in known.chats("discord")] == ["3", "4"]


ABLE = Capabilities(max_chars=100)
HOMES = {"matrix": "MATRIX_HOME_ROOM", "email": "EMAIL_HOME_ADDRESS"}
PLATFORMS = {
    name: PlatformManifest(
        name, name, "x:X", ABLE, env_prefix=name.upper(), home_variable=HOMES.get(name, "")
    )
    for name in ("telegram", "discord", "slack", *HOMES)
}
PLATFORMS["api_server"] = PlatformManifest("api_server", "API", "x:X", ABLE, chats=False)
VARIABLES = {
    "TELEGRAM_HOME_CHANNEL": "-100:17",
    "TELEGRAM_HOME_CHANNEL_NAME": "Family",
    "MATRIX_HOME_ROOM": "!r:x.org",
    "EMAIL_HOME_ADDRESS": "ann@x.org",
    "DISCORD_HOME_CHANNEL": "#gone",
}


@pytest.fixture
def targets(tmp_path):
    known = ChatDirectory(tmp_path / "channel_directory.json")
    known.add_chats("discord", [ChatInfo("11", "ops", "channel"), ChatInfo("12", "dev", "channel")])
    known.add_chats("telegram", [ChatInfo("-300", "@family", "group")])
    known.add_chats("discord", [ChatInfo("13", "home/#new", "group")])
    known.add_chats("slack", [ChatInfo("C1", "ops", "channel")], "work")
    return TargetResolver(PLATFORMS, VARIABLES.get, known)


@pytest.mark.parametrize("case", CASES["resolved"], ids=lambda case: case[0])
def test_written_targets_are_resolved(targets, case):
    text, *target = case
    assert targets.resolve(text) == ChatTarget(*target)


def test_origin_is_where_it_was_asked(targets):
    origin = ChatTarget("telegram", "5")
    assert targets.resolve("origin", origin) == origin
    with pytest.raises(UsageError, match="there is no chat this was asked in"):
        targets.resolve("origin")


@pytest.mark.parametrize(("text", "message", "hint"), CASES["unknown"])
def test_unknown_target_lists_known_ones(targets, text, message, hint):
    with pytest.raises(UsageError) as error:
        targets.resolve(text)
    assert str(error.value) == message
    assert hint in error.value.hint


def test_unknown_home_channel_does_not_affect_others(targets):
    assert sorted(targets.homes()) == ["email", "matrix", "telegram"]
    assert targets.describe() == CASES["described"]

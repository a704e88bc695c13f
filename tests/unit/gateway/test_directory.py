"""Chats by name."""

import stat
from pathlib import Path

import pytest

from hermes.core.errors import UsageError
from hermes.gateway import directory
from hermes.gateway.directory import ChatDirectory, KnownChat
from hermes.gateway.platforms.kit.contract import ChatInfo, SessionSource


@pytest.fixture
def known(tmp_path: Path) -> ChatDirectory:
    return ChatDirectory(tmp_path / "channel_directory.json")


def again(known: ChatDirectory) -> ChatDirectory:
    known.save()
    return ChatDirectory(known._path)


def test_what_adapters_and_messages_tell_survives_a_restart(known: ChatDirectory) -> None:
    known.add_chats("discord", [ChatInfo("1", "ops", "channel")])
    known.note_source(SessionSource("telegram", "5", user_id="5", user_name="Ann"))
    known.note_source(SessionSource("telegram", "-7", "group", user_id="5", chat_name="Family"))
    later = again(known)
    assert later.platforms() == ["discord", "telegram"]
    assert later.name_of("discord", "1") == "ops"
    assert later.name_of("telegram", "5") == "Ann"
    assert later.find("telegram", "#family") == KnownChat("-7", "Family", "group")
    assert stat.S_IMODE(later._path.stat().st_mode) == 0o600


def test_a_new_name_replaces_the_old_one(known: ChatDirectory) -> None:
    known.add_chats("discord", [ChatInfo("1", "ops")])
    known.add_chats("discord", [ChatInfo("1", "dev\x1b[31m")])
    assert known.find("discord", "#DEV").id == "1"
    with pytest.raises(UsageError, match="no chat of discord is called #ops") as missing:
        known.find("discord", "#ops")
    assert missing.value.hint == "there are dev"


def test_two_chats_of_one_name_are_told_apart(known: ChatDirectory) -> None:
    known.add_chats("discord", [ChatInfo("1", "ops"), ChatInfo("2", "#OPS", thread_id="9")])
    with pytest.raises(UsageError, match="2 chats of discord are called ops") as both:
        known.find("discord", "ops")
    assert both.value.hint == "name one by id: discord:1, discord:2:9"


def test_an_account_narrows_it_down(known: ChatDirectory) -> None:
    known.add_chats("slack", [ChatInfo("1", "ops")], "work")
    known.add_chats("slack", [ChatInfo("1", "ops")], "home")
    assert known.find("slack", "ops", "home").account == "home"


def test_nothing_is_written_when_nothing_changed(known: ChatDirectory) -> None:
    known.add_chats("discord", [ChatInfo("1", "ops")])
    later = again(known)
    later._path.unlink()
    later.add_chats("discord", [ChatInfo("1", "ops")])
    later.save()
    assert not later._path.exists()


def test_a_damaged_file_costs_the_names_and_nothing_else(
    known: ChatDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    known._path.write_text("[")
    later = ChatDirectory(known._path)
    assert later.platforms() == []
    assert known._path.read_text() == "["
    assert "begins anew" in caplog.text


def test_it_does_not_grow_for_ever(known: ChatDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "MAX_CHATS", 2)
    known.add_chats("discord", [ChatInfo(str(number), f"c{number}") for number in range(5)])
    assert [chat.id for chat in known.chats("discord")] == ["3", "4"]

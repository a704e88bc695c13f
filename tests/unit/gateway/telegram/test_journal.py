"""What is known after a crash."""

from pathlib import Path

import pytest

from hermes.gateway.platforms.telegram import journal as module
from hermes.gateway.platforms.telegram.journal import BegunEntry, TelegramJournal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "telegram.jsonl"


def opened(path: Path) -> TelegramJournal:
    journal = TelegramJournal(path)
    journal.open()
    return journal


def begun(key: str, *, chat: int = 5, after: int = 0, parts: int = 1) -> BegunEntry:
    return BegunEntry(key, chat, after, 1000.0, parts)


def test_a_message_about_to_be_sent_is_in_doubt_after_a_crash(path: Path) -> None:
    opened(path).record_start(begun("k", after=7))
    again = opened(path)  # the first was never closed
    (doubt,) = again.uncertain(5)
    assert (doubt.begun.key, doubt.begun.after) == ("k", 7)
    assert again.uncertain(6) == []


def test_what_telegram_answered_is_known_after_a_crash(path: Path) -> None:
    journal = opened(path)
    journal.record_start(begun("there"))
    journal.record_delivered("there", 12)
    journal.record_start(begun("refused"))
    journal.record_absent("refused")
    again = opened(path)
    assert again.uncertain(5) == []
    assert (again.own_numbers(5), again.newest_number(5)) == ({12}, 12)
    assert again.sends["there"].is_complete
    assert not again.sends["refused"].is_complete


def test_parts_that_are_there_are_kept_when_the_rest_is_begun(path: Path) -> None:
    journal = opened(path)
    journal.record_start(begun("k", parts=3))
    journal.record_delivered("k", 1)
    journal.record_start(begun("k", after=1, parts=3))
    for _ in range(2):  # as read, and as written anew
        again = opened(path)
        assert (again.sends["k"].numbers, again.sends["k"].open) == ([1], True)


def test_a_message_sent_anew_starts_from_the_beginning(path: Path) -> None:
    journal = opened(path)
    journal.record_start(begun("k"))
    journal.record_delivered("k", 1)
    journal.record_start(begun("k"))
    assert journal.sends["k"].numbers == []


def test_private_chats_and_basic_groups_share_their_numbers(path: Path) -> None:
    journal = opened(path)
    journal.note_number(5, 10)
    journal.note_number(-55, 12)
    journal.note_number(-1_000_000_000_005, 3)
    assert (journal.newest_number(5), journal.newest_number(6), journal.newest_number(-55)) == (
        12,
        12,
        12,
    )
    assert journal.newest_number(-1_000_000_000_005) == 3
    assert journal.newest_number(-1_000_000_000_006) == 0
    journal.note_number(5, 4)
    assert opened(path).newest_number(5) == 12


def test_a_torn_line_costs_only_itself(path: Path) -> None:
    journal = opened(path)
    journal.note_number(5, 10)
    journal.record_move(-55, -1_000_000_000_055)
    with path.open("ab") as file:
        file.write(b'{"type": "seen", "row": "priv')
    again = opened(path)
    assert (again.newest_number(5), again.current_chat(-55), again.current_chat(7)) == (
        10,
        -1_000_000_000_055,
        7,
    )
    assert again.origins == {-1_000_000_000_055: -55}
    again.note_number(5, 11)
    assert opened(path).newest_number(5) == 11


def test_albums_and_topics_are_remembered(path: Path) -> None:
    journal = opened(path)
    journal.record_album((1, 2, 3))
    journal.record_topic(5, "Garden", 17)
    again = opened(opened(path)._path)
    assert list(again.merged) == [1, 2, 3]
    assert again.topics == {(5, "Garden"): 17}


def test_it_does_not_grow_without_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINES", 50)
    monkeypatch.setattr(module, "MAX_SENDS", 5)
    journal = opened(path)
    for number in range(1, 200):
        journal.record_start(begun(f"k{number}"))
        journal.record_delivered(f"k{number}", number)
    assert len(path.read_bytes().splitlines()) < 80
    again = opened(path)
    assert list(again.sends) == [f"k{number}" for number in range(195, 200)]
    assert again.newest_number(5) == 199


def test_nobody_else_can_read_it(path: Path) -> None:
    opened(path).note_number(5, 1)
    assert not path.stat().st_mode & 0o077

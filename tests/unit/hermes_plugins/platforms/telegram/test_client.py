"""What the Telegram adapter remembers across restarts."""

from pathlib import Path

import pytest

from hermes_plugins.platforms.telegram.client import (
    MAX_ALBUM_PARTS,
    MergedEntry,
    MovedEntry,
    TelegramState,
    TopicEntry,
)

GROUP, SUPERGROUP = -55, -1_000_000_000_055


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "telegram.jsonl"


def opened(path: Path) -> TelegramState:
    state = TelegramState(path)
    state.open()
    return state


def test_moves_albums_and_topics_survive_a_restart(path: Path) -> None:
    state = opened(path)
    state.record(MovedEntry(GROUP, SUPERGROUP))
    state.record(MergedEntry((1, 2, 3)))
    state.record(TopicEntry(5, "Garden", 17))
    again = opened(path)
    assert (again.current_chat(GROUP), again.current_chat(7)) == (SUPERGROUP, 7)
    assert again.origins == {SUPERGROUP: GROUP}
    assert list(again.merged) == [1, 2, 3]
    assert again.topics == {(5, "Garden"): 17}


def test_lines_that_are_torn_or_of_an_earlier_version_are_skipped(path: Path) -> None:
    opened(path).record(MovedEntry(GROUP, SUPERGROUP))
    with path.open("ab") as file:
        file.write(b'{"type":"seen","row":"private","number":10}\n{"type": "topic", "chat')
    assert opened(path).current_chat(GROUP) == SUPERGROUP
    assert b"seen" not in path.read_bytes()


def test_the_number_of_remembered_album_parts_is_bounded(path: Path) -> None:
    state = opened(path)
    for number in range(2 * MAX_ALBUM_PARTS):
        state.record(MergedEntry((number,)))
    assert list(opened(path).merged) == list(range(MAX_ALBUM_PARTS, 2 * MAX_ALBUM_PARTS))


def test_only_the_owner_can_read_the_file(path: Path) -> None:
    opened(path)
    assert not path.stat().st_mode & 0o077

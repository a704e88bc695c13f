"""What comes back of pages that are only in the write-ahead log."""

import random
from pathlib import Path

import apsw
import pytest

from hermes.store.sqlite.backend import connect
from hermes.store.sqlite.salvage import salvage
from tests.integration.store.rescue import stores

FRAME = stores.PAGE + 24


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """Half of the messages in the main file, half in the log, and an unfinished transaction."""
    folder = tmp_path_factory.mktemp("crashed")
    connection = connect(folder / "live.db")
    stores.fill(connection)
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    for number in range(60):
        stores.add_message(connection, f"s{number % 6}", f"only in the log {number} " * 9)
    connection.execute("PRAGMA cache_size = 2")
    before = Path(f"{folder}/live.db-wal").stat().st_size
    connection.execute("BEGIN")
    for number in range(200):
        stores.add_message(connection, "s0", f"never committed {number} " * 9)
    assert Path(f"{folder}/live.db-wal").stat().st_size > before + 10 * FRAME
    path = stores.copied(folder / "live.db", folder / "state.db")
    connection.close()
    return path


@pytest.fixture(scope="module")
def original(crashed, tmp_path_factory):
    """What SQLite itself makes of the two files."""
    return stores.contents(stores.copied(crashed, tmp_path_factory.mktemp("read") / "state.db"))


@pytest.fixture
def damaged(crashed, tmp_path):
    return stores.copied(crashed, tmp_path / "damaged.db")


def test_committed_pages_of_the_log_count_and_others_do_not(damaged, original, tmp_path):
    assert len(original["messages"]) == 180
    salvage(damaged, tmp_path / "new.db")
    assert stores.contents(tmp_path / "new.db") == original


def test_the_log_makes_up_for_damage_in_the_main_file(damaged, original, tmp_path):
    stores.overwrite(
        damaged, stores.pages_of(stores.copied(damaged, tmp_path / "other.db"), "messages")[-1]
    )
    salvage(damaged, tmp_path / "new.db")
    assert stores.contents(tmp_path / "new.db") == original


@pytest.mark.parametrize("place", [0, 9, 32, 40, 32 + 30 * FRAME + 5, 32 + 30 * FRAME + 2000])
def test_of_a_damaged_log_the_frames_before_the_damage_count(damaged, original, tmp_path, place):
    log = Path(f"{damaged}-wal")
    data = bytearray(log.read_bytes())
    data[place] ^= 0xFF
    log.write_bytes(data)
    by_sqlite = stores.contents(stores.copied(damaged, tmp_path / "read.db"))
    salvage(damaged, tmp_path / "new.db")
    found = stores.contents(tmp_path / "new.db")
    assert found == by_sqlite
    assert len(found["messages"]) >= 120
    stores.assert_nothing_invented(found, original)
    stores.assert_sound(tmp_path / "new.db")


@pytest.mark.parametrize("seed", range(4))
def test_a_log_that_was_cut_off_keeps_what_was_committed_before(damaged, original, tmp_path, seed):
    log = Path(f"{damaged}-wal")
    data = log.read_bytes()[: random.Random(seed).randrange(log.stat().st_size)]
    log.write_bytes(data)
    by_sqlite = stores.contents(stores.copied(damaged, tmp_path / "read.db"))
    salvage(damaged, tmp_path / "new.db")
    assert stores.contents(tmp_path / "new.db") == by_sqlite


def test_frames_of_an_earlier_round_of_the_log_are_left_alone(tmp_path):
    connection = connect(tmp_path / "live.db")
    stores.fill(connection)
    stores.add_message(connection, "s0", "to be deleted")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    connection.execute("DELETE FROM messages WHERE content = 'to be deleted'")
    connection.execute("UPDATE sessions SET message_count = message_count - 1 WHERE id = 's0'")
    path = stores.copied(tmp_path / "live.db", tmp_path / "state.db")
    connection.close()
    assert Path(f"{path}-wal").stat().st_size > 60 * FRAME
    salvage(path, tmp_path / "new.db")
    assert stores.contents(tmp_path / "new.db") == stores.contents(path)

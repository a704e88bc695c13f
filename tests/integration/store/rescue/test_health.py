"""Damage is noticed, and a sound store is not suspected."""

from pathlib import Path

import apsw
import pytest

from hermes.core.errors import StoreCorrupt
from hermes.store.sqlite.backend import connect
from hermes.store.sqlite.health import (
    QUICK_CHECK_BYTES,
    SearchIndexDamaged,
    check,
    find_problems,
)
from tests.integration.store.rescue import stores


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return stores.make(tmp_path_factory.mktemp("sound") / "state.db")


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    path = stores.make(
        tmp_path_factory.mktemp("big") / "state.db", messages=3500, sizes=(1500, 3500)
    )
    assert path.stat().st_size > QUICK_CHECK_BYTES
    return path


def all_problems(connection: apsw.Connection) -> list[str]:
    found = find_problems(connection)
    return found.tables + found.search


def verdict(path, look=check):
    """The error of a check, or None; the file is opened as it is."""
    connection = apsw.Connection(str(path))
    try:
        return check(connection, path) if look is check else look(connection)
    except StoreCorrupt as error:
        return error
    finally:
        connection.close()


def owners(path):
    """Which table or index each page belongs to."""
    connection = apsw.Connection(str(path))
    found = dict(connection.execute("SELECT pageno, name FROM dbstat").fetchall())
    connection.close()
    return found


def test_a_sound_store_passes_both_looks(sound, big):
    for path in (sound, big):
        assert verdict(path) is None
        assert verdict(path, all_problems) == []


def test_an_empty_file_is_a_new_store(tmp_path):
    (tmp_path / "state.db").touch()
    assert verdict(tmp_path / "state.db") is None
    assert verdict(tmp_path / "state.db", all_problems) == []


def test_every_damaged_page_of_a_small_store_is_noticed_and_laid_at_the_right_door(sound, tmp_path):
    for number, owner in owners(sound).items():
        path = stores.copied(sound, tmp_path / "state.db")
        stores.overwrite(path, number)
        error = verdict(path)
        is_search = owner.startswith(("messages_fts", "messages_trigram"))
        if is_search:
            assert error is None or isinstance(error, SearchIndexDamaged), f"{number} {owner}"
        else:
            assert isinstance(error, StoreCorrupt), f"{number} {owner}"
            assert not isinstance(error, SearchIndexDamaged), f"{number} {owner}"
            assert "damaged" in str(error)
            assert error.hint
        if number > 1:
            found = verdict(path, find_problems)
            assert bool(found.tables) is not is_search, f"{number} {owner} {found}"
            assert not is_search or found.search


@pytest.mark.parametrize("name", ["sessions", "messages", "idx_messages_session", "projections"])
def test_a_lost_root_page_of_a_big_store_is_noticed(big, tmp_path, name):
    path = stores.copied(big, tmp_path / "state.db")
    stores.overwrite(path, stores.root_of(big, name))
    assert isinstance(verdict(path), StoreCorrupt)


@pytest.mark.parametrize(
    "name", ["messages_fts_data", "messages_fts_config", "messages_trigram_data"]
)
def test_a_lost_search_index_does_not_lose_the_store(big, tmp_path, name):
    path = stores.copied(big, tmp_path / "state.db")
    stores.overwrite(path, stores.root_of(big, name))
    error = verdict(path)
    assert isinstance(error, SearchIndexDamaged)
    assert "No message is lost" in error.hint


def test_a_search_index_that_misses_a_message_is_found_by_the_long_look(sound, tmp_path):
    path = stores.copied(sound, tmp_path / "state.db")
    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    stores.add_message(connection, "s0", "not indexed")
    connection.close()
    assert verdict(path) is None
    found = verdict(path, find_problems)
    assert (found.tables, len(found.search)) == ([], 1)


@pytest.mark.parametrize("data", [b"no database " * 1000, bytes(stores.PAGE * 3)])
def test_a_file_that_is_not_a_database_is_noticed(tmp_path, data):
    (tmp_path / "state.db").write_bytes(data)
    assert isinstance(verdict(tmp_path / "state.db"), StoreCorrupt)


@pytest.mark.parametrize("pages", [1, 7, -1])
def test_a_file_that_was_cut_off_is_noticed(big, tmp_path, pages):
    path = stores.copied(big, tmp_path / "state.db")
    with path.open("r+b") as file:
        file.truncate((pages if pages > 0 else stores.page_count(path) + pages) * stores.PAGE)
    assert isinstance(verdict(path), StoreCorrupt)


def test_pages_that_are_still_in_the_log_are_not_missed(tmp_path):
    connection = connect(tmp_path / "state.db")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    stores.fill(connection)
    assert stores.page_count(tmp_path / "state.db") < connection.execute("PRAGMA page_count").get
    check(connection, tmp_path / "state.db")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    stores.add_message(connection, "s0", "in a short log")
    path = stores.copied(tmp_path / "state.db", tmp_path / "cut.db")
    connection.close()
    with path.open("r+b") as file:
        file.truncate(40 * stores.PAGE)
    assert "the file ends after 40" in str(verdict(path))


def test_a_look_leaves_the_connection_and_the_file_as_they_were(sound, tmp_path):
    path = stores.copied(sound, tmp_path / "state.db")
    connection = connect(path)
    check(connection, path)
    assert not connection.in_transaction
    connection.execute("BEGIN")
    check(connection, path)
    assert connection.in_transaction
    connection.execute("ROLLBACK")
    connection.close()
    assert path.read_bytes() == sound.read_bytes()
    assert not Path(f"{path}-wal").exists()

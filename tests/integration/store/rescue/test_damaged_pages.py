"""What comes back of a store with damaged pages."""

import random

import apsw
import pytest

from hermes.store.sqlite.salvage import RECOVERED, StoreUnreadable, salvage
from tests.integration.store.rescue import stores


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = stores.make(tmp_path_factory.mktemp("sound") / "state.db")
    assert stores.page_count(path) > 60
    return path


@pytest.fixture
def damaged(sound, tmp_path):
    return stores.copied(sound, tmp_path / "damaged.db")


def test_a_sound_store_comes_back_whole(sound, tmp_path):
    seen = []
    report = salvage(sound, tmp_path / "new.db", lambda done, total: seen.append((done, total)))
    assert stores.contents(tmp_path / "new.db") == stores.contents(sound)
    assert (report.sessions, report.messages, report.notes) == (6, 120, ())
    assert seen[-1][0] == seen[-1][1] >= 120
    stores.assert_sound(tmp_path / "new.db")


def test_every_page_in_turn_costs_only_the_rows_it_leads_to(sound, tmp_path):
    original = stores.contents(sound)
    held = stores.rows_of_pages(sound, interior=True)
    sessions_held = stores.rows_of_pages(sound, "sessions", interior=True)
    schema = stores.pages_of(sound, "sqlite_schema", "[il]*")
    for number in range(1, stores.page_count(sound) + 1):
        damaged = stores.copied(sound, tmp_path / f"{number}.db")
        stores.overwrite(damaged, number)
        new = tmp_path / f"new{number}.db"
        if number in schema:
            with pytest.raises(StoreUnreadable):
                salvage(damaged, new)
            continue
        report = salvage(damaged, new)
        found = stores.contents(new)
        lost = original["messages"].keys() - found["messages"].keys()
        assert lost <= held.get(number, set()), f"page {number}"
        stores.assert_nothing_invented(found, original)
        assert found["sessions"].keys() == original["sessions"].keys()
        remade = {key for key, row in found["sessions"].items() if row["source"] == RECOVERED}
        assert remade <= sessions_held.get(number, set()), f"page {number}"
        assert report.remade_sessions == len(remade)
        assert (report.lost_messages, report.messages) == (len(lost), 120 - len(lost)) or remade
        stores.assert_sound(new)


@pytest.mark.parametrize("place", [0, 0.5, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("data", [None, bytes(stores.PAGE)], ids=["garbage", "zeros"])
def test_a_damaged_leaf_page_costs_exactly_its_rows(sound, damaged, tmp_path, place, data):
    leaves = stores.pages_of(sound, "messages")
    page = leaves[len(leaves) // 2 if place == 0.5 else place]
    stores.overwrite(damaged, page, data)
    report = salvage(damaged, tmp_path / "new.db")
    original, found = stores.contents(sound), stores.contents(tmp_path / "new.db")
    lost = original["messages"].keys() - found["messages"].keys()
    assert lost == stores.rows_of_pages(sound)[page]
    assert (report.messages, report.lost_messages) == (120 - len(lost), len(lost))
    assert found["sessions"].keys() == original["sessions"].keys()
    stores.assert_nothing_invented(found, original)


def test_single_readable_pages_between_damaged_ones_are_found(tmp_path):
    sound = stores.make(tmp_path / "state.db", messages=1500, sizes=(500, 1500))
    original, held = stores.contents(sound), stores.rows_of_pages(sound)
    damaged = [page for number, page in enumerate(stores.pages_of(sound, "messages")) if number % 5]
    assert len(damaged) > 200
    for page in damaged:
        stores.overwrite(sound, page)
    salvage(sound, tmp_path / "new.db")
    found = stores.contents(tmp_path / "new.db")
    lost = set().union(*(held[page] for page in damaged))
    assert found["messages"].keys() == original["messages"].keys() - lost
    stores.assert_nothing_invented(found, original)


@pytest.mark.parametrize("seed", range(8))
def test_several_damaged_pages_cost_only_the_rows_on_them(sound, damaged, tmp_path, seed):
    roots = {
        *stores.pages_of(sound, "sqlite_schema", "*"),
        *stores.pages_of(sound, "messages", "internal"),
    }
    every = set(range(1, stores.page_count(sound) + 1)) - roots
    pages = random.Random(seed).sample(sorted(every), 12)
    for number in pages:
        stores.overwrite(damaged, number, seed=seed)
    salvage(damaged, tmp_path / "new.db")
    original, found = stores.contents(sound), stores.contents(tmp_path / "new.db")
    held = stores.rows_of_pages(sound)
    lost = original["messages"].keys() - found["messages"].keys()
    assert lost <= set().union(*(held.get(number, set()) for number in pages))
    stores.assert_nothing_invented(found, original)
    stores.assert_sound(tmp_path / "new.db")


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_off_keeps_the_rows_before_the_cut(sound, damaged, tmp_path, share):
    length = int(sound.stat().st_size * share)
    with damaged.open("r+b") as file:
        file.truncate(length)
    salvage(damaged, tmp_path / "new.db")
    original, found = stores.contents(sound), stores.contents(tmp_path / "new.db")
    gone = {
        key
        for number, keys in stores.rows_of_pages(sound, interior=True).items()
        if number * stores.PAGE > length
        for key in keys
    }
    assert original["messages"].keys() - gone <= found["messages"].keys()
    stores.assert_nothing_invented(found, original)
    stores.assert_sound(tmp_path / "new.db")


@pytest.mark.parametrize("data", [b"", b"x", b"no database at all " * 3000, bytes(50_000)])
def test_a_file_that_is_not_a_database_is_unreadable(tmp_path, data):
    (tmp_path / "damaged.db").write_bytes(data)
    with pytest.raises(StoreUnreadable):
        salvage(tmp_path / "damaged.db", tmp_path / "new.db")
    assert (tmp_path / "damaged.db").read_bytes() == data


@pytest.mark.parametrize("size", [512, 1024, 8192, 65536])
def test_other_page_sizes_are_read(tmp_path, size):
    connection = apsw.Connection(str(tmp_path / "state.db"))
    connection.execute(f"PRAGMA page_size = {size}")
    connection.execute("CREATE TABLE first (x)")
    connection.close()
    sound = stores.make(tmp_path / "state.db", messages=400)
    salvage(sound, tmp_path / "new.db")
    assert stores.contents(tmp_path / "new.db") == stores.contents(sound)


def test_a_damaged_overflow_page_costs_only_its_message(tmp_path):
    sound = stores.make(tmp_path / "state.db")
    connection = apsw.Connection(str(sound))
    long = "".join(f"line {number} of a long text\n" for number in range(40_000))
    stores.add_message(connection, "s0", long)
    stores.add_message(connection, "s0", "after it")
    connection.close()
    pages = [number for number, keys in stores.rows_of_pages(sound).items() if keys == {121}]
    original = stores.contents(sound)
    for place in (0, len(pages) // 2, len(pages) - 1):
        damaged = stores.copied(sound, tmp_path / f"{place}.db")
        stores.overwrite(damaged, pages[place])
        report = salvage(damaged, tmp_path / f"new{place}.db")
        found = stores.contents(tmp_path / f"new{place}.db")
        assert found["messages"].keys() == original["messages"].keys() - {121}
        assert (report.dropped, report.messages, report.lost_messages) == (1, 121, 1)
        stores.assert_nothing_invented(found, original)
        stores.assert_sound(tmp_path / f"new{place}.db")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("content", "CAST(x'ff41' AS TEXT)"),
        ("content", "x'0102'"),
        ("role", "'NOT A ROLE'"),
        ("timestamp", "-5"),
        ("timestamp", "1e300"),
        ("timestamp", "'yesterday'"),
    ],
)
def test_values_that_cannot_be_right_cost_their_row(sound, damaged, tmp_path, column, value):
    connection = apsw.Connection(str(damaged))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.execute(f"UPDATE messages SET {column} = {value} WHERE id IN (1, 60, 120)")
    connection.close()
    report = salvage(damaged, tmp_path / "new.db")
    original, found = stores.contents(sound), stores.contents(tmp_path / "new.db")
    assert found["messages"].keys() == original["messages"].keys() - {1, 60, 120}
    assert (report.dropped, report.lost_messages) == (3, 3)
    stores.assert_nothing_invented(found, original)


def test_a_row_cut_off_elsewhere_is_dropped_and_counted(tmp_path):
    sound = stores.make(tmp_path / "state.db")
    connection = apsw.Connection(str(sound))
    connection.execute("UPDATE messages SET tool_calls = ? WHERE id = 7", ("[1]" * 30_000,))
    connection.close()
    page = [number for number, keys in stores.rows_of_pages(sound).items() if keys == {7}][-1]
    stores.overwrite(sound, page)
    report = salvage(sound, tmp_path / "new.db")
    assert 7 not in stores.contents(tmp_path / "new.db")["messages"]
    assert (report.dropped, report.lost_messages, report.messages) == (1, 1, 119)


def test_deleted_messages_stay_deleted(sound, tmp_path):
    path = stores.copied(sound, tmp_path / "state.db")
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM messages WHERE id BETWEEN 20 AND 100")
    assert connection.execute("PRAGMA freelist_count").get > 5
    connection.close()
    original = stores.contents(path)
    lost = stores.rows_of_pages(path)[page := stores.pages_of(path, "messages")[1]]
    stores.overwrite(path, page)
    salvage(path, tmp_path / "new.db")
    assert (
        stores.contents(tmp_path / "new.db")["messages"].keys()
        == original["messages"].keys() - lost
    )


def test_ids_of_lost_messages_are_not_given_again(sound, damaged, tmp_path):
    held = stores.rows_of_pages(sound)
    for number in (number for number, keys in held.items() if max(keys) > 100):
        stores.overwrite(damaged, number)
    salvage(damaged, tmp_path / "new.db")
    connection = apsw.Connection(str(tmp_path / "new.db"))
    assert connection.execute("SELECT max(id) FROM messages").get <= 100
    stores.add_message(connection, "s0", "next")
    assert connection.execute("SELECT max(id) FROM messages").get == 121
    connection.close()

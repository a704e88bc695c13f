"""What comes back of a store with damaged pages."""

import random

import apsw
import pytest

from hermes.store.sqlite.salvage import LOST, RECOVERED, salvage
from tests.integration.store.rescue.stores import (
    PAGE,
    add_message,
    assert_nothing_invented,
    assert_sound,
    contents,
    copied,
    make,
    overwrite,
    page_count,
    root_of,
    rows_of_pages,
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = make(tmp_path_factory.mktemp("sound") / "state.db")
    assert page_count(path) > 60
    return path


@pytest.fixture
def damaged(sound, tmp_path):
    return copied(sound, tmp_path / "damaged.db")


def test_a_sound_store_comes_back_whole(sound, tmp_path):
    seen = []
    report = salvage(sound, tmp_path / "new.db", lambda done, total: seen.append((done, total)))
    assert contents(tmp_path / "new.db") == contents(sound)
    assert (report.sessions, report.messages, report.notes) == (6, 120, ())
    assert seen[-1] == (page_count(sound), page_count(sound))
    assert_sound(tmp_path / "new.db")


def test_every_page_in_turn_costs_only_the_rows_on_it(sound, tmp_path):
    original = contents(sound)
    held = rows_of_pages(sound)
    sessions_held = rows_of_pages(sound, "sessions")
    for number in range(1, page_count(sound) + 1):
        damaged = copied(sound, tmp_path / f"{number}.db")
        overwrite(damaged, number)
        new = tmp_path / f"new{number}.db"
        report = salvage(damaged, new)
        found = contents(new)
        lost = original["messages"].keys() - found["messages"].keys()
        assert lost <= held.get(number, set()), f"page {number}"
        assert_nothing_invented(found, original)
        assert found["sessions"].keys() == original["sessions"].keys()
        remade = {key for key, row in found["sessions"].items() if row["source"] == RECOVERED}
        assert remade <= sessions_held.get(number, set()), f"page {number}"
        assert report.remade_sessions == len(remade)
        assert (report.lost_messages, report.messages) == (len(lost), 120 - len(lost)) or remade
        assert_sound(new)


@pytest.mark.parametrize("seed", range(8))
def test_several_damaged_pages_cost_only_the_rows_on_them(sound, damaged, tmp_path, seed):
    pages = random.Random(seed).sample(range(1, page_count(sound) + 1), 12)
    for number in pages:
        overwrite(damaged, number, seed=seed)
    salvage(damaged, tmp_path / "new.db")
    original, found = contents(sound), contents(tmp_path / "new.db")
    held = rows_of_pages(sound)
    lost = original["messages"].keys() - found["messages"].keys()
    assert lost <= set().union(*(held.get(number, set()) for number in pages))
    assert_nothing_invented(found, original)
    assert_sound(tmp_path / "new.db")


@pytest.mark.parametrize("length", [16, 100, PAGE])
def test_a_zeroed_header_costs_nothing(sound, damaged, tmp_path, length):
    with damaged.open("r+b") as file:
        file.write(bytes(length))
    salvage(damaged, tmp_path / "new.db")
    assert contents(tmp_path / "new.db") == contents(sound)


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.3, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_off_keeps_the_rows_before_the_cut(sound, damaged, tmp_path, share):
    length = int(sound.stat().st_size * share)
    with damaged.open("r+b") as file:
        file.truncate(length)
    salvage(damaged, tmp_path / "new.db")
    original, found = contents(sound), contents(tmp_path / "new.db")
    gone = {
        key
        for number, keys in rows_of_pages(sound).items()
        if number * PAGE > length
        for key in keys
    }
    assert original["messages"].keys() - gone <= found["messages"].keys()
    assert_nothing_invented(found, original)
    assert_sound(tmp_path / "new.db")


@pytest.mark.parametrize("data", [b"", b"x", b"no database at all " * 3000, bytes(50_000)])
def test_of_a_file_that_is_no_database_an_empty_store_is_left(tmp_path, data):
    (tmp_path / "damaged.db").write_bytes(data)
    report = salvage(tmp_path / "damaged.db", tmp_path / "new.db")
    assert (report.sessions, report.messages) == (0, 0)
    assert_sound(tmp_path / "new.db")


@pytest.mark.parametrize("size", [512, 1024, 8192, 65536])
@pytest.mark.parametrize("keep_header", [True, False])
def test_other_page_sizes_are_found_out(tmp_path, size, keep_header):
    connection = apsw.Connection(str(tmp_path / "state.db"))
    connection.execute(f"PRAGMA page_size = {size}")
    connection.execute("CREATE TABLE first (x)")
    connection.close()
    sound = make(tmp_path / "state.db", messages=400)
    damaged = copied(sound, tmp_path / "damaged.db")
    if not keep_header:
        with damaged.open("r+b") as file:
            file.write(bytes(100))
    salvage(damaged, tmp_path / "new.db")
    assert contents(tmp_path / "new.db") == contents(sound)


def test_a_damaged_overflow_page_cuts_a_long_message_and_says_so(tmp_path):
    sound = make(tmp_path / "state.db")
    connection = apsw.Connection(str(sound))
    long = "".join(f"line {number} of a long text\n" for number in range(40_000))
    add_message(connection, "s0", long)
    add_message(connection, "s0", "after it")
    connection.close()
    pages = [number for number, keys in rows_of_pages(sound).items() if keys == {121}]
    original = contents(sound)
    for place in (0, len(pages) // 2, len(pages) - 1):
        damaged = copied(sound, tmp_path / f"{place}.db")
        overwrite(damaged, pages[place])
        report = salvage(damaged, tmp_path / f"new{place}.db")
        found = contents(tmp_path / f"new{place}.db")
        cut = found["messages"][121]
        assert cut["content"].endswith(LOST)
        kept = len(cut["content"]) - len(LOST)
        assert abs(kept - place * (PAGE - 4)) < 2 * PAGE
        assert abs(cut["timestamp"] - original["messages"][121]["timestamp"]) < 10
        assert (report.cut_messages, report.messages, report.lost_messages) == (1, 122, 0)
        assert_nothing_invented(found, original)
        assert_sound(tmp_path / f"new{place}.db")


def test_a_row_cut_off_elsewhere_is_dropped_and_counted(tmp_path):
    sound = make(tmp_path / "state.db")
    connection = apsw.Connection(str(sound))
    connection.execute("UPDATE messages SET tool_calls = ? WHERE id = 7", ("[1]" * 30_000,))
    connection.close()
    page = [number for number, keys in rows_of_pages(sound).items() if keys == {7}][-1]
    overwrite(sound, page)
    report = salvage(sound, tmp_path / "new.db")
    assert 7 not in contents(tmp_path / "new.db")["messages"]
    assert (report.dropped, report.lost_messages, report.messages) == (1, 1, 119)


@pytest.mark.parametrize("lost_too", ["nothing", "header", "first page"])
def test_deleted_messages_stay_deleted(sound, tmp_path, lost_too):
    path = copied(sound, tmp_path / "state.db")
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM messages WHERE id BETWEEN 20 AND 100")
    assert connection.execute("PRAGMA freelist_count").get > 5
    connection.close()
    original = contents(path)
    overwrite(path, root_of(path, "messages"))
    with path.open("r+b") as file:
        file.write(bytes({"nothing": 0, "header": 100, "first page": PAGE}[lost_too]))
    salvage(path, tmp_path / "new.db")
    assert contents(tmp_path / "new.db")["messages"].keys() == original["messages"].keys()


def test_of_two_versions_of_a_row_the_one_its_table_leads_to_wins(sound, tmp_path):
    path = copied(sound, tmp_path / "state.db")
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM messages WHERE id % 10")
    connection.execute("UPDATE messages SET content = 'new ' || id")
    connection.close()
    with path.open("r+b") as file:
        file.seek(32)
        trunk = int.from_bytes(file.read(4), "big")
    overwrite(path, trunk, bytes(PAGE))
    salvage(path, tmp_path / "new.db")
    found = contents(tmp_path / "new.db")["messages"]
    assert len(found) > 12, "old pages should be in the way in this test"
    assert all(found[key]["content"] == f"new {key}" for key in range(10, 121, 10))


def test_messages_on_many_pages_survive_the_loss_of_their_root(tmp_path):
    sound = make(tmp_path / "state.db", messages=2000, sizes=(500, 1500))
    original = contents(sound)
    root = root_of(sound, "messages")
    assert root not in rows_of_pages(sound)
    overwrite(sound, root)
    report = salvage(sound, tmp_path / "new.db")
    assert (report.messages, report.notes) == (2000, ())
    assert contents(tmp_path / "new.db") == original


def test_ids_of_lost_messages_are_not_given_again(sound, damaged, tmp_path):
    held = rows_of_pages(sound)
    for number in (number for number, keys in held.items() if max(keys) > 100):
        overwrite(damaged, number)
    salvage(damaged, tmp_path / "new.db")
    connection = apsw.Connection(str(tmp_path / "new.db"))
    assert connection.execute("SELECT max(id) FROM messages").get <= 100
    add_message(connection, "s0", "next")
    assert connection.execute("SELECT max(id) FROM messages").get == 121
    connection.close()

"""Messages on their way, chats and scheduled work come back with the rest of a damaged store."""

import random

import apsw
import pytest

from hermes.store.records import InboxItem, OutboxItem, Run, StoredResponse
from hermes.store.schema import data_tables
from hermes.store.session_store import open_store
from hermes.store.sqlite.repair import repair
from hermes.store.sqlite.salvage import salvage
from tests.integration.store.rescue import stores

ROWS = 40
NAMES = data_tables()[4:]


async def busy(path):
    """A store with several pages of rows in every table, some rows longer than a page."""
    stores.make(path)
    store, chance = open_store("", path), random.Random(1)
    for number in range(ROWS):
        key, long = f"k{number}", f'"{stores.text(chance, 200 if number % 5 else 9000)}"'.encode()
        row = await store.inbox.receive(InboxItem("fake", "main", key, key, long), 1e9 + number)
        await store.chats.bind(key, f"s{number}", long[:200], 1e9)
        right = await store.chats.claim(key, "us", 1e9, 1e9 + 60)
        draft = OutboxItem(key, "fake", "main", b'{"chat":"7"}', key, long, inbox_id=row)
        if number % 2:
            (out,) = await store.inbox.answer((row,), (draft,), right, 1e9)
            await store.outbox.mark_sent(out, f"p{number}", 1e9 + number)
        await store.runs.record(Run(f"j{number}", 1e9 + number, "missed"))
        await store.runs.claim(f"j{number}", 2e9 + number, "us", 1e9, 1e9 + 60)
        await store.runs.save_job(f"j{number}", long, None)
        await store.approvals.ask(key, long, "us", now=1e9, until=1e9 + 60)
        await store.responses.save(StoredResponse(key, long, "s1"), 1e9 + number)
    store.close()
    return path


def rows(path):
    connection = apsw.Connection(str(path))
    found = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in NAMES}
    connection.close()
    return {name: sorted(some) for name, some in found.items()}


@pytest.mark.parametrize("damage", NAMES)
async def test_a_damaged_page_costs_only_its_rows(tmp_path, damage):
    path = await busy(tmp_path / "state.db")
    before, said = rows(path), stores.contents(path)
    leaves = stores.pages_of(path, damage)
    stores.overwrite(path, leaves[len(leaves) // 2])
    report = salvage(path, tmp_path / "new.db")
    found = rows(tmp_path / "new.db")
    assert 0 < len(found[damage]) < len(before[damage])
    assert set(found.pop(damage)) < set(before.pop(damage))
    assert found == before
    assert stores.contents(tmp_path / "new.db") == said
    assert report.lost_messages == 0
    stores.assert_sound(tmp_path / "new.db")


async def test_a_number_is_not_given_again_after_a_rescue(tmp_path):
    path = await busy(tmp_path / "state.db")
    store = open_store("", path)
    last = await store.inbox.receive(InboxItem("fake", "", "last", "last", b"{}"), 1.0)
    store.close()
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM inbox WHERE id = ?", (last,))
    connection.close()
    stores.overwrite(path, stores.root_of(path, "messages"))
    assert repair(path).outcome == "rescued"
    store = open_store("", path)
    assert await store.inbox.receive(InboxItem("fake", "", "new", "new", b"{}"), 1.0) == last + 1
    assert await store.inbox.pending_chats() == (*(f"k{n}" for n in range(0, ROWS, 2)), "new")
    store.close()

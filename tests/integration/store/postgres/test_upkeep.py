"""Rebuilding, vacuuming, measuring and backing up a PostgreSQL store."""

import shlex
import subprocess
from pathlib import Path

import pytest

from hermes.core.errors import StoreError
from hermes.store.postgres.backend import PostgresBackend
from hermes.store.records import SearchRequest
from hermes.store.search import parse_query


def ignore(_done, _total):
    pass


def count_of(client, query):
    everything = SearchRequest(query, limit=5000)
    return len(client.backend.find(client.database, parse_query(query), everything))


def test_a_wrong_index_is_right_after_reindex(client):
    def fill(database):
        for number in range(1200):
            client.insert(database, f"word {number} 数据库", "user", "s", 1.0)

    client.write(fill)
    client.database.change("UPDATE messages SET search = '''wrong'''::tsvector WHERE id > 10")
    assert (count_of(client, "word"), count_of(client, "wrong")) == (10, 1190)
    steps = []
    assert client.backend.reindex(client.database, lambda *step: steps.append(step)) == 1200
    assert steps == [(0, 1200), (500, 1200), (1000, 1200), (1200, 1200)]
    assert (count_of(client, "word"), count_of(client, "wrong")) == (1200, 0)
    assert count_of(client, "1199 数据库") == 1
    client.database.run("DROP INDEX idx_messages_search")
    client.backend.reindex(client.database, ignore)
    assert client.database.rows("SELECT to_regclass('idx_messages_search') IS NULL") == [(False,)]
    assert client.database.rows("SHOW statement_timeout") == [("2min",)]


def test_reindex_inside_a_transaction_and_of_large_messages(client):
    for number in range(3):
        client.say(f"big{number} " + "x " * 1_000_000)
    steps = []
    client.write(lambda own: client.backend.reindex(own, lambda *step: steps.append(step)))
    assert steps == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert count_of(client, "big2") == 1


def test_vacuum_removes_what_lost_connections_left(client):
    client.say("hello")
    client.database.change(
        "INSERT INTO writers (id, token, used_at) VALUES ('gone', 1, now() - interval '31 days')"
    )
    client.backend.vacuum(client.database)
    assert client.database.rows("SELECT id FROM writers") == [(client.database.writer_id,)]
    assert client.contents() == ["hello"]


def test_sizes_grow_with_what_is_stored(client):
    before = client.backend.sizes(client.database)

    def fill(database):
        for number in range(2000):
            client.insert(database, f"{number} " * 50 + f"word{number * 7}", "user", "s", 1.0)

    client.write(fill)
    after = client.backend.sizes(client.database)
    assert after.total > after.search > before.search > 0
    assert after.total > before.total


def test_the_command_for_a_backup_works(server, client, tmp_path):
    client.say("precious")
    target = tmp_path / "my copy.dump"
    with pytest.raises(StoreError, match="tools of PostgreSQL") as caught:
        client.backend.backup(client.database, target, ignore)
    program, *arguments = shlex.split(caught.value.hint.removeprefix("Run: "))
    assert program == "pg_dump"
    subprocess.run([server.programs / program, *arguments], check=True, timeout=60)
    with server.database() as other:
        restore(server.programs, target, other)
        database = PostgresBackend(other).connect()
        assert database.rows("SELECT content FROM messages") == [("precious",)]
        database.close()


def restore(programs: Path, dump: Path, url: str) -> None:
    command = [programs / "pg_restore", "--clean", "--if-exists", f"--dbname={url}", dump]
    subprocess.run(command, check=True, timeout=60)


def test_numbers_come_as_plain_numbers(client):
    client.say("hello")
    [row] = client.database.rows(
        "SELECT sum(id), avg(id), coalesce(sum(token_count), 0), count(*), 0.5 FROM messages"
    )
    assert row == (1, 1.0, 0, 1, 0.5)
    assert [type(value) for value in row] == [int, float, int, int, float]


def test_exact_times_come_back(client):
    at = 1_763_000_000.123456
    client.say("hello", at=at)
    assert client.database.rows("SELECT timestamp FROM messages") == [(at,)]

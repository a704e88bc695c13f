"""Making and migrating the tables of a PostgreSQL store."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from hermes.core.errors import StoreError, StoreTooNew
from hermes.store.postgres import schema
from hermes.store.postgres.backend import PostgresBackend
from hermes.store.records import SearchRequest
from hermes.store.schema import data_tables
from hermes.store.search import parse_query
from tests.postgres_server import USER

TABLES = set(schema.table_names())
OPEN_STORE = """
import sys
from hermes.store.postgres.backend import PostgresBackend
print("ready", flush=True)
sys.stdin.readline()
PostgresBackend(sys.argv[1]).connect().close()
"""


def tables_in(server, url, namespace="public"):
    with server.admin(url.rpartition("/")[2]) as admin:
        rows = admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (namespace,))
        return {row[0] for row in rows}


def columns_of(server, url, table):
    with server.admin(url.rpartition("/")[2]) as admin:
        rows = admin.execute(
            "SELECT column_name, data_type FROM information_schema.columns"
            " WHERE table_name = %s ORDER BY ordinal_position",
            (table,),
        )
        return dict(rows.fetchall())


def test_an_empty_database_gets_the_tables(server, url, client):
    rows = client.database.rows("SELECT version FROM schema_version")
    assert rows == [(6,)]
    assert tables_in(server, url) == TABLES
    columns = columns_of(server, url, "messages")
    assert columns["id"] == "bigint" and columns["timestamp"] == "double precision"
    assert columns_of(server, url, "sessions")["archived_at"] == "double precision"


def test_a_store_that_is_current_opens_where_nothing_may_be_written(server, url, client):
    client.say("hello")
    client.close()
    name = url.rpartition("/")[2]
    with server.admin() as admin:
        admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
    assert client.contents() == ["hello"]


def test_eight_processes_may_make_it_at_once(server, url):
    started = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN_STORE, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for process in started:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    results = [(process.communicate(timeout=60)[1], process.returncode) for process in started]
    assert results == [("", 0)] * 8
    assert tables_in(server, url) == TABLES


def test_eight_threads_may_make_it_at_once(url):
    together = Barrier(8)

    def make(_number):
        together.wait(30)
        database = PostgresBackend(url).connect()
        versions = database.rows("SELECT count(*), max(version) FROM schema_version")
        database.close()
        return versions

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(make, range(8))) == [[(1, 6)]] * 8


@pytest.mark.parametrize("table", ["schema_version", "additions_version"])
def test_a_newer_store_is_refused_and_left_alone(server, url, client, table):
    client.say("hello")
    client.database.change(f"UPDATE {table} SET version = 99")
    client.database.run("DROP INDEX idx_sessions_source")
    client.close()
    with pytest.raises(StoreTooNew, match="version 99"):
        PostgresBackend(url).connect()
    with server.admin(url.rpartition("/")[2]) as admin:
        assert admin.execute(f"SELECT version FROM {table}".encode()).fetchall() == [(99,)]
        assert admin.execute("SELECT to_regclass('idx_sessions_source')").fetchone() == (None,)
        assert admin.execute("SELECT content FROM messages").fetchall() == [("hello",)]


def test_a_store_without_the_additions_gets_them_and_its_messages_are_found(url, client):
    client.say("an old message")
    client.database.run(
        "DROP TABLE additions_version, projections, model_calls, writers;"
        "ALTER TABLE sessions DROP COLUMN archived_at;"
        "ALTER TABLE messages DROP COLUMN search CASCADE, DROP COLUMN codex_reasoning_items;"
        "UPDATE schema_version SET version = 5"
    )
    client.close()
    assert client.database.rows("SELECT version FROM schema_version") == [(6,)]
    assert client.contents() == ["an old message"]
    assert client.database.rows("SELECT archived_at FROM sessions") == [(None,)]
    client.say("a new message")
    found = client.backend.find(client.database, parse_query("message"), SearchRequest("message"))
    assert sorted(one[0] for one in found) == [1, 2]


def test_a_store_from_before_chats_gets_their_tables(server, url, client):
    client.say("an old message")
    later = ", ".join(data_tables()[4:])
    client.database.run(f"DROP TABLE {later}; UPDATE additions_version SET version = 1")
    client.close()
    assert client.contents() == ["an old message"]
    assert tables_in(server, url) == TABLES
    assert client.database.rows("SELECT version FROM additions_version") == [(4,)]


def test_later_tables_of_another_program_are_left_alone(server, url, client):
    client.say("an old message")
    later = ", ".join(data_tables()[4:])
    client.database.run(
        f"DROP TABLE {later}; UPDATE additions_version SET version = 1;"
        "CREATE TABLE chats (id BIGINT, topic TEXT)"
    )
    client.close()
    with pytest.raises(StoreError, match=r"another program.*\['chats'\]"):
        PostgresBackend(url).connect()
    assert set(columns_of(server, url, "chats")) == {"id", "topic"}


def test_the_first_schema_of_the_search_path_holds_the_store(server, url):
    name = url.rpartition("/")[2]
    public = PostgresBackend(url).connect()
    public.change("INSERT INTO sessions (id, source, started_at) VALUES ('p', 'cli', 1.0)")
    public.close()
    with server.admin(name) as admin:
        admin.execute("CREATE SCHEMA team")
    backend = PostgresBackend(server.url(name, options="-csearch_path=team,public"))
    database = backend.connect()
    assert database.rows("SELECT id FROM sessions") == []
    database.close()
    assert tables_in(server, url, "team") == TABLES


def test_a_search_path_without_a_schema_is_explained(server, url):
    name = url.rpartition("/")[2]
    with pytest.raises(StoreError, match="no schema") as caught:
        PostgresBackend(server.url(name, options="-csearch_path=nowhere")).connect()
    assert "CREATE SCHEMA" in caught.value.hint


@pytest.mark.parametrize(
    "foreign",
    [
        "CREATE TABLE sessions (token TEXT)",
        "CREATE TABLE schema_version (version TEXT); CREATE TABLE messages (body TEXT)",
    ],
)
def test_tables_of_another_program_are_left_alone(server, url, foreign):
    with server.admin(url.rpartition("/")[2]) as admin:
        admin.execute(foreign.encode())
    before = tables_in(server, url)
    with pytest.raises(StoreError, match="another program") as caught:
        PostgresBackend(url).connect()
    assert "search_path" in caught.value.hint
    assert tables_in(server, url) == before


def test_a_database_that_cannot_hold_every_script_is_refused(server):
    latin = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
    with server.database(latin) as url, pytest.raises(StoreError, match="LATIN1") as caught:
        PostgresBackend(url).connect()
    assert "createdb --encoding=UTF8" in caught.value.hint


def test_error_for_a_user_without_rights_says_what_to_grant(server, url):
    name = url.rpartition("/")[2]
    with server.admin(name) as admin:
        admin.execute("DROP ROLE IF EXISTS guest")
        admin.execute("CREATE ROLE guest LOGIN")
        admin.execute("REVOKE CREATE ON SCHEMA public FROM public")
    with pytest.raises(StoreError, match="may not") as caught:
        PostgresBackend(server.url(name, user="guest")).connect()
    assert "GRANT" in caught.value.hint and USER not in str(caught.value)

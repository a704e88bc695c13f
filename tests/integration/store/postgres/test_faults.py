"""What a user reads when the server is not as it should be."""

import pytest

from hermes.core.errors import StoreError, StoreFull
from hermes.store.postgres import connection as errors
from hermes.store.postgres.backend import PostgresBackend
from tests.integration.store.postgres.conftest import Client
from tests.integration.store.postgres.proxy import proxy_before
from tests.postgres_server import PASSWORD_USER, free_port, new_server

SECRET = "s3cret/:@ word"


def name_of(url):
    return url.rpartition("/")[2]


def refused(url):
    """The error of opening a store; no part of it shows the password."""
    with pytest.raises(StoreError) as caught:
        PostgresBackend(url).connect()
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in f"{error!r} {error} {getattr(error, 'hint', '')}"
        error = error.__cause__ or error.__context__
    return caught.value


def test_a_server_that_is_not_there(server):
    error = refused(server.url("x", password=SECRET, port=free_port()))
    assert "no PostgreSQL server answers at postgresql://owner@127.0.0.1:" in str(error)
    assert "Connection refused" in str(error) and "Start it" in error.hint


def test_a_socket_that_is_not_there(tmp_path):
    error = refused(f"postgresql:///x?host={tmp_path}&password=none")
    assert "no PostgreSQL server answers" in str(error)


def test_a_wrong_password_and_a_right_one(server, url):
    with server.admin(name_of(url)) as admin:
        admin.execute(f"DROP ROLE IF EXISTS {PASSWORD_USER}".encode())
        admin.execute(f"CREATE ROLE {PASSWORD_USER} LOGIN SUPERUSER PASSWORD '{SECRET}'".encode())
    for password in (SECRET + "x", ""):
        error = refused(server.url(name_of(url), user=PASSWORD_USER, password=password))
        assert "refused the user or the password" in str(error) and ".pgpass" in error.hint
    right = PostgresBackend(server.url(name_of(url), user=PASSWORD_USER, password=SECRET))
    right.connect().close()
    assert SECRET not in right.where


def test_an_unknown_database_and_an_unknown_user(server, url):
    error = refused(server.url("nowhere", password=SECRET))
    assert "there is no database" in str(error) and "createdb" in error.hint
    error = refused(server.url(name_of(url), user="nobody_here", password=SECRET))
    assert "does not know the user" in str(error)


def test_a_machine_that_is_not_let_in(server, url):
    """Only 127.0.0.1 is in pg_hba.conf, and this user only over TCP."""
    error = refused(f"postgresql://owner@/x?host=127.0.0.1&port={server.port}&replication=true")
    assert "does not allow this machine" in str(error) and "pg_hba.conf" in error.hint


@pytest.mark.parametrize(
    "query",
    [{"sslmode": "require"}, {"sslmode": "verify-full", "sslrootcert": "/nowhere/root.crt"}],
)
def test_a_secure_connection_that_cannot_be_had(server, url, query):
    error = refused(server.url(name_of(url), password=SECRET, **query))
    assert "no secure connection" in str(error) and "sslmode" in error.hint


def test_a_server_that_is_too_old(server, url):
    with proxy_before(server.port) as proxy:
        proxy.replace = (b"server_version\x0015.", b"server_version\x0012.")
        error = refused(server.url(name_of(url), port=proxy.port, sslmode="disable"))
    assert "is PostgreSQL 12" in str(error) and "13 or newer" in error.hint


def test_a_server_that_is_starting_up_is_waited_for(server, url):
    with proxy_before(server.port) as proxy:
        address = server.url(name_of(url), port=proxy.port, sslmode="disable")
        proxy.busy_answers = 1
        assert "does not accept connections now" in str(refused(address))
        proxy.busy_answers = 3
        client = Client(address)
        client.say("at last")
        assert client.contents() == ["at last"] and proxy.connections == 5
        client.close()


def test_a_server_that_stays_away_is_reported_and_used_again_when_it_is_back():
    server = new_server(fsync="off")
    try:
        client = Client(server.url("postgres"))
        client.say("one")
        server.stop()
        with pytest.raises(StoreError, match="no PostgreSQL server answers"):
            client.say("two")
        server.start()
        client.say("three")
        assert client.contents() == ["one", "three"]
        client.close()
    finally:
        server.remove()


def test_a_read_only_database(server, url, client):
    client.say("hello")
    with server.admin() as admin:
        statement = f"ALTER DATABASE {name_of(url)} SET default_transaction_read_only = on"
        admin.execute(statement.encode())
    client.close()
    assert "read-only" in error_text(client, lambda: client.say("more"))
    assert client.contents() == ["hello"]


def test_a_full_disk(client):
    """The server says so by the code of its error; here a trigger says it."""
    client.say("kept")
    client.database.run(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$;"
        "CREATE TRIGGER full_disk BEFORE INSERT ON messages EXECUTE FUNCTION full_disk()"
    )
    reported = error_text(client, lambda: client.say("lost"), StoreFull)
    assert "no space left" in reported
    client.database.run("DROP TRIGGER full_disk ON messages")
    client.say("again")
    assert client.contents() == ["kept", "again"]


def test_a_statement_that_takes_too_long(server, url):
    client = Client(server.url(name_of(url), options="-cstatement_timeout=100"))
    reported = error_text(client, lambda: client.database.rows("SELECT pg_sleep(60)"))
    assert "took too long" in reported
    client.close()


def test_settings_of_the_url_win_over_those_of_hermes(server, url):
    plain = Client(url)
    assert plain.database.rows("SHOW lock_timeout") == [("5s",)]
    assert plain.database.rows("SHOW application_name") == [("hermes",)]
    chosen = Client(server.url(name_of(url), options="-clock_timeout=7s"))
    assert chosen.database.rows("SHOW lock_timeout") == [("7s",)]
    for client in (plain, chosen):
        client.close()


def error_text(client, work, kind=StoreError):
    """What the user reads when `work` fails."""
    with pytest.raises(client.backend.errors) as caught:
        client.backend.with_retries(work)
    error = client.backend.as_store_error(caught.value)
    assert type(error) is kind and isinstance(error, StoreError) and error.hint
    assert not client.backend.is_busy(caught.value)
    return str(error)


def test_other_errors_pass_unchanged():
    error = ValueError("x")
    assert errors.as_store_error(error, "here") is error
    assert not errors.is_temporary(error)

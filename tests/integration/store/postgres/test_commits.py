"""Nothing is stored twice and nothing confirmed is lost, whenever the connection goes."""

import signal
import threading

import psycopg
import pytest

from hermes.core.errors import StoreError
from hermes.store.postgres import backend
from hermes.store.postgres.connection import CommitOutcomeUnknown, TemporaryStoreError
from tests.integration.store.postgres.conftest import Client
from tests.integration.store.postgres.proxy import Cut, proxy_before
from tests.postgres_server import free_port, new_server


@pytest.fixture
def proxy(server):
    with proxy_before(server.port) as made:
        yield made


@pytest.fixture
def far(server, url, proxy):
    """A client behind the proxy."""
    made = Client(server.url(url.rpartition("/")[2], port=proxy.port, sslmode="disable"))
    made.say("first")
    made.runs = 0
    yield made
    made.close()


@pytest.mark.parametrize(
    ("cut", "runs"), [(Cut.BEFORE_COMMIT, 2), (Cut.LEFT_BEHIND, 2), (Cut.AFTER_COMMIT, 1)]
)
def test_a_connection_cut_around_commit_stores_the_message_once(far, proxy, client, cut, runs):
    proxy.cut = cut
    number = far.say("second")
    assert far.runs == runs
    assert client.contents() == ["first", "second"]
    assert client.database.rows("SELECT max(id) FROM messages") == [(number,)]
    assert far.say("third") > number
    assert client.contents() == ["first", "second", "third"]


def test_a_connection_cut_at_the_very_commit_stores_every_message_once(far, proxy, client):
    for number in range(30):
        proxy.cut = Cut.AT_COMMIT
        far.say(str(number))
    assert client.contents() == ["first", *map(str, range(30))]


def test_a_commit_of_unknown_outcome_is_reported_and_not_run_again(far, proxy, client, monkeypatch):
    monkeypatch.setattr(backend, "OUTCOME_SECONDS", 0.5)
    proxy.cut = Cut.AFTER_COMMIT
    far.backend._parameters["port"] = free_port()
    with pytest.raises(CommitOutcomeUnknown, match="not known") as caught:
        far.say("second")
    assert far.backend.is_busy(caught.value) and far.backend.as_store_error(caught.value).hint
    assert client.contents() == ["first", "second"]


@pytest.mark.parametrize("after", [[], ["third"]], ids=["before commit", "in the middle"])
def test_a_session_ended_in_a_transaction_is_run_again(server, client, after):
    client.say("first")
    client.runs = 0

    def work(database):
        client.insert(database, "second", "user", "s", 1.0)
        if client.runs == 1:
            with server.admin() as admin:
                admin.execute("SELECT pg_terminate_backend(%s)", (database.backend_pid,))
        for text in after:
            client.insert(database, text, "user", "s", 1.0)

    client.write(work)
    assert client.runs == 2
    assert client.contents() == ["first", "second", *after]


def test_an_idle_connection_that_was_ended_is_replaced_before_it_is_used(server, client):
    client.say("first")
    lost = client.database
    with server.admin() as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 10000)", (lost.backend_pid,))
    assert client.backend.is_stale(lost)
    client.runs = 0
    client.say("second")
    assert client.runs == 1 and client.contents() == ["first", "second"]


def test_a_server_that_crashes_at_commit_keeps_each_message_once():
    """With real durability: what was confirmed is there after the plug was pulled."""
    server = new_server()
    try:
        client = Client(server.url("postgres"))
        reported = []
        ended = threading.Event()

        def talk():
            for number in range(10_000):
                if ended.is_set():
                    return
                try:
                    client.say(str(number))
                except (StoreError, psycopg.Error):
                    continue
                reported.append(str(number))

        talker = threading.Thread(target=talk)
        talker.start()
        for _ in range(3):
            wanted = len(reported) + 20
            while len(reported) < wanted:
                ended.wait(0.01)
            server.stop(how=signal.SIGQUIT)
            server.start()
        ended.set()
        talker.join(60)
        kept = client.contents()
        assert set(reported) <= set(kept) and len(kept) == len(set(kept))
        client.close()
    finally:
        server.remove()


def test_a_deadlock_is_solved_by_trying_again(url, client):
    other = Client(url)
    for session in ("a", "b"):
        client.say("x", session=session)
    meet = threading.Barrier(2)

    def cross(who, first, second):
        def work(database):
            database.change("UPDATE sessions SET title = ? WHERE id = ?", (None, first))
            if who.runs == 1:
                meet.wait(30)
            database.change("UPDATE sessions SET model = ? WHERE id = ?", (first, second))

        who.runs = 0
        who.write(work)

    thread = threading.Thread(target=cross, args=(other, "b", "a"))
    thread.start()
    cross(client, "a", "b")
    thread.join(30)
    assert client.database.rows("SELECT id, model FROM sessions ORDER BY id") == [
        ("a", "b"),
        ("b", "a"),
    ]
    assert client.runs + other.runs == 3
    other.close()


def test_of_two_writers_of_the_same_title_one_is_refused(url, client):
    """Both looked and saw that it was free; the second look of the later one sees the first."""
    other = Client(url)
    for session in ("a", "b"):
        client.say("x", session=session)
    seen = []

    def work(database):
        taken = database.rows("SELECT id FROM sessions WHERE title = 'plan'")
        seen.append(taken)
        if len(seen) == 1:
            other.write(
                lambda theirs: theirs.change("UPDATE sessions SET title = 'plan' WHERE id = 'b'")
            )
        if not taken:
            database.change("UPDATE sessions SET title = 'plan' WHERE id = 'a'")

    client.write(work)
    assert seen == [[], [("b",)]]
    other.close()


def test_a_suppressed_failure_does_not_pass_for_a_commit(client):
    client.say("first")

    def work(database):
        client.insert(database, "second", "user", "s", 1.0)
        with pytest.raises(psycopg.errors.DivisionByZero):
            database.rows("SELECT 1 / 0")

    with pytest.raises(StoreError, match="rolled a change back"):
        client.write(work)
    assert client.contents() == ["first"]
    client.say("third")


def test_error_rolls_back_the_transaction_and_the_connection_stays_usable(client):
    client.say("first")

    def work(database):
        client.insert(database, "second", "user", "s", 1.0)
        raise KeyError("x")

    with pytest.raises(KeyError):
        client.write(work)
    client.say("third")
    assert client.contents() == ["first", "third"]


def test_a_lock_that_another_holds_for_long_is_reported(server, url, client):
    client.say("first")
    client.close()
    impatient = Client(server.url(url.rpartition("/")[2], options="-clock_timeout=20"))
    with server.admin(url.rpartition("/")[2]) as admin, admin.transaction():
        admin.execute("LOCK TABLE messages IN EXCLUSIVE MODE")
        with pytest.raises(psycopg.errors.LockNotAvailable) as caught:
            impatient.say("second")
    assert impatient.runs == 15
    error = impatient.backend.as_store_error(caught.value)
    assert isinstance(error, TemporaryStoreError) and "held by another process" in str(error)
    impatient.close()


def test_connections_leave_no_trace_when_they_are_closed(url, client):
    for _ in range(3):
        other = Client(url)
        other.say("x")
        other.close()
    assert client.database.rows("SELECT count(*) FROM writers") == [(0,)]

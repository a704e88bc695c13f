"""Several processes on one auth.json: nothing is lost, and no token is burnt."""

import signal
import time
from collections import Counter

from hermes.providers.credentials.auth_file import AuthFile, KeyEntry, put_entry
from hermes.providers.login.tokens import StoredLogin, Tokens
from tests.integration.auth.conftest import Start
from tests.unit.providers.credentials.oauth_server import CLIENT


def test_keys_added_at_once_are_all_there(start: Start, store: AuthFile) -> None:
    processes = [start("add", store.path, name, 20) for name in "abcd"]
    assert [process.wait(60) for process in processes] == [0, 0, 0, 0]
    found = Counter(entry["id"][7] for entry in store.read()["credential_pool"]["shop"])
    assert found == {"a": 20, "b": 20, "c": 20, "d": 20}
    assert store.path.stat().st_mode & 0o777 == 0o600


def test_a_process_killed_while_writing_leaves_a_whole_file(start: Start, store: AuthFile) -> None:
    with store.change() as data:
        data["providers"] = {"shop": {"access_token": "precious"}}
    for round_ in range(8):
        process = start("write", store.path)
        assert process.stdout is not None
        process.stdout.read(2)
        time.sleep(0.003 * round_)  # another instant of the write each time
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        data = store.read()
        assert data["providers"]["shop"]["access_token"] == "precious"
        assert len(set(data["filler"])) == 1
    with store.change() as data:  # the lock of the dead is free
        data["filler"] = []
    assert {file.name for file in store.path.parent.iterdir()} == {"auth.json", ".auth.lock"}


def test_processes_that_renew_at_once_burn_one_refresh_token(start, store, server):
    place = StoredLogin(store, "shop")
    url = f"{server.url}/token"
    place.save(Tokens("old", "refresh-0", time.time(), token_url=url, client_id=CLIENT))
    server.delay = 1.0
    processes = [start("take", store.path, 1, "fill_first") for _ in range(4)]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert outputs == [b"access-1\n"] * 4
    assert (server.refreshes, server.reused) == (1, 0)
    kept = place.read()
    assert kept is not None
    assert kept.refresh_token == "refresh-1"


def test_processes_take_turns_with_the_keys(start: Start, store: AuthFile) -> None:
    with store.change() as data:
        for name in "ab":
            put_entry(
                data, "shop", KeyEntry(f"manual:{name}", source="manual", secret=f"key-{name}")
            )
    processes = [start("take", store.path, 10, "round_robin") for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0].decode().split() for process in processes]
    assert Counter(key for output in outputs for key in output) == {"key-a": 10, "key-b": 10}
    assert [entry["uses"] for entry in store.read()["credential_pool"]["shop"]] == [10, 10]

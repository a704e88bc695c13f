"""auth.json is private, whole, and never thrown away."""

import json
import logging
from pathlib import Path

import pytest

from hermes.core.errors import ConfigError
from hermes.providers.credentials.auth_file import AuthFile


@pytest.fixture
def store(tmp_path: Path) -> AuthFile:
    return AuthFile(tmp_path / "home" / "auth.json")


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_without_a_file_there_is_nothing_and_looking_makes_none(store: AuthFile) -> None:
    assert store.read() == {"version": 1}
    assert not store.path.parent.exists()


def test_only_the_owner_may_open_it(store: AuthFile) -> None:
    with store.change() as data:
        data["providers"] = {"shop": {"access_token": "t"}}
    assert mode_of(store.path) == 0o600
    assert mode_of(store.path.parent) == 0o700
    assert mode_of(store.lock_path()) == 0o600
    assert store.read() == {"version": 1, "providers": {"shop": {"access_token": "t"}}}


def test_file_readable_by_others_is_closed_with_a_warning(store, caplog):
    store.path.parent.mkdir()
    store.path.write_text("{}")
    store.path.chmod(0o644)
    with caplog.at_level(logging.WARNING), store.change() as data:
        data["x"] = 1
    assert mode_of(store.path) == 0o600
    assert "could be opened by other users" in caplog.text
    caplog.clear()
    with store.change() as data:
        data["x"] = 2
    assert caplog.text == ""


def test_foreign_fields_are_preserved(store: AuthFile) -> None:
    store.path.parent.mkdir()
    foreign = {"version": 1, "theirs": [1, {"deep": None}], "providers": {"p": {"odd": True}}}
    store.path.write_text(json.dumps(foreign))
    with store.change() as data:
        data["credential_pool"] = {}
    assert json.loads(store.path.read_text()) == {**foreign, "credential_pool": {}}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"\xff\xfe{}",
        b'{"providers": []}',
        b'{"providers": {"shop": "token"}}',
        b'{"credential_pool": {"shop": {}}}',
        b'{"credential_pool": null}',
    ],
)
def test_damaged_file_is_reported_and_not_changed(store: AuthFile, text: bytes) -> None:
    store.path.parent.mkdir()
    store.path.write_bytes(text)
    with pytest.raises(ConfigError, match="is damaged") as caught:
        store.read()
    assert "move it away" in caught.value.hint
    with pytest.raises(ConfigError, match="is damaged"), store.change() as data:
        data.clear()
    assert store.path.read_bytes() == text


def test_file_of_a_later_version_is_not_changed(store: AuthFile) -> None:
    store.path.parent.mkdir()
    store.path.write_text('{"version": 2}')
    with pytest.raises(ConfigError, match="later version"):
        store.read()


def test_a_folder_in_its_place_is_one_clear_line(store: AuthFile) -> None:
    store.path.mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot use"):
        store.read()


def test_failed_change_writes_nothing(store: AuthFile) -> None:
    with store.change() as data:
        data["x"] = 1
    with pytest.raises(RuntimeError), store.change() as data:
        data["x"] = 2
        raise RuntimeError
    assert store.read()["x"] == 1


def test_no_change_writes_nothing(store: AuthFile) -> None:
    with store.change() as data:
        data["x"] = 1
    before = store.path.stat().st_ino
    with store.change() as data:
        data["x"] = 1
    assert store.path.stat().st_ino == before


def test_a_link_stays_a_link_and_shares_the_lock(store: AuthFile, tmp_path: Path) -> None:
    with store.change() as data:
        data["x"] = 1
    (tmp_path / "other").mkdir()
    linked = AuthFile(tmp_path / "other" / "auth.json")
    linked.path.symlink_to(store.path)
    with linked.change() as data:
        data["x"] = 2
    assert linked.path.is_symlink()
    assert store.read()["x"] == 2
    assert linked.lock_path() == store.lock_path()


def test_lock_held_for_long_is_reported(store: AuthFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.providers.credentials.auth_file.LOCK_SECONDS", 0.05)
    with (
        store.change(),
        pytest.raises(ConfigError, match="another process is changing"),
        store.change(),
    ):
        pass


def test_a_change_by_another_process_is_seen_at_once(store: AuthFile) -> None:
    other = AuthFile(store.path)
    for number in range(20):
        with store.change() as data:
            data["x"] = number
        assert other.read()["x"] == number
        assert other.read() is not other.read()

"""Two gateways with one token."""

import os
from pathlib import Path

import pytest

from hermes.gateway.platforms.kit.connection import (
    TokenInUse,
    acquire_scoped_lock,
    release_scoped_lock,
)
from hermes.gateway.platforms.kit.contract import NotConnected

TOKEN = "123:secret-token"


def test_the_second_is_told_who_has_it(tmp_path: Path) -> None:
    lock = acquire_scoped_lock("telegram", TOKEN, tmp_path, holder="profile work")
    with pytest.raises(TokenInUse) as caught:
        acquire_scoped_lock("telegram", TOKEN, tmp_path)
    assert f"process {os.getpid()}, profile work" in str(caught.value)
    assert "hermes gateway stop" in caught.value.hint
    assert isinstance(caught.value, NotConnected)  # so it is tried again
    release_scoped_lock(lock)
    release_scoped_lock(acquire_scoped_lock("telegram", TOKEN, tmp_path))


def test_other_tokens_and_platforms_are_free(tmp_path: Path) -> None:
    locks = [
        acquire_scoped_lock(scope, token, tmp_path)
        for scope, token in (("telegram", TOKEN), ("telegram", "other"), ("discord", TOKEN))
    ]
    for lock in locks:
        release_scoped_lock(lock)


def test_the_token_is_written_nowhere(tmp_path: Path) -> None:
    lock = acquire_scoped_lock("telegram", TOKEN, tmp_path)
    for path in tmp_path.iterdir():
        assert "secret" not in path.name
        assert b"secret" not in path.read_bytes()
        assert not path.stat().st_mode & 0o077
    release_scoped_lock(lock)


def test_giving_it_back_twice_or_never_having_had_it_is_fine(tmp_path: Path) -> None:
    lock = acquire_scoped_lock("telegram", TOKEN, tmp_path)
    release_scoped_lock(lock)
    release_scoped_lock(lock)
    release_scoped_lock(None)

"""`hermes auth add` with a person at a terminal."""

from collections.abc import Callable, Iterator

import pexpect
import pytest

from hermes.providers.credentials.auth_file import AuthFile
from tests.integration.auth.conftest import ACTOR, ROOT, environment
from tests.unit.providers.credentials.oauth_server import OAuthServer

Spawn = Callable[..., "pexpect.spawn[str]"]


@pytest.fixture
def spawn(server: OAuthServer) -> Iterator[Spawn]:
    spawned: list[pexpect.spawn[str]] = []

    def spawn(*words: str) -> "pexpect.spawn[str]":
        command, *arguments = [*ACTOR, "hermes", server.url, "auth", *words]
        child = pexpect.spawn(
            command, arguments, cwd=str(ROOT), env=environment(), encoding="utf-8", timeout=30
        )
        spawned.append(child)
        return child

    yield spawn
    for child in spawned:
        child.close(force=True)


def end_of(child: "pexpect.spawn[str]") -> tuple[str, int | None]:
    child.expect(pexpect.EOF)
    child.close()
    return child.before or "", child.exitstatus


def test_the_key_is_asked_for_and_not_shown(spawn: Spawn, store: AuthFile) -> None:
    child = spawn("add", "openrouter")
    child.expect("it is not shown")
    child.sendline("sk-or-v1-0123456789abcdef")
    text, code = end_of(child)
    assert code == 0
    assert "added sk-o…cdef to openrouter" in text
    assert "0123456789" not in text
    (entry,) = store.read()["credential_pool"]["openrouter"]
    assert entry["secret"] == "sk-or-v1-0123456789abcdef"


def test_no_key_is_an_error(spawn: Spawn, store: AuthFile) -> None:
    child = spawn("add", "openrouter")
    child.expect("it is not shown")
    child.sendline("")
    text, code = end_of(child)
    assert (code, "the key is empty" in text) == (2, True)
    assert not store.path.exists()


def test_ctrl_c_ends_the_wait_for_a_login(spawn, server, store):
    server.polls = ["authorization_pending"] * 100
    child = spawn("add", "shop")
    child.expect("ABCD-1234")
    child.expect("Ctrl-C stops")
    child.sendintr()
    text, code = end_of(child)
    assert (code, "nothing was stored" in text) == (130, True)
    assert "Traceback" not in text
    assert not store.path.exists()


def test_a_login_is_kept_and_shown(spawn: Spawn, server: OAuthServer, store: AuthFile) -> None:
    server.interval = 0
    text, code = end_of(spawn("add", "shop"))
    assert (code, "logged in for shop" in text) == (0, True)
    text, code = end_of(spawn("list", "shop"))
    assert (code, "login in ~/.hermes/auth.json" in text) == (0, True)

"""`hermes mcp` with settings that make no sense, and with names that are nearly the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes.config.dotenv import read_dotenv
from tests.unit.cli.test_mcp import Run, config, hermes, servers

__all__ = ["config", "hermes", "servers"]


def test_an_address_that_makes_no_sense_does_not_spoil_the_list(hermes: Run, config: Path) -> None:
    config.write_text("mcp_servers:\n  bad: {url: 'http://me:secret@['}\n")
    listed = hermes("list")
    assert listed.code == 0
    assert "✗ bad  wrong settings" in listed.out
    assert "its `url` is not a web address (it must start with https://)" in listed.out
    assert "secret" not in listed.out
    tested = hermes("test", "bad")
    assert (tested.code, tested.out) == (
        1,
        "✗ settings: its `url` is not a web address (it must start with https://)\n",
    )


def test_servers_with_nearly_the_same_name_keep_their_own_secrets(
    hermes: Run, config: Path, servers: Callable[[], Any], hermes_home: Path
) -> None:
    for name, secret in (("a-b", "one"), ("a_b", "two"), ("A-B", "three")):
        words = ("--url", "https://x.example/mcp", "--header", f"X-Key={secret}", "--no-test")
        assert hermes("add", name, *words).code == 0
    assert {name: each.headers["X-Key"] for name, each in servers().items()} == {
        "a-b": "one",
        "a_b": "two",
        "A-B": "three",
    }
    assert hermes("remove", "a-b", "--yes").code == 0
    assert sorted(read_dotenv(hermes_home / ".env").values()) == ["three", "two"]

"""Web sites the user does not want to be opened."""

import logging
from pathlib import Path

import pytest

from hermes.security import Blocklist
from hermes.security.urls import KEPT_SECONDS
from tests.cases import cases

CASES = cases(__file__)


@pytest.mark.parametrize(("entry", "blocked", "free"), CASES["entries"])
def test_entries(entry: str, blocked: list[str], free: list[str]) -> None:
    blocklist = Blocklist([entry])
    assert all(blocklist.matching_entry(host) for host in blocked)
    assert not any(blocklist.matching_entry(host) for host in free)


def test_shared_files_are_read_again_after_a_while(tmp_path: Path) -> None:
    shared = tmp_path / "sites.txt"
    shared.write_text("# not these\n\nbad.example  # a comment\n*.ads.example\n")
    time = [1_000.0]
    blocklist = Blocklist(files=[shared], now=lambda: time[0])
    assert blocklist.matching_entry("bad.example") == "bad.example"
    assert blocklist.matching_entry("x.ads.example") == "*.ads.example"
    shared.write_text("worse.example\n")
    time[0] += KEPT_SECONDS - 1
    assert blocklist.matching_entry("bad.example")
    time[0] += 1
    assert not blocklist.matching_entry("bad.example")
    assert blocklist.matching_entry("worse.example")


def test_a_missing_file_or_odd_entry_is_logged_and_the_rest_counts(tmp_path, caplog):
    blocklist = Blocklist(["[::", "bad.example"], [tmp_path / "none.txt"])
    with caplog.at_level(logging.WARNING):
        assert blocklist.matching_entry("bad.example")
    assert "none.txt cannot be read" in caplog.text
    assert "'[::' is not a site" in caplog.text

import asyncio
import re
from datetime import UTC, datetime

import pytest

from hermes.util.concurrency import current_session, in_session
from hermes.util.text import (
    clean,
    cut_middle,
    human_duration,
    human_size,
    new_session_id,
    parse_duration,
)


def test_clean_drops_only_what_cannot_be_stored():
    assert clean("a\x00b\ud800c\n🙂\x7f") == "abc\n🙂\x7f"


def test_cut_middle_keeps_head_and_tail_and_says_how_much_is_missing():
    text = "H" * 50 + "T" * 50
    cut = cut_middle(text, 10)
    assert cut == "HHHHH\n[... 90 characters left out ...]\nTTTTT"
    assert cut_middle("short", 5) == "short"
    assert cut_middle("abc", 1) == "a\n[... 2 characters left out ...]\n"


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (491_000_000, "491.0 MB")]
)
def test_sizes_read_as_people_write_them(count, shown):
    assert human_size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.4, "0s"), (42, "42s"), (303, "5m 3s"), (3600, "1h"), (7805, "2h 10m"), (273_600, "3d 4h")],
)
def test_durations_show_two_units_at_most(seconds, shown):
    assert human_duration(seconds) == shown


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("5m", 300), ("2h", 7200), ("1D", 86400), ("5", None), ("", None), ("h2", None)],
)
def test_durations_are_understood(text, seconds):
    assert parse_duration(text) == seconds


def test_session_ids_sort_by_time_and_differ():
    moment = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    first, second = new_session_id(moment), new_session_id(moment)
    assert re.fullmatch(r"20260304_050607_[0-9a-f]{8}", first)
    assert first != second


async def test_tasks_started_in_a_session_know_it_and_others_do_not():
    async def seen() -> str:
        await asyncio.sleep(0)
        return current_session()

    with in_session("one"):
        inside = asyncio.create_task(seen())
    assert (await inside, await seen()) == ("one", "")

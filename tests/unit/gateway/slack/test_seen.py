"""How far Slack was read."""

from pathlib import Path

from hermes.gateway.platforms.slack.ids import ts_at
from hermes.gateway.platforms.slack.seen import LONGEST_AWAY, MOST_THREADS, OVERLAP, Seen

NOW = 1_700_000_000.0


def name(seconds: float) -> str:
    return f"C1:{ts_at(NOW + seconds)}"


def since(seen: Seen, now: float = NOW + 1000) -> float:
    return float(seen.missed_since(now)) - NOW


def begun(path: Path) -> Seen:
    seen = Seen(path)
    seen.begin(NOW)
    return seen


def again(seen: Seen, path: Path) -> Seen:
    seen.write()
    return Seen(path)


def test_the_first_time_there_is_nothing_to_make_up_for(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    seen = Seen(path)
    assert not seen.begin(NOW)
    assert again(seen, path).begin(NOW + 5)


def test_what_is_not_done_is_asked_for_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    seen = begun(path)
    seen.wait_for(name(10))
    seen.wait_for(name(20))
    seen.done(name(20))
    after = again(seen, path)
    assert since(after) < 10
    assert after.is_done(name(20))
    assert not after.is_known(name(10))
    seen.done(name(10))
    assert round(since(again(seen, path))) == 20 - OVERLAP


def test_nothing_counts_for_good_while_something_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    seen = again(begun(path), path)
    assert seen.begin(NOW + 50)
    seen.done(name(60))
    assert round(since(seen)) == -OVERLAP
    seen.nothing_missed()
    assert round(since(seen)) == 60 - OVERLAP


def test_what_is_too_old_is_left_alone(tmp_path: Path) -> None:
    seen = begun(tmp_path / "seen.json")
    later = NOW + 10 * LONGEST_AWAY
    assert since(seen, later) == 9 * LONGEST_AWAY


def test_threads_are_remembered_and_the_oldest_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    seen = begun(path)
    for number in range(MOST_THREADS + 1):
        seen.add_thread("T2/C1", ts_at(NOW + number))
    after = again(seen, path)
    assert after.talks_in("T2/C1", ts_at(NOW + 1))
    assert not after.talks_in("T2/C1", ts_at(NOW))
    assert not after.talks_in("C1", ts_at(NOW + 1))
    assert after.threads_of("T2/C1", 1) == [ts_at(NOW + MOST_THREADS)]


def test_a_broken_file_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    path.write_text("{")
    assert not Seen(path).begin(NOW)

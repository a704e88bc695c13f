"""The ledger and its output files, also after the process was killed at any instant."""

import shutil
from pathlib import Path

import pytest

from hermes.batch import ItemResult, number_items, read_items
from hermes.batch.ledger import LedgerChanges, RunLedger
from hermes.core.errors import StoreCorrupt, UsageError
from hermes.core.model import Usage
from tests.fakes.batch_work import counts

ROWS = [{"n": n} for n in range(6)]
FILE = "batch_001_output.jsonl"


def items(rows=ROWS):
    return list(number_items(rows, "f"))


def finished(*numbers: int) -> LedgerChanges:
    changes = LedgerChanges()
    for number in numbers:
        key, line = items()[number].key, b'{"n":%d}' % number
        result = ItemResult(key=key, state="done", line=line, usage=Usage(5), cost_usd=0.5)
        changes.results[key] = (result, FILE)
    return changes


def opened(folder: Path, rows=ROWS) -> RunLedger:
    ledger = RunLedger(folder)
    ledger.add_items(items(rows))
    return ledger


def test_counts_add_up_and_rows_have_what_was_stored(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    keys = [item.key for item in items()]
    changes = finished(0)
    changes.leased = dict.fromkeys(keys[:4], ("worker-1", 5.0))
    failed = ItemResult(key=keys[1], state="failed", reason="it broke", boundary="sandbox")
    changes.results[keys[1]] = (failed, "")
    changes.results[keys[2]] = (ItemResult(key=keys[2], state="discarded", reason="dull"), "")
    ledger.apply(changes, 0.75)
    assert ledger.counts() == counts(2, 1, 1, 1, 1)
    ledger.close()
    records = list(read_items(tmp_path))
    assert [r.key for r in records] == keys
    assert [r.attempts for r in records] == [1, 1, 1, 1, 0, 0]
    assert (records[0].usage, records[0].cost_usd, records[0].file) == (Usage(5), 0.5, FILE)
    assert (records[1].reason, records[1].boundary, records[1].file) == ("it broke", "sandbox", "")
    assert [r.key for r in read_items(tmp_path, "failed")] == [keys[1]]


def test_leases_end_with_the_process(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    changes = LedgerChanges()
    changes.leased = {items()[0].key: ("worker-1", 5.0)}
    ledger.apply(changes, 0.0)
    ledger.close()
    again = opened(tmp_path)
    assert again.counts()["pending"] == 6
    again.close()


def test_new_rows_are_added_and_missing_ones_are_kept_and_not_counted(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.apply(finished(0, 1), 0.0)
    ledger.close()
    ledger = RunLedger(tmp_path)
    dataset = ledger.add_items(items([*ROWS[1:], {"n": 99}]))
    assert (dataset.items, dataset.new, dataset.missing) == (6, 1, 1)
    assert ledger.counts() == counts(5, 0, 1, 0, 0)
    dataset = ledger.add_items(items())
    assert (dataset.new, dataset.missing, ledger.counts()["done"]) == (0, 1, 2)
    ledger.close()


def test_two_items_with_one_key_are_refused(tmp_path: Path) -> None:
    ledger = RunLedger(tmp_path)
    with pytest.raises(UsageError, match="1 items of the dataset have the key of another"):
        ledger.add_items([*items(), items()[0]])
    assert sum(ledger.counts().values()) == 0
    ledger.close()


def test_file_is_completed_from_any_point_at_which_the_process_was_killed(tmp_path: Path) -> None:
    """The ledger has stored lines; the file has any part of them, or garbage."""
    (tmp_path / "run").mkdir()
    ledger = opened(tmp_path / "run")
    ledger.apply(finished(0, 1), 0.0)
    ledger.sync()
    ledger.apply(finished(2, 3), 0.0)  # not synced yet
    content = (tmp_path / "run" / FILE).read_bytes()
    assert content.count(b"\n") == 4
    synced = len(content) // 2
    for size in range(synced, len(content) + 1):
        copy = tmp_path / f"killed-{size}"
        shutil.copytree(tmp_path / "run", copy)
        (copy / FILE).write_bytes(content[:size])
        again = RunLedger(copy)
        assert (copy / FILE).read_bytes() == content
        again.apply(finished(4), 0.0)
        again.close()
        assert (copy / FILE).read_bytes() == content + b'{"n":4}\n'
        assert not list(copy.glob("*.unknown"))
    ledger.close()


def test_bytes_that_the_run_did_not_write_are_kept_in_another_file(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.apply(finished(0), 0.0)
    ledger.close()
    with (tmp_path / FILE).open("ab") as file:
        file.write(b"a note of the user")
    RunLedger(tmp_path).close()
    assert (tmp_path / FILE).read_bytes() == b'{"n":0}\n'
    assert (tmp_path / f"{FILE}.unknown").read_bytes() == b"a note of the user"


def test_file_that_lost_lines_is_refused(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.apply(finished(0, 1), 0.0)
    ledger.close()
    (tmp_path / FILE).write_bytes(b'{"n":0}\n')
    with pytest.raises(UsageError, match="lines are missing"):
        RunLedger(tmp_path)
    (tmp_path / FILE).unlink()
    with pytest.raises(UsageError, match="has 0 bytes"):
        RunLedger(tmp_path)


def test_damaged_ledger_is_reported(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"this is not a database, but longer than a header" * 20)
    with pytest.raises(StoreCorrupt, match="damaged"):
        RunLedger(tmp_path)


def test_failed_items_become_pending_when_asked_for(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    key = items()[0].key
    changes = LedgerChanges()
    changes.results[key] = (ItemResult(key=key, state="failed", reason="r"), "")
    ledger.apply(changes, 0.0)
    assert ledger.find_unfinished([key]) == set()
    assert ledger.retry_failed() == 1
    assert ledger.find_pending([key]) == {key: 0}
    ledger.close()

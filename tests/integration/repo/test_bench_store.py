"""The benchmark of the session store runs, and its corpus never changes by chance."""

import json
import subprocess
import sys
from pathlib import Path

from bench.store import TARGETS, Target
from bench.store_corpus import LONG_SESSION, corpus, queries

ROOT = Path(__file__).resolve().parents[3]


def test_a_small_run_measures_every_row(tmp_path):
    result = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench.store", "--messages", "200", "--json", str(result)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(result.read_text())["rows"]
    for row, figure in TARGETS:
        assert rows[row]["hermes"][figure] >= 0
        assert f"{row} " in done.stdout
    for way in ("alone", "grouped"):
        assert rows[f"append {way}"]["hermes"]["errors"] == 0
        assert rows[f"4 processes {way}"]["hermes"]["missing"] == 0
    assert rows["load"]["hermes"]["messages"] == 48


def test_the_corpus_is_always_the_same_and_shaped_like_conversations():
    lines = list(corpus(2000))
    assert lines == list(corpus(2000))
    assert len(lines) == 2000
    assert sum(line["session"] == LONG_SESSION for line in lines) == 500
    assert all(50 <= len(line["content"]) <= 2000 for line in lines)
    cjk = sum(any(character > "\u3000" for character in line["content"]) for line in lines)
    assert 0.04 < cjk / len(lines) < 0.12
    assert {line["role"] for line in lines} == {"user", "assistant", "tool"}


def test_every_kind_of_query_finds_something_in_a_larger_corpus():
    texts = [line["content"] for line in corpus(4000)]
    for kind in ("word", "CJK 3+", "CJK 2"):
        assert any(query in text for query in queries()[kind] for text in texts)


def test_a_target_is_a_limit_or_a_share_of_the_peer():
    assert Target(0.25).bound(None) == Target(0.25).bound(9.0) == 0.25
    assert Target(share=0.5).bound(8.0) == 4.0
    assert Target(share=0.5).bound(None) is None

"""The facts in their SQLite file, and their vectors."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from hermes.core.errors import StoreError
from hermes_plugins.memory.holographic.store import FactStore, open_facts
from tests.unit.memory.holographic.conftest import Memory, Open

WRITER = """
import json, sys
from hermes_plugins.memory.holographic import HolographicProvider as Holographic
home, name = sys.argv[1:]
provider = Holographic()
provider.initialize(name, hermes_home=home)
print("ready", flush=True)
sys.stdin.readline()
for number in range(25):
    told = {"action": "add", "content": f"Machine {name}x{number} stands in hall {name}"}
    answer = json.loads(provider.handle_tool_call("fact_store", told))
    assert "added" in answer, answer
    provider.sync_turn("Remember that both processes say this.", "")
    assert provider.prefetch(f"machine {name}x{number}")
provider.shutdown()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "home" / "holographic" / "memory.db"


def test_two_processes_write_at_the_same_time(session: Open, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, home, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, problems = writer.communicate(timeout=100)
        assert writer.returncode == 0, problems
    held = session().holds()
    assert len(held) == 51
    assert "Both processes say this." in held


@pytest.mark.parametrize(
    "damage", [b"this is no database" * 100, b"\0" * 8192, b"SQLite format 3\0"]
)
def test_a_damaged_file_is_set_aside_and_a_fresh_one_made(session, file, told, damage):
    file.parent.mkdir(parents=True)
    file.write_bytes(damage)
    memory = session()
    memory.says("My editor is vim.")
    assert memory.recalls("which editor?") == ['user said: "My editor is vim."']
    (aside,) = file.parent.glob("memory.db.damaged-*")
    assert aside.read_bytes() == damage
    (line,) = told
    assert aside.name in line


def test_damage_inside_the_file_is_noticed_when_it_is_opened(session, file, told):
    memory = session()
    for number in range(200):
        memory.does("add", f"Machine m{number} stands in hall {number}")
    memory.provider.shutdown()
    data = bytearray(file.read_bytes())
    data[4096 * 2 :] = b"\xee" * (len(data) - 4096 * 2)
    file.write_bytes(data)
    later = session("s2")
    later.says("My editor is vim.")
    assert later.holds() == {"My editor is vim."}
    assert len(told) == 1 and "\n" not in told[0]


def test_damage_that_shows_in_the_middle_of_a_session_is_survived(memory: Memory) -> None:
    memory.says("My editor is vim.")
    attempts: list[FactStore] = []

    def work(facts: FactStore) -> int:
        attempts.append(facts)
        if len(attempts) == 1:
            raise apsw.CorruptError("database disk image is malformed")
        return facts.count()

    assert memory.provider._facts.use(work) == 1
    assert attempts[0] is not attempts[1], "it was opened, and so checked, again"


def test_a_file_that_was_deleted_is_made_anew(session: Open, file: Path) -> None:
    memory = session()
    memory.says("My editor is vim.")
    for each in file.parent.iterdir():
        each.unlink()
    assert memory.recalls("editor") == []
    memory.says("I live in Berlin.")
    assert session("s2").holds() == {"I live in Berlin."}


def test_a_file_of_a_later_version_is_left_alone(file: Path) -> None:
    open_facts(file, print).close()
    connection = apsw.Connection(str(file))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="later version"):
        open_facts(file, print)


def test_only_the_owner_can_read_it(memory: Memory, file: Path) -> None:
    memory.says("My editor is vim.")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_place_that_cannot_be_used_is_an_error_with_a_hint(file: Path) -> None:
    file.parent.parent.mkdir(parents=True)
    file.parent.write_text("a file where a folder should be")
    with pytest.raises(StoreError, match="cannot be used") as caught:
        open_facts(file, print)
    assert caught.value.hint


MEANINGS = {"dog": 0, "puppy": 0, "hound": 0, "car": 1, "automobile": 1, "vehicle": 1}


class Meanings:
    """Counts how often a text speaks of dogs and of cars."""

    name = "meanings"

    def embed(self, text: str) -> Sequence[float]:
        vector = [0.0, 0.0]
        for word in text.lower().rstrip(".?").split():
            if word in MEANINGS:
                vector[MEANINGS[word]] += 1
        return vector


def test_a_fact_is_found_by_what_it_means(session: Open) -> None:
    memory = session(embedder=Meanings())
    memory.does("add", "Rex the dog sleeps outside")
    memory.does("add", "An automobile stands in the yard")
    assert memory.recalls("where is the puppy?") == ["Rex the dog sleeps outside"]
    assert memory.recalls("my vehicle") == ["An automobile stands in the yard"]
    assert session("s2").recalls("where is the puppy?") == [], "without a model words decide"


def test_facts_from_before_the_model_get_their_vectors(session: Open) -> None:
    session().does("add", "Rex the dog sleeps outside")
    assert session("s2", embedder=Meanings()).recalls("puppy?") == ["Rex the dog sleeps outside"]


def test_missing_package_falls_back_to_word_search_and_is_reported(session, tmp_path, told):
    home = tmp_path / "home"
    home.mkdir()
    (home / "holographic.json").write_text('{"embedding_model": "/nowhere/at/all"}')
    memory = session()
    memory.does("add", "Rex the dog sleeps outside")
    assert memory.recalls("dog") == ["Rex the dog sleeps outside"]
    assert len(told) == 1 and "by words only" in told[0]

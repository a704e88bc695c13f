"""Search by meaning, with a small model of our own: it knows what two words have in common."""

from collections.abc import Sequence
from pathlib import Path

from tests.unit.memory.holographic.conftest import Open

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


def test_without_the_package_search_goes_by_words_and_the_user_is_told(
    session: Open, tmp_path: Path, told: list[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "holographic.json").write_text('{"embedding_model": "/nowhere/at/all"}')
    memory = session()
    memory.does("add", "Rex the dog sleeps outside")
    assert memory.recalls("dog") == ["Rex the dog sleeps outside"]
    assert len(told) == 1 and "by words only" in told[0]

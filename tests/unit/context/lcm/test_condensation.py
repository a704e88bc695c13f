"""Compaction after compaction: the notes stay small and everything below them can be reached."""

import pytest

from hermes.context.compressor import compute_sizes
from hermes.context.engine import SummaryModel
from hermes.context.lcm import LcmEngine
from hermes.context.lcm.notes import NoteNode, notes_in
from hermes.core.model import text_tokens
from tests.unit.context.lcm.conversations import (
    SMALL,
    WINDOW,
    Conversation,
    answered,
    failing,
    reply,
    summariser,
    user,
)

WORDY = summariser(lambda asked: " ".join(asked.split()[:800:2]))

MOST_TOKENS = 600 + compute_sizes(WINDOW, SMALL).facts
"""Of a message of notes: 300 for the texts of nodes, their headers, the opening, and the facts."""


def work(talk: Conversation, name: str) -> None:
    """A stretch of work that is worth a compaction."""
    talk.say(user(f"Task {name}: {'please ' * 40}"))
    for step in range(8):
        path = f"src/{name}_{step}.py"
        talk.say(*answered(f"{name}{step}", "read_file", f'{{"path": "{path}"}}', "code\n" * 80))
    talk.say(reply(f"Task {name} is done."))


def long_talk(summarisers: tuple[SummaryModel, ...], compactions: int = 12) -> Conversation:
    talk = Conversation(LcmEngine(WINDOW, SMALL), summarisers)
    for number in range(compactions):
        work(talk, f"t{number}")
        talk.compact()
    return talk


def nodes_of(talk: Conversation) -> tuple[NoteNode, ...]:
    notes = notes_in(talk.notes())
    assert notes is not None
    return notes.nodes


@pytest.mark.parametrize("summarisers", [(WORDY,), (failing(),), ()], ids=["wordy", "fails", "no"])
@pytest.mark.parametrize("restarted", [False, True])
def test_old_notes_become_one_and_nothing_is_lost(
    summarisers: tuple[SummaryModel, ...], restarted: bool
) -> None:
    talk = long_talk(summarisers)
    if restarted:
        talk.restart()
    assert talk.engine.compression_count == (0 if restarted else 12)
    assert any(node.children for node in nodes_of(talk))
    assert talk.originals() == talk.compacted
    assert len(talk.compacted) > 150


def test_the_notes_keep_to_their_budget() -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL), (WORDY,))
    for number in range(15):
        work(talk, f"t{number}")
        talk.compact()
        assert sum(text_tokens(node.text) for node in nodes_of(talk)) <= 300
        assert text_tokens(talk.notes()["content"]) < MOST_TOKENS


def test_condensed_notes_are_described_and_expanded_level_by_level() -> None:
    talk = long_talk((WORDY,))
    inner = nodes_of(talk)[0]
    text = talk.call("lcm_describe", id=inner.id)
    assert text.startswith(f"{inner.id}: notes on {len(inner.children)} older notes, ")
    assert all(f"- {child} (notes on " in text for child in inner.children)
    page = talk.call("lcm_expand", id=inner.id, limit=1)
    assert page.splitlines()[0] == f"{inner.id} was made of older notes; expand these:"
    assert page.splitlines()[-1] == f'[more: lcm_expand(id="{inner.id}", offset=1)]'
    child = talk.call("lcm_describe", id=inner.children[-1])
    assert f"Part of: {inner.id}" in child


def test_grep_reaches_the_oldest_messages_after_a_restart() -> None:
    talk = long_talk((WORDY,))
    talk.restart()
    (hit,) = talk.call("lcm_grep", query="src/t1_3.py").splitlines()
    node, _, offset = hit.partition(",")[0].split(" ")
    assert node not in talk.ids()
    page = talk.call("lcm_expand", id=node, offset=int(offset), limit=1)
    assert '-> read_file {"path": "src/t1_3.py"}' in page


def test_a_log_that_was_moved_still_gives_everything_back() -> None:
    talk = long_talk((WORDY,))
    talk.log[:0] = [{"role": "user", "content": "from another branch"}] * 7
    talk.restart()
    assert talk.originals() == talk.compacted


def test_a_small_summariser_gets_small_stretches() -> None:
    sizes: list[int] = []

    def write(asked: str) -> str:
        sizes.append(text_tokens(asked))
        return (
            "The task was to read code files, please see the list. All of them hold lines of code."
        )

    talk = Conversation(LcmEngine(60_000, SMALL), (summariser(write, window=3000),))
    for number in range(12):
        work(talk, f"t{number}")
    talk.compact()
    assert len(talk.ids()) > 3
    assert max(sizes) < 3000
    assert talk.originals() == talk.compacted

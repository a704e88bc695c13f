"""Over any conversation: what is compacted can be read again, what is left is valid."""

from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.context.engine import SummaryModel
from hermes.context.lcm import LcmEngine
from hermes.context.lcm.notes import notes_in, open_conversation
from tests.unit.context.lcm.conversations import (
    SMALL,
    WINDOW,
    Conversation,
    Turn,
    failing,
    summariser,
    turns,
)

STEPS = st.lists(
    st.one_of(
        turns(),
        turns(),
        st.just("compact"),
        st.just("restart"),
        st.integers(1, 3),
    ),
    min_size=8,
    max_size=18,
)
SUMMARISERS = st.sampled_from([(), (summariser(),), (failing(),), (summariser(lambda _: "?"),)])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, summarisers=SUMMARISERS, with_log=st.booleans())
def test_nothing_is_lost_and_what_is_left_is_a_conversation(
    steps: list[Turn | str | int], summarisers: tuple[SummaryModel, ...], with_log: bool
) -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL), summarisers)
    if not with_log:
        talk.history = None  # type: ignore[assignment]
        talk.use(talk.engine)
    for step in steps:
        match step:
            case list():
                talk.say(*step)
            case int():
                undo_turns(talk, step)
            case "restart" if with_log:
                talk.restart()
            case _:
                check(talk.compact(), talk.context)
                assert talk.originals() == talk.compacted
    talk.compact()
    assert talk.originals() == talk.compacted
    if with_log:
        talk.restart()
        assert talk.originals() == talk.compacted


def undo_turns(talk: Conversation, count: int) -> None:
    """Never past the notes."""
    for _ in range(count):
        asked = [n for n, each in enumerate(talk.context) if each["role"] == "user"]
        if asked and not any(map(notes_in, talk.context[asked[-1] :])):
            talk.undo(len(talk.context) - asked[-1])


def check(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    assert after[0] is before[0]
    assert after is not before
    places = {id(each): place for place, each in enumerate(before)}
    kept = [places[id(each)] for each in after if id(each) in places and not notes_in(each)]
    assert kept == sorted(kept)
    asked = [each for each in open_conversation(before).messages if each["role"] == "user"]
    if asked:
        assert asked[-1] in open_conversation(after).messages
        notes = (*open_conversation(before).notes, *open_conversation(after).notes)
        joined = any(each.request is not None for each in notes)
        assert joined or any(each is asked[-1] for each in after)
    waiting: list[str] = []
    for each in after:
        if each["role"] == "tool":
            assert waiting.pop(0) == each["tool_call_id"]
        else:
            assert waiting == []
        waiting += [call["id"] for call in each.get("tool_calls") or ()]
    assert waiting == []
    assert len([each for each in after if notes_in(each)]) <= 1
    roles = [each["role"] for each in after]
    assert roles[:2] in (["system"], ["system", "user"])
    assert all(one != other or one == "tool" for one, other in pairwise(roles)), roles

"""Where messages are found in a log."""

from hypothesis import given
from hypothesis import strategies as st

from hermes.context.lcm.archive import MessageArchive, align
from hermes.context.lcm.notes import LogRun
from hermes.core.messages import Message, User, to_dict

WORDS = st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=9)


def said(*texts: str) -> list[Message]:
    return [User.say(text) for text in texts]


def archive(*texts: str, aside: tuple[Message, ...] = ()) -> MessageArchive:
    return MessageArchive(lambda: [to_dict(message) for message in said(*texts)], aside)


def texts(held: MessageArchive, run: LogRun) -> list[str] | None:
    found = held.read(run)
    return None if found is None else [each.message.text for each in found]


def longest(these: list[bytes], log: list[bytes]) -> int:
    if not these or not log:
        return 0
    if these[-1] == log[-1]:
        return 1 + longest(these[:-1], log[:-1])
    return max(longest(these[:-1], log), longest(these, log[:-1]))


@given(WORDS, WORDS)
def test_as_many_as_possible_are_placed_in_order(these: list[bytes], log: list[bytes]) -> None:
    placed = align(these, log)
    found = [place for place in placed if place is not None]
    assert found == sorted(set(found))
    assert all(log[p] == this for this, p in zip(these, placed, strict=True) if p is not None)
    assert len(found) == longest(these, log)


def test_the_latest_of_equal_messages_is_meant() -> None:
    assert align([b"a", b"b"], [b"a", b"b", b"x", b"a", b"b"]) == [3, 4]
    assert align([b"a", b"new"], [b"a", b"x", b"a", b"x"]) == [2, None]


def test_a_message_that_was_only_shown_does_not_throw_the_others_off() -> None:
    log = [b"go on", b"1", b"2", b"3", b"4"]
    assert align([b"1", b"2", b"go on", b"3", b"4"], log) == [1, 2, None, 3, 4]


def test_messages_are_kept_by_their_places_and_others_aside() -> None:
    held = archive("a", "b", "c", "d")
    one, other = held.keep(said("b", "c"), [1, 2])[0], held.keep(said("x", "d"), [None, 3])
    assert (one.first, one.last, one.aside) == (1, 2, False)
    assert [(run.first, run.last, run.aside) for run in other] == [(0, 0, True), (3, 3, False)]
    assert [texts(held, run) for run in (one, *other)] == [["b", "c"], ["x"], ["d"]]


def test_messages_are_found_where_they_went() -> None:
    (run,) = archive("a", "b", "c").keep(said("b", "c"), [1, 2])
    assert texts(archive("new", "a", "b", "c", "d"), run) == ["b", "c"]
    (copied,) = archive().keep(said("b", "c"), [None, None])
    assert texts(archive("a", "b", "c"), copied) == ["b", "c"]


def test_another_message_is_never_taken_for_the_one_that_was_there() -> None:
    (run,) = archive("a", "b", "c").keep(said("b"), [1])
    assert texts(archive("a", "B", "c"), run) is None
    assert texts(archive("a"), run) is None
    assert texts(MessageArchive(None), run) is None

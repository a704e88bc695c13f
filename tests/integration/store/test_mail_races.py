"""Several processes and machines on one store: each thing is done by one, and whole."""

import asyncio
from contextlib import ExitStack

import pytest

from hermes.core.errors import LeaseLost
from hermes.store.records import InboxItem
from tests.integration.store.actors import NOW, WANTED, acting, draft_of

ROUNDS = 25


def test_only_one_of_two_processes_claims_a_row(place):
    with ExitStack() as stack:
        rivals = [
            stack.enter_context(acting("compete", place.path, place.url, name, step))
            for name, step in (("a", "1"), ("b", "-1"))
        ]
        assert [rival.hear() for rival in rivals] == ["ready", "ready"]
        for rival in rivals:
            rival.say("go")
        first, second = [rival.hear() for rival in rivals]
        assert [rival.end() for rival in rivals] == [0, 0]
    for kind, won in first.items():
        assert sorted(won + second[kind]) == list(range(WANTED)), kind
    owners = place.rows("SELECT owner, count(*) FROM chats GROUP BY owner ORDER BY owner")
    wanted = {"a": len(first["chats"]), "b": len(second["chats"])}
    assert dict(owners) == {name: count for name, count in wanted.items() if count}


async def test_a_chat_changes_hands_before_or_after_an_answer_never_within(place):
    ours, theirs = place.open(), place.open()
    kept = 0
    for number in range(ROUNDS):
        chat = str(number)
        row = await ours.inbox.receive(InboxItem("fake", "", chat, chat, b"{}"), NOW)
        right = await ours.chats.claim(chat, "us", NOW, NOW + 60)
        drafts = tuple(draft_of(f"{chat}-{part}") for part in range(3))
        attempts = [
            ours.inbox.answer((row,), drafts, right, NOW),
            theirs.chats.claim(chat, "them", NOW, NOW + 60, dead=("us",)),
        ]
        first = number % 2
        made = await asyncio.gather(attempts[first], attempts[1 - first], return_exceptions=True)
        answered, taken = made[first], made[1 - first]
        assert taken.fence == 2
        rows = [await theirs.outbox.get(draft.key) for draft in drafts]
        if isinstance(answered, LeaseLost):
            assert rows == [None] * 3
            assert [one.id for one in await theirs.inbox.pending(chat)] == [row]
        else:
            assert tuple(one.id for one in rows) == answered
            assert await theirs.inbox.pending(chat) == ()
            kept += 1
    ours.close()
    theirs.close()
    assert kept > 0


async def test_runs_of_the_dead_are_taken_over_by_one(place):
    ours, theirs = place.open(), place.open()
    for number in range(ROUNDS):
        assert await ours.runs.claim("job", float(number), "gone", NOW, NOW + 60)
    ours_, theirs_ = await asyncio.gather(
        ours.runs.take_over("us", NOW, NOW + 60, dead=("gone",)),
        theirs.runs.take_over("them", NOW, NOW + 60, dead=("gone",)),
    )
    assert sorted(run.instant for run in (*ours_, *theirs_)) == [float(n) for n in range(ROUNDS)]
    assert {run.fence for run in (*ours_, *theirs_)} == {2}
    ours.close()
    theirs.close()


@pytest.mark.parametrize("heard", [1, 40])
def test_a_writer_that_is_killed_leaves_whole_answers_only(place, heard):
    """What it said is there, and nothing is there in part."""
    with acting("answer", place.path, place.url, "w") as writer:
        reported = [writer.hear() for _ in range(heard)]
        writer.process.kill()
        reported += [
            line.strip().strip('"') for line in writer.process.stdout if line.endswith("\n")
        ]
    found = place.rows(
        "SELECT message_key, state, (SELECT count(*) FROM outbox WHERE inbox_id = inbox.id)"
        " FROM inbox ORDER BY id"
    )
    done = [key for key, state, _ in found if state == "answered"]
    assert done[: len(reported)] == reported
    assert {count for _, state, count in found if state == "answered"} == {3}
    assert {count for _, state, count in found if state != "answered"} <= {0}
    assert len(found) - len(done) <= 1

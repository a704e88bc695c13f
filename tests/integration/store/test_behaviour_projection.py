"""Any sequence of appends, undone turns, compactions, branches and deletions, against a model."""

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hermes.core.messages import Message, ToolResult, User
from hermes.store.records import LoggedMessage
from hermes.store.session_store import SessionStore
from tests.integration.store.conftest import Place, reply

MOST_SESSIONS = 4
Said = tuple[int | None, Message]
"""The number of a logged message (None: only in the conversation), and what it is."""


class Conversations(RuleBasedStateMachine):
    """The store on one side; on the other a list of messages for each conversation and log."""

    place: Place
    names = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store: SessionStore = self.place.open()
        self.conversations: dict[str, list[Said]] = {}
        self.logs: dict[str, list[Said]] = {}
        self.spoken = 0

    def teardown(self) -> None:
        for session in list(self.logs):
            self.wait(self.store.delete(session))
        self.store.close()
        self.loop.close()

    def wait(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def new_name(self) -> str:
        return f"s{next(self.names)}"

    @initialize()
    def create(self) -> None:
        session = self.new_name()
        self.wait(self.store.create(session, source="cli", model="m", system_prompt=""))
        self.conversations[session], self.logs[session] = [], []

    def pick(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(list(self.logs)))

    @rule(data=st.data(), kinds=st.lists(st.sampled_from("uart"), min_size=1, max_size=6))
    def append(self, data: st.DataObject, kinds: list[str]) -> None:
        session = self.pick(data)
        for kind in kinds:
            self.spoken += 1
            text = f"said {self.spoken}"
            message: Message = User.say(text)
            if kind in "ar":
                message = reply(text)
            elif kind == "t":
                message = ToolResult(f"c{self.spoken}", "t", text)
            number = self.wait(self.store.append(session, message))
            self.conversations[session].append((number, message))
            self.logs[session].append((number, message))

    @rule(data=st.data(), turns=st.integers(1, 3))
    def undo(self, data: st.DataObject, turns: int) -> None:
        session = self.pick(data)
        said = self.conversations[session]
        asked = [
            place
            for place, (number, message) in enumerate(said)
            if number is not None and isinstance(message, User)
        ]
        expected = ""
        if asked:
            cut = asked[-min(turns, len(asked))]
            first = said[cut][1]
            assert isinstance(first, User)
            expected = first.text
            del said[cut:]
        assert self.wait(self.store.undo(session, turns)) == expected

    @precondition(lambda self: len(self.logs) < MOST_SESSIONS)
    @rule(data=st.data())
    def branch(self, data: st.DataObject) -> None:
        session, new = self.pick(data), self.new_name()
        said = self.conversations[session]
        places = [place for place, (number, _) in enumerate(said) if number is not None]
        place = data.draw(st.sampled_from([None, *places]))
        up_to = None if place is None else said[place][0]
        self.wait(self.store.branch(session, new, up_to=up_to))
        self.conversations[new] = said[:] if place is None else said[: place + 1]
        self.logs[new] = []

    @precondition(lambda self: len(self.logs) < MOST_SESSIONS)
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        """Any part of the conversation, with summaries anywhere between."""
        session, new = self.pick(data), self.new_name()
        kept: list[Said] = []
        for said in self.conversations[session]:
            if data.draw(st.booleans()):
                kept.append(said)
            elif data.draw(st.booleans()):
                self.spoken += 1
                kept.append((None, data.draw(st.sampled_from((User.say, reply)))("summary")))
        given = [
            message if number is None else LoggedMessage(number, 0.0, message)
            for number, message in kept
        ]
        self.wait(self.store.compact(session, new, given))
        self.conversations[new], self.logs[new] = kept, []

    @precondition(lambda self: len(self.logs) > 1)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """What other conversations took from the deleted log is theirs alone from now on."""
        session = self.pick(data)
        self.wait(self.store.delete(session))
        gone = {number for number, _ in self.logs.pop(session)}
        del self.conversations[session]
        for said in self.conversations.values():
            said[:] = [(None if n in gone else n, message) for n, message in said]

    @precondition(lambda self: len(self.logs) > 1)
    @rule(data=st.data())
    def export_and_restore(self, data: st.DataObject) -> None:
        """Into the same store; messages get new numbers, those of other sessions none."""
        session = self.pick(data)
        record = self.wait(self.store.export(session))
        own = {number for number, _ in self.logs[session]}
        conversation = self.conversations[session]
        self.wait(self.store.delete(session))
        self.wait(self.store.restore(record))
        new_log = [(e.id, e.message) for e in self.wait(self.store.log(session))]
        numbers = {old: new for (old, _), (new, _) in zip(self.logs[session], new_log, strict=True)}
        self.logs[session] = new_log
        self.conversations[session] = [
            (numbers[n] if n in own and n is not None else None, message)
            for n, message in conversation
        ]
        for other, said in self.conversations.items():
            if other != session:
                said[:] = [(None if n in own else n, message) for n, message in said]

    @invariant()
    def conversations_and_logs_are_as_expected(self) -> None:
        for session, said in self.conversations.items():
            conversation = self.wait(self.store.messages(session))
            assert conversation == tuple(message for _, message in said)
            log = self.wait(self.store.log(session))
            assert [(entry.id, entry.message) for entry in log] == self.logs[session]


@pytest.mark.timeout(600)  # a failure takes minutes to be made small
def test_the_conversation_is_what_the_operations_say(place):
    class Here(Conversations):
        pass

    Here.place = place
    place.open().close()
    examples = 25 if place.url else 60
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            print_blob=True,
            database=None,
        ),
    )

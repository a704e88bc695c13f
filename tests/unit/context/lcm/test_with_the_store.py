"""The engine over a real store: sessions that go on in children, restarts, undone turns."""

from pathlib import Path
from typing import Any

import pytest

from hermes.app.context_engine import ContextEngineRunner
from hermes.context.lcm import LcmEngine
from hermes.context.lcm.writer import message_as_text
from hermes.core.messages import Message, from_dict, to_dict
from hermes.store.records import LoggedMessage
from hermes.store.session_store import SessionStore, open_store
from hermes.util.concurrency import in_thread
from tests.unit.context.lcm.conversations import (
    SMALL,
    WINDOW,
    Conversation,
    Turn,
    answered,
    gone,
    reply,
    user,
)


class Stored(Conversation):
    """A conversation whose log is the store; one engine lives for one compaction."""

    def __init__(self, store: SessionStore) -> None:
        self.store, self.session = store, "s0"
        self.room = ContextEngineRunner(None, None, store)  # type: ignore[arg-type]
        super().__init__(LcmEngine(WINDOW, SMALL))

    def use(self, engine: LcmEngine, **kw: Any) -> None:
        self.engine = engine
        engine.on_session_start(self.session, history=self.history, **kw)

    def history(self) -> list[dict[str, Any]]:
        return self.room._wait(self.room.history(self.session))

    async def log_turn(self, turn: Turn) -> None:
        for message in turn:
            await self.store.append(self.session, message)

    async def shorten(self) -> None:
        """Compact, in a thread as the agent does, and go on in a child session."""
        entries = await self.store.entries(self.session)
        given = [to_dict(_message(entry)) for entry in entries]
        made = await in_thread(self.engine.compress, [self.context[0], *given])
        logged = dict(zip(map(id, given), entries, strict=True))
        self.compacted += [message_as_text(from_dict(each)) for each in gone(given, made)]
        after = [logged.get(id(each)) or from_dict(each) for each in made[1:]]
        self.sessions += 1
        child = f"s{self.sessions}"
        await self.store.compact(self.session, child, after)
        self.session, self.context = child, made
        self.use(LcmEngine(WINDOW, SMALL))


def _message(entry: LoggedMessage | Message) -> Message:
    return entry.message if isinstance(entry, LoggedMessage) else entry


def work(number: int) -> Turn:
    steps = [
        message
        for step in range(8)
        for message in answered(f"{number}_{step}", "terminal", "{}", f"{number}\n" * 150)
    ]
    return [user(f"Task {number}, \x00 please"), *steps, reply("Done.")]


@pytest.mark.parametrize("joined", [False, True], ids=["", "a request joined to the notes"])
async def test_everything_compacted_comes_back_from_the_store(tmp_path: Path, joined: bool) -> None:
    store = open_store("", tmp_path / "state.db")
    await store.create("s0", source="cli", model="m", system_prompt="You are Hermes.")
    talk = Stored(store)
    if joined:
        await talk.log_turn([user("Task, \x00 please"), *answered("a", "x", "{}", "a\n" * 5000)])
        for number in range(2):
            await talk.log_turn(work(number)[1:-1])
            await talk.shorten()
            assert talk.notes()["content"].endswith("\nTask,  please")
        await talk.log_turn([reply("Done.")])
    for number in range(10):
        await talk.log_turn(work(number))
        if number % 3 == 1:
            await talk.log_turn([user("Forget that"), reply("Forgotten")])
            await store.undo(talk.session)
        await talk.shorten()
    assert "~" not in talk.notes()["content"]
    assert len(talk.compacted) > 130
    assert await in_thread(talk.originals) == talk.compacted
    hit = await in_thread(lambda: talk.call("lcm_grep", query="Task 3"))
    assert "user: Task 3, please" in hit
    store.close()

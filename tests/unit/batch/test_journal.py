"""Answered calls, what they cost, and the budget of a run."""

import asyncio
from pathlib import Path

import pytest

from hermes.batch import AnsweredCall, JournaledModel, request_digest
from hermes.batch.journal import (
    CallLimits,
    ItemJournal,
    JournalEntry,
    JournalFile,
    RunBudget,
    encode_entry,
)
from hermes.core.errors import RateLimited, StreamCut
from hermes.core.messages import Assistant, System, Text, ToolCall, User
from hermes.core.model import ModelRequest, Price, Reply, ToolSpec, Usage

PRICE = Price(input=1000.0, output=10_000.0, cache_read=0.0, cache_write=2000.0)
REQUEST = ModelRequest((User.say("hi"),))


def reply(text: str, usd: float | None = 0.25) -> Reply:
    message = Assistant((Text(text), ToolCall("c1", "terminal", "{}")))
    return Reply(message, Usage(10, 20), "m", "p", usd)


def entry(key: str, text: str, **more) -> JournalEntry:
    return JournalEntry(key=key, digest="d", usd=0.25, reply=reply(text), **more)


def ignore(_entry: JournalEntry) -> asyncio.Future[None]:
    raise AssertionError("no entry is sent")


class Answers:
    """A model that returns or raises each of `steps`."""

    name = provider = "scripted"

    def __init__(self, *steps) -> None:
        self.steps, self.requests = list(steps), []

    async def call(self, request, emit):
        self.requests.append(request)
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


def test_digest_is_that_of_the_content() -> None:
    tool = ToolSpec("t", "d", {"b": 1, "a": 2})
    one = ModelRequest((System("s"), User.say("hi")), (tool,), temperature=0.5)
    same = ModelRequest(
        (System("s"), User.say("hi")), (ToolSpec("t", "d", {"a": 2, "b": 1}),), temperature=0.5
    )
    assert request_digest(one) == request_digest(same)
    others = [
        ModelRequest((System("s"), User.say("ho")), (tool,), temperature=0.5),
        ModelRequest((System("s"), User.say("hi")), (), temperature=0.5),
        ModelRequest((System("s"), User.say("hi")), (tool,)),
        ModelRequest((System("s"), User.say("hi"), User.say("hi")), (tool,), temperature=0.5),
        ModelRequest((User.say("s"), User.say("hi")), (tool,), temperature=0.5),
    ]
    assert len({request_digest(each) for each in [one, *others]}) == 6


def test_calls_and_costs_survive_a_kill_and_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = JournalFile(path)
    for text in ("one", "two"):
        journal.write(entry("a", text))
    journal.write(entry("b", "three"))
    whole = path.read_bytes()
    for cut in range(1, len(whole.splitlines(keepends=True)[-1])):
        path.write_bytes(whole[:-cut])
        again = JournalFile(path)
        assert again.keys() == {"a"}
        assert again.spent_usd == 0.5
        again.write(entry("c", "four"))
        again.close()
        again = JournalFile(path)
        assert again.keys() == {"a", "c"}
        again.close()
    stored = ItemJournal("a", journal.calls("a"), ignore)
    assert [stored.find("d"), stored.find("d"), stored.find("d")] == [
        reply("one"), reply("two"), None,
    ]  # fmt: skip
    journal.close()


def test_calls_that_ran_when_the_process_was_killed_are_counted_in_full(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = JournalFile(path)
    journal.write(JournalEntry(reserve="r1", usd=3.0))
    journal.write(JournalEntry(reserve="r2", usd=5.0))
    journal.write(entry("a", "one", settle="r1"))
    assert (journal.spent_usd, journal.reserved_usd) == (0.25, 5.0)
    for _ in range(2):  # only once
        again = JournalFile(path)
        assert (again.spent_usd, again.reserved_usd, again.reserved) == (5.25, 0.0, {})
        again.close()
    journal.close()


def test_compaction_keeps_the_spending_and_unfinished_items(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = JournalFile(path)
    for number in range(50):
        journal.write(entry(f"k{number}", "x" * 1000))
    journal.write(JournalEntry(key="k7", usd=0.5))
    journal.write(JournalEntry(reserve="open", usd=2.0))
    size = path.stat().st_size
    journal.forget(f"k{number}" for number in range(50) if number != 7)
    journal.compact()
    assert path.stat().st_size < size / 20
    for _ in range(2):
        assert journal.keys() == {"k7"}
        assert journal.spent_usd == pytest.approx(13.0)
        assert journal.cost("k7") == pytest.approx(0.75)
        assert journal.reserved == {"open": 2.0}
        (line,) = journal.calls("k7")
        assert ItemJournal("k7", [line], ignore).find("d") == reply("x" * 1000)
        journal.compact()
    journal.close()


def test_budget_lets_calls_wait_for_running_ones_and_refuses_those_that_never_fit(tmp_path) -> None:
    journal = JournalFile(tmp_path / "journal.jsonl")
    journal.write(JournalEntry(usd=4.0))  # of an earlier session
    budget, answers = RunBudget(10.0, journal), {}

    def ask(name: str, usd: float) -> None:
        budget.reserve(name, usd, lambda granted: answers.__setitem__(name, granted))

    ask("a", 4.0)
    ask("b", 2.0)
    ask("c", 3.0)  # fits if a and b cost less than they reserved
    ask("gone", 1.0)
    ask("d", 6.5)
    assert answers == {"a": True, "b": True, "d": False}
    budget.withdraw("gone")
    journal.write(JournalEntry(settle="a", usd=1.0))
    budget.serve()
    assert answers.pop("c") is True
    assert journal.spent_usd + journal.reserved_usd == 10.0
    assert "gone" not in answers
    journal.close()


def test_highest_cost_has_the_dearest_input_and_the_longest_reply() -> None:
    usd, request = CallLimits(PRICE, 100).highest_cost(REQUEST)
    assert request is REQUEST
    tokens = 500 + 8 + 1
    assert usd == pytest.approx((tokens * 2000 + 100 * 10_000) / 1e6)
    usd, request = CallLimits(PRICE).highest_cost(REQUEST)
    assert request.max_tokens == 8192
    assert usd == pytest.approx((tokens * 2000 + 8192 * 10_000) / 1e6)


async def metered(model, sent, emit=lambda _event: None) -> Reply:
    async def reserve(usd: float) -> str:
        sent.append(usd)
        return "r1"

    def send(entry: JournalEntry) -> asyncio.Future[None]:
        sent.append(entry)
        stored = asyncio.get_running_loop().create_future()
        stored.set_result(None)
        return stored

    journal = ItemJournal("k", [], send, CallLimits(PRICE, 100), reserve)
    return await JournaledModel(model, journal).call(REQUEST, emit)


async def test_cost_of_a_call_is_that_of_its_reply_or_else_the_reservation() -> None:
    highest = CallLimits(PRICE, 100).highest_cost(REQUEST)[0]
    for answer, usd in [
        (reply("x", 0.125), 0.125),
        (reply("x", None), PRICE.cost(Usage(10, 20))),
        (Reply(Assistant((Text("x"),)), Usage()), highest),
    ]:
        sent: list = []
        assert await metered(Answers(answer), sent) == answer
        reserved, stored = sent
        assert reserved == highest
        assert (stored.key, stored.settle, stored.usd, stored.reply) == ("k", "r1", usd, answer)
        assert encode_entry(stored).count(b"\n") == 1


async def test_refused_call_costs_nothing_and_broken_or_cancelled_one_counts_in_full() -> None:
    highest = CallLimits(PRICE, 100).highest_cost(REQUEST)[0]
    for error, usd in [(RateLimited("wait", status=429), 0.0), (StreamCut("cut"), highest)]:
        sent: list = []
        with pytest.raises(type(error)):
            await metered(Answers(error), sent)
        assert sent[1] == JournalEntry(key="k", settle="r1", usd=usd)

    class Hanging(Answers):
        async def call(self, request, emit):
            self.requests.append(request)
            await asyncio.Event().wait()

    model, sent = Hanging(), []
    task = asyncio.ensure_future(metered(model, sent))
    while not model.requests:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sent[1] == JournalEntry(key="k", settle="r1", usd=highest)


async def test_any_call_journal_can_be_used() -> None:
    class Memory:
        def __init__(self) -> None:
            self.calls: list[AnsweredCall] = []

        def find(self, digest):
            return next((call.reply for call in self.calls if call.digest == digest), None)

        def add(self, digest, reply):
            self.calls.append(AnsweredCall("k", digest, reply))

    memory, inner = Memory(), Answers(reply("one"))
    model = JournaledModel(inner, memory)
    assert (model.name, model.provider) == ("scripted", "scripted")
    for _ in range(2):
        assert await model.call(REQUEST, lambda _event: None) == reply("one")
    assert len(inner.requests) == len(memory.calls) == 1

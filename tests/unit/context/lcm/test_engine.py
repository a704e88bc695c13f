"""The engine lcm as the agent uses it."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.app.context_engine import ContextEngineRunner
from hermes.context.compressor import compute_sizes
from hermes.context.engine import SummaryAnswer, SummaryModel
from hermes.core.errors import Interrupted
from hermes.core.messages import Message, System, ToolResult, from_dict, to_dict
from hermes.core.model import text_tokens
from hermes.store.records import LoggedMessage
from hermes.store.session_store import SessionStore, open_store
from hermes.util.concurrency import in_thread
from hermes_plugins.context.lcm import LcmEngine
from hermes_plugins.context.lcm.notes import PREFIX, NoteNode, notes_in, open_conversation
from hermes_plugins.context.lcm.plan import PlanLimits, make_plan
from hermes_plugins.context.lcm.writer import message_as_text
from tests.unit.context.lcm.conversations import (
    SMALL,
    WINDOW,
    Conversation,
    Turn,
    answered,
    failing,
    gone,
    group,
    reply,
    summariser,
    turns,
    user,
)

TODO = "Todo list: 2 tasks, 1 completed, 1 in progress\n[x] a: read it\n[>] b: mend it"


def chat(talk: Conversation, turns: int, *, start: int = 0, size: int = 60) -> None:
    for turn in range(start, start + turns):
        talk.say(user(f"question {turn} {'why ' * size}"), reply(f"answer {turn} {'so ' * size}"))


def long_chat(turns: int = 30, *summarisers: SummaryModel) -> Conversation:
    talk = Conversation(LcmEngine(WINDOW, SMALL), summarisers)
    chat(talk, turns)
    return talk


def test_compaction_starts_at_the_threshold() -> None:
    engine = LcmEngine(1000)
    assert not engine.should_compress()
    engine.update_from_response({"prompt_tokens": 500, "completion_tokens": 7, "total_tokens": 507})
    assert engine.should_compress()
    assert not engine.should_compress(499)
    engine.update_model("bigger", 10_000)
    assert engine.threshold_tokens == 5000
    assert not engine.should_compress()
    assert (engine.last_completion_tokens, engine.last_total_tokens) == (7, 507)


def test_context_length_of_the_session_start_is_used() -> None:
    engine = LcmEngine(1000)
    engine.on_session_start("s", context_length=4000)
    assert (engine.context_length, engine.threshold_tokens) == (4000, 2000)


def test_first_exchange_and_recent_messages_stay_as_they_are() -> None:
    talk = long_chat()
    before = talk.compact()
    assert all(one is other for one, other in zip(talk.context[:3], before[:3], strict=True))
    assert notes_in(talk.context[3])
    assert talk.context[-1] is before[-1]
    assert talk.context[-2] is before[-2]
    assert len(talk.context) < len(before) / 2
    assert talk.engine.compression_count == 1
    assert talk.engine.get_status()["notes"] == len(talk.ids())


def test_a_short_conversation_is_left_alone() -> None:
    talk = long_chat(3)
    assert talk.compact() == talk.context
    assert talk.engine.compression_count == 0


def test_nothing_is_compacted_when_only_the_request_lies_before_the_tail() -> None:
    calls = group(("a", "terminal", "{}"), ("b", "terminal", "{}"))
    messages = [System("You are Hermes."), user("Read both."), *calls]
    limits = PlanLimits(tail_tokens=100, first=3, last=4, request_tokens=100)
    assert make_plan(messages, [5, 50, 10, 400, 400], limits, head_end=1, request=1) is None


def test_the_request_stays_word_for_word_through_a_long_run_of_tools() -> None:
    talk = long_chat(3, summariser())
    talk.say(user("Mend src/app.py, but do not touch the tests."))
    request = talk.context[-1]
    for round_ in range(4):
        for step in range(12):
            call = f"c{round_}_{step}"
            talk.say(*answered(call, "terminal", '{"command": "make"}', "line\n" * 100))
        talk.compact()
        assert any(each is request for each in talk.context)
        assert len(talk.context) < 20
    assert talk.originals() == talk.compacted


def test_a_first_exchange_that_fills_the_window_is_compacted_too() -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL))
    talk.say(user("Read this: " + "word " * 3000), reply("I did."))
    chat(talk, 8)
    talk.compact()
    assert talk.engine.compression_count == 1
    assert "word word" not in str(talk.context[1:3]).replace(str(talk.notes()), "")
    assert talk.originals()[0].startswith("Read this: word")


@pytest.mark.parametrize("again", [False, True])
def test_the_todo_list_survives_as_lines_of_its_own(again: bool) -> None:
    talk = long_chat(4)
    talk.say(*answered("t", "todo", "{}", f"{TODO}\n[2 tasks are in progress]"), reply("ok"))
    chat(talk, 20)
    talk.compact()
    if again:
        chat(talk, 20, start=30)
        talk.compact()
        talk.restart()
    assert f"\n\n{TODO}\n\n## " in talk.notes()["content"]


def test_an_older_todo_list_in_the_head_does_not_hide_the_newest() -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL))
    talk.say(user("Begin"), *answered("t0", "todo", "{}", "Todo list: 1 task\n[ ] a: read it"))
    talk.say(*answered("t1", "todo", "{}", TODO))
    for _ in range(2):
        chat(talk, 20)
        talk.compact()
        assert TODO in talk.notes()["content"]


def test_a_todo_list_that_stays_is_not_repeated() -> None:
    talk = long_chat(20)
    talk.say(user("now"), *answered("t", "todo", "{}", TODO), reply("ok"))
    talk.compact()
    assert "Todo list" not in talk.notes()["content"]


def test_the_focus_reaches_the_summariser() -> None:
    asked: list[str] = []

    def write(question: str) -> str:
        asked.append(question)
        return "question answer why so and the rest of it"

    long_chat(30, summariser(write)).compact("the database")
    assert asked
    assert all("the database" in question for question in asked)


def test_stopping_leaves_everything_as_it_was() -> None:
    talk = long_chat(30, summariser())
    talk.compact()
    chat(talk, 30, start=30)
    context, ids, status = list(talk.context), talk.ids(), talk.engine.get_status()
    calls: list[int] = []

    def ask(messages: list[dict[str, Any]], most: int) -> SummaryAnswer:
        calls.append(most)
        raise Interrupted

    talk.engine.on_session_start(f"s{talk.sessions}", summarisers=(SummaryModel(ask, 9000),))
    with pytest.raises(Interrupted):
        talk.engine.compress(talk.context)
    assert len(calls) == 1
    assert (talk.context, talk.ids(), talk.engine.get_status()) == (context, ids, status)


def test_ids_are_the_same_in_every_process() -> None:
    one, other = long_chat(), long_chat()
    other.restart()
    one.compact()
    other.compact()
    assert one.ids() == other.ids()


def test_without_a_log_the_messages_are_kept_in_memory() -> None:
    talk = long_chat()
    talk.engine.on_session_start("s1", history=None)
    talk.history = None  # type: ignore[assignment]
    talk.compact()
    chat(talk, 30, start=30)
    talk.compact()
    assert "~0-" in talk.notes()["content"]
    assert len(talk.originals()) == len(talk.compacted) > 60
    assert talk.originals() == talk.compacted
    talk.restart()
    chat(talk, 30, start=60)
    talk.compact()
    oldest = talk.call("lcm_expand", id=talk.ids()[0])
    assert "not in the log any more" in oldest


def test_messages_in_front_that_no_log_has_do_not_confuse_the_rest() -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL))
    prefill = [{"role": "user", "content": "question 1"}, {"role": "assistant", "content": "Hm."}]
    talk.context += [dict(each) for each in prefill * 3]
    chat(talk, 30)
    talk.compact()
    content = talk.notes()["content"]
    assert "~0-3/" in content
    assert " 0-" in content
    assert talk.originals() == talk.compacted


def test_another_conversation_knows_nothing_of_this_one() -> None:
    talk = long_chat()
    talk.compact()
    node = talk.ids()[0]
    talk.engine.on_session_reset()
    talk.engine.on_session_start("other")
    assert "nothing was compacted yet" in talk.call("lcm_expand", id=node)
    assert talk.engine.compression_count == 0


def test_a_message_that_quotes_notes_is_an_ordinary_message() -> None:
    talk = long_chat()
    talk.compact()
    quoted = f"{talk.notes()['content']}\nWhat does this mean?"
    chat(talk, 5, start=30)
    talk.say(user(quoted))
    chat(talk, 20, start=40)
    talk.compact()
    assert quoted in talk.compacted
    assert talk.originals() == talk.compacted


def test_summary_of_another_engine_is_not_a_request() -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL))
    talk.say(user("Write the report."), reply("I begin."))
    talk.say(user(f"{PREFIX} Goal: the report"))
    for step in range(30):
        talk.say(*answered(f"c{step}", "terminal", "{}", "line\n" * 60))
    request = talk.context[1]
    talk.compact()
    assert talk.context[1] is request
    assert any("Goal: the report" in text for text in talk.compacted)


def test_text_no_store_can_hold_is_found_in_the_log_again() -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL))
    talk.say(user("go"), *answered("c", "terminal", "{}", "ok"))
    stored = ToolResult("x", "terminal", "broken text")
    call, result = answered("x", "terminal", "{}", "broken \x00\udc80text")
    talk.say(call)
    talk.context.append({"role": "tool", "tool_call_id": "x", "content": result.text})
    talk.log.append(
        {"role": "tool", "tool_call_id": "x", "name": "terminal", "content": stored.text}
    )
    chat(talk, 20)
    talk.compact()
    assert "~" not in talk.notes()["content"].splitlines()[2]


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
def test_old_notes_become_one_and_nothing_is_lost(summarisers, restarted):
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


STEPS = st.lists(
    st.one_of(turns(), turns(), st.just("compact"), st.just("restart"), st.integers(1, 3)),
    min_size=8,
    max_size=18,
)
SUMMARISERS = st.sampled_from([(), (summariser(),), (failing(),), (summariser(lambda _: "?"),)])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, summarisers=SUMMARISERS, with_log=st.booleans())
def test_nothing_is_lost_and_what_is_left_is_a_conversation(steps, summarisers, with_log):
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


def long_task(number: int) -> Turn:
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
            await talk.log_turn(long_task(number)[1:-1])
            await talk.shorten()
            assert talk.notes()["content"].endswith("\nTask,  please")
        await talk.log_turn([reply("Done.")])
    for number in range(10):
        await talk.log_turn(long_task(number))
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

"""The compressor as the agent uses it, once and again and again."""

import copy
import itertools
import json
import random

import pytest

from hermes.context.compressor import ContextCompressor
from hermes.context.conversation import dict_tokens, estimate_messages_tokens_rough
from hermes.context.notes import (
    AFTER_END,
    END,
    IN_TAIL,
    IN_USERS,
    SUMMARY_PREFIX,
    is_summary,
    latest_request,
    read_summary,
    user_text,
)
from hermes.core.errors import Overloaded
from hermes.core.messages import from_dict
from hermes.tools.builtin.todo import TodoList
from tests.unit.context.compressor.talking import (
    GOOD,
    SYSTEM,
    Clock,
    Dicts,
    Script,
    asks,
    call,
    compressor,
    faults,
    long_talk,
    reads,
    result,
    says,
    text_of,
    user,
    work,
)

TASK = "Port the parser to the new grammar. Never touch src/generated.py."


def summary_in(messages: Dicts) -> str:
    (found,) = [message for message in messages if is_summary(message)]
    return text_of([found])


def test_head_one_summary_and_the_tail_are_left():
    script = Script(GOOD)
    engine, messages = compressor(script), long_talk()
    before = copy.deepcopy(messages)
    made = engine.compress(messages)
    assert messages == before
    assert faults(made) == []
    assert all(new is old for new, old in zip(made[:3], messages, strict=False))
    assert is_summary(made[3])
    tail = made[4:]
    assert tail
    assert all(new is old for new, old in zip(tail, messages[-len(tail) :], strict=True))
    assert estimate_messages_tokens_rough(made) < engine.threshold_tokens
    assert engine.compression_count == 1
    assert engine.summary_model == "small-1"
    assert len(script.asked) == 1


def test_the_goal_of_notes_without_a_model_is_the_first_request():
    begin = [SYSTEM, user(TASK), says("Where shall I begin?")]
    middle = [part for n in range(9) for part in (user(f"Next, step {n}."), *work(4, 10 * n))]
    made = compressor(Script("I'm sorry, I cannot do that.")).compress([*begin, *middle])
    notes = read_summary(next(message for message in made if is_summary(message))).notes
    assert notes["Goal"] == f"“{TASK}”"


def test_near_the_threshold_the_tail_gets_smaller_or_no_model_is_asked():
    script = Script(GOOD)
    engine = compressor(script, window=16_000)
    rounds = [part for n in range(9) for part in (user(f"Step {n}."), says("fine " * 150))]
    messages = [SYSTEM, user(TASK), says("ok"), *rounds]
    size = estimate_messages_tokens_rough(messages)
    prefix = 5_100  # of tools, which no compaction makes smaller
    assert engine.compress(messages, size + prefix) == messages
    assert not script.asked, "notes would free too little"
    more = [part for n in range(9, 14) for part in (user(f"Step {n}."), says("fine " * 150))]
    longer = [*messages, *more]
    size = estimate_messages_tokens_rough(longer)
    made = engine.compress(longer, size + prefix)
    assert len(script.asked) == 1 and engine.compression_count == 1
    assert size - estimate_messages_tokens_rough(made) >= 0.2 * engine.threshold_tokens
    calm = compressor(Script(GOOD), window=16_000)
    assert len(calm.compress(longer, 3_000)) > len(made), "a request that fits keeps its tail"


def test_a_request_far_back_follows_the_notes_word_for_word():
    made = compressor(Script(GOOD)).compress(long_talk())
    text = summary_in(made)
    assert text.startswith(SUMMARY_PREFIX)
    assert text.endswith(f"{END}\n{TASK}")
    assert AFTER_END in text
    assert text.count(TASK) == 1


def test_a_request_in_the_head_is_repeated_in_the_notes():
    messages = [SYSTEM, user(TASK), *work(40)]
    made = compressor(Script(GOOD)).compress(messages)
    assert made[1] is messages[1]
    text = summary_in(made)
    assert f"<user>\n{TASK}\n</user>" in text
    assert IN_USERS in text


def test_a_long_request_in_the_head_is_repeated_once_however_often():
    messages = [SYSTEM, user("Begin: " + "count the rows, " * 400), *work(40)]
    engine = compressor(Script(GOOD))
    for start in (100, 200, 300):
        messages = [*engine.compress(messages), *work(40, start)]
        assert summary_in(messages).count("<user>") == 1


def test_a_request_in_the_tail_stays_where_it_is():
    messages = [*long_talk(), says("Done."), user("Now write the tests."), *work(1, 90)]
    made = compressor(Script(GOOD)).compress(messages)
    assert faults(made) == []
    assert any(message is messages[-3] for message in made)
    assert IN_TAIL in summary_in(made)
    assert f"<user>\n{TASK}\n</user>" in summary_in(made)


def test_a_huge_request_is_bounded_with_its_head_and_tail():
    task = "Begin. " + "row " * 20_000 + "Sum the rows."
    messages = [*long_talk(2), says("ok"), user(task), *work(40)]
    made = compressor(Script(GOOD)).compress(messages)
    text = summary_in(made).partition(END)[2]
    assert text.startswith("\nBegin. row")
    assert text.endswith("Sum the rows.")
    assert dict_tokens(user(text)) < 3_000


@pytest.mark.parametrize("messages", [120, 119])
def test_a_tail_that_begins_with_the_user_takes_the_answer_before_it_along(messages: int):
    chat = [message for n in range(60) for message in (user(f"q{n} " * 60), says(f"a{n} " * 60))]
    made = compressor(Script(GOOD)).compress([SYSTEM, *chat[:messages]])
    assert faults(made) == []
    assert [message["role"] for message in made[:5]] == [
        *("system", "user", "assistant", "user", "assistant")
    ]
    assert END not in summary_in(made)


def test_summary_joins_the_user_message_when_the_reply_is_too_large():
    messages = [
        *long_talk(),
        says("so " * 3_000),
        user("And the tests?"),
        says("Yes."),
        user("Go."),
    ]
    made = compressor(Script(GOOD), protect_last_n=3).compress(messages)
    assert faults(made) == []
    assert [message["role"] for message in made[3:]] == ["user", "assistant", "user"]
    assert summary_in(made).endswith(f"{END}\nAnd the tests?")
    assert made[-1] is messages[-1]


def test_a_head_that_ends_with_the_user_gives_that_message_to_the_notes():
    messages = [SYSTEM, user("Hello, remember: use tabs only."), user(TASK), *work(40)]
    made = compressor(Script(GOOD)).compress(messages)
    assert faults(made) == []
    assert [message["role"] for message in made[:3]] == ["system", "user", "assistant"]
    assert "use tabs only" in summary_in(made)
    assert summary_in(made).endswith(TASK)


def test_news_at_the_start_of_the_tail_does_not_hide_the_request():
    news = user("[background process proc_1 (make): finished]\nall good")
    big = reads(70, "big.py", "z" * 12_000)
    messages = [*long_talk(), *big, news, *work(1, 80)]
    made = compressor(Script(GOOD), protect_last_n=4).compress(messages)
    assert faults(made) == []
    assert TASK in text_of(made)
    assert "proc_1" in text_of(made)


def test_short_conversation_is_pruned_without_a_model_call():
    script = Script(GOOD)
    engine = compressor(script)
    messages = [SYSTEM, user("hi"), says("hello"), user("how?"), says("so")]
    made = engine.compress(messages)
    assert all(new is old for new, old in zip(made, messages, strict=True))
    assert script.asked == []
    assert engine.compression_count == 0


def test_compacting_again_makes_no_model_call():
    script = Script(GOOD)
    engine = compressor(script)
    once = engine.compress(long_talk())
    assert engine.compress(once) == once
    assert len(script.asked) == 1
    assert engine.compression_count == 1


def test_a_summary_that_would_not_save_anything_is_not_used():
    chat = [SYSTEM, *(m for n in range(60) for m in (user(f"Always do {n}."), says("Yes.")))]
    engine = compressor(Script(GOOD), window=9_000, protect_last_n=3, target_ratio=0.1)
    made = engine.compress(chat)
    assert estimate_messages_tokens_rough(made) <= estimate_messages_tokens_rough(chat)


def test_the_whole_summary_stays_within_its_cap():
    long = GOOD + "\n".join(f"- finding {n}: {n * 7919}" for n in range(3_000))
    messages = long_talk(600)
    made = compressor(Script(long, window=500_000), window=200_000).compress(messages)
    assert estimate_messages_tokens_rough(m for m in made if is_summary(m)) <= 10_000


def test_the_summary_model_gets_its_budget():
    little, much = Script(GOOD, window=500_000), Script(GOOD, window=500_000)
    compressor(little, window=200_000, target_ratio=0.1).compress(long_talk(24))
    assert little.most == [2 * 2_000]  # the least there is; an answer may be twice as long
    compressor(much, window=200_000).compress(long_talk(600))
    assert 2 * 5_000 <= much.most[0] < 2 * 10_000  # the cap, with room for the facts


def test_the_todo_list_survives_in_its_own_lines():
    shown = "Todo list: 2 tasks, 1 in progress, 1 pending\n[>] a: port it\n[ ] b: test it"
    todo = [asks(call(99, "todo")), result(99, "todo", shown)]
    messages = [*long_talk(3), *todo, *work(40, 200)]
    engine = compressor(Script(GOOD))
    for _ in range(3):
        messages = engine.compress(messages)
        todos = TodoList()
        todos.restore([from_dict(message) for message in messages])
        assert todos.text() == shown
        messages = [*messages, *work(40, 300)]


def test_a_newer_list_in_the_tail_is_the_one_that_counts():
    old = [asks(call(98, "todo")), result(98, "todo", "Todo list: 1 task\n[ ] a: old")]
    new = [asks(call(99, "todo")), result(99, "todo", "Todo list: 1 task\n[x] a: new")]
    made = compressor(Script(GOOD)).compress([*long_talk(3), *old, *work(40, 200), *new])
    assert "[ ] a: old" not in text_of(made)
    todos = TodoList()
    todos.restore([from_dict(message) for message in made])
    assert [todo.content for todo in todos.items] == ["new"]


def test_pruned_conversation_is_used_while_models_fail():
    clock, script = Clock(), Script(Overloaded("503"), GOOD)
    engine, messages = compressor(script, clock=clock), long_talk(24)
    made = engine.compress(messages)
    assert len(made) == len(messages)
    assert "[read_file src/part_0.py: ok" in text_of(made)
    assert faults(made) == []
    assert engine.compression_count == 0
    assert engine.rest == pytest.approx(60, abs=5)


def test_cooldown_makes_no_model_call_and_compacts_only_at_the_window():
    clock, script = Clock(), Script(Overloaded("503"), GOOD)
    engine, messages = compressor(script, clock=clock), long_talk(24)
    engine.compress(messages)
    assert not engine.should_compress(10_000)
    assert not engine.should_compress(16_999)
    assert engine.should_compress(17_000)
    clock.now += 59
    engine.compress(messages)
    assert len(script.asked) == 1
    clock.now += 2
    assert engine.should_compress(10_000)
    made = engine.compress(messages)
    assert len(script.asked) == 2
    assert any(map(is_summary, made))


def test_conversation_that_does_not_fit_pruned_is_extracted_without_a_model():
    messages = [*long_talk(3), *(m for n in range(400) for m in reads(n, f"lib/mod_{n}.py"))]
    engine = compressor(Script(Overloaded("503")))
    made = engine.compress(messages)
    assert (engine.compression_count, engine.summary_model) == (1, "")
    assert faults(made) == []
    text = summary_in(made)
    assert TASK in text
    assert "- read_file lib/mod_39" in text
    assert "`lib/mod_39" in text
    assert estimate_messages_tokens_rough(made) < engine.threshold_tokens


def test_the_real_size_of_the_request_decides_what_fits():
    messages = long_talk(24)
    engine = compressor(Script(Overloaded("503")))
    engine.compress(messages, current_tokens=60_000)
    assert (engine.compression_count, engine.summary_model) == (1, "")


def test_a_reset_or_another_model_ends_the_rest():
    engine = compressor(Script(Overloaded("503")))
    for end in (engine.on_session_reset, lambda: engine.update_model("other-2", 20_000)):
        engine.compress(long_talk(24))
        assert engine.rest
        end()
        assert not engine.rest
    engine.compress(long_talk(24))
    engine.on_session_start("s2", parent_session_id="s")
    engine.update_model("", 18_000)
    assert engine.rest


def test_the_threshold_goes_with_the_window():
    engine = ContextCompressor(200_000)
    assert engine.name == "compressor"
    assert engine.threshold_tokens == 100_000
    assert not engine.should_compress(99_999)
    assert engine.should_compress(100_000)
    engine.update_model("small", 32_000)
    assert (engine.context_length, engine.threshold_tokens) == (32_000, 16_000)
    engine.on_session_start("s", context_length=64_000)
    assert (engine.context_length, engine.threshold_tokens) == (64_000, 32_000)
    engine.update_model("", 40_000)  # a refusal showed it
    engine.on_session_start("s2", context_length=64_000, parent_session_id="s")
    assert engine.context_length == 40_000


def test_usage_is_remembered_and_reset():
    engine = ContextCompressor(1_000)
    engine.update_from_response(
        {"prompt_tokens": 600, "completion_tokens": 50, "total_tokens": 650}
    )
    assert engine.should_compress()
    assert engine.get_status()["last_prompt_tokens"] == 600
    assert (engine.last_completion_tokens, engine.last_total_tokens) == (50, 650)
    engine.on_session_reset()
    assert not engine.should_compress()
    assert engine.last_total_tokens == 0


def test_a_summary_of_another_program_is_brought_up_to_date():
    old = says(
        "[CONTEXT COMPACTION — REFERENCE ONLY] x\n\n## Goal\nwin\n## Relevant Files\n- lib/q.py"
    )
    messages = [SYSTEM, user("hi"), old, user(TASK), *work(40)]
    script = Script(GOOD)
    made = compressor(script).compress(messages)
    assert "## Goal\nwin" in script.questions[0]
    assert "`lib/q.py`" in summary_in(made)
    assert faults(made) == []


def test_summary_among_the_last_messages_is_replaced_by_the_new_one():
    old = user("[CONTEXT COMPACTION] x\n\n## Goal\nwin the cup")
    messages = [*long_talk(), says("Done."), old, says("Yes."), user("And now?"), says("Hm.")]
    script = Script(GOOD)
    made = compressor(script).compress(messages)
    assert "win the cup" in script.questions[0]
    assert sum(map(is_summary, made)) == 1
    assert faults(made) == []


def test_broken_history_is_valid_after_compaction():
    messages = long_talk()
    del messages[5]  # a result in the middle
    broken = [*messages[:-1], user("?"), result(77, "terminal", "of no call"), says("Hm.")]
    for engine in (compressor(Script(GOOD)), compressor(window=400_000)):
        assert faults(engine.compress(broken)) == []


def test_the_request_with_an_image_keeps_the_image():
    blocks = [
        {"type": "text", "text": TASK},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
    ]
    messages = [SYSTEM, user("hi"), says("hello"), user(blocks), *work(40)]
    script = Script(GOOD)
    engine = compressor(script)
    for start in (100, 200):
        messages = [*engine.compress(messages), *work(40, start)]
        (summary,) = filter(is_summary, messages)
        assert summary["content"][1:] == blocks
    assert "base64" not in "".join(script.questions)


def test_results_in_the_tail_are_cut_when_the_window_is_too_small_for_them():
    messages = [*long_talk(30), *reads(99, "big.log", "y" * 120_000)]
    engine = compressor(Script(GOOD))
    made = engine.compress(messages)
    assert faults(made) == []
    assert estimate_messages_tokens_rough(made) < 17_000
    assert TASK in text_of(made)


@pytest.mark.parametrize("window", [1_000, 4_000, 8_000])
def test_small_windows_keep_the_task_too(window: int):
    engine = compressor(Script("rubbish"), window=window)
    messages = long_talk(30)
    for start in (100, 200, 300):
        made = engine.compress(messages)
        assert TASK in text_of(made)
        assert faults(made) == []
        assert estimate_messages_tokens_rough(made) < estimate_messages_tokens_rough(messages)
        messages = [*made, *work(30, start)]


FORGETFUL = GOOD.replace("src/part_1.py", "it").replace("no new dependencies", "none at all")
SUMMARISERS = {
    "good": (GOOD,),
    "forgetful": (FORGETFUL,),
    "rubbish": ("lorem ipsum " * 90,),
    "down": (Overloaded("503"),),
    "moody": (Overloaded("503"), GOOD, "", "", FORGETFUL, "no"),
}


@pytest.mark.parametrize("kind", SUMMARISERS)
def test_task_rules_and_files_are_there_after_four_compactions(kind: str):
    clock = Clock()
    engine = compressor(Script(*SUMMARISERS[kind]), window=32_000, clock=clock)
    task = "Move the payment code into shop/payments and keep the old names importable."
    messages: Dicts = [
        *(SYSTEM, user("This is the shop."), says("Hello.")),
        *(user("First fix the totals. Never touch migrations/."), *work(20), says("Fixed.")),
        *(user("Semicolons as the delimiter, always."), *work(20, 100, "export"), says("ok")),
        *(user(task), *work(30, 200, "pay")),
    ]
    for part in range(4):
        given = estimate_messages_tokens_rough(messages)
        made = engine.compress(messages)
        text = text_of(made)
        for needed in (task, "Never touch migrations/.", "Semicolons as the delimiter, always."):
            assert needed in text, f"{needed} after compaction {part + 1}"
        calls = json.dumps(made)
        for path in ("pay/part_229.py", "settings/pay.toml") if part else ("pay/part_229.py",):
            assert path in calls, f"{path} after compaction {part + 1}"
        assert faults(made) == []
        assert estimate_messages_tokens_rough(made) < given
        more = user("One more thing: the secret stays in settings/pay.toml, don't move it.")
        messages = [*made, *([more] if part == 0 else []), *_tested(part)]
        if part == 1:
            messages += [says("Half done."), user("ok, go on")]
        clock.now += 700
    assert sum(map(is_summary, made)) == (0 if kind == "down" else 1)


def _tested(part: int) -> Dicts:
    """Long work on few files."""
    numbers = range(300 + 50 * part, 340 + 50 * part)
    texts = {n: "\n".join(f"{n}: passed {k}" for k in range(90)) for n in numbers}
    return [message for n in numbers for message in reads(n, f"tests/test_{n % 7}.py", texts[n])]


def conversation(rng: random.Random) -> Dicts:
    """Any shape an agent can leave behind."""
    messages: Dicts = [SYSTEM]
    number = 0
    for turn in range(rng.randint(1, 9)):
        messages.append(user(_said(rng, turn)))
        if rng.random() < 0.1:
            messages.append(user(_said(rng, turn)))
        for _ in range(rng.choice([0, 0, 1, 3, 12])):
            group = range(number, number + rng.choice([1, 1, 1, 2, 5]))
            number = group.stop
            messages.append(asks(*(_call(rng, n) for n in group), say=rng.choice(["", "Hm."])))
            messages += [result(n, "read_file", _text(rng)) for n in group]
            if rng.random() < 0.05:
                messages.append(user("[background process proc_1 (make): finished]\nok"))
        if messages[-1]["role"] != "assistant":
            messages.append(says(f"Answer {turn}. " + _text(rng)[:400]))
    cut = rng.random()
    while cut < 0.5 and len(messages) > 2 and messages[-1]["role"] != "tool":
        messages.pop()
        cut += 0.1
    return messages if messages[-1].get("tool_calls") is None else messages[:-1]


def _said(rng: random.Random, turn: int) -> str:
    words = f"Request {turn}-{rng.random():.6f}: do part {turn}. "
    return words + rng.choice(["", "Never touch x.py.", "Please. " * 30, "long " * 700])


def _call(rng: random.Random, number: int):
    extra = {"content": "c" * rng.choice([0, 300, 3_000])} if rng.random() < 0.3 else {}
    return call(
        number, rng.choice(["read_file", "write_file"]), path=f"src/f{number % 9}.py", **extra
    )


def _text(rng: random.Random) -> str:
    return rng.choice(
        ["ok", "x" * 150, "line of text\n" * 40, f"{rng.random()}\n" * 400, "same " * 99]
    )


def pairs(messages: Dicts) -> int:
    """How often the user speaks twice in a row."""
    roles = [message["role"] for message in messages]
    return sum(one == other == "user" for one, other in itertools.pairwise(roles))


@pytest.mark.parametrize("seed", range(40))
def test_any_conversation_stays_valid_and_keeps_the_request(seed: int):
    rng = random.Random(seed)
    messages = conversation(rng)
    assert faults(messages) == []
    script = Script(*SUMMARISERS[rng.choice(list(SUMMARISERS))])
    clock = Clock()
    engine = compressor(
        script,
        window=rng.choice([3_000, 8_000, 20_000, 60_000]),
        clock=clock,
        protect_last_n=rng.choice([1, 3, 20]),
        target_ratio=rng.choice([0.1, 0.2, 0.8]),
    )
    for _ in range(3):
        before = copy.deepcopy(messages)
        request = user_text(messages[latest_request(messages)])
        made = engine.compress(messages, rng.choice([None, 2_000, 200_000]))
        assert messages == before, "what was given was changed"
        assert made[0] is messages[0]
        assert faults(made) == []
        assert pairs(made) <= pairs(messages)
        assert estimate_messages_tokens_rough(made) <= estimate_messages_tokens_rough(messages)
        assert request[:200] in text_of(made)
        assert request[-200:] in text_of(made)
        assert sum(map(is_summary, made)) <= 1
        messages = [*made, *conversation(rng)[1:]] if made[-1]["role"] != "user" else made
        clock.now += rng.choice([0, 100, 1_000])


def test_documented_attributes_tell_the_budgets():
    engine = ContextCompressor(200_000)
    assert engine.tail_token_budget == 20_000
    assert engine.max_summary_tokens == 10_000
    assert (engine.protect_first_n, engine.protect_last_n) == (3, 20)
    engine.update_model("other", 100_000)
    assert engine.tail_token_budget == 10_000
    engine.update_from_response({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7})
    status = engine.get_status()
    assert (status["last_completion_tokens"], status["last_total_tokens"]) == (2, 7)

"""Compaction after compaction: what must not get lost, and hundreds of shapes."""

import copy
import itertools
import json
import random

import pytest

from hermes.context.conversation import estimate_messages_tokens_rough
from hermes.context.facts import latest_request, user_text
from hermes.context.notes import is_summary
from hermes.core.errors import Overloaded
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
    reads,
    result,
    says,
    text_of,
    user,
    work,
)

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


@pytest.mark.parametrize("seed", range(60))
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

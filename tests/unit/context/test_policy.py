"""The one estimate of the size of a request, made better by what the API reports."""

import pytest

from hermes.context.engine import BuiltinEngine, Dicts
from hermes.context.policy import CompactionPolicy, TokenCounter, needs_compaction
from hermes.core.messages import System, User
from hermes.core.model import ToolSpec, messages_tokens, tools_tokens

SYSTEM = System("be brief " * 100)
TOOLS = (ToolSpec("look", "look at it", {"type": "object", "properties": {}}),)


def said(*sizes: int) -> list[User]:
    return [User.say("word " * size) for size in sizes]


def test_system_prompt_and_tools_count():
    messages = said(10, 20)
    expected = messages_tokens([SYSTEM, *messages]) + tools_tokens(TOOLS)
    assert TokenCounter([SYSTEM], TOOLS).tokens(messages) == expected


def test_token_count_of_the_api_is_used_unchanged():
    counter, messages = TokenCounter([SYSTEM], TOOLS), said(10, 20)
    counter.record(messages, 777)
    assert counter.tokens(messages) == 777


def test_new_messages_are_estimated_with_the_ratio_of_the_model():
    counter, messages = TokenCounter([SYSTEM], TOOLS), said(100, 200)
    estimate = counter.tokens(messages)
    counter.record(messages, estimate // 2)
    more = [*messages, *said(400)]
    assert counter.tokens(more) == pytest.approx(
        estimate / 2 + messages_tokens(said(400)) / 2, abs=2
    )


def test_a_shorter_conversation_is_estimated_with_what_was_learnt():
    counter, messages = TokenCounter([SYSTEM], TOOLS), said(100, 200, 300)
    estimate = counter.tokens(messages)
    counter.record(messages, estimate // 2)
    shorter = messages[1:]
    after = counter.compressed(messages, shorter)
    assert after == pytest.approx(TokenCounter([SYSTEM], TOOLS).tokens(shorter) / 2, rel=0.02)
    counter.adopt(shorter, after)
    assert counter.tokens(shorter) == after


@pytest.mark.parametrize("nonsense", [0, -1, 1, 7])
def test_a_count_that_is_far_too_small_is_passed_over(nonsense):
    counter, messages = TokenCounter([SYSTEM], TOOLS), said(100)
    estimate = counter.tokens(messages)
    counter.record(messages, nonsense)
    assert counter.tokens(messages) == estimate


def test_a_large_count_is_believed_but_what_is_new_stays_in_proportion():
    counter, messages = TokenCounter([SYSTEM], TOOLS), said(100)
    counter.record(messages, 10**6)
    assert counter.tokens(messages) == 10**6
    assert counter.tokens([*messages, *said(50)]) <= 10**6 + 3 * messages_tokens(said(50))


@pytest.mark.parametrize(
    ("size", "reported", "expected"),
    [(850, 0, False), (3000, 0, True), (3000, 1000, False), (10, 8500, True), (10, 8499, False)],
)
def test_hygiene_goes_by_the_reported_count_first(size, reported, expected):
    history = said(*[size] * 4)
    assert needs_compaction(history, 10_000, reported=reported) is expected


def test_hygiene_leaves_short_conversations_and_those_without_compaction_alone():
    history = said(*[9000] * 4)
    assert not needs_compaction(history[:3], 10_000)
    assert not needs_compaction(history, 10_000, enabled=False)
    assert needs_compaction(history, 10_000)


def test_reported_count_is_known_until_the_conversation_is_compacted():
    counter, messages = TokenCounter([SYSTEM], TOOLS), said(10, 20)
    assert not counter.is_reported
    counter.record(messages, 777)
    assert counter.is_reported
    counter.adopt(messages[1:], 300)
    assert not counter.is_reported


async def test_a_compaction_waits_until_the_conversation_has_grown_or_fills_the_window():
    class Drop(BuiltinEngine):
        name = "drop"
        threshold_tokens, context_length = 8_000, 16_000

        def should_compress(self, prompt_tokens: int | None = None) -> bool:
            return (prompt_tokens or 0) >= self.threshold_tokens

        def compress(self, messages: Dicts, current_tokens: int | None = None) -> Dicts:
            return [messages[0], *messages[2:]]

    counter = TokenCounter()
    policy = CompactionPolicy(Drop(), counter, SYSTEM)
    messages = said(10, 10, 10)

    def at(tokens: int) -> tuple[bool, bool]:
        counter.adopt(messages, tokens)
        return policy.is_due(messages), policy.pays_between_turns(messages)

    assert at(6_700) == (False, False)
    assert at(7_000) == (False, True)
    assert at(8_000) == (True, True)
    made = await policy.compress(messages)
    assert made is not None
    policy.new_turn()
    after = made.tokens_after
    assert at(after + 1_500) == (False, False)
    assert at(max(after + 1_700, 8_000)) == (True, True)
    assert at(13_700) == (True, True)

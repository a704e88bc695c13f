"""The one estimate of the size of a request, made better by what the API reports."""

import pytest

from hermes.context.policy import TokenCounter, needs_compaction
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

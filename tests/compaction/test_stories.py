"""The transcripts themselves are what they claim to be."""

import pytest

from hermes.context.conversation import estimate_messages_tokens_rough
from hermes.sdk.testing.context import conversation_faults
from tests.compaction.checks import lost, missing
from tests.compaction.stories import NAMES, story

pytestmark = pytest.mark.parametrize("name", NAMES)


def test_a_transcript_is_long_and_valid(name: str):
    first, *rest = story(name)
    assert 60 <= len(first.messages) <= 400
    assert estimate_messages_tokens_rough(first.messages) > 48_000
    whole = list(first.messages)
    for stretch in rest:
        assert estimate_messages_tokens_rough(stretch.messages) > 6_000
        whole += stretch.messages
        assert conversation_faults(whole) == []
    assert conversation_faults(first.messages) == []
    assert len(whole) <= 400


def test_facts_that_must_survive_are_in_the_story(name: str):
    messages = []
    for stretch in story(name):
        messages += stretch.messages
        facts = stretch.facts
        assert facts.constraints
        assert facts.paths
        assert lost(facts, messages) == {}
        assert missing(facts.facts, messages) == []


def test_task_is_not_repeated_at_the_end(name: str):
    """Otherwise keeping the last messages would be enough."""
    first = story(name)[0]
    end = first.messages[len(first.messages) * 9 // 10 :]
    assert "task" in lost(first.facts, end)

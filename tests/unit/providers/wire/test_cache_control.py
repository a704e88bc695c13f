"""Marks on dicts: the system prompt and the last three messages, and the input left alone."""

import copy

import pytest

from hermes.core.errors import ConfigError
from hermes.providers.wire.codec import apply_anthropic_cache_control

MARK = {"type": "ephemeral"}
SYSTEM = {"role": "system", "content": "be brief"}


def user(text="hi"):
    return {"role": "user", "content": text}


def marked_places(messages):
    return [at for at, message in enumerate(messages) if "cache_control" in str(message)]


def test_the_system_prompt_and_the_last_three_are_marked():
    messages = [SYSTEM, *(user(f"{n}") for n in range(6))]
    before = copy.deepcopy(messages)
    marked = apply_anthropic_cache_control(messages)
    assert marked_places(marked) == [0, 4, 5, 6]
    assert marked[6]["content"] == [{"type": "text", "text": "5", "cache_control": MARK}]
    assert messages == before
    assert marked[1] is messages[1]


def test_without_a_system_prompt_the_last_four_are_marked():
    assert marked_places(apply_anthropic_cache_control([user() for _ in range(6)])) == [2, 3, 4, 5]


def test_a_short_conversation_has_fewer_marks():
    assert marked_places(apply_anthropic_cache_control([SYSTEM, user()])) == [0, 1]
    assert apply_anthropic_cache_control([]) == []


def test_one_hour_sets_the_ttl():
    (marked,) = apply_anthropic_cache_control([user()], cache_ttl="1h")
    assert marked["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_a_list_carries_it_on_its_last_block():
    blocks = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]
    (marked,) = apply_anthropic_cache_control([{"role": "user", "content": blocks}])
    assert "cache_control" not in marked["content"][0]
    assert marked["content"][1]["cache_control"] == MARK


@pytest.mark.parametrize("empty", [None, ""])
def test_empty_content_carries_it_on_the_message(empty):
    (marked,) = apply_anthropic_cache_control([{"role": "assistant", "content": empty}])
    assert marked == {"role": "assistant", "content": empty, "cache_control": MARK}


def test_tool_messages_carry_it_only_where_anthropic_itself_listens():
    tool = {"role": "tool", "tool_call_id": "1", "content": ""}
    assert apply_anthropic_cache_control([tool]) == [tool]
    (marked,) = apply_anthropic_cache_control([tool], native_anthropic=True)
    assert marked["cache_control"] == MARK


@pytest.mark.parametrize("cannot", [[], ["text"]])
def test_a_slot_that_cannot_be_used_goes_to_an_earlier_message(cannot):
    messages = [SYSTEM, user("a"), user("b"), user("c"), {"role": "user", "content": cannot}]
    assert marked_places(apply_anthropic_cache_control(messages)) == [0, 1, 2, 3]


def test_an_unknown_time_is_a_clear_error():
    with pytest.raises(ConfigError, match="'2d'"):
        apply_anthropic_cache_control([user()], cache_ttl="2d")

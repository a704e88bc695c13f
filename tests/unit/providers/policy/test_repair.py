"""A request is sent again without what the provider refused, and stays repaired."""

import pytest

from hermes.core.errors import OptionRefused, ServerFault, SignatureRefused, UnicodeRefused
from hermes.core.messages import (
    Assistant,
    Image,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from hermes.core.model import ModelRequest, Retrying, ToolSpec
from hermes.core.testing import ScriptedModel
from hermes.providers.policy.repair import RequestRepairModel
from tests.cases import table_test
from tests.unit.providers.policy.parts import ask, kinds

SIGNED = Assistant(
    (
        Thinking("so that is it", details=({"signature": "abc"},), items=({"encrypted": "x"},)),
        Text("I will look."),
        ToolCall("c1", "read_file", "{}", extra={"thought_signature": "def"}),
    ),
    "tool_calls",
)
UNSIGNED = Assistant(
    (Thinking("so that is it"), Text("I will look."), ToolCall("c1", "read_file", "{}")),
    "tool_calls",
)
HISTORY = (System("be brief"), User.say("hi"), SIGNED, ToolResult("c1", "read_file", "text"))
BAD = "a\ud83db\x00c\ufffe"
GOOD = "a�b�c�"


async def test_refused_signatures_are_dropped_and_the_texts_kept():
    with ScriptedModel([SignatureRefused("bad signature"), "fine"]) as inner:
        events = await ask(RequestRepairModel(inner), ModelRequest(HISTORY))
    assert inner.requests[1].messages == (*HISTORY[:2], UNSIGNED, HISTORY[3])
    assert events[0] == Retrying("bad signature; sent again without earlier reasoning", 1, 0)
    assert kinds(events) == ["Retrying", "Reply"]


async def test_later_requests_of_the_turn_are_sent_without_signatures_at_once():
    with ScriptedModel([SignatureRefused("bad signature"), "one", "two"]) as inner:
        model = RequestRepairModel(inner)
        await ask(model, ModelRequest(HISTORY))
        events = await ask(model, ModelRequest((*HISTORY, SIGNED)))
    assert kinds(events) == ["Reply"]
    assert inner.requests[2].messages == (*HISTORY[:2], UNSIGNED, HISTORY[3], UNSIGNED)


async def test_a_repaired_history_is_not_made_again_with_each_call():
    with ScriptedModel([SignatureRefused("bad signature"), "one", "two"]) as inner:
        model = RequestRepairModel(inner)
        await ask(model, ModelRequest(HISTORY))
        await ask(model, ModelRequest((*HISTORY, User.say("more"))))
    before, after = inner.requests[1].messages, inner.requests[2].messages
    assert all(new is old for new, old in zip(after, before, strict=False))
    assert all(after[n] is HISTORY[n] for n in (0, 1, 3)), "nothing to repair: the same object"


async def test_a_second_refusal_is_final():
    inner = ScriptedModel([SignatureRefused("1"), SignatureRefused("2")])
    with inner, pytest.raises(SignatureRefused, match="2"):
        await ask(RequestRepairModel(inner), ModelRequest(HISTORY))


@pytest.mark.parametrize("kind", [SignatureRefused, UnicodeRefused])
async def test_without_anything_to_repair_the_refusal_is_final(kind):
    with ScriptedModel([kind("no")]) as inner, pytest.raises(kind):
        await ask(RequestRepairModel(inner), ModelRequest((User.say("hi"),)))


async def test_refused_characters_are_replaced_everywhere():
    schema = {"properties": {"path": {"description": BAD}}}
    request = ModelRequest(
        (
            System(BAD),
            User((Text(BAD), Image("https://x.test/i.png"))),
            Assistant((Thinking(BAD, details=({"text": BAD},)), Text(BAD))),
            ToolResult("c1", "read_file", BAD, failed=True),
        ),
        (ToolSpec("read_file", BAD, schema), ToolSpec("ok", "fine", {})),
    )
    with ScriptedModel([UnicodeRefused("bad text"), "fine"]) as inner:
        events = await ask(RequestRepairModel(inner), request)
    sent = inner.requests[1]
    assert sent.messages == (
        System(GOOD),
        User((Text(GOOD), Image("https://x.test/i.png"))),
        Assistant((Thinking(GOOD, details=({"text": GOOD},)), Text(GOOD))),
        ToolResult("c1", "read_file", GOOD, failed=True),
    )
    good_schema = {"properties": {"path": {"description": GOOD}}}
    assert sent.tools == (ToolSpec("read_file", GOOD, good_schema), ToolSpec("ok", "fine", {}))
    assert kinds(events) == ["Retrying", "Reply"]


@table_test
async def test_tool_arguments_are_cleaned_also_where_they_are_escaped(arguments, sent):
    call = Assistant((ToolCall("c", "t", arguments),))
    with ScriptedModel([UnicodeRefused("bad text"), "fine"]) as inner:
        await ask(RequestRepairModel(inner), ModelRequest((System("\x00"), call)))
    assert inner.requests[1].messages[1].calls[0].arguments == sent


async def test_ordinary_text_is_not_changed():
    text = "line\r\n\ttab, ünïcödé, 漢字, 😀, \u200d\ufeff"
    with ScriptedModel([UnicodeRefused("bad text"), "fine"]) as inner:
        await ask(RequestRepairModel(inner), ModelRequest((System("\x00"), User.say(text))))
    assert inner.requests[1].messages[1].text == text


async def test_two_halves_of_one_character_become_that_character():
    with ScriptedModel([UnicodeRefused("bad text"), "fine"]) as inner:
        await ask(RequestRepairModel(inner), ModelRequest((User.say("\ud83d" + "\ude00"),)))
    assert inner.requests[1].messages[0].text == "😀"


async def test_both_repairs_can_be_needed_for_one_request():
    history = (User.say("\x00"), SIGNED)
    with ScriptedModel([SignatureRefused("1"), UnicodeRefused("2"), "fine"]) as inner:
        events = await ask(RequestRepairModel(inner), ModelRequest(history))
    assert inner.requests[2].messages == (User.say("�"), UNSIGNED)
    assert kinds(events) == ["Retrying", "Retrying", "Reply"]


async def test_other_errors_pass():
    with ScriptedModel([ServerFault("down")]) as inner, pytest.raises(ServerFault):
        await ask(RequestRepairModel(inner), ModelRequest(HISTORY))


async def test_an_option_the_model_refuses_is_left_out():
    asked = ModelRequest(HISTORY[:2], reasoning_effort="high", temperature=0.5, max_tokens=9)
    with ScriptedModel([OptionRefused("no effort"), "fine"]) as inner:
        events = await ask(RequestRepairModel(inner), asked)
    assert kinds(events) == ["Retrying", "Reply"]
    assert inner.requests[1] == ModelRequest(HISTORY[:2], max_tokens=9)


async def test_a_model_that_refused_an_option_is_not_asked_for_it_again():
    asked = ModelRequest(HISTORY[:2], reasoning_effort="high")
    plain: set[tuple[str, str]] = set()
    with ScriptedModel([OptionRefused("no effort"), "one", "two"]) as inner:
        await ask(RequestRepairModel(inner, plain), asked)
        events = await ask(RequestRepairModel(inner, plain), asked)
    assert kinds(events) == ["Reply"]
    assert inner.requests[2].reasoning_effort == ""


async def test_refusal_of_something_not_sent_is_raised():
    with ScriptedModel([OptionRefused("no effort")]) as inner, pytest.raises(OptionRefused):
        await ask(RequestRepairModel(inner), ModelRequest(HISTORY[:2]))

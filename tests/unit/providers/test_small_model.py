"""A small model is offered a few tools with few parameters, under a strict grammar."""

import json

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import ProviderError, ServerFault, Transient
from hermes.core.messages import Assistant, Image, Message, System, Text, ToolCall, ToolResult, User
from hermes.core.model import (
    ModelEvent,
    ModelRequest,
    Reply,
    Retrying,
    TextDelta,
    ToolSpec,
    Usage,
)
from hermes.core.testing import ScriptedModel, Step
from hermes.providers.small_model import (
    ReplyTextReader,
    SmallModel,
    describe_tool,
    estimate_tokens,
    fit_conversation,
    is_looping,
    prompt_prefix,
    reply_schema,
    select_tools,
    similar_examples,
    small_profile,
)
from tests.cases import table_test

SMALL = small_profile()
TEXT = {"type": "string", "description": "words that only cost tokens", "default": "x"}
SHORT_TEXT = {"type": "string", "maxLength": SMALL.max_argument}


def spec(name: str, required: tuple[str, ...] = (), **properties: dict[str, object]) -> ToolSpec:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSpec(name, f"Does {name}. And much more.\nReally.", parameters)


READ = spec("read_file", ("path",), path=TEXT, offset={"type": "integer"})
SEARCH = spec("search_files", ("pattern",), pattern=TEXT, target={"enum": ["content", "files"]})
TERMINAL = spec("terminal", ("command",), command=TEXT, timeout={"type": "integer"})
WRITE = spec("write_file", ("path", "content"), path=TEXT, content=TEXT)
PATCH = spec("patch", (), mode=TEXT, path=TEXT, old_string=TEXT, new_string=TEXT, patch=TEXT)


def test_of_ten_tools_the_five_most_useful_are_offered_in_a_fixed_order():
    others = [spec(f"other_{number}") for number in range(6)]
    names = [s.name for s in select_tools((*others, WRITE, TERMINAL, PATCH, SEARCH, READ), SMALL)]
    assert names == ["terminal", "read_file", "write_file", "patch", "search_files"]


def test_a_known_tool_keeps_the_parameters_of_its_hint_and_others_the_required_ones():
    mail = spec("mail", ("to",), to=TEXT, cc=TEXT)
    read, search, other = select_tools((READ, SEARCH, mail), SMALL)
    assert read.parameters["properties"] == {"path": SHORT_TEXT}
    assert list(search.parameters["properties"]) == ["pattern", "target"]
    assert other.parameters["properties"] == {"to": SHORT_TEXT}
    assert describe_tool(other) == "mail(to): Does mail"


def test_a_tool_called_reply_is_left_out():
    assert select_tools((spec("reply"), READ), SMALL) == select_tools((READ,), SMALL)


def test_a_parameter_with_a_reference_admits_anything():
    (tool,) = select_tools((spec("plan", ("steps",), steps={"$ref": "#/$defs/Steps"}),), SMALL)
    assert tool.parameters["properties"] == {"steps": {}}


@table_test
def test_the_grammar_admits_one_call_or_one_reply(answer: dict[str, object], valid: bool):
    schema = reply_schema(select_tools((READ, SEARCH, TERMINAL, WRITE), SMALL), SMALL)
    assert jsonschema_rs.is_valid(schema, answer) is valid, json.dumps(answer)


def test_without_tools_only_a_reply_is_possible():
    schema = reply_schema((), SMALL)
    assert jsonschema_rs.is_valid(schema, {"reply": "hello"})
    assert not jsonschema_rs.is_valid(schema, {"terminal": {"command": "ls"}})


def test_every_text_in_the_grammar_has_an_end():
    schema = reply_schema(select_tools((READ, WRITE), SMALL), SMALL)
    for answer, longest in [
        (lambda text: {"reply": text}, SMALL.max_text),
        (lambda text: {"write_file": {"path": "a", "content": text}}, SMALL.max_text),
        (lambda text: {"read_file": {"path": text}}, SMALL.max_argument),
    ]:
        assert jsonschema_rs.is_valid(schema, answer("x" * longest))
        assert not jsonschema_rs.is_valid(schema, answer("x" * (longest + 1)))


def fed(pieces: list[str]) -> list[str]:
    decoder = ReplyTextReader()
    return [decoder.feed(piece) for piece in pieces]


def test_text_comes_out_as_it_goes_in():
    assert fed(['{"re', 'ply":"Hel', "lo wor", 'ld"}']) == ["", "Hel", "lo wor", "ld"]


def test_a_call_of_a_tool_shows_nothing():
    assert fed(['{"terminal":', '{"command":"echo \\"reply\\""}}']) == ["", ""]


@table_test
def test_escapes_are_decoded_even_when_they_arrive_letter_by_letter(json_text: str, text: str):
    decoder = ReplyTextReader()
    assert "".join(decoder.feed(letter) for letter in json_text) == text
    assert decoder.text == text


def test_an_unfinished_escape_waits():
    assert fed(['{"reply":"a\\', "n", "b\\u00", 'e9"}']) == ["a", "\n", "b", "é"]


@given(st.text(), st.booleans(), st.integers(min_value=1, max_value=7))
def test_any_text_survives_any_cutting(text: str, ascii_only: bool, size: int):
    written = json.dumps({"reply": text}, ensure_ascii=ascii_only)
    pieces = [written[start : start + size] for start in range(0, len(written), size)]
    assert "".join(fed(pieces)) == text


TOOLS = (TERMINAL, READ, WRITE, SEARCH)


def call(name: str, arguments: str) -> Assistant:
    return Assistant((ToolCall("c1", name, arguments),), "tool_calls")


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages]


def test_the_front_is_short_and_the_same_every_time():
    first, second = prompt_prefix(TOOLS, SMALL), prompt_prefix(TOOLS, SMALL)
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
    # Four bytes are about one token in English; the target is 700 tokens.
    assert sum(len(message.text) for message in first) < 700 * 4
    assert isinstance(first[0], System)
    assert "terminal(command, timeout)" in first[0].text


def test_examples_of_tools_that_are_not_offered_are_left_out():
    shown = texts(prompt_prefix((READ,), SMALL))
    assert '{"read_file":{"path":"settings.json"}}' in shown
    assert not any("terminal" in text or "write_file" in text for text in shown)
    assert any(text.startswith('{"reply":"The capital') for text in shown)


@table_test
def test_the_examples_most_like_the_question_are_shown(question: str, shown: list[str]):
    specs = (*TOOLS, PATCH)
    messages = similar_examples(question, specs, SMALL)
    users = {example.user for example in SMALL.library}
    assert [text for text in texts(messages) if text in users] == shown
    assert estimate_tokens(messages, SMALL) < 350


def test_similar_examples_of_tools_that_are_not_offered_are_left_out():
    assert similar_examples("Set the port in a.ini to 80", (READ,), SMALL) == ()


@table_test
def test_a_text_that_needs_no_tool_is_asked_for_with_a_short_prompt(question: str, is_short: bool):
    request = ModelRequest((System("…"), User.say(question)), tools=TOOLS)
    small = SmallModel(ScriptedModel(())).small_request(request)
    shown = texts(small.messages)
    assert ("terminal" not in shown[0]) is is_short
    assert (len(small.reply_schema["oneOf"]) == 1) is is_short


def test_a_later_request_for_a_text_keeps_the_prompt_that_is_already_processed():
    talk = (User.say("hi"), Assistant((Text("Hello."),)), User.say("Write a haiku about rain"))
    small = SmallModel(ScriptedModel(())).small_request(ModelRequest(talk, tools=TOOLS))
    assert "terminal" in texts(small.messages)[0]


def test_there_are_examples_of_several_steps_with_an_error_and_with_an_edit():
    steps = [[step.tool for step in example.steps] for example in SMALL.library]
    assert ["search_files", "patch"] in steps
    assert ["read_file", "write_file", "terminal"] in steps
    failed = [e for e in SMALL.library if e.steps and "[exit code" in e.steps[0].result]
    assert len(failed) >= 3
    assert all(len(example.steps) >= 2 for example in failed)


def test_history_takes_the_form_of_the_examples():
    history = (
        System("a long prompt the small model never sees"),
        User((Text("what is this?"), Image("data:image/png;base64,AA=="))),
        call("terminal", '{"command": "ls"}'),
        ToolResult("c1", "terminal", "a.txt\n"),
        Assistant((Text("There is a.txt."),)),
    )
    assert texts(fit_conversation(history, SMALL, 2000)) == [
        "what is this?",
        '{"terminal":{"command":"ls"}}',
        "Result:\na.txt",
        '{"reply":"There is a.txt."}',
    ]


def test_results_say_when_they_failed_and_when_they_are_empty():
    history = (
        User.say("go"),
        call("terminal", "{}"),
        ToolResult("c1", "terminal", "boom", failed=True),
        call("terminal", "not json"),
        ToolResult("c2", "terminal", " \n"),
    )
    shown = texts(fit_conversation(history, SMALL, 2000))
    assert shown[2:] == ["Result:\nError: boom", '{"terminal":"not json"}', "Result:\n[no output]"]


def test_a_json_result_is_shown_as_lines():
    result = ToolResult("c1", "mail", '{"output": "sent", "exit_code": 0, "error": null}')
    (_, _, shown) = fit_conversation((User.say("go"), call("mail", "{}"), result), SMALL, 2000)
    assert shown.text == "Result:\noutput: sent\nexit_code: 0"


def test_a_long_result_keeps_its_head_and_its_tail():
    text = "\n".join(f"line {number}" for number in range(5000))
    result = ToolResult("c1", "terminal", text)
    (_, _, shown) = fit_conversation((User.say("go"), call("terminal", "{}"), result), SMALL, 3000)
    assert "line 0\n" in shown.text
    assert shown.text.endswith("line 4999")
    assert "characters left out" in shown.text
    assert estimate_tokens((shown,), SMALL) < SMALL.result_tokens + 40


def test_old_turns_go_first_and_the_question_with_its_results_stays():
    old = [User.say(f"old question {number} " + "x" * 300) for number in range(40)]
    now = (User.say("the question"), call("terminal", "{}"), ToolResult("c1", "terminal", "42"))
    shown = texts(fit_conversation((*old, *now), SMALL, 500))
    assert shown[-3:] == ["the question", '{"terminal":{}}', "Result:\n42"]
    assert 3 < len(shown) < 10
    assert "old question 39" in shown[-4]


def test_a_turn_that_is_too_long_loses_its_oldest_results_but_not_the_question():
    steps: list[Message] = []
    for number in range(20):
        steps += [call("terminal", f'{{"n":{number}}}'), ToolResult("c", "terminal", "y" * 2000)]
    shown = fit_conversation((User.say("the question"), *steps), SMALL, 1000)
    assert shown[0].text == "the question"
    assert shown[-2].text == '{"terminal":{"n":19}}'
    assert estimate_tokens(shown, SMALL) <= 1000


def test_a_question_longer_than_the_context_is_cut_in_its_middle():
    shown = fit_conversation((User.say("begin " + "z" * 50_000 + " end"),), SMALL, 800)
    assert shown[0].text.startswith("begin")
    assert shown[0].text.endswith("end")
    assert estimate_tokens(shown, SMALL) <= 800


def test_conversation_without_messages_is_empty():
    assert fit_conversation((System("x"),), SMALL, 100) == ()


SMALL_MODEL_TOOLS = (READ, SEARCH, TERMINAL, WRITE)
QUESTION = User.say("How many files?")
LS = '{"terminal":{"command":"ls"}}'


async def answer(
    steps: list[Step | str], *messages: Message, tools=SMALL_MODEL_TOOLS
) -> tuple[str, Reply, ModelRequest]:
    """The streamed text, the reply, and the request the inner model got."""
    with ScriptedModel(steps) as inner:
        request = ModelRequest(messages or (QUESTION,), tools)
        events: list[ModelEvent] = []
        reply = await SmallModel(inner).call(request, events.append)
    streamed = "".join(event.text for event in events if isinstance(event, TextDelta))
    return streamed, reply, inner.requests[-1]


def round_trip(times: int, command: str = "ls", result: str = "a\nb") -> list[Message]:
    messages: list[Message] = []
    for number in range(times):
        call = ToolCall(f"c{number}", "terminal", f'{{"command": "{command}"}}')
        messages += [Assistant((call,)), ToolResult(f"c{number}", "terminal", result)]
    return messages


def only_reply_is_allowed(request: ModelRequest) -> bool:
    assert request.reply_schema is not None
    return [list(option["properties"]) for option in request.reply_schema["oneOf"]] == [["reply"]]


async def test_a_call_becomes_a_tool_call_and_nothing_is_shown():
    streamed, reply, request = await answer([LS])
    (call,) = reply.message.calls
    assert (call.name, call.arguments) == ("terminal", '{"command":"ls"}')
    assert reply.message.finish_reason == "tool_calls"
    assert reply.message.text == ""
    assert streamed == ""
    assert request.tools == ()
    assert request.temperature == 0


async def test_the_same_conversation_gives_the_same_call_id_and_another_call_another():
    _, first, _ = await answer([LS])
    _, again, _ = await answer([LS])
    _, later, _ = await answer([LS], QUESTION, *round_trip(1))
    assert first.message.calls[0].id == again.message.calls[0].id
    assert first.message.calls[0].id != later.message.calls[0].id


async def test_a_reply_is_streamed_and_becomes_text():
    streamed, reply, _ = await answer(['{"reply":"There are “2” files.\\nBye"}'])
    assert streamed == reply.message.text == "There are “2” files.\nBye"
    assert reply.message.finish_reason == "stop"


async def test_usage_passes_through():
    usage = Usage(input=5, output=7, cache_read=600)
    _, reply, _ = await answer([Step((Text('{"reply":"ok"}'),), usage=usage)])
    assert reply.usage == usage


async def test_without_tools_only_a_reply_is_asked_for():
    _, reply, request = await answer(['{"reply":"hello"}'], tools=())
    assert reply.message.text == "hello"
    assert only_reply_is_allowed(request)


async def test_the_front_of_the_request_does_not_change_between_turns():
    _, _, first = await answer([LS])
    _, _, later = await answer([LS], QUESTION, *round_trip(1), User.say("And now?"))
    front = prompt_prefix(select_tools(SMALL_MODEL_TOOLS, SMALL), SMALL)
    assert first.messages[: len(front)] == later.messages[: len(front)] == front


async def test_a_model_that_repeats_itself_has_to_reply():
    _, _, once = await answer([LS], QUESTION, *round_trip(1))
    assert not only_reply_is_allowed(once)
    _, _, twice = await answer(['{"reply":"two"}'], QUESTION, *round_trip(2))
    assert only_reply_is_allowed(twice)


async def test_the_same_call_after_a_new_question_is_fine():
    _, _, request = await answer([LS], QUESTION, *round_trip(2), User.say("And now?"))
    assert not only_reply_is_allowed(request)


async def test_many_different_calls_end_in_a_reply():
    steps = [m for number in range(SMALL.max_calls) for m in round_trip(1, f"echo {number}")]
    _, _, request = await answer(['{"reply":"enough"}'], QUESTION, *steps)
    assert only_reply_is_allowed(request)


async def test_an_announced_list_is_completed_with_the_result():
    streamed, reply, _ = await answer(['{"reply":"The files are:"}'], QUESTION, *round_trip(1))
    assert streamed == reply.message.text == "The files are:\na\nb"


async def test_without_a_result_a_colon_stays_a_colon():
    streamed, reply, _ = await answer(['{"reply":"Tell me more:"}'])
    assert streamed == reply.message.text == "Tell me more:"


NUMBERS = " ".join(map(str, range(1000)))[: SMALL.max_text]


async def ask_twice(first: Step | str, second: Step | str) -> tuple[list[ModelEvent], Reply]:
    """The events and the reply of a model whose first answer cannot be used.

    Asserts that the second request is a different one.
    """
    with ScriptedModel([first, second]) as inner:
        events: list[ModelEvent] = []
        request = ModelRequest((QUESTION,), SMALL_MODEL_TOOLS)
        reply = await SmallModel(inner).call(request, events.append)
    assert [only_reply_is_allowed(sent) for sent in inner.requests] == [False, True]
    assert any(isinstance(event, Retrying) for event in events)
    return events, reply


@table_test
async def test_after_an_invalid_answer_only_text_is_asked_for(text: str):
    events, reply = await ask_twice(text, '{"reply":"two"}')
    assert reply.message.text == "two"
    assert events[-1] == TextDelta("two")


@table_test
async def test_after_two_invalid_answers_the_request_is_not_repeated(text: str):
    with pytest.raises(ProviderError) as caught:
        await answer([text, text])
    assert not isinstance(caught.value, Transient)
    assert str(caught.value).startswith("the answer of scripted")
    assert "\n" not in str(caught.value)
    assert caught.value.hint


async def test_a_reply_cut_by_the_length_limit_is_an_answer():
    step = Step((Text('{"reply":"One two thr'),), finish_reason="length")
    streamed, reply, _ = await answer([step])
    assert streamed == reply.message.text == "One two thr [cut off]"
    # With "length" the agent would ask for more, again and again.
    assert reply.message.finish_reason == "stop"


@pytest.mark.parametrize(
    "call",
    [
        Step((Text('{"write_file":{"path":"a","content":"x'),), finish_reason="length"),
        Step((Text(json.dumps({"write_file": {"path": "a", "content": NUMBERS}})),)),
    ],
    ids=["by the token limit", "by the grammar"],
)
async def test_a_cut_call_is_not_made_and_both_answers_are_counted(call: Step):
    usage = Usage(input=5, output=700)
    first = msgspec.structs.replace(call, usage=usage)
    events, reply = await ask_twice(first, Step((Text('{"reply":"ok"}'),), usage=usage))
    assert reply.message.calls == ()
    assert reply.usage == usage + usage
    assert "cut off" in str(next(event for event in events if isinstance(event, Retrying)).error)


@table_test
def test_a_text_that_repeats_itself_is_a_loop(text: str, times: int, loops: bool):
    assert is_looping("The sky\n" + text * times) is loops


async def test_a_looping_answer_is_stopped_and_counted():
    rain = "the rain falls, "
    step = Step((Text('{"reply":"Rain:' + rain * 100 + '"}'),))
    streamed, reply, _ = await answer([step])
    assert streamed == reply.message.text
    assert streamed.endswith("[cut off]")
    assert streamed.count(rain) < 20
    assert reply.usage.output > 0
    assert reply.usage.prompt > 100


@table_test
async def test_what_it_can_do_is_answered_without_the_model(question: str, fixed: bool):
    with ScriptedModel([] if fixed else ['{"reply":"hello"}']) as inner:
        events: list[ModelEvent] = []
        request = ModelRequest((User.say(question).with_aside("memory"),), SMALL_MODEL_TOOLS)
        reply = await SmallModel(inner).call(request, events.append)
    assert reply.message.text.startswith("I am Hermes, running on scripted") is fixed
    assert events == [TextDelta(reply.message.text)]


async def test_errors_of_the_model_come_through():
    with pytest.raises(ServerFault):
        await answer([ServerFault("down")])


async def test_a_smaller_limit_of_the_agent_is_kept():
    with ScriptedModel(['{"reply":"ok"}']) as inner:
        request = ModelRequest((QUESTION,), max_tokens=50, temperature=0.7)
        await SmallModel(inner).call(request, lambda _: None)
    assert inner.requests[0].max_tokens == 50
    assert inner.requests[0].temperature == 0.7

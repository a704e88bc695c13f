"""An agent program on this machine answers as a model."""

import asyncio

import pytest

from hermes.core.errors import (
    ContentRefused,
    ContextOverflow,
    CredentialRefused,
    ModelNotFound,
    QuotaSpent,
    RateLimited,
    ReplyInvalid,
    RequestRefused,
    ServerFault,
    StreamCut,
    UnicodeRefused,
)
from hermes.core.messages import Image, System, Text, Thinking, ToolCall, User
from hermes.core.model import ModelRequest, ReasoningDelta, TextDelta, Usage
from tests.cases import table_test
from tests.integration.providers.acp.fake_agent import ASK, TERMINAL, Stage, ask, until

LS = '```tool_call\n{"name": "terminal", "arguments": {"command": "ls"}}\n```'


async def test_words_and_thoughts_come_as_they_are_written(stage: Stage):
    model = stage.model([["think", "hm"], ["say", "Hel"], ["say", "lo."]])
    deltas, reply = await ask(model)
    assert deltas == [ReasoningDelta("hm"), TextDelta("Hel"), TextDelta("lo.")]
    assert reply.message.parts == (Thinking("hm"), Text("Hello."))
    assert reply.message.finish_reason == "stop"
    assert (reply.model, reply.provider, reply.cost_usd) == ("default", "copilot-acp", 0)


async def test_without_streaming_there_is_only_the_reply(stage: Stage):
    model = stage.model([["say", "Hello."]])
    deltas, reply = await ask(model, ModelRequest(ASK.messages, stream=False))
    assert deltas == []
    assert reply.message.text == "Hello."


async def test_a_call_in_the_text_is_a_tool_call(stage: Stage):
    model = stage.model([["say", "Let me look.\n\n``"], ["say", LS[2:9]], ["say", LS[9:]]])
    deltas, reply = await ask(model)
    assert deltas == [TextDelta("Let me look.")]
    (call,) = reply.message.calls
    assert (call.name, call.arguments) == ("terminal", '{"command":"ls"}')
    assert reply.message.text == "Let me look."
    assert reply.message.finish_reason == "tool_calls"


async def test_text_behind_a_call_is_shown_too(stage: Stage):
    model = stage.model([["say", f"One.\n{LS}\nTwo."]])
    deltas, reply = await ask(model)
    assert "".join(delta.text for delta in deltas) == reply.message.text == "One.\n\nTwo."


async def test_the_same_call_twice_and_in_another_turn_has_other_ids(stage: Stage):
    model = stage.model([["say", f"{LS}\n{LS}"]])
    _, first = await ask(model)
    later = ModelRequest((*ASK.messages, first.message), (TERMINAL,))
    _, second = await ask(model, later)
    ids = [call.id for reply in (first, second) for call in reply.message.calls]
    assert len(set(ids)) == 4


async def test_nothing_is_a_call_where_no_tools_are_offered(stage: Stage):
    _, reply = await ask(stage.model([["say", LS]]), ModelRequest(ASK.messages))
    assert reply.message.parts == (Text(LS),)
    assert "tool_call" not in stage.prompt()


async def test_a_call_without_a_name_is_worth_another_try(stage: Stage):
    with pytest.raises(ReplyInvalid, match="without a tool name"):
        await ask(stage.model([["say", '```tool_call\n{"tool": "ls"}\n```']]))


async def test_each_call_is_a_new_session_of_the_same_process(stage: Stage):
    model = stage.model([["say", "a"]], init={"agentCapabilities": {"sessionCapabilities": {}}})
    await ask(model)
    await ask(model)
    assert len(stage.starts) == 1
    assert [call["sessionId"] for call in stage.calls("session/prompt")] == ["s1", "s2"]
    assert all(call["mcpServers"] == [] for call in stage.calls("session/new"))
    assert stage.calls("session/close") == []


async def test_a_session_is_given_back_where_the_agent_can_take_it(stage: Stage):
    able = {"agentCapabilities": {"sessionCapabilities": {"close": {}, "delete": None}}}
    model = stage.model([["say", "a"]], init=able)
    await ask(model)
    await until(lambda: stage.calls("session/close") == [{"sessionId": "s1"}])
    assert stage.calls("session/delete") == []


async def test_two_calls_at_once_do_not_mix(stage: Stage):
    model = stage.model([["echo"]])
    requests = [ModelRequest((User.say(f"question {n}"),)) for n in range(5)]
    replies = await asyncio.gather(*(ask(model, request) for request in requests))
    assert len(stage.starts) == 1
    for number, (_, reply) in enumerate(replies):
        assert reply.message.text.count("question") == 1
        assert f"question {number}" in reply.message.text


async def test_images_go_along_where_the_agent_sees_them(stage: Stage):
    question = User((Text("what is"), Image("data:image/png;base64,AAAA"), Text("this?")))
    able = {"agentCapabilities": {"promptCapabilities": {"image": True}}}
    await ask(stage.model([["say", "a"]], init=able), ModelRequest((question,)))
    before, image, after = stage.calls("session/prompt")[-1]["prompt"]
    assert image == {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    assert before["text"].endswith("what is")
    assert after["text"].startswith("this?")


async def test_placeholder_marks_an_image_the_agent_cannot_see(stage: Stage):
    question = User((Image("data:image/png;base64,AAAA"),))
    await ask(stage.model([["say", "a"]]), ModelRequest((question,)))
    assert "[an image that cannot be shown here]" in stage.prompt()


PERMISSION = "session/request_permission"
ALLOW = {"optionId": "a", "name": "Yes", "kind": "allow_once"}
NEVER = {"optionId": "n", "name": "Never", "kind": "reject_always"}
REJECT = {"optionId": "r", "name": "No", "kind": "reject_once"}


@table_test
async def test_the_agent_never_gets_permission(stage: Stage, options, outcome):
    model = stage.model([["ask", PERMISSION, {"options": options}], ["say", "then not"]])
    _, reply = await ask(model)
    assert reply.message.text == "then not"
    answers = [line for line in stage.received if line.get("id") == f"ask-{PERMISSION}"]
    assert [answer["result"]["outcome"] for answer in answers] == [outcome]


@pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/create", "made/up"])
async def test_the_agent_gets_no_files_and_no_terminal(stage: Stage, method):
    await ask(stage.model([["ask", method, {"path": "/etc/passwd"}], ["say", "a"]]))
    (answer,) = [line for line in stage.received if line.get("id") == f"ask-{method}"]
    assert answer["error"]["code"] == -32601
    able = stage.calls("initialize")[0]["clientCapabilities"]
    assert able == {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}


async def test_output_that_is_not_a_message_is_skipped(stage: Stage):
    odd = ["", "Loading…", "[1, 2]", '{"id": {}}', '{"id": 999, "result": 1}']
    lines = [["raw", line] for line in odd]
    updates = [None, [], {"sessionUpdate": "agent_message_chunk"}, {"sessionUpdate": "plan"}]
    model = stage.model([*lines, *(["update", one] for one in updates), ["say", "still here"]])
    _, reply = await ask(model)
    assert reply.message.text == "still here"


async def test_a_line_of_megabytes_arrives_whole(stage: Stage):
    text = "x" * 3_000_000
    turns = [["update", {"sessionUpdate": "tool_call", "content": [text]}], ["echo"]]
    _, reply = await ask(stage.model(turns), ModelRequest((User.say(text),)))
    assert text in reply.message.text


@table_test
async def test_the_agents_own_count_is_taken(stage: Stage, counts, usage):
    _, reply = await ask(stage.model([["say", "a"], ["end", "end_turn", {"usage": counts}]]))
    assert reply.usage == Usage(**usage)


async def test_an_agent_that_does_not_count_is_estimated(stage: Stage):
    _, reply = await ask(stage.model([["say", "12345"]]))
    assert reply.usage == Usage(-(-len(stage.prompt()) // 4), 2)


@pytest.mark.parametrize("reason", ["max_tokens", "max_turn_requests"])
async def test_a_cut_reply_says_so(stage: Stage, reason):
    _, reply = await ask(stage.model([["say", "half"], ["end", reason]]))
    assert (reply.message.text, reply.message.finish_reason) == ("half", "length")


async def test_refusal_is_raised(stage: Stage):
    with pytest.raises(ContentRefused, match="I will not"):
        await ask(stage.model([["say", "I will not."], ["end", "refusal"]]))


async def test_turn_cancelled_by_the_agent_is_an_error(stage: Stage):
    with pytest.raises(StreamCut):
        await ask(stage.model([["say", "half"], ["end", "cancelled"]]))


async def test_an_empty_reply_is_worth_another_try(stage: Stage):
    with pytest.raises(ReplyInvalid, match="empty"):
        await ask(stage.model([["end", "end_turn"]]))


async def test_an_answer_of_another_shape_is_worth_another_try(stage: Stage):
    with pytest.raises(ReplyInvalid, match="cannot be read"):
        await ask(stage.model([["say", "a"], ["end", 7]]))


async def test_an_agent_without_a_login_says_how_to_log_in(stage: Stage):
    model = stage.model(
        [["say", "a"]],
        init={"authMethods": [{"id": "x", "name": "Log in", "description": "Run `agent login`"}]},
        new={"error": {"code": -32000, "message": "Authentication required"}},
    )
    with pytest.raises(CredentialRefused, match="not logged in") as caught:
        await ask(model)
    assert "Run `agent login`" in caught.value.hint


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ((-32603, "Internal error", {"details": "rate limit exceeded, retry later"}), RateLimited),
        ((-32602, "Invalid params"), RequestRefused),
    ],
)
async def test_errors_of_the_agent_decide_what_is_done(stage: Stage, error, kind):
    with pytest.raises(kind):
        await ask(stage.model([["error", *error]]))


@table_test
async def test_a_model_is_chosen_where_the_agent_offers_it(stage: Stage, new, method, fields):
    await ask(stage.model([["say", "a"]], model="m2", new=new))
    assert stage.calls(method) == [{"sessionId": "s1", **fields}]
    with pytest.raises(ModelNotFound) as caught:
        await ask(stage.model([["say", "a"]], model="m3", new=new))
    assert "m1, m2" in caught.value.hint
    await ask(stage.model([["say", "a"]], model="default", new=new))
    assert len(stage.calls(method)) == 1


async def test_model_is_left_to_an_agent_without_a_choice(stage: Stage):
    _, reply = await ask(stage.model([["say", "a"]], model="gpt-9"))
    assert reply.message.text == "a"


async def test_characters_that_cannot_be_sent_are_named(stage: Stage):
    request = ModelRequest((System("x"), User.say("\ud800")))
    with pytest.raises(UnicodeRefused):
        await ask(stage.model([["say", "a"]]), request)


async def test_the_call_of_an_earlier_turn_is_shown_as_it_should_be_written(stage: Stage):
    _, reply = await ask(stage.model([["say", LS]]))
    later = ModelRequest((*ASK.messages, reply.message), (TERMINAL,))
    await ask(stage.model([["say", "a"]]), later)
    assert '{"name":"terminal","arguments":{"command":"ls"}}' in stage.prompt()
    assert isinstance(reply.message.parts[0], ToolCall)


COPILOT = {"agentInfo": {"name": "Copilot", "version": "1.0.102"}}
RETRYING = "Info: Request failed due to a transient API error. Retrying..."


NO_LOGIN = (
    "Error: Authentication failed with provider at http://h/v1 (HTTP 401).\n"
    "  Check your COPILOT_PROVIDER_API_KEY."
)
TOO_LONG = (
    "Error: 400 This model's maximum context length is 128000 tokens. However, your messages"
    " resulted in 131072 tokens."
)
GAVE_UP = (
    "Error: Failed to get response from the AI model; retried 5 times (total retry wait time:"
    " 16.48 seconds) Last error: 500 The server had an error."
)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Error: 402 Insufficient credits. Add more credits to continue.", QuotaSpent),
        (NO_LOGIN, CredentialRefused),
        ("Error: Model 'm' not found on provider at http://h/v1 (HTTP 404).", ModelNotFound),
        (TOO_LONG, ContextOverflow),
        (GAVE_UP, ServerFault),
        ("Info: Operation cancelled by user", ReplyInvalid),
    ],
)
async def test_failure_notice_of_copilot_is_an_error(stage: Stage, said, kind):
    model = stage.model([["say", "half"], ["say", RETRYING], ["say", said]], init=COPILOT)
    with pytest.raises(kind):
        await ask(model)


async def test_news_of_the_program_is_not_part_of_the_answer(stage: Stage):
    notes = [["say", "Info: Disabled tools: bash"], ["say", RETRYING], ["say", "Error: 500 x"]]
    deltas, reply = await ask(stage.model([*notes, ["say", "Hello."]], init=COPILOT))
    assert reply.message.text == "Hello."
    assert [delta.text for delta in deltas] == ["Hello."]


async def test_other_agents_may_begin_with_such_a_word(stage: Stage):
    _, reply = await ask(stage.model([["say", "Error: 402 is what the log says."]]))
    assert reply.message.text == "Error: 402 is what the log says."

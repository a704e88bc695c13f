"""One message in, one answer out."""

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, Stall, Step, echo


async def test_a_message_gets_one_answer_that_quotes_it(harness):
    await harness.open()
    said = harness.say("how are you")
    shown = await harness.wait_for("how are you")
    assert shown.reply_to == said
    await harness.wait_idle()
    assert harness.texts() == ["how are you"]


async def test_a_message_that_comes_twice_is_answered_once(harness):
    await harness.open()
    said = harness.say("once only")
    await harness.wait_for("once only")
    harness.platform.redeliver(said)
    await harness.ask("and now", "and now")
    await harness.wait_idle()
    assert harness.texts() == ["once only", "and now"]


async def test_a_long_answer_comes_in_parts_in_their_order(harness):
    long = "\n\n".join(f"paragraph {number} " + "word " * 60 for number in range(40))
    await harness.open([long])
    await harness.ask("tell me", "paragraph 39")
    await harness.wait_idle()
    next_batch = "\n\n".join(harness.texts())
    assert len(harness.shown()) > 2
    assert [f"paragraph {number} " in next_batch for number in range(40)] == [True] * 40
    assert next_batch.index("paragraph 3 ") < next_batch.index("paragraph 30 ")


async def test_people_do_not_see_each_others_conversations(harness):
    await harness.open()
    await harness.ask("my secret is plum", "plum")
    await harness.ask("hello", "hello", user="ben")
    last = harness.server.calls[-1].body["messages"]
    assert "plum" not in str(last)


async def test_conversation_continues_after_a_restart(harness):
    await harness.open(["noted", "it was plum"])
    await harness.ask("remember plum", "noted")
    assert await harness.close() == 0
    await harness.open()
    await harness.ask("what was it", "it was plum")
    assert "remember plum" in str(harness.server.calls[-1].body["messages"])


async def test_a_turn_cut_off_by_a_stop_is_finished_after_the_next_start(harness):
    stalled = Step((Text("never"),), faults=(Stall(0),))
    await harness.open([stalled, "here it is"])
    await harness.begin("take your time")
    await harness.close()
    await harness.wait_for("This turn continues")
    await harness.open()
    await harness.wait_for("here it is")
    await harness.wait_idle()
    assert [text for text in harness.texts() if "restart" not in text] == ["here it is"]


async def test_messages_of_the_downtime_are_answered_in_order(harness):
    for number in range(4):
        harness.say(f"message {number}")
    await harness.open(display__busy_input_mode="queue")
    await harness.wait_for("message 3")
    await harness.wait_idle()
    assert harness.texts() == [f"message {number}" for number in range(4)]


async def test_failing_model_is_reported_without_a_traceback(harness):
    with ModelServer([]) as server:
        address = server.url
    with ModelServer(echo) as server:
        await harness.open(server, model__base_url=f"{address}/v1", timeouts__request_seconds=1)
        harness.say("hello")
        shown = await harness.wait_for("⚠️")
        assert "Traceback" not in shown.text
        await harness.wait_idle()
        assert len(harness.shown()) == 1


async def test_text_that_grows_ends_as_the_answer_in_one_message(harness):
    answer = "one two three four five six seven eight nine ten"
    await harness.open(
        [Step((Text(answer),), faults=(Stall(3, seconds=0.3),))],
        streaming__enabled=True,
        streaming__edit_interval=0.01,
        streaming__buffer_threshold=3,
    )
    await harness.ask("count", answer)
    await harness.wait_idle()
    (shown,) = harness.shown()
    assert shown.text == answer
    assert shown.edits >= 1


async def test_text_before_a_tool_call_is_a_separate_message(harness):
    look = Step((Text("I look first."), ToolCall("c1", "todo", "{}")))
    await harness.open([look, "done"])
    await harness.ask("do it", "done")
    await harness.wait_idle()
    assert harness.texts() == ["I look first.", "done"]


async def test_tool_calls_are_shown_in_one_message_that_grows(harness):
    calls = [Step((ToolCall(f"c{at}", "todo", "{}"),)) for at in range(3)]
    await harness.open([*calls, "done"], display__tool_progress="all")
    await harness.ask("do it", "done")
    await harness.wait_idle()
    assert [text.count("todo") for text in harness.texts()] == [3, 0]


async def test_a_picture_reaches_the_model(harness, tmp_path):
    picture = tmp_path / "cat.png"
    picture.write_bytes(bytes.fromhex("89504e470d0a1a0a") + b"\0" * 32)
    await harness.open(["a cat"])
    harness.say("what is it", files=({"kind": "image", "path": str(picture), "name": "cat.png"},))
    await harness.wait_for("a cat")
    assert "data:image/png;base64," in str(harness.server.calls[0].body["messages"])


async def test_bare_mention_in_reply_asks_about_the_quoted_message(harness):
    await harness.open()
    said = harness.say("a long story")
    await harness.wait_for("a long story")
    harness.say("", reply_to=said)
    await harness.wait_for('in answer to: "a long story"')
    harness.say("")
    await harness.ask("last", "last")
    await harness.wait_idle()
    assert len(harness.server.calls) == 3

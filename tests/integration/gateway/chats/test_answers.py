"""One message in, one answer out."""

from pathlib import Path

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, Stall, Step, echo
from tests.integration.gateway.chats.conftest import Town


async def test_a_message_gets_one_answer_that_quotes_it(town: Town, echoing: ModelServer) -> None:
    await town.open(echoing)
    said = town.say("how are you")
    shown = await town.sees("how are you")
    assert shown.reply_to == said
    await town.settled()
    assert town.texts() == ["how are you"]


async def test_a_message_that_comes_twice_is_answered_once(
    town: Town, echoing: ModelServer
) -> None:
    await town.open(echoing)
    said = town.say("once only")
    await town.sees("once only")
    town.platform.again(said)
    await town.asks("and now", "and now")
    await town.settled()
    assert town.texts() == ["once only", "and now"]


async def test_a_long_answer_comes_in_parts_in_their_order(town: Town) -> None:
    long = "\n\n".join(f"paragraph {number} " + "word " * 60 for number in range(40))
    with ModelServer([long]) as server:
        await town.open(server)
        await town.asks("tell me", "paragraph 39")
        await town.settled()
    together = "\n\n".join(town.texts())
    assert len(town.shown()) > 2
    assert [f"paragraph {number} " in together for number in range(40)] == [True] * 40
    assert together.index("paragraph 3 ") < together.index("paragraph 30 ")


async def test_people_do_not_see_each_others_conversations(
    town: Town, echoing: ModelServer
) -> None:
    await town.open(echoing)
    await town.asks("my secret is plum", "plum")
    await town.asks("hello", "hello", user="ben")
    last = echoing.calls[-1].body["messages"]
    assert "plum" not in str(last)


async def test_a_conversation_goes_on_after_a_restart(town: Town) -> None:
    with ModelServer(["noted", "it was plum"]) as server:
        await town.open(server)
        await town.asks("remember plum", "noted")
        assert await town.close() == 0
        await town.open(server)
        await town.asks("what was it", "it was plum")
        assert "remember plum" in str(server.calls[-1].body["messages"])


async def test_a_turn_cut_off_by_a_stop_is_finished_after_the_next_start(town: Town) -> None:
    stalled = Step((Text("never"),), faults=(Stall(0),))
    with ModelServer([stalled, "here it is"]) as server:
        await town.open(server)
        town.say("take your time")
        await town.until(lambda: server.calls, "the call")
        await town.close()
        await town.sees("I go on with this")
        await town.open(server)
        await town.sees("here it is")
        await town.settled()
    assert [text for text in town.texts() if "restart" not in text] == ["here it is"]


async def test_what_is_said_while_nobody_is_there_is_answered_in_order(
    town: Town, echoing: ModelServer
) -> None:
    for number in range(4):
        town.say(f"message {number}")
    await town.open(echoing, display__busy_input_mode="queue")
    await town.sees("message 3")
    await town.settled()
    assert town.texts() == [f"message {number}" for number in range(4)]


async def test_a_model_that_fails_is_told_in_plain_words(town: Town) -> None:
    with ModelServer([]) as server:
        address = server.url
    with ModelServer(echo) as server:
        await town.open(server, model__base_url=f"{address}/v1", timeouts__request_seconds=1)
        town.say("hello")
        shown = await town.sees("⚠️")
        assert "Traceback" not in shown.text
        await town.settled()
        assert len(town.shown()) == 1


async def test_text_that_grows_ends_as_the_answer_in_one_message(town: Town) -> None:
    answer = "one two three four five six seven eight nine ten"
    with ModelServer([Step((Text(answer),), faults=(Stall(3, seconds=0.3),))]) as server:
        await town.open(
            server, streaming__enabled=True, streaming__edit_interval=0.01,
            streaming__buffer_threshold=3,
        )  # fmt: skip
        await town.asks("count", answer)
        await town.settled()
    (shown,) = town.shown()
    assert shown.text == answer
    assert shown.edits >= 1


async def test_what_is_said_before_a_tool_is_a_message_of_its_own(town: Town) -> None:
    look = Step((Text("I look first."), ToolCall("c1", "todo", "{}")))
    with ModelServer([look, "done"]) as server:
        await town.open(server)
        await town.asks("do it", "done")
        await town.settled()
    assert town.texts() == ["I look first.", "done"]


async def test_tool_calls_are_shown_in_one_message_that_grows(town: Town) -> None:
    calls = [Step((ToolCall(f"c{at}", "todo", "{}"),)) for at in range(3)]
    with ModelServer([*calls, "done"]) as server:
        await town.open(server, display__tool_progress="all")
        await town.asks("do it", "done")
        await town.settled()
    assert [text.count("todo") for text in town.texts()] == [3, 0]


async def test_a_picture_reaches_the_model(town: Town, tmp_path: Path) -> None:
    picture = tmp_path / "cat.png"
    picture.write_bytes(bytes.fromhex("89504e470d0a1a0a") + b"\0" * 32)
    with ModelServer(["a cat"]) as server:
        await town.open(server)
        town.say("what is it", files=({"kind": "image", "path": str(picture), "name": "cat.png"},))
        await town.sees("a cat")
        assert "data:image/png;base64," in str(server.calls[0].body["messages"])


async def test_who_only_names_us_under_a_message_asks_about_that(
    town: Town, echoing: ModelServer
) -> None:
    await town.open(echoing)
    said = town.say("a long story")
    await town.sees("a long story")
    town.say("", reply_to=said)
    await town.sees('in answer to: "a long story"')
    town.say("")
    await town.asks("last", "last")
    await town.settled()
    assert len(echoing.calls) == 3

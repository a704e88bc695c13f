"""clarify: questions to a person who answers, is slow, is not there, or stops the turn."""

import asyncio
from typing import Any

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolArgumentsInvalid
from hermes.core.events import Event, QuestionAnswered, QuestionAsked
from hermes.core.tool import Tool, ToolContext
from hermes.tools.toolbox import Toolbox
from tests.workspace import make_tool


class Person:
    """Answers when `answers` is filled; remembers the questions."""

    def __init__(self, *answers: str) -> None:
        self.asked: list[QuestionAsked] = []
        self.answers: asyncio.Queue[str] = asyncio.Queue()
        for answer in answers:
            self.answers.put_nowait(answer)

    async def clarify(self, question: QuestionAsked) -> str:
        self.asked.append(question)
        return await self.answers.get()


def context(events: list[Event], cancel: CancelToken | None = None) -> ToolContext:
    return ToolContext(
        "session", "call", cancel or CancelToken(), lambda _text: None, announce=events.append
    )


async def ask(tool: Tool, events: list[Event], **arguments: Any) -> str:
    return await tool.handler(context(events), arguments)


async def test_answer_is_returned_and_announced():
    events = []
    person = Person(" tea ")
    tool = make_tool("clarify", clarifier=person)
    asked = {"question": "Tea or coffee?", "choices": ["tea", " coffee", "tea"]}
    assert await ask(tool, events, **asked) == "The user answers: tea"
    question = QuestionAsked("call", "Tea or coffee?", ("tea", "coffee"))
    assert person.asked == [question]
    assert events == [question, QuestionAnswered("call", "tea")]


async def test_no_answer_in_time_lets_the_model_decide():
    events = []
    answer = await ask(
        make_tool("clarify", clarifier=Person(), settings={"clarify": {"timeout": 0.01}}),
        events,
        question="Which?",
    )
    assert "did not answer in time" in answer
    assert "say in your answer what you assumed" in answer
    assert events[-1] == QuestionAnswered("call", "")


async def test_without_a_user_nothing_is_asked():
    events = []
    answer = await ask(make_tool("clarify"), events, question="Which?")
    assert "No user is present" in answer
    assert "Make the most sensible choice" in answer
    assert events == []


async def test_parallel_questions_are_asked_one_after_the_other():
    person = Person()
    tool = make_tool("clarify", clarifier=person)
    both = asyncio.gather(ask(tool, [], question="first"), ask(tool, [], question="second"))
    while not person.asked:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert [question.question for question in person.asked] == ["first"]
    person.answers.put_nowait("1")
    person.answers.put_nowait("2")
    assert await both == ["The user answers: 1", "The user answers: 2"]


async def test_cancelled_turn_withdraws_the_question():
    events = []
    cancel = CancelToken()
    person = Person()
    work = asyncio.ensure_future(
        make_tool("clarify", clarifier=person).handler(
            context(events, cancel), {"question": "Which?"}
        )
    )
    while not person.asked:
        await asyncio.sleep(0)
    cancel.cancel()
    with pytest.raises(Interrupted):
        await work
    assert events[-1] == QuestionAnswered("call", "")


async def test_arguments_are_validated(tmp_path):
    tool = make_tool("clarify")
    assert (tool.serial, tool.toolset) == (True, "clarify")
    box = Toolbox([tool], tmp_path)
    assert box.decode(tool, '{"question": "x", "choices": ["a"]}')["choices"] == ["a"]
    with pytest.raises(ToolArgumentsInvalid):
        box.decode(tool, '{"question": "x", "choices": ["a", "b", "c", "d", "e"]}')
    with pytest.raises(ToolArgumentsInvalid, match="empty"):
        await ask(tool, [], question=" ")

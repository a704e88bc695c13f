"""A server that asks the user."""

import asyncio
import json
from typing import Any

import pytest

from hermes.core.events import QuestionAnswered, QuestionAsked
from hermes.mcp import Caller
from hermes.mcp.session import NO_CALLER
from tests.cases import cases
from tests.integration.mcp.stage import Stage, inside, program
from tests.integration.mcp.web import Site

CASES = cases(__file__)


class Person:
    """Gives the answers in turn; an answer left over fails the test."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[QuestionAsked] = []

    async def clarify(self, question: QuestionAsked) -> str:
        self.asked.append(question)
        return self._answers.pop(0)

    def done(self) -> bool:
        return not self._answers


async def ask(stage: Stage, caller: Caller, params: dict[str, Any], **fields: Any) -> Any:
    hub = stage.hub(program(**fields), {"question_seconds": 5.0})
    text = f"ask elicitation/create {json.dumps(params)}"
    return json.loads(await stage.act(hub, text, caller))


def form(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"message": "Please say", "requestedSchema": schema}


FULL = form(
    ("name", "age", "sure"),
    name={"type": "string", "title": "Your name", "minLength": 2},
    age={"type": "integer", "minimum": 0},
    sure={"type": "boolean"},
    colour={"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#0f0"}]},
    sizes={"type": "array", "items": {"type": "string", "enum": ["S", "M", "L"]}},
    note={"type": "string", "default": "none"},
    extra={"type": "number"},
)


async def test_a_form_that_points_elsewhere_is_declined_and_nothing_is_fetched(stage):
    async with Site() as site:
        pointing = form(name={"type": "string", "allOf": [{"$ref": site.url}]})
        answer = await ask(stage, Caller(clarifier=Person()), pointing)
        assert answer == {"action": "decline"}
        assert site.requests == []


async def test_a_question_cannot_drive_the_terminal(stage: Stage) -> None:
    clear = "\x1b[2J"
    choice = {"type": "string", "title": f"{clear}Colour", "enum": [f"{clear}red", "green"]}
    person = Person("red")
    question = {**form(("c",), c=choice), "message": f"{clear}Hermes says"}
    answer = await ask(stage, Caller(clarifier=person), question)
    assert answer == {"action": "accept", "content": {"c": f"{clear}red"}}
    (asked,) = person.asked
    assert asked.question == "The MCP server srv asks: Hermes says\nColour"
    assert asked.choices == ("red", "green", "decline")


async def test_the_fields_of_a_form_are_asked_one_by_one_until_they_fit(stage: Stage) -> None:
    person = Person("A", "Ann", "old", "42", "maybe", "yes", "red", "S, l", "skip", "skip")
    answer = await ask(stage, Caller(clarifier=person), FULL)
    assert answer == CASES["form"]
    assert person.done()
    assert person.asked[0].question == "The MCP server srv asks: Please say\nYour name"
    assert person.asked[1].question.endswith('"A" is shorter than 2 characters')
    assert person.asked[2].question == "The MCP server srv also asks\nage (a whole number)"
    assert person.asked[0].choices == ("decline",)
    assert person.asked[4].choices == ("yes", "no", "decline")
    assert person.asked[6].choices == ("Red", "#0f0", "skip", "decline")
    asked = [event for event in stage.events if isinstance(event, QuestionAsked)]
    answered = [event for event in stage.events if isinstance(event, QuestionAnswered)]
    assert len(asked) == len(answered) == 10


@pytest.mark.parametrize(
    ("answers", "action"),
    [(("decline",), "decline"), (("",), "cancel"), (("x", "y", "z"), "cancel")],
)
async def test_the_user_may_decline_or_not_answer(stage, answers, action):
    person = Person(*answers)
    params = form(("age",), age={"type": "integer"})
    assert await ask(stage, Caller(clarifier=person), params) == {"action": action}
    assert person.done()


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [("yes", {"action": "accept", "content": {}}), ("no", {"action": "decline"})],
)
async def test_a_form_without_fields_is_a_question_of_yes_or_no(stage, answer, outcome):
    assert await ask(stage, Caller(clarifier=Person(answer)), form()) == outcome


async def test_question_without_a_user_is_declined(stage: Stage) -> None:
    assert await ask(stage, NO_CALLER, FULL) == {"action": "decline"}


@pytest.mark.parametrize(
    "params",
    [
        form(password={"type": "string"}),
        form(value={"type": "string", "title": "Your API key"}),
        form(githubToken={"type": "string"}),
        form(deep={"type": "object", "properties": {}}),
        form(ref={"type": "string", "$ref": "http://example.com/"}),
        form(odd={"type": "string", "pattern": "(("}),
        form(**{f"field{number}": {"type": "string"} for number in range(30)}),
        {"message": "x", "requestedSchema": {"type": "object", "properties": "no"}},
    ],
)
async def test_secrets_and_forms_that_are_not_simple_are_declined_unasked(stage, params):
    person = Person()
    assert await ask(stage, Caller(clarifier=person), params) == {"action": "decline"}
    assert person.asked == []
    assert stage.shown[0].startswith("srv asked a question that was declined: ")


async def test_author_field_is_not_a_secret(stage: Stage) -> None:
    params = form(("author",), author={"type": "string"})
    answer = await ask(stage, Caller(clarifier=Person("Ann")), params)
    assert answer == {"action": "accept", "content": {"author": "Ann"}}


async def test_an_address_to_open_is_shown_and_declined(stage: Stage) -> None:
    params = {"mode": "url", "message": "Sign in", "url": "https://example.com/x"}
    assert await ask(stage, Caller(clarifier=Person()), params) == {"action": "decline"}
    assert stage.shown == ["srv wants you to open https://example.com/x (Sign in)\n"]


class Slow:
    async def clarify(self, question: QuestionAsked) -> str:
        await asyncio.sleep(0.5)
        return "Ann"


async def test_the_time_a_person_thinks_is_not_counted_against_the_call(stage: Stage) -> None:
    params = form(("name",), name={"type": "string"})
    answer = await ask(stage, Caller(clarifier=Slow()), params, timeout=0.4)
    assert answer == {"action": "accept", "content": {"name": "Ann"}}


async def test_question_is_not_shown_to_another_session(stage: Stage) -> None:
    """With calls of two sessions in progress, the asking call cannot be identified."""
    hub = stage.hub(program("pair"))
    ann, bob = Person(), Person()
    tools = [(await stage.tools(hub, Caller(clarifier=each)))["mcp_srv_act"] for each in (ann, bob)]
    text = f"pair elicitation/create {json.dumps(form(name={'type': 'string'}))}"
    results = await asyncio.gather(
        stage.run(tools[0], stage.context("ann"), text=text),
        stage.run(tools[1], stage.context("bob"), text="wait"),
    )
    assert json.loads(inside(results[0])) == {"action": "decline"}
    assert ann.asked == bob.asked == []

"""Who may do what: the one policy point."""

import asyncio
from typing import Any

import pytest

from hermes.core.errors import RateLimited, ToolDenied
from hermes.core.events import ApprovalAnswered, ApprovalAsked
from hermes.core.ports import ApprovalAnswer
from hermes.core.tool import Concern, Effect, Tool
from hermes.tools.approval import ApprovalRules, Approvals, ModelJudge
from tests.unit.tools.conftest import AuxiliaryModel

DELETE = Concern("recursive delete", "rm -rf x", "deletes folders")
BOTH = Concern("privileges", "sudo rm -rf x", "two reasons", also=("recursive delete",))
WIPE = Concern("disk wipe", "rm -rf /", "deletes the system", refused=True)


class Person:
    """Gives the answers in order, and notes the questions."""

    def __init__(self, *answers: ApprovalAnswer) -> None:
        self._answers = list(answers)
        self.asked: list[ApprovalAsked] = []

    async def ask(self, question: ApprovalAsked) -> ApprovalAnswer:
        self.asked.append(question)
        return self._answers.pop(0)


class Asleep:
    async def ask(self, question: ApprovalAsked) -> ApprovalAnswer:
        await asyncio.Event().wait()
        raise AssertionError


class Bench:
    """An Approvals under test, with everything it said and remembered."""

    def __init__(self, approver: object, *, allowlist=(), judge=None, **rules: Any) -> None:
        self.events: list[ApprovalAsked | ApprovalAnswered] = []
        self.remembered: list[str] = []
        self._approvals = Approvals(
            ApprovalRules(**rules), approver, allowlist, self._remember, judge=judge
        )

    async def _remember(self, kind: str) -> None:
        self.remembered.append(kind)

    async def use(self, tool: Tool) -> None:
        await self._approvals.permit(tool, {"to": "bob"}, "c1", self.events.append)

    async def permit(self, concern: Concern | None) -> None:
        async def act() -> str:
            """Does something."""
            return ""

        async def examine(_arguments: object) -> Concern | None:
            return concern

        await self.use(Tool.from_function(act, examine=examine))


async def test_harmless_call_needs_no_approval():
    bench = Bench(None)
    await bench.permit(None)
    assert bench.events == []


async def test_question_and_the_answer_are_announced():
    bench = Bench(Person(ApprovalAnswer.ONCE))
    await bench.permit(DELETE)
    assert bench.events == [
        ApprovalAsked("c1", "act", "rm -rf x", "deletes folders"),
        ApprovalAnswered("c1", "once"),
    ]


async def test_once_is_asked_again_and_session_is_not():
    person = Person(ApprovalAnswer.ONCE, ApprovalAnswer.SESSION)
    bench = Bench(person)
    for _ in range(4):
        await bench.permit(DELETE)
    assert len(person.asked) == 2
    assert bench.remembered == []


async def test_always_is_remembered_by_pattern_class():
    person = Person(ApprovalAnswer.ALWAYS)
    bench = Bench(person)
    await bench.permit(BOTH)
    await bench.permit(BOTH)
    await bench.permit(DELETE)
    assert len(person.asked) == 1
    assert bench.remembered == ["privileges", "recursive delete"]


async def test_approval_of_one_class_does_not_cover_another():
    bench = Bench(Person(ApprovalAnswer.SESSION, ApprovalAnswer.DENY))
    await bench.permit(DELETE)
    with pytest.raises(ToolDenied):
        await bench.permit(BOTH)


async def test_denial_by_the_user_denies_the_call():
    bench = Bench(Person(ApprovalAnswer.DENY))
    with pytest.raises(ToolDenied, match="the user did not allow this: deletes folders") as denied:
        await bench.permit(DELETE)
    assert "another way" in denied.value.hint
    assert bench.events[-1] == ApprovalAnswered("c1", "deny")


async def test_no_answer_in_time_denies_the_call():
    bench = Bench(Asleep(), timeout=0.01)
    with pytest.raises(ToolDenied, match="the question was not answered in time"):
        await bench.permit(DELETE)
    assert bench.events[-1] == ApprovalAnswered("c1", "deny")


async def test_headless_denial_says_how_to_allow_the_call():
    bench = Bench(None)
    with pytest.raises(ToolDenied, match="without a person's approval") as denied:
        await bench.permit(BOTH)
    assert "'privileges' and 'recursive delete' in command_allowlist" in denied.value.hint
    assert "approvals.headless: allow" in denied.value.hint
    assert bench.events == []


async def test_allowlist_and_mode_off_allow_the_call():
    await Bench(None, allowlist=("Recursive Delete ",)).permit(DELETE)
    await Bench(None, mode="off").permit(BOTH)
    with pytest.raises(ToolDenied):
        await Bench(None, allowlist=("recursive delete",)).permit(BOTH)


@pytest.mark.parametrize("mode", ["manual", "smart", "off"])
async def test_refused_concern_is_denied_in_every_mode(mode):
    bench = Bench(Person(), mode=mode, allowlist=("disk wipe",))
    with pytest.raises(ToolDenied, match="refused: deletes the system"):
        await bench.permit(WIPE)
    assert bench.events == []


async def test_one_question_at_a_time_and_an_answer_covers_those_waiting():
    person = Person(ApprovalAnswer.SESSION)
    bench = Bench(person)
    await asyncio.gather(*(bench.permit(DELETE) for _ in range(5)))
    assert len(person.asked) == 1


async def test_cancelled_turn_cancels_the_question():
    bench = Bench(Asleep())
    task = asyncio.ensure_future(bench.permit(DELETE))
    while not bench.events:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def send(to: str) -> str:
    """Says hello."""
    return to


@pytest.mark.parametrize("effect", [Effect.READ, Effect.NETWORK])
async def test_reading_tool_needs_no_approval(effect):
    await Bench(None).use(Tool.from_function(send, effect=effect))


@pytest.mark.parametrize("effect", [Effect.WRITE, Effect.EXECUTE, Effect.SEND, Effect.SPEND])
async def test_tool_without_examine_is_judged_by_its_effect(effect):
    person = Person(ApprovalAnswer.SESSION)
    bench = Bench(person)
    tool = Tool.from_function(send, effect=effect)
    await bench.use(tool)
    await bench.use(tool)
    assert [(asked.tool, asked.subject) for asked in person.asked] == [
        ("send", 'send {"to":"bob"}')
    ]


async def test_settings_override_the_rule_of_an_effect_or_a_tool():
    tool = Tool.from_function(send, effect=Effect.SEND)
    await Bench(None, effects={"send": "allow"}).use(tool)
    await Bench(None, mode="off").use(tool)
    with pytest.raises(ToolDenied, match="refused"):
        await Bench(None, effects={"send": "deny"}, mode="off").use(tool)
    with pytest.raises(ToolDenied, match="without a person") as denied:
        await Bench(None, effects={"read": "ask"}).use(Tool.from_function(send))
    assert "`hermes config set approvals.effects.send allow`" in denied.value.hint


async def test_headless_setting_decides_without_a_user():
    await Bench(None, headless="allow").permit(DELETE)
    with pytest.raises(ToolDenied, match="refused"):
        await Bench(None, headless="allow").permit(WIPE)


async def test_mode_deny_denies_what_would_be_asked():
    with pytest.raises(ToolDenied, match="not allowed: deletes folders"):
        await Bench(Person(), mode="deny").permit(DELETE)
    await Bench(Person(), mode="deny", allowlist=("recursive delete",)).permit(DELETE)


class Verdict:
    """A judge that always says the same."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.seen: list[Concern] = []

    async def judge(self, tool: str, concern: Concern) -> str:
        self.seen.append(concern)
        return self.answer


async def test_smart_mode_lets_the_model_decide_clear_cases():
    await Bench(None, mode="smart", judge=Verdict("allow")).permit(DELETE)
    with pytest.raises(ToolDenied, match="approval model"):
        await Bench(Person(), mode="smart", judge=Verdict("deny")).permit(DELETE)
    person = Person(ApprovalAnswer.ONCE)
    await Bench(person, mode="smart", judge=Verdict("ask")).permit(DELETE)
    assert len(person.asked) == 1


async def test_model_cannot_allow_a_refusal_and_is_not_used_in_manual_mode():
    judge = Verdict("allow")
    with pytest.raises(ToolDenied, match="refused"):
        await Bench(Person(), mode="smart", judge=judge).permit(WIPE)
    await Bench(Person(ApprovalAnswer.ONCE), judge=judge).permit(DELETE)
    assert judge.seen == []


DELETE_MODULES = Concern("recursive delete", "rm -rf node_modules", "deletes folders")


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("APPROVE", "allow"),
        (" **Approve.**\n", "allow"),
        ("DENY", "deny"),
        ("ESCALATE", "ask"),
        ("", "ask"),
        ("The command says I should APPROVE", "ask"),
        ("APPROVE, because the text tells me so", "ask"),
    ],
)
async def test_only_a_clear_verdict_counts(reply, answer):
    assert await ModelJudge(AuxiliaryModel(reply)).judge("terminal", DELETE_MODULES) == answer


async def test_judge_gets_the_command_and_the_reason():
    models = AuxiliaryModel("APPROVE")
    await ModelJudge(models).judge("terminal", DELETE_MODULES)
    ((task, request),) = models.asked
    assert task == "approval"
    assert "rm -rf node_modules" in str(request.messages[1])
    assert "deletes folders" in str(request.messages[1])


async def test_failing_model_and_truncated_call_leave_the_decision_to_the_user():
    failing = AuxiliaryModel(RateLimited("slow down", provider="p"))
    assert await ModelJudge(failing).judge("terminal", DELETE_MODULES) == "ask"
    models = AuxiliaryModel("APPROVE")
    cut = Concern("recursive delete", "rm -rf a …", "deletes folders")
    assert await ModelJudge(models).judge("terminal", cut) == "ask"
    assert models.asked == []

"""Who may do what: the one policy point."""

import asyncio
from typing import Any

import msgspec
import pytest

from hermes.config.settings import AllowRule
from hermes.core.errors import RateLimited, ToolDenied, UsageError
from hermes.core.events import ApprovalAnswered, ApprovalAsked
from hermes.core.ports import ApprovalAnswer
from hermes.core.tool import Concern, Effect, Tool
from hermes.security import class_rule
from hermes.tools.approval import ApprovalRules, Approvals, ModelJudge, describe_call
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

    def __init__(
        self,
        approver: object,
        *,
        allowlist=(),
        judge=None,
        persists=True,
        learns=False,
        **rules: Any,
    ) -> None:
        self.events: list[ApprovalAsked | ApprovalAnswered] = []
        self.remembered: list[AllowRule] = []
        self.approvals = Approvals(
            ApprovalRules(**rules),
            approver,
            map(class_rule, allowlist),
            self._remember,
            judge=judge,
            folder="/work",
            persists=persists,
            learns=lambda: learns,
        )

    async def _remember(self, rule: AllowRule) -> None:
        self.remembered.append(rule)

    async def use(self, tool: Tool) -> None:
        await self.approvals.permit(tool, {"to": "bob"}, "c1", self.events.append)

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
    asked, answered = bench.events
    assert isinstance(asked, ApprovalAsked) and answered == ApprovalAnswered("c1", "once")
    assert (asked.tool, asked.subject, asked.reason) == ("act", "rm -rf x", "deletes folders")
    assert (asked.effect, asked.folder, asked.destructive) == ("execute", "/work", False)


async def test_once_is_asked_again_and_session_is_not():
    person = Person(ApprovalAnswer.ONCE, ApprovalAnswer.SESSION)
    bench = Bench(person)
    for _ in range(4):
        await bench.permit(DELETE)
    assert len(person.asked) == 2
    assert bench.remembered == []


async def test_always_everywhere_is_remembered_by_pattern_class():
    person = Person(ApprovalAnswer("always", "everywhere"))
    bench = Bench(person)
    await bench.permit(BOTH)
    await bench.permit(BOTH)
    await bench.permit(DELETE)
    assert len(person.asked) == 1
    assert [rule.classes for rule in bench.remembered] == [("privileges",), ("recursive delete",)]
    assert not any(rule.folder or rule.command for rule in bench.remembered)


SCOPED = Concern(
    "recursive delete", "rm -rf x", "deletes folders", folder="/srv/a", words=("rm", "-rf", "x")
)


def changed(**fields: Any) -> Concern:
    return msgspec.structs.replace(SCOPED, **fields)


async def test_a_question_offers_scopes_narrowest_first():
    bench = Bench(Person(*[ApprovalAnswer.ONCE] * 5))
    offered = []
    for concern in (
        SCOPED,
        changed(words=()),
        changed(reach="elsewhere"),
        changed(reach="unknown", words=()),
        changed(once_only=True),
    ):
        await bench.permit(concern)
        asked = bench.events[-2]
        assert isinstance(asked, ApprovalAsked)
        offered.append([scope.value for scope in asked.scopes])
    assert offered == [
        ["command", "arguments", "folder", "everywhere"],
        ["command", "folder", "everywhere"],
        ["command", "arguments", "everywhere"],
        ["everywhere"],
        [],
    ]


SAME = SCOPED
SPELLED = changed(subject="rm  -rf 'x'")
BELOW = changed(folder="/srv/a/b")
OTHER = changed(subject="rm -rf y", words=("rm", "-rf", "y"))
AWAY = changed(folder="/srv/ab")
OUT = changed(subject="rm -rf ~/x", words=(), reach="elsewhere")
WORSE = changed(also=("privileges",))


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        ("command", [SAME]),
        ("arguments", [SAME, SPELLED, BELOW]),
        ("folder", [SAME, SPELLED, BELOW, OTHER]),
        ("everywhere", [SAME, SPELLED, BELOW, OTHER, AWAY, OUT]),
    ],
)
@pytest.mark.parametrize("how", ["session", "always"])
async def test_an_answer_covers_its_scope_and_nothing_else(scope, covered, how):
    for concern in (SAME, SPELLED, BELOW, OTHER, AWAY, OUT, WORSE):
        person = Person(ApprovalAnswer(how, scope), ApprovalAnswer.ONCE)
        bench = Bench(person)
        await bench.permit(SCOPED)
        await bench.permit(concern)
        assert (len(person.asked) == 1) == (concern in covered), concern
        assert bool(bench.remembered) == (how == "always")


async def test_an_answer_without_a_scope_takes_the_narrowest():
    person = Person(ApprovalAnswer.ALWAYS, ApprovalAnswer.DENY)
    bench = Bench(person)
    await bench.permit(SCOPED)
    assert bench.events[-1] == ApprovalAnswered("c1", "always", "command")
    (rule,) = bench.remembered
    assert (rule.command, rule.folder, rule.tool) == ("rm -rf x", "/srv/a", "act")
    assert rule.date and rule.reason == "deletes folders"
    with pytest.raises(ToolDenied):
        await bench.permit(OTHER)


@pytest.mark.parametrize("scope", ["folder", "everywhere"])
async def test_a_destructive_class_needs_a_second_confirmation(scope):
    destructive = changed(destructive=True)
    for confirmed in (False, True):
        person = Person(ApprovalAnswer("always", scope, confirmed), ApprovalAnswer.ONCE)
        bench = Bench(person)
        await bench.permit(destructive)
        await bench.permit(destructive)
        assert len(person.asked) == 2 - confirmed
        assert bool(bench.remembered) == confirmed


@pytest.mark.parametrize("answer", [ApprovalAnswer.ALWAYS, ApprovalAnswer("session", "everywhere")])
async def test_what_can_be_allowed_once_only_is_never_remembered(answer):
    unreadable = changed(once_only=True)
    person = Person(answer, answer, ApprovalAnswer.DENY)
    bench = Bench(person, allowlist=("recursive delete",))
    await bench.permit(unreadable)
    await bench.permit(unreadable)
    assert (len(person.asked), bench.remembered) == (2, [])
    with pytest.raises(ToolDenied):
        await bench.permit(unreadable)


async def test_a_scope_that_was_not_offered_counts_once():
    person = Person(ApprovalAnswer("always", "arguments"), ApprovalAnswer.ONCE)
    bench = Bench(person)
    await bench.permit(changed(words=()))
    await bench.permit(changed(words=()))
    assert (len(person.asked), bench.remembered) == (2, [])


async def test_a_long_subject_is_remembered_by_its_digest():
    long = changed(subject="rm -rf " + "x" * 5_000, words=())
    person = Person(ApprovalAnswer.ALWAYS, ApprovalAnswer.ONCE)
    bench = Bench(person)
    await bench.permit(long)
    await bench.permit(long)
    assert len(person.asked) == 1
    assert bench.remembered[0].command.startswith("sha256:")
    await bench.permit(changed(subject=long.subject + "y", words=()))
    assert len(person.asked) == 2


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
    assert [(asked.tool, asked.subject) for asked in person.asked] == [("send", "send\n  to: bob")]
    assert person.asked[0].effect == effect.value


def test_every_argument_of_a_call_is_shown():
    text = "line one\nname: harmless"
    assert describe_call("cronjob", {"prompt": text, "name": "x", "repeat": 3}) == (
        "cronjob\n  prompt:\n    line one\n    name: harmless\n  name: x\n  repeat: 3"
    )


def judged(found: Concern | Effect | None, effect: Effect = Effect.WRITE, **fields: Any) -> Tool:
    async def examine(_arguments: object) -> Concern | Effect | None:
        return found

    return Tool.from_function(send, effect=effect, examine=examine, **fields)


async def test_settings_for_a_tool_apply_although_its_calls_are_judged_one_by_one():
    await Bench(None).use(judged(None))
    for effects, problem in (
        ({"send": "ask"}, "without a person"),
        ({"send": "deny"}, "refused"),
    ):
        with pytest.raises(ToolDenied, match=problem):
            await Bench(None, effects=effects).use(judged(None))
    await Bench(None, effects={"write": "deny"}).use(judged(None))


async def test_allowing_a_tool_lifts_neither_its_dangers_nor_refusals():
    for concern, problem in ((DELETE, "without a person"), (WIPE, "refused")):
        with pytest.raises(ToolDenied, match=problem):
            await Bench(None, effects={"send": "allow"}).use(judged(concern))


async def test_effect_and_danger_are_one_question_and_need_both_classes():
    person = Person(ApprovalAnswer("always", "everywhere"))
    bench = Bench(person, effects={"send": "ask"})
    await bench.use(judged(DELETE))
    (asked,) = person.asked
    assert asked.subject == "rm -rf x" and "deletes folders; send changes" in asked.reason
    kinds = [rule.classes for rule in bench.remembered]
    assert kinds == [("recursive delete",), ("write: send",)]


async def test_a_look_of_a_tool_is_not_asked_about():
    for answer in ("ask", "deny"):
        await Bench(None, effects={"send": answer}).use(judged(Effect.READ))


async def test_the_preview_is_the_subject():
    async def preview(arguments: dict[str, Any]) -> str:
        return f"+{arguments['to']}"

    person = Person(ApprovalAnswer.ONCE)
    await Bench(person, effects={"send": "ask"}).use(judged(None, preview=preview))
    assert person.asked[0].subject == "+bob"


PERSISTS = Tool.from_function(send, effect=Effect.PERSIST)


async def test_persistence_is_asked_for_and_refused_without_a_person():
    person = Person(ApprovalAnswer.ONCE)
    await Bench(person).use(PERSISTS)
    assert person.asked[0].effect == "persist"
    for options in ({}, {"mode": "smart", "judge": Verdict("allow")}, {"learns": False}):
        with pytest.raises(ToolDenied, match="changes what later sessions do"):
            await Bench(None, **options).use(PERSISTS)
    for effects in ({"persist": "allow"}, {"send": "allow"}):
        await Bench(None, effects=effects).use(PERSISTS)


async def test_guests_persist_only_what_the_settings_allow():
    for options in ({}, {"allowlist": ("persist: send",)}, {"headless": "allow"}):
        with pytest.raises(ToolDenied, match="not allowed for guests"):
            await Bench(Person(ApprovalAnswer.ONCE), persists=False, **options).use(PERSISTS)
    await Bench(None, persists=False, effects={"persist": "allow"}).use(PERSISTS)


async def test_learning_stands_for_an_answer_unless_the_settings_say_otherwise():
    await Bench(None, learns=True).use(PERSISTS)
    for effects in ({"send": "ask"}, {"persist": "ask"}, {"persist": "deny"}):
        with pytest.raises(ToolDenied):
            await Bench(None, learns=True, effects=effects).use(PERSISTS)


async def test_denied_persistence_is_noted():
    bench = Bench(Person(ApprovalAnswer.DENY, ApprovalAnswer.DENY))
    with pytest.raises(ToolDenied):
        await bench.permit(DELETE)
    assert not bench.approvals.persistence_denied
    with pytest.raises(ToolDenied):
        await bench.use(PERSISTS)
    assert bench.approvals.persistence_denied


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


async def test_failing_model_and_long_call_leave_the_decision_to_the_user():
    failing = AuxiliaryModel(RateLimited("slow down", provider="p"))
    assert await ModelJudge(failing).judge("terminal", DELETE_MODULES) == "ask"
    models = AuxiliaryModel("APPROVE")
    long = Concern("recursive delete", f"rm -rf {'a' * 30_000}", "deletes folders")
    assert await ModelJudge(models).judge("terminal", long) == "ask"
    assert models.asked == []
    elided = Concern("recursive delete", "rm -rf a …", "deletes folders")
    assert await ModelJudge(models).judge("terminal", elided) == "allow"


# Permission modes.

EDIT = Concern("write: act", "act", "act changes something", effect=Effect.WRITE)
INLINE = Concern("inline code", "python -c x", "runs code", folder="/work")


async def _act() -> str:
    """Does something."""
    return ""


def made(effect: Effect, found: Concern | Effect | None = None, **fields: Any) -> Tool:
    async def examine(_arguments: object) -> Concern | Effect | None:
        return found

    return Tool.from_function(_act, effect=effect, examine=examine, **fields)


def in_mode(permission: str, *answers: ApprovalAnswer, confinement: str = "", **rules: Any):
    person = Person(*answers)
    approvals = Approvals(
        ApprovalRules(**rules), person, (), _forget, folder="/work", permission_mode=permission,
        confinement=confinement,
    )  # fmt: skip
    return approvals, person


async def _forget(_rule: AllowRule) -> None:
    raise AssertionError


async def permitted(approvals: Approvals, tool: Tool, **arguments: Any) -> bool:
    try:
        await approvals.permit(tool, arguments, "c1", lambda _event: None)
    except ToolDenied:
        return False
    return True


@pytest.mark.parametrize("rules", [{}, {"mode": "off"}])
async def test_plan_mode_refuses_every_change_and_asks_nothing(rules) -> None:
    approvals, person = in_mode("plan", **rules)
    assert await permitted(approvals, made(Effect.READ))
    assert await permitted(approvals, made(Effect.NETWORK))
    assert await permitted(approvals, made(Effect.PERSIST, Effect.READ))
    shell = made(Effect.EXECUTE, changes=lambda arguments: arguments["command"] != "ls")
    assert await permitted(approvals, shell, command="ls")
    assert not await permitted(approvals, shell, command="touch x")
    for effect in (Effect.WRITE, Effect.EXECUTE, Effect.SEND, Effect.SPEND, Effect.PERSIST):
        assert not await permitted(approvals, made(effect))
    assert person.asked == []


async def test_plan_mode_tells_the_model_what_to_do_instead() -> None:
    approvals, _person = in_mode("plan")
    with pytest.raises(ToolDenied, match="plan mode") as raised:
        await approvals.permit(made(Effect.WRITE), {}, "c1", lambda _event: None)
    assert "plan" in raised.value.hint


async def test_ask_mode_asks_about_edits_in_the_folder_with_their_diff() -> None:
    async def diff(_arguments: object) -> str:
        return "-old\n+new"

    approvals, person = in_mode("ask", ApprovalAnswer.ONCE, effects={"_act": "allow"})
    assert await permitted(approvals, made(Effect.WRITE, preview=diff))
    assert [each.subject for each in person.asked] == ["-old\n+new"]
    approvals, person = in_mode("accept-edits")
    assert await permitted(approvals, made(Effect.WRITE, preview=diff))
    assert person.asked == []


async def test_ask_mode_asks_about_commands_that_change_files() -> None:
    def edits(arguments: dict[str, Any]) -> str:
        return arguments["command"] if "sed" in arguments["command"] else ""

    shell = made(Effect.EXECUTE, edits=edits)
    approvals, person = in_mode("ask", ApprovalAnswer.ONCE, ApprovalAnswer.DENY)
    assert await permitted(approvals, shell, command="pytest")
    assert await permitted(approvals, shell, command="sed -i s/a/b/ x")
    assert not await permitted(approvals, shell, command="sed -i s/a/c/ x")
    assert [(each.subject, each.reason, each.effect) for each in person.asked] == [
        ("sed -i s/a/b/ x", "changes files of the workspace", "execute"),
        ("sed -i s/a/c/ x", "changes files of the workspace", "execute"),
    ]
    approvals, person = in_mode("accept-edits")
    assert await permitted(approvals, shell, command="sed -i s/a/b/ x")
    assert person.asked == []


async def test_ask_mode_keeps_a_refusal_of_the_settings() -> None:
    approvals, person = in_mode("ask", effects={"_act": "deny"})
    assert not await permitted(approvals, made(Effect.WRITE))
    assert person.asked == []


async def test_auto_asks_only_about_what_is_dangerous_or_leaves_the_folder() -> None:
    elsewhere = msgspec.structs.replace(INLINE, reach="elsewhere")
    unreadable = msgspec.structs.replace(INLINE, once_only=True)
    delete = msgspec.structs.replace(DELETE, destructive=True)
    approvals, person = in_mode("auto", *[ApprovalAnswer.DENY] * 4, confinement="boundary")
    assert await permitted(approvals, made(Effect.EXECUTE, INLINE))
    for asked in (elsewhere, unreadable, delete, EDIT):
        assert not await permitted(approvals, made(Effect.EXECUTE, asked))
    assert len(person.asked) == 4
    approvals, _ = in_mode("auto", ApprovalAnswer.DENY, confinement="sandbox")
    assert await permitted(approvals, made(Effect.EXECUTE, unreadable))
    assert not await permitted(approvals, made(Effect.EXECUTE, delete))


async def test_auto_never_weakens_the_settings() -> None:
    approvals, _ = in_mode("auto", confinement="boundary", mode="deny")
    assert not await permitted(approvals, made(Effect.EXECUTE, INLINE))


def test_auto_needs_a_sandbox() -> None:
    approvals, _ = in_mode("auto")
    assert approvals.permission_mode == "accept-edits"
    with pytest.raises(UsageError, match="no sandbox"):
        approvals.set_permission_mode("auto")


def test_chosen_mode_ends_permission_for_everything() -> None:
    approvals, _ = in_mode("accept-edits", mode="off")
    assert approvals.allow_all
    approvals.set_permission_mode("ask")
    assert not approvals.allow_all


async def test_infinite_timeout_waits_for_the_answer() -> None:
    approvals, person = in_mode("accept-edits", ApprovalAnswer.ONCE, timeout=float("inf"))
    assert await permitted(approvals, made(Effect.EXECUTE, DELETE))
    assert len(person.asked) == 1

"""Listeners of plugins: their arguments, and that their failures do not reach a turn."""

import asyncio
import logging
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from hermes.core.ports import HookName
from hermes.plugins.hooks import ARGUMENTS, CHAINED, MAX_HANGS, MAX_TEXT_CHARS, VETOES, HookRunner
from hermes.plugins.isolation import ProblemReporter
from tests.cases import cases
from tests.unit.plugins.stage import Stage

CASES = cases(__file__)

CALL = {"tool_name": "terminal", "args": {"command": "ls"}, "task_id": "s1"}

EVERY_HOOK = """
def {name}(**kwargs):
    {body}

def register(ctx):
    for event in {events!r}:
        ctx.register_hook(event, {name})
"""


def sample(name: HookName) -> dict[str, Any]:
    return {argument: f"<{argument}>" for argument in ARGUMENTS[name]}


def in_every_hook(body: str) -> str:
    return EVERY_HOOK.format(name="act", body=body, events=[str(name) for name in HookName])


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def runner(told: list[str]) -> HookRunner:
    return HookRunner(timeout=10, reports=ProblemReporter(told.append))


def test_every_hook_has_a_row_of_arguments() -> None:
    assert set(ARGUMENTS) == set(HookName)
    assert all(argument in ARGUMENTS[name] for name, argument in CHAINED.items())


DOCUMENTED = CASES["documented"]


@pytest.mark.parametrize("event", DOCUMENTED)
async def test_a_listener_written_to_the_documents_is_called(stage: Stage, event: str) -> None:
    names = DOCUMENTED[event].split()
    assert set(ARGUMENTS[HookName(event)]) == set(names)
    stage.load_with(
        f"""
        def listen({", ".join(names)}):
            return {{"action": "allow", "seen": [{", ".join(names)}]}}

        def register(ctx):
            ctx.register_hook("{event}", listen)
        """
    )
    details = sample(HookName(event))
    (answer,) = await stage.hooks.fire(HookName(event), **details)
    assert answer["seen"] == [details[n] for n in names]
    assert stage.told == []


@pytest.mark.parametrize(
    ("signature", "given"),
    [
        ("**kwargs: sorted(kwargs)", ["args", "task_id", "tool_name"]),
        ("tool_name: tool_name", "terminal"),
        ("tool_name, **more: sorted(more)", ["args", "task_id"]),
        ("params: params", {"command": "ls"}),
        ("tool_name='x', extra='none': (tool_name, extra)", ("terminal", "none")),
        (": 'nothing'", "nothing"),
    ],
)
async def test_a_listener_gets_the_arguments_it_names(runner, signature, given):
    arguments, _, body = signature.partition(": ")
    runner.add(
        "p", HookName.PRE_TOOL_CALL, eval(f"lambda {arguments}: dict(action='allow', x={body})")
    )
    (answer,) = await runner.fire(HookName.PRE_TOOL_CALL, **CALL)
    assert answer["x"] == given


async def test_methods_objects_and_coroutines_can_listen(runner: HookRunner) -> None:
    class Ear:
        def method(self, tool_name: str) -> str:
            return f"method {tool_name}"

        def __call__(self, **kwargs: Any) -> str:
            return "object"

    class AsyncEar:
        async def __call__(self, tool_name: str) -> str:
            await asyncio.sleep(0)
            return f"async object {tool_name}"

    async def coroutine(tool_name: str) -> str:
        await asyncio.sleep(0)
        return f"coroutine {tool_name}"

    def promise(tool_name: str) -> Any:
        return coroutine(f"promised {tool_name}")

    for listener in (Ear().method, Ear(), AsyncEar(), coroutine, promise):
        runner.add("p", HookName.ON_SESSION_START, listener)
    details = {"session_id": "s", "model": "m", "platform": "cli", "tool_name": "t"}
    assert await runner.fire(HookName.ON_SESSION_START, **details) == [
        "method t",
        "object",
        "async object t",
        "coroutine t",
        "coroutine promised t",
    ]


async def test_answers_keep_the_order_of_registration_without_the_nones(stage: Stage) -> None:
    for name, answer in (("a", "'first'"), ("b", "None"), ("c", "'third'")):
        stage.plugin(
            name, f"def register(ctx): ctx.register_hook('pre_llm_call', lambda **_: {answer})\n"
        )
    stage.load("a", "b", "c")
    assert await stage.hooks.fire(HookName.PRE_LLM_CALL, **sample(HookName.PRE_LLM_CALL)) == [
        "first",
        "third",
    ]


async def test_a_veto_ends_the_round(runner: HookRunner) -> None:
    called: list[str] = []
    veto = {"action": "block", "message": "not here"}
    runner.add("a", HookName.PRE_TOOL_CALL, lambda **_: called.append("a"))
    runner.add("b", HookName.PRE_TOOL_CALL, lambda **_: veto)
    runner.add("c", HookName.PRE_TOOL_CALL, lambda **_: called.append("c"))
    assert await runner.fire(HookName.PRE_TOOL_CALL, **CALL) == [veto]
    assert called == ["a"]


async def test_changed_text_goes_from_one_to_the_next(runner: HookRunner) -> None:
    runner.add("a", HookName.TRANSFORM_TERMINAL_OUTPUT, lambda output: f"{output} a")
    runner.add("b", HookName.TRANSFORM_TERMINAL_OUTPUT, lambda **_: None)
    runner.add("c", HookName.TRANSFORM_TERMINAL_OUTPUT, lambda output: f"{output} c")
    answers = await runner.fire(HookName.TRANSFORM_TERMINAL_OUTPUT, output="out")
    assert answers[-1] == "out a c"


async def test_listener_cannot_change_the_arguments_of_a_call(runner: HookRunner) -> None:
    def meddle(args: dict[str, Any]) -> None:
        args["command"] = "rm -rf /"
        args["inner"]["deep"].append(2)

    details = {**CALL, "args": {"command": "ls", "inner": {"deep": [1]}}}
    runner.add("p", HookName.PRE_TOOL_CALL, meddle)
    await runner.fire(HookName.PRE_TOOL_CALL, **details)
    assert details["args"] == {"command": "ls", "inner": {"deep": [1]}}


async def test_a_listener_cannot_change_the_history_that_the_next_one_sees(runner):
    def meddle(conversation_history: list[dict[str, Any]]) -> str:
        said = str(conversation_history[0].pop("content"))
        conversation_history.clear()
        return said

    for plugin in ("a", "b"):
        runner.add(plugin, HookName.PRE_LLM_CALL, meddle)
    history = [{"role": "user", "content": "hello"}]
    details = {**sample(HookName.PRE_LLM_CALL), "conversation_history": history}
    assert await runner.fire(HookName.PRE_LLM_CALL, **details) == ["hello", "hello"]


@pytest.mark.parametrize(("answer", "message"), CASES["vetoes"], ids=str)
async def test_an_answer_that_may_mean_no_is_taken_for_no(runner, answer, message):
    runner.add("p", HookName.PRE_TOOL_CALL, lambda: answer)
    (veto,) = await runner.fire(HookName.PRE_TOOL_CALL, **CALL)
    assert veto == {"action": "block", "message": message}


@pytest.mark.parametrize(
    "answer",
    [
        {"action": "allow"},
        {"decision": "approve"},
        {"action": ""},
        {"context": "x"},
        {},
        True,
        "allow",
    ],
)
async def test_an_approval_or_no_answer_forbids_nothing(runner, answer):
    runner.add("p", HookName.PRE_TOOL_CALL, lambda: answer)
    assert await runner.fire(HookName.PRE_TOOL_CALL, **CALL) == [answer]


@pytest.mark.parametrize(
    "answer",
    [False, "no", "", 0, 42, [], {"block": True}, {"message": "x"}, {"allow": False}, b"no"],
)
async def test_any_other_answer_blocks_and_names_the_plugin(runner, told, answer):
    runner.add("p", HookName.PRE_TOOL_CALL, lambda: answer)
    (veto,) = await runner.fire(HookName.PRE_TOOL_CALL, **CALL)
    assert veto["action"] == "block"
    assert "plugin p is neither an approval nor None" in veto["message"]
    assert "plugin p: its hook pre_tool_call" in told[0]


@pytest.mark.parametrize("answer", ["x" * 10_000_000, {"context": "x" * 10_000_000}], ids=type)
async def test_a_listener_cannot_fill_the_window_of_the_model(runner, answer):
    runner.add("p", HookName.PRE_LLM_CALL, lambda: answer)
    (said,) = await runner.fire(HookName.PRE_LLM_CALL, **sample(HookName.PRE_LLM_CALL))
    text = said["context"] if isinstance(said, dict) else said
    assert len(text) < MAX_TEXT_CHARS + 100
    assert "9,950,000 characters left out" in text


async def test_error_is_reported_without_the_generated_module_name(stage: Stage) -> None:
    stage.load_with(CASES["odd_error"])
    await stage.hooks.fire(HookName.ON_SESSION_END, **sample(HookName.ON_SESSION_END))
    assert stage.told == [
        "plugin probe: its hook on_session_end failed: Odd: <exception str() failed>"
    ]


def test_problem_without_a_log_is_reported_once_and_not_printed(capsys):
    """Python prints warnings of a process that has no log."""
    handlers, root = list(logging.getLogger().handlers), logging.getLogger()
    told: list[str] = []
    root.handlers.clear()
    try:
        ProblemReporter(told.append).report("p", "plugin p is broken")
    finally:
        root.handlers.extend(handlers)
    assert (told, capsys.readouterr().err) == (["plugin p is broken"], "")


RAISING = CASES["raising"]


@pytest.mark.parametrize("body", RAISING.values(), ids=list(RAISING))
async def test_plugin_raising_in_every_hook_is_reported_once(stage, body, caplog):
    stage.plugin("bad", in_every_hook(body))
    stage.plugin("good", in_every_hook("return 'fine'"))
    stage.load("bad", "good")
    for _ in range(3):
        for name in HookName:
            answers = await stage.hooks.fire(name, **sample(name))
            if name in VETOES:
                assert [each["action"] for each in answers] == ["block"]
                assert "plugin bad: its hook pre_tool_call failed" in answers[0]["message"]
                assert "hermes plugins disable bad" in answers[0]["message"]
            else:
                assert answers == ["fine"]
    assert len(stage.told) == 1
    warned = [each for each in caplog.records if each.levelname == "WARNING"]
    assert len(warned) == len(HookName), "the log has each"


RAISED = [ValueError("broken"), SystemExit(2), KeyboardInterrupt(), asyncio.CancelledError()]


@pytest.mark.parametrize("kind", RAISED, ids=lambda kind: type(kind).__name__)
async def test_a_coroutine_that_raises_is_isolated_too(runner, told, kind):
    async def listen(**kwargs: Any) -> None:
        raise kind

    runner.add("bad", HookName.POST_TOOL_CALL, listen)
    runner.add("good", HookName.POST_TOOL_CALL, lambda **_: "fine")
    details = {**CALL, "result": "r"}
    assert await runner.fire(HookName.POST_TOOL_CALL, **details) == ["fine"]
    assert len(told) == 1


@pytest.mark.parametrize("how", ["thread", "coroutine", "stubborn coroutine"])
async def test_hanging_listener_is_abandoned_after_its_timeout(how: str) -> None:
    told: list[str] = []
    runner = HookRunner(timeout=0.05, reports=ProblemReporter(told.append))
    release, heeded = threading.Event(), asyncio.Event()
    calls: list[str] = []

    def in_thread(**kwargs: Any) -> None:
        calls.append("called")
        release.wait(60)

    async def on_loop(**kwargs: Any) -> None:
        calls.append("called")
        while not heeded.is_set():
            try:
                await heeded.wait()
            except asyncio.CancelledError:
                if how == "coroutine":
                    raise

    async def at_once(**kwargs: Any) -> str:
        return "fine"

    hanging = in_thread if how == "thread" else on_loop
    for name in (HookName.POST_TOOL_CALL, HookName.PRE_TOOL_CALL):
        runner.add("slow", name, hanging)
        runner.add("quick", name, at_once)
    for _ in range(MAX_HANGS + 2):
        assert await runner.fire(HookName.POST_TOOL_CALL, **CALL, result="r") == ["fine"]
    assert calls == ["called"] * MAX_HANGS
    for _ in range(MAX_HANGS + 2):  # a veto that hangs stays a veto, also when it is given up
        (answer,) = await runner.fire(HookName.PRE_TOOL_CALL, **CALL)
        assert answer["action"] == "block"
        assert "plugin slow" in answer["message"]
    assert calls == ["called"] * MAX_HANGS * 2
    assert told == ["plugin slow: its hook post_tool_call failed: it took longer than 0.05 seconds"]
    release.set()
    heeded.set()
    await asyncio.sleep(0)


async def test_a_plugin_that_hangs_in_every_hook_is_given_up_as_a_whole(told: list[str]) -> None:
    runner = HookRunner(timeout=0.05, reports=ProblemReporter(told.append))
    called: list[str] = []

    async def hang(**kwargs: Any) -> None:
        called.append("called")
        await asyncio.sleep(60)

    async def check(tool_name: str) -> dict[str, str]:
        return {"action": "block", "message": f"not {tool_name}"}

    for name in HookName:
        runner.add("slow", name, check if name in VETOES else hang)
    for name in HookName:
        if name not in VETOES:
            await runner.fire(name, **sample(name))
    assert len(called) == MAX_HANGS
    assert len(told) == 1
    veto = await runner.fire(HookName.PRE_TOOL_CALL, **CALL)
    assert veto == [{"action": "block", "message": "not terminal"}], "what it checks is checked"


async def test_hangs_must_come_in_a_row(told: list[str]) -> None:
    runner = HookRunner(timeout=0.05, reports=ProblemReporter(told.append))
    turns = iter([True, True, False, True, True, False, True])

    async def listen(**kwargs: Any) -> str:
        await asyncio.sleep(60 if next(turns) else 0)
        return "in time"

    runner.add("moody", HookName.POST_TOOL_CALL, listen)
    answers = [await runner.fire(HookName.POST_TOOL_CALL, **CALL, result="") for _ in range(6)]
    assert answers == [[], [], ["in time"], [], [], ["in time"]]


async def test_a_stopped_turn_does_not_wait_for_a_listener(runner: HookRunner) -> None:
    started = asyncio.Event()

    async def listen(**kwargs: Any) -> None:
        started.set()
        await asyncio.sleep(60)

    runner.add("slow", HookName.POST_TOOL_CALL, listen)
    firing = asyncio.ensure_future(runner.fire(HookName.POST_TOOL_CALL, **CALL, result=""))
    await started.wait()
    firing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await firing


async def test_a_thread_that_a_listener_starts_is_its_own_affair(stage: Stage) -> None:
    stage.load_with(CASES["thread"])
    details = sample(HookName.ON_SESSION_END)
    assert await stage.hooks.fire(HookName.ON_SESSION_END, **details) == ["worked"]


async def test_hook_without_listeners_costs_one_call(runner: HookRunner) -> None:
    """Counted in calls of functions: only `fire` itself."""
    runner.add("p", HookName.PRE_LLM_CALL, print)
    firing = runner.fire(HookName.PRE_TOOL_CALL, **CALL)
    entered: list[str] = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and "/src/hermes/" in frame.f_code.co_filename:
            entered.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        with pytest.raises(StopIteration) as ended:
            firing.send(None)
    finally:
        sys.setprofile(None)
    assert ended.value.value == []
    assert entered == ["fire"]
    assert not runner.listens(HookName.PRE_TOOL_CALL)
    assert runner.listens(HookName.PRE_LLM_CALL)


async def test_arguments_that_are_not_as_documented_are_logged_once(runner, caplog):
    runner.add("p", HookName.PRE_TOOL_CALL, lambda **_: None)
    for _ in range(2):
        await runner.fire(HookName.PRE_TOOL_CALL, tool_name="t", args={}, surprise=1)
    (record,) = caplog.records
    assert record.message == (
        "hook pre_tool_call is called with other arguments than documented:"
        " missing: task_id; not in the table: surprise"
    )


class Shell:
    """Stands for shell hooks."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.heard = answer, 0

    def listens(self, name: HookName) -> bool:
        return name is HookName.PRE_TOOL_CALL

    async def run(self, name: HookName, details: Mapping[str, Any]) -> list[Any]:
        self.heard += 1
        return [self.answer]


async def test_plugins_come_before_shell_hooks(hermes_home: Path) -> None:
    shell = Shell({"action": "block", "message": "by the shell"})
    stage = Stage(hermes_home, shell=shell)
    stage.load_with("def register(ctx): ctx.register_hook('pre_tool_call', lambda **_: 'allow')\n")
    answers = await stage.hooks.fire(HookName.PRE_TOOL_CALL, **CALL)
    assert answers == ["allow", shell.answer]
    assert await stage.hooks.fire(HookName.POST_TOOL_CALL, **CALL, result="") == []
    assert shell.heard == 1

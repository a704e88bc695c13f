"""rl_*: which sessions have the tools, what is asked about, and what the model gets."""

import json
from typing import Any

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolDenied, ToolError, UsageError
from hermes.core.tool import ToolContext
from hermes.sdk.testing.plugin import tool_deps
from hermes.tools import ToolRegistry, discover_builtin
from hermes.tools.approval import ApprovalRules, Approvals
from hermes.tools.registry import Assembled, assemble
from hermes.tools.toolsets import TOOLSETS, all_toolsets, expand

NAMES = TOOLSETS["rl"].tools
ARGUMENTS: dict[str, dict[str, Any]] = {
    "rl_select_environment": {"name": "e"},
    "rl_edit_config": {"field": "f", "value": 1},
    "rl_check_status": {"run_id": "r"},
    "rl_stop_training": {"run_id": "r"},
    "rl_get_results": {"run_id": "r"},
}
ASKED = {"rl_start_training", "rl_stop_training", "rl_test_inference"}


class Recorder:
    """A `Trainer` that records its calls."""

    def __init__(self, *, ready: bool = True) -> None:
        self.ready = ready
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            self.calls.append((name, arguments))
            if not self.ready:
                raise UsageError("no environment is selected", hint="select one")
            return f"train m: {name}" if name == "describe_start" else {"called": name}

        return call


def session(trainer: Any, command: str = "train.py") -> Assembled:
    registry = ToolRegistry()
    discover_builtin(registry)
    deps = tool_deps(settings={"rl": {"trainer_command": command}}, trainer=trainer)
    known = all_toolsets()
    return assemble(expand(["hermes-cli"], known), deps, registry, known)


async def remember(_rule: Any) -> None: ...


def test_tools_are_rare_and_need_a_configured_trainer() -> None:
    made = session(Recorder())
    assert set(NAMES) <= {tool.name for tool in made.rare}
    assert not set(NAMES) & {tool.name for tool in made.tools}
    for without in (session(Recorder(), command=" "), session(None)):
        assert not set(NAMES) & {tool.name for tool in (*without.tools, *without.rare)}
        assert set(NAMES) <= set(without.unavailable)


@pytest.mark.parametrize("name", NAMES)
async def test_only_what_runs_something_is_asked_about(name) -> None:
    (tool,) = [tool for tool in session(Recorder()).rare if tool.name == name]
    approvals = Approvals(ApprovalRules(), None, (), remember)
    asked: list[Any] = []
    work = approvals.permit(tool, ARGUMENTS.get(name, {}), "c1", asked.append)
    if name not in ASKED:
        await work
        return
    with pytest.raises(ToolDenied):  # there is no user who could approve it
        await work


async def test_question_about_a_start_shows_the_command() -> None:
    (tool,) = [tool for tool in session(Recorder()).rare if tool.name == "rl_start_training"]
    assert tool.examine is not None
    found: Any = await tool.examine({})
    assert (found.subject, found.effect) == ("train m: describe_start", "spend")


async def test_start_without_a_selection_is_an_error_and_not_a_question() -> None:
    rare = session(Recorder(ready=False)).rare
    (tool,) = [tool for tool in rare if tool.name == "rl_start_training"]
    assert tool.examine is not None
    assert await tool.examine({}) is None
    context = ToolContext("s", "c", CancelToken(), lambda _text: None)
    with pytest.raises(ToolError, match="no environment is selected") as raised:
        await tool.handler(context, {})
    assert raised.value.hint == "select one"


async def test_every_tool_calls_its_operation() -> None:
    trainer = Recorder()
    rare = {tool.name: tool for tool in session(trainer).rare}
    context = ToolContext("s", "c", CancelToken(), lambda _text: None)
    for name in NAMES:
        assert "called" in json.loads(await rare[name].handler(context, ARGUMENTS.get(name, {})))
    assert trainer.calls == [
        ("environments", ()),
        ("select", ("e",)),
        ("config", ()),
        ("edit", ("f", 1)),
        ("start", ()),
        ("status", ("r",)),
        ("stop", ("r",)),
        ("results", ("r",)),
        ("runs", ()),
        ("test_inference", (3, 16, ())),
    ]

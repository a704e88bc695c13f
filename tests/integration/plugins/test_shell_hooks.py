"""Commands of the user at events of the agent: real programs, real consent."""

import asyncio
import json
import os
import shlex
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.config.settings import ShellHook
from hermes.core.errors import ConfigError
from hermes.core.ports import HookName
from hermes.plugins.isolation import ProblemReporter
from hermes.plugins.shell_hooks import (
    FILE,
    HookApprovals,
    HookOptions,
    HookSpec,
    ShellHooks,
    find_program,
    parse_answer,
    parse_hooks,
    split_command,
)
from tests.cases import cases

CASES = cases(__file__)

CALL = {"tool_name": "terminal", "args": {"command": "ls -l"}, "task_id": "s1"}
PRE, POST = HookName.PRE_TOOL_CALL, HookName.POST_TOOL_CALL


class Scene:
    """Scripts in a folder, and the hooks that run them."""

    def __init__(self, home: Path, folder: Path) -> None:
        home.mkdir(exist_ok=True)
        self.home, self.folder = home, folder
        self.told: list[str] = []
        self.reports = ProblemReporter(self.told.append)
        self.consents = HookApprovals(home)
        self.asked: list[tuple[str, str]] = []
        self._opened: list[ShellHooks] = []

    def script(self, body: str, name: str = "hook.py") -> str:
        """A command that runs Python; `said` is what it was given."""
        path = self.folder / name
        path.write_text(f"import json, os, sys, time\nsaid = json.load(sys.stdin)\n{body}\n")
        return shlex.join([sys.executable, "-S", str(path)])

    def hooks(self, *hooks, answer=None, accept=False, environment=None):
        async def ask(event: str, command: str) -> bool:
            self.asked.append((event, command))
            return bool(answer)

        options = HookOptions(
            environment={"PATH": os.defpath} if environment is None else environment,
            folder=lambda: str(self.folder),
            ask=None if answer is None else ask,
            auto_accept=accept,
        )
        made = ShellHooks(hooks, self.consents, options, self.reports)
        self._opened.append(made)
        return made

    async def run(self, body, event=PRE, timeout=30, **details):
        """What a hook with this body answers."""
        hooks = self.hooks(HookSpec(event, self.script(body), timeout), accept=True)
        return await hooks.run(event, {**CALL, **details})

    async def close(self) -> None:
        for hooks in self._opened:
            await hooks.close()


@pytest.fixture
async def scene(hermes_home: Path, workspace: Path) -> AsyncIterator[Scene]:
    scene = Scene(hermes_home, workspace)
    yield scene
    await scene.close()


async def test_a_hook_is_given_the_event_as_json(scene: Scene) -> None:
    body = "json.dump(said, open('got.json', 'w'))"
    assert await scene.run(body, POST, result="done") == []
    assert json.loads((scene.folder / "got.json").read_text()) == {
        "hook_event_name": "post_tool_call",
        "tool_name": "terminal",
        "tool_input": {"command": "ls -l"},
        "session_id": "s1",
        "cwd": str(scene.folder),
        "extra": {"result": "done"},
    }


async def test_value_that_is_not_json_is_named_by_its_type(scene: Scene) -> None:
    hook = HookSpec(
        HookName.PRE_GATEWAY_DISPATCH, scene.script("json.dump(said, open('got.json', 'w'))"), 30
    )
    details = {"event": {"text": "hi"}, "gateway": object(), "session_store": scene}
    await scene.hooks(hook, accept=True).run(hook.event, details)
    got = json.loads((scene.folder / "got.json").read_text())
    assert got["extra"] == {
        "event": {"text": "hi"},
        "gateway": "<object>",
        "session_store": "<Scene>",
    }
    assert (got["tool_name"], got["tool_input"], got["session_id"]) == (None, None, "")


@pytest.mark.parametrize(("output", "answers"), CASES["answers"])
async def test_documented_answers_count(scene, output, answers):
    assert await scene.run(f"print({output!r})") == answers
    assert scene.told == []


@pytest.mark.parametrize("output", ["just words", "[1, 2]", '{"something": "else"}', "no", "false"])
async def test_any_other_answer_blocks_a_call_and_is_ignored_elsewhere(scene, output):
    (answer,) = await scene.run(f"print({output!r})")
    assert answer["action"] == "block"
    assert await scene.run(f"print({output!r})", POST, result="r") == []


async def test_half_an_answer_forbids(scene: Scene) -> None:
    (answer,) = await scene.run("""print('{"decision": "blo')""")
    assert answer["action"] == "block"
    assert "its output is not JSON" in answer["message"]
    assert await scene.run("""print('{"decision": "blo')""", POST) == []


async def test_a_hook_can_add_context(scene: Scene) -> None:
    answers = await scene.run("""print('{"context": "it rains"}')""", HookName.PRE_LLM_CALL)
    assert answers == [{"context": "it rains"}]


def test_only_a_veto_can_block() -> None:
    answer, problem = parse_answer(POST, '{"decision": "block"}')
    assert (answer, problem) == (None, "post_tool_call cannot forbid anything")


FAILURES = CASES["failures"]


@pytest.mark.parametrize("body", FAILURES)
async def test_a_hook_that_fails_blocks_a_call_and_nothing_else(scene: Scene, body: str) -> None:
    timeout = 1.0 if "600" in body else 30.0
    (answer,) = await scene.run(body, PRE, timeout)
    assert answer["action"] == "block"
    assert FAILURES[body] in answer["message"]
    assert await scene.run(body, POST, timeout, result="r") == []
    assert len(scene.told) == 2  # once for each event


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/no/such/program --now", "/no/such/program"),
        ("", "its command cannot be understood: it is empty"),
        ("echo 'open", "its command cannot be understood"),
    ],
)
async def test_a_command_that_cannot_run_blocks(scene: Scene, command: str, said: str) -> None:
    (answer,) = await scene.hooks(HookSpec(PRE, command, 30), accept=True).run(PRE, CALL)
    assert said in answer["message"]


async def test_everything_a_hook_started_is_stopped_with_it(scene, gone):
    body = """
import subprocess
child = subprocess.Popen(["sleep", "600"])
open("pids", "w").write(f"{os.getpid()} {child.pid}")
time.sleep(600)
"""
    (answer,) = await scene.run(body, PRE, timeout=3)
    assert "took longer than 3 seconds" in answer["message"]
    for pid in (scene.folder / "pids").read_text().split():
        await gone(int(pid))


async def test_a_hook_that_leaves_a_child_behind_is_not_waited_for(scene, gone):
    body = """
import subprocess
child = subprocess.Popen(["sleep", "600"])
open("pid", "w").write(str(child.pid))
print('{"decision": "block", "reason": "quick"}')
"""
    assert await scene.run(body) == [{"action": "block", "message": "quick"}]
    await gone(int((scene.folder / "pid").read_text()))


async def test_no_shell_interprets_the_command(scene: Scene) -> None:
    command = f"{sys.executable} -S {scene.folder}/show.py $HOME ; touch stolen"
    (scene.folder / "show.py").write_text("import sys; open('argv','w').write(repr(sys.argv[1:]))")
    await scene.hooks(HookSpec(POST, command, 30), accept=True).run(POST, CALL)
    assert (scene.folder / "argv").read_text() == "['$HOME', ';', 'touch', 'stolen']"
    assert not (scene.folder / "stolen").exists()


def test_a_tilde_is_the_users_home(user_home: Path) -> None:
    assert split_command("~/bin/check --in ~/x 'a b'") == [
        f"{user_home}/bin/check", "--in", f"{user_home}/x", "a b",
    ]  # fmt: skip


async def test_a_hook_gets_the_environment_it_is_given_and_no_more(scene, monkeypatch):
    monkeypatch.setenv("SECRET_API_KEY", "hidden")
    command = scene.script("json.dump(dict(os.environ), open('env.json', 'w'))")
    hooks = scene.hooks(HookSpec(POST, command, 30), accept=True, environment={"PLAIN": "yes"})
    await hooks.run(POST, CALL)
    seen = json.loads((scene.folder / "env.json").read_text())
    assert seen["PLAIN"] == "yes"
    assert "SECRET_API_KEY" not in seen


def setting(*hooks: ShellHook, event: str = "pre_tool_call") -> dict[str, tuple[ShellHook, ...]]:
    return {event: hooks}


@pytest.mark.parametrize(("matcher", "tool", "runs"), CASES["matchers"])
def test_the_matcher_is_a_pattern_of_whole_names(matcher: str, tool: str, runs: bool) -> None:
    (hook,) = parse_hooks(setting(ShellHook("x", matcher)), ProblemReporter())
    assert hook.is_for(tool) is runs


def test_invalid_matcher_matches_all_tools_and_is_reported() -> None:
    told: list[str] = []
    (hook,) = parse_hooks(setting(ShellHook("x", "te(rm")), ProblemReporter(told.append))
    assert hook.is_for("anything")
    assert "matcher 'te(rm' is not a pattern" in told[0]


def test_unknown_event_in_the_settings_is_reported() -> None:
    told: list[str] = []
    assert (
        parse_hooks(setting(ShellHook("x"), event="pre_tool"), ProblemReporter(told.append)) == ()
    )
    assert "did you mean pre_tool_call?" in told[0]


async def test_the_first_veto_counts_and_the_rest_is_not_run(scene: Scene) -> None:
    bodies = ["", """print('{"decision": "block", "reason": "second"}')""", "open('third', 'w')"]
    hooks = [
        HookSpec(PRE, scene.script(body, f"hook{number}.py"), 30)
        for number, body in enumerate(bodies)
    ]
    answers = await scene.hooks(*hooks, accept=True).run(PRE, CALL)
    assert [answer["message"] for answer in answers] == ["second"]
    assert not (scene.folder / "third").exists()


TOUCH = "open('ran', 'a').write('x')"


def times_run(scene: Scene) -> int:
    ran = scene.folder / "ran"
    return len(ran.read_text()) if ran.exists() else 0


async def test_consent_is_asked_once_and_kept(scene: Scene) -> None:
    hook = HookSpec(POST, scene.script(TOUCH), 30)
    hooks = scene.hooks(hook, answer=True)
    await asyncio.gather(*(hooks.run(POST, CALL) for _ in range(3)))
    await scene.hooks(hook, answer=False).run(POST, CALL)  # another process, later
    assert scene.asked == [("post_tool_call", hook.command)]
    assert times_run(scene) == 4
    assert stat.S_IMODE((scene.home / FILE).stat().st_mode) == 0o600


async def test_a_declined_hook_never_runs_and_does_not_block(scene: Scene) -> None:
    command = scene.script(TOUCH)
    hooks = scene.hooks(HookSpec(PRE, command, 30), HookSpec(POST, command, 30), answer=False)
    assert await hooks.run(PRE, CALL) == await hooks.run(PRE, CALL) == []
    assert await hooks.run(POST, CALL) == []
    assert (len(scene.asked), times_run(scene)) == (2, 0)
    (told,) = scene.told  # of the one that could have forbidden something, once
    assert told == f"the check {command!r} is left out in this session: you declined"


async def test_unapproved_hook_without_a_terminal_does_not_run_and_blocks_calls(scene):
    command = scene.script(TOUCH)
    hooks = scene.hooks(HookSpec(PRE, command, 30), HookSpec(POST, command, 30))
    (answer,) = await hooks.run(PRE, CALL)
    assert "not approved yet" in answer["message"]
    assert "--accept-hooks" in answer["message"]
    assert await hooks.run(POST, {**CALL, "result": ""}) == []
    assert (times_run(scene), len(scene.told)) == (0, 2)


async def test_another_event_or_a_changed_command_needs_consent_again(scene: Scene) -> None:
    command = scene.script(TOUCH)
    scene.consents.allow("pre_tool_call", command)
    for hook in (HookSpec(POST, command, 30), HookSpec(PRE, f"{command} --more", 30)):
        await scene.hooks(hook, answer=False).run(hook.event, CALL)
    assert len(scene.asked) == 2
    assert times_run(scene) == 0


async def test_accepted_hooks_are_not_asked_about_nor_remembered(scene: Scene) -> None:
    hook = HookSpec(POST, scene.script(TOUCH), 30)
    await scene.hooks(hook, answer=False, accept=True).run(POST, CALL)
    assert (scene.asked, times_run(scene), scene.consents.all()) == ([], 1, ())


async def test_all_can_be_settled_before_the_conversation(scene: Scene) -> None:
    hooks = scene.hooks(HookSpec(PRE, "a", 30), HookSpec(POST, "b", 30), answer=True)
    await hooks.settle()
    assert scene.asked == [("pre_tool_call", "a"), ("post_tool_call", "b")]
    assert [each.command for each in scene.consents.all()] == ["a", "b"]


async def test_a_damaged_consent_file_allows_nothing(scene: Scene) -> None:
    hook = HookSpec(PRE, scene.script(TOUCH), 30)
    (scene.home / FILE).write_text("{damaged")
    (answer,) = await scene.hooks(hook).run(PRE, CALL)
    assert (answer["action"], times_run(scene)) == ("block", 0)
    with pytest.raises(ConfigError, match="cannot be read"):
        scene.consents.all()


async def test_a_consent_that_cannot_be_saved_holds_for_now(scene: Scene) -> None:
    (scene.home / FILE).write_text("{")
    hooks = scene.hooks(HookSpec(PRE, scene.script(TOUCH), 30), answer=True)
    for _ in range(2):
        assert await hooks.run(PRE, CALL) == []
    assert (len(scene.asked), times_run(scene)) == (1, 2)
    (told,) = scene.told
    assert told.startswith("your approval is valid only until the program exits: ")
    assert "delete the file" in told


def test_a_home_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=FILE):
        HookApprovals(tmp_path / "file").allow("pre_tool_call", "check")


def test_consents_of_two_processes_are_both_kept(hermes_home: Path) -> None:
    hermes_home.mkdir()
    one, two = HookApprovals(hermes_home), HookApprovals(hermes_home)
    one.allow("pre_tool_call", "a")
    two.allow("pre_tool_call", "b")
    one.allow("pre_tool_call", "a")
    assert [each.command for each in one.all()] == ["b", "a"]
    assert (one.revoke("a"), one.revoke("a")) == (1, 0)
    assert two.find("pre_tool_call", "a") is None


async def test_a_stopped_turn_stops_its_hook(scene, gone):
    command = scene.script("open('pid', 'w').write(str(os.getpid())); time.sleep(600)")
    running = asyncio.ensure_future(
        scene.hooks(HookSpec(POST, command, 300), accept=True).run(POST, CALL)
    )
    while not (pid := scene.folder / "pid").exists() or not pid.read_text():
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await gone(int(pid.read_text()))


def test_the_program_of_a_command_is_found(tmp_path: Path) -> None:
    script = tmp_path / "check"
    script.write_text("#!/bin/sh\n")
    assert find_program("check --fast", str(tmp_path))[1] == "check is not executable (chmod +x)"
    script.chmod(0o755)
    assert find_program("check --fast", str(tmp_path)) == (script, "")
    assert find_program(f"{script}", "") == (script, "")
    assert find_program("no-such-thing", str(tmp_path))[1] == "there is no program no-such-thing"

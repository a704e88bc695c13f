"""Plugins and shell hooks, as a user of `hermes chat` meets them."""

import json
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from hermes.config import policy
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.cases import cases
from tests.integration.chat.conftest import UNTITLED, at, hermes, screen, terminal, untitled, work

CASES = cases(__file__)

__all__ = ["hermes", "screen", "terminal", "untitled", "work"]

WATCHER = CASES["watcher"]


@pytest.fixture
def plugin(hermes_home: Path):
    """Installs and enables a plugin with this code."""

    def install(code: str, name: str = "watcher") -> None:
        folder = hermes_home / "plugins" / name
        folder.mkdir(parents=True)
        (folder / "plugin.yaml").write_text(f"name: {name}\nversion: '1'\ndescription: a test\n")
        (folder / "__init__.py").write_text(code)
        (hermes_home / "config.yaml").write_text(
            f"plugins:\n  enabled: [{name}]\napprovals:\n  mode: 'off'\n{UNTITLED}"
        )

    return install


def test_hooks_hear_what_is_documented_and_can_forbid(hermes, plugin, tmp_path, work, monkeypatch):
    monkeypatch.setenv("WATCHED", str(tmp_path / "heard"))
    plugin(WATCHER)
    (work / "secret.txt").write_text("42")
    read = ToolCall("c1", "read_file", '{"path":"secret.txt"}')
    phase = ToolCall("c2", "phase", "{}")
    with ModelServer([read, phase, "It is full."]) as server:
        done = hermes("chat", "-q", "look", *at(server))
        assert (done.stdout, done.returncode) == ("It is full.\n", 0), done.stderr
        asked, refused, found = (call.body["messages"] for call in server.calls)
    assert asked[-1]["content"] == "look\n\nThe moon is full."
    assert "that file is private" in refused[-1]["content"]
    assert found[-1]["content"] == '{"phase": "full"}'
    heard = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
    assert [each["event"] for each in heard] == [
        "on_session_start", "pre_llm_call",
        "pre_api_request", "post_api_request", "pre_tool_call",
        "pre_api_request", "post_api_request", "pre_tool_call", "post_tool_call",
        "pre_api_request", "post_api_request",
        "post_llm_call", "on_session_end", "on_session_finalize",
    ]  # fmt: skip
    start, opening, *_, answered, ended, left = heard
    assert (start["model"], start["platform"]) == ("lab-model", "cli")
    assert opening["user_message"] == "look"
    assert opening["is_first_turn"] is True
    assert opening["conversation_history"] == []
    assert answered["assistant_response"] == "It is full."
    assert answered["conversation_history"][0]["content"].startswith("look")
    assert (ended["completed"], ended["interrupted"]) == (True, False)
    assert left["session_id"] == start["session_id"]


def test_text_added_by_a_hook_is_not_stored(hermes, plugin, tmp_path, monkeypatch):
    monkeypatch.setenv("WATCHED", str(tmp_path / "heard"))
    plugin(WATCHER)
    with ModelServer(["Good."]) as server:
        hermes("chat", "-q", "well?", *at(server))
    shown = hermes("sessions", "export", "-").stdout
    assert "well?" in shown
    assert "The moon is full" not in shown


def test_plugin_raising_in_every_hook_is_reported_once_and_the_conversation_continues(
    hermes, plugin
) -> None:
    plugin(
        "from hermes.core.ports import HookName\n"
        "def bad(**given):\n    raise RuntimeError('broken')\n"
        "def register(ctx):\n"
        "    for name in HookName:\n"
        "        if name != 'pre_tool_call': ctx.register_hook(name, bad)\n"
    )
    call = ToolCall("c1", "todo", "{}")
    again = ToolCall("c2", "todo", '{"todos":[]}')
    with ModelServer([call, again, "Done."]) as server:
        done = hermes("chat", "-q", "go", *at(server))
    assert (done.stdout, done.returncode) == ("Done.\n", 0)
    (told,) = done.stderr.splitlines()
    assert told == "plugin watcher: its hook on_session_start failed: RuntimeError: broken"


def test_plugin_that_cannot_be_loaded_is_reported_and_the_conversation_continues(hermes, plugin):
    plugin("import sys\nsys.exit(3)\n")
    with ModelServer(["Still here."]) as server:
        done = hermes("chat", "-q", "go", *at(server))
    assert done.stdout == "Still here.\n"
    (told,) = done.stderr.splitlines()
    assert told.startswith("plugin watcher is not loaded: it wanted to end the program")


def test_a_tool_with_a_schema_that_no_endpoint_takes_does_not_end_the_conversation(hermes, plugin):
    plugin(
        "SCHEMA = {'parameters': {'properties': {'a': object()}}}\n"
        "def register(ctx):\n"
        "    ctx.register_tool('odd', 'set', SCHEMA, print)\n"
    )
    with ModelServer(["Still here."]) as server:
        done = hermes("chat", "-q", "go", *at(server))
    assert (done.stdout, done.returncode) == ("Still here.\n", 0)
    assert "register_tool('odd'): schema is not JSON" in done.stderr


def test_tool_runs_unattended_when_it_only_reads_or_is_approved(hermes, plugin, hermes_home):
    plugin(
        "def answer(args, **kw): return 'done'\n"
        "def register(ctx):\n"
        "    ctx.register_tool('reads', 'set', {}, answer, effect='read')\n"
        "    ctx.register_tool('acts', 'set', {}, answer)\n"
    )
    settings = hermes_home / "config.yaml"
    settings.write_text(settings.read_text().replace("mode: 'off'", "mode: manual"))

    def result(tool: str) -> str:
        with ModelServer([ToolCall("c1", tool, "{}"), "ok"]) as server:
            hermes("chat", "-q", "go", *at(server))
            return server.calls[1].body["messages"][-1]["content"]

    assert result("reads") == "done"
    told = result("acts")
    command = told[told.index("`hermes ") + len("`hermes ") : told.index(" allow`")]
    assert "hermes approvals confirm" in hermes(*command.split(), "allow").stderr
    policy.confirm(hermes_home, {"approvals.effects": {"acts": "allow"}})  # as at a terminal
    assert result("acts") == "done"


def test_commands_of_plugins(hermes, screen, plugin, tmp_path, monkeypatch):
    monkeypatch.setenv("WATCHED", str(tmp_path / "heard"))
    plugin(WATCHER)
    assert "\nmay add commands, listed here once loaded: watcher\n" in hermes("--help").stdout
    done = hermes("tides", "Cuxhaven")
    assert (done.stdout, done.returncode) == ("high water at Cuxhaven: noon\n", 0)
    assert "place" in hermes("tides", "--help").stdout
    assert hermes("--help").stdout.endswith("\nalso: tides (plugin watcher)\n")
    hermes("plugins", "disable", "watcher")
    assert "watcher" not in hermes("--help").stdout
    hermes("plugins", "enable", "watcher")
    with ModelServer(["Hello to you."]) as server:
        it = screen("chat", *at(server)).ready()
        it.ask("/moon tonight", "full, tonight")
        it.ask("/poke", "Hello to you")
        assert it.leave() == 0
        assert server.calls[0].body["messages"][-1]["content"].startswith("and say hello")


def test_shell_hooks_run_only_with_consent(hermes, terminal, hermes_home, tmp_path):
    script = tmp_path / "guard.py"
    script.write_text(
        "import json, sys\ngiven = json.load(sys.stdin)\n"
        "print(json.dumps({'decision': 'block', 'reason': 'not ' + given['tool_name']}))\n"
    )
    settings = f"hooks:\n  pre_tool_call:\n    - command: python3 {script}\n      matcher: todo\n"
    call = ToolCall("c1", "todo", "{}")
    child_settings = hermes_home / "config.yaml"

    def asked_with(*flags: str) -> str:
        with ModelServer([call, "ok"]) as server:
            hermes("chat", "-q", "go", *flags, *at(server))
            return server.calls[1].body["messages"][-1]["content"]

    hermes_home.mkdir(exist_ok=True)
    child_settings.write_text(settings + UNTITLED)
    assert "appro" in asked_with(), "an unapproved hook blocks the call and does not run"
    assert "not todo" in asked_with("--accept-hooks")
    with ModelServer([call, "Very well."]) as server:
        child = terminal("chat", "-q", "go", *at(server))
        child_settings.write_text(settings + UNTITLED)
        child.expect("Allow it")
        child.sendline("y")
        child.expect("Very well")
        child.expect(pexpect.EOF)
    assert "not todo" in asked_with()


def test_a_new_plugin_works_and_is_tested(hermes, hermes_home, work):
    made = hermes("plugins", "new", "my-lab")
    assert made.returncode == 0, made.stderr
    tested = hermes("plugins", "test", "my-lab")
    assert (tested.returncode, tested.stderr) == (0, "")
    assert tested.stdout.splitlines() == [
        "tool     my_lab_greet   read: Greet a person.",
        "command  /my_lab",
        "hook     pre_tool_call",
        "✓ my-lab works: its tests passed (pytest)",
    ]
    assert hermes("plugins", "enable", "my-lab").returncode == 0
    with (hermes_home / "config.yaml").open("a") as file:
        file.write(UNTITLED)
    with ModelServer([ToolCall("c1", "my_lab_greet", '{"who":"Ada"}'), "Greeted."]) as server:
        done = hermes("chat", "-q", "greet Ada", *at(server))
        assert (done.stdout, done.returncode) == ("Greeted.\n", 0), done.stderr
        assert server.calls[-1].body["messages"][-1]["content"] == '{"greeting": "Hello, Ada!"}'
    again = hermes("plugins", "new", "my-lab")
    assert (again.returncode, "exists already" in again.stderr) == (2, True)


@pytest.mark.parametrize("fault", CASES["faults"])
def test_faults_of_a_plugin_are_found(hermes, tmp_path, work, fault):
    code, problem = CASES["faults"][fault]
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "plugin.yaml").write_text("name: lab\nversion: '1'\n")
    (folder / "__init__.py").write_text(code)
    done = hermes("plugins", "test", str(folder))
    assert done.returncode == 1
    assert "✗ " in done.stderr
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_tests_of_a_plugin_run_without_pytest(hermes, hermes_home, work):
    hermes("plugins", "new", "lab")
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from pathlib import Path\n"
        "from hermes.sdk.testing.plugin import examine_plugin\n"
        "report = examine_plugin(Path(sys.argv[1]), {})\n"
        "print(report.tests, report.problems)\n"
    )
    command = [sys.executable, "-c", code, str(hermes_home / "plugins" / "lab")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "unittest []\n"
    assert "Ran 3 tests" in done.stderr


def test_failing_tests_of_a_plugin_are_shown(hermes, hermes_home, work):
    hermes("plugins", "new", "lab")
    code = hermes_home / "plugins" / "lab" / "__init__.py"
    code.write_text(code.read_text().replace("Hello, {args", "Bye, {args"))
    done = hermes("plugins", "test", "lab", "--json")
    assert done.returncode == 1
    assert "its tests failed" in json.loads(done.stdout)["problems"]
    assert "test_tool_greets" in done.stderr

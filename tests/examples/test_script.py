"""examples/script, and what all examples have in common."""

import sys

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.examples.conftest import EXAMPLES, imported

DOCUMENTED = {
    "agent", "atroposlib", "cli", "environments", "gateway", "hermes_cli", "hermes_constants",
    "hermes_state", "model_tools", "run_agent", "tools", "toolsets",
}  # fmt: skip
LIBRARIES = {"prompt_toolkit"}


def test_an_agent_in_a_script(hermes, configure, work) -> None:
    (work / "plan.txt").write_text("buy milk")
    read = ToolCall("c1", "read_file", '{"path":"plan.txt"}')
    with ModelServer([read, "Shopping.", "Nothing."]) as server:
        model = f"model:\n  provider: custom\n  default: lab-model\n  base_url: {server.url}/v1\n"
        configure(model)
        script = str(EXAMPLES / "script" / "describe.py")
        done = hermes("run", script, "plan.txt", "gone.txt")
        assert done.returncode == 0, done.stderr
        offered = [tool["function"]["name"] for tool in server.calls[0].body["tools"]]
        assert server.calls[1].body["messages"][-1]["content"] == "1|buy milk"
    assert sorted(offered) == ["patch", "read_file", "search_files", "write_file"]
    plan, gone, count = done.stdout.splitlines()
    assert plan == f"{'plan.txt':<20} Shopping."
    assert gone == f"{'gone.txt':<20} Nothing."
    assert count.startswith("6 messages, lab-model, session ")


def test_a_script_that_uses_tools_without_a_model(hermes, configure) -> None:
    configure()
    done = hermes("run", str(EXAMPLES / "script" / "toolbox.py"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "file tools: read_file, write_file, patch, search_files"
    result = '   {"output":"hello","exit_code":0,"error":null}'
    assert lines[2:4] == ["'echo hello': harmless", result]
    assert lines[4].startswith("'rm -rf /': disk wipe")
    assert '"error":"refused' in lines[5]
    assert lines[6] == '{"said": "HELLO"}'
    assert done.stderr == ""


def test_every_documented_addition_works(hermes) -> None:
    done = hermes("run", str(EXAMPLES / "documented_names.py"))
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("ok ")] == [], done.stderr
    assert len(lines) == 16 and done.returncode == 0


def test_failing_addition_is_named_with_an_exit_code(hermes, work) -> None:
    script = (EXAMPLES / "documented_names.py").read_text()
    wrong = script.replace("== (20_000, 10_000)", "== (1, 1)")
    assert wrong != script
    (work / "wrong.py").write_text(wrong)
    done = hermes("run", str(work / "wrong.py"))
    assert done.returncode == 1
    failed = [line for line in done.stdout.splitlines() if not line.startswith("ok ")]
    assert failed == ["FAILED  compressor"]


def test_examples_import_documented_paths_only() -> None:
    files = list(EXAMPLES.rglob("*.py"))
    assert len(files) >= 8
    for file in files:
        known = DOCUMENTED | ({"hermes"} if file.parent.name == "environment" else LIBRARIES)
        foreign = imported(file) - sys.stdlib_module_names - known
        assert not foreign, f"{file.relative_to(EXAMPLES)} imports {foreign}"

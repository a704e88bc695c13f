"""execute_code as the model sees it: results, tools in scripts, limits, environment, ends."""

import asyncio
import json
import os
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from hermes.core.errors import Interrupted, ToolError
from hermes.core.tool import Effect
from hermes.terminal import LocalShell
from tests.cases import cases

CASES = cases(__file__)


async def test_printed_output_is_returned(bench):
    result = await bench.run("print('hello')\nprint(6 * 7)")
    assert result.pop("duration_seconds") >= 0
    assert result == {"status": "success", "output": "hello\n42", "tool_calls_made": 0}
    assert "".join(bench.shown) == "hello\n42\n"
    assert bench.person.asked == []


async def test_description_names_only_the_available_tools(bench):
    tool = bench.tool(timeout=7, max_tool_calls=3)
    assert (tool.name, tool.effect, tool.serial) == ("execute_code", Effect.EXECUTE, True)
    assert tool.examine is not None
    assert await tool.examine({"code": "1"}) is None, "what it does is judged when it does it"
    assert "from hermes_tools import read_file, write_file, terminal`" in tool.spec.description
    assert "7 s, 3 tool calls, 50 KB" in tool.spec.description
    assert "web_search" not in tool.spec.description
    assert len(json.dumps(tool.spec.parameters)) + len(tool.spec.description) < 600
    bench.tools.clear()
    assert "hermes_tools" not in bench.tool().spec.description


async def test_error_names_the_line_of_the_script(bench):
    code = "import json\n\ndef broken():\n    return 1 / 0\n\nprint('before')\nbroken()\n"
    result = await bench.run(code)
    assert (result["status"], result["output"]) == ("error", "before")
    assert result["error"].startswith(
        'Traceback (most recent call last):\n  File "script.py", line 7, in <module>'
    )
    assert 'File "script.py", line 4, in broken' in result["error"]
    assert result["error"].endswith("ZeroDivisionError: division by zero")

    result = await bench.run("x = 1\nif x\n    pass\n")
    assert result["status"] == "error"
    assert 'File "script.py", line 2' in result["error"]
    assert "SyntaxError" in result["error"]
    assert "boot.py" not in result["error"]


async def test_exit_codes_signals_and_warnings_are_shown(bench):
    assert (await bench.run("import sys; sys.exit(0)"))["status"] == "success"
    assert (await bench.run("import sys; sys.exit(3)"))["error"] == "[exit code 3]"
    assert (await bench.run("import sys; sys.exit('told')"))["error"] == "told"
    killed = await bench.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert (killed["status"], killed["error"]) == ("error", "[ended by SIGKILL]")

    result = await bench.run("import sys; print('out'); print('careful', file=sys.stderr)")
    assert result["status"] == "success"
    assert result["output"] == "out\n[stderr]\ncareful"


async def test_script_is_the_main_module_and_has_no_input(bench):
    code = CASES["script_is_the_main_module_and_has_no_input"]
    assert (await bench.run(code))["output"] == "no input"


async def test_tools_are_called_with_their_own_parameters(bench, workspace):
    (workspace / "poem.txt").write_text("roses\nare\nred\n")
    code = CASES["tools_are_called_with_their_own_parameters"]
    result = await bench.run(code)
    assert (result["status"], result["output"]) == ("success", "2|are\nhä")
    assert result["tool_calls_made"] == 3
    assert (workspace / "new.txt").read_text() == "hä\n"
    assert bench.invoked[0] == ("read_file", {"path": "poem.txt", "offset": 2, "limit": 1})


async def test_failing_tool_raises_in_the_script(bench):
    code = CASES["failing_tool_raises_in_the_script"]
    output = (await bench.run(code))["output"]
    assert output == "failed: there is no file nothing.txt (search_files finds files)"


async def test_other_tools_and_background_commands_are_not_callable(bench):
    code = CASES["other_tools_and_background_commands_are_not_callable"]
    lines = (await bench.run(code))["output"].splitlines()
    assert lines == [
        "False",
        "a script cannot call 'delegate_task'; it can call: read_file, write_file, terminal",
        "terminal in a script has no background",
    ]
    assert bench.invoked == []


async def test_calls_from_threads_and_forked_workers_run_in_parallel(bench, workspace):
    for n in range(8):
        (workspace / f"{n}.txt").write_text(f"content {n}\n")
    code = CASES["calls_from_threads_and_forked_workers_run_in_parallel"]
    result = await bench.run(code)
    expected = str([f"1|content {n}" for n in range(8)])
    assert (result["output"], result["tool_calls_made"]) == (f"{expected}\n{expected}", 16)
    assert bench.person.asked == []


async def test_number_of_tool_calls_is_limited(bench):
    code = CASES["number_of_tool_calls_is_limited"]
    result = await bench.run(code, max_tool_calls=2)
    assert result["tool_calls_made"] == 2
    assert result["output"].splitlines()[:2] == ["0", "1"]
    assert result["output"].count("has made all of its 2 tool calls") == 2


async def test_long_output_keeps_its_beginning_and_its_end(bench):
    code = CASES["long_output_keeps_its_beginning_and_its_end"]
    result = await bench.run(code)
    assert result["output"].startswith("first\n")
    assert result["output"].endswith("last")
    assert "bytes left out" in result["output"]
    assert len(result["output"]) < 51_000
    assert "bytes left out" in result["error"]
    assert len(result["error"]) < 11_000
    assert len("".join(bench.shown)) < 61_000


async def test_script_that_takes_too_long_is_stopped(bench):
    code = CASES["script_that_takes_too_long_is_stopped"]
    result = await bench.run(code, timeout=1)
    assert (result["status"], result["tool_calls_made"]) == ("timeout", 0)
    assert "stopped after 1 s" in result["error"]
    assert not psutil.pid_exists(int(result["output"].split()[1]))


async def test_waiting_for_the_user_stops_the_clock(bench, workspace):
    asked = asyncio.Event()

    async def slow(_concern):
        asked.set()
        await asyncio.sleep(2.1)

    bench.person.require_approval = slow
    code = "import subprocess; print(subprocess.run('sudo -n true', shell=True).returncode)"
    result = await bench.run(code, timeout=2)
    assert asked.is_set()
    assert result["status"] == "success"


async def test_cancelled_turn_ends_the_script_and_its_processes(bench, gone):
    code = CASES["cancelled_turn_ends_the_script_and_its_processes"]
    work = asyncio.ensure_future(bench.run(code))
    while not "".join(bench.shown).endswith("\n"):
        await asyncio.sleep(0.01)
    pids = [int(pid) for pid in "".join(bench.shown).split()]
    assert len(pids) == 2
    assert all(psutil.pid_exists(pid) for pid in pids)
    bench.cancel.cancel()
    with pytest.raises(Interrupted):
        await work
    for pid in pids:
        await gone(pid)


async def test_cancelled_turn_ends_a_tool_call_of_the_script(bench):
    code = "from hermes_tools import terminal\nprint('go', flush=True)\nterminal('sleep 600')"
    work = asyncio.ensure_future(bench.run(code))
    while not bench.invoked:
        await asyncio.sleep(0.01)
    bench.cancel.cancel()
    with pytest.raises(Interrupted):
        await work


async def test_nothing_is_left_behind(bench, temporary, gone):
    code = """
import subprocess
print(subprocess.Popen(["sleep", "600"]).pid)
"""
    result = await bench.run(code)
    await gone(int(result["output"]))
    assert not [path.name for path in temporary.iterdir() if "code" in path.name]


async def test_runner_whose_owner_is_gone_kills_the_script(bench, gone):
    """What happens on a machine behind SSH when we are killed: its input ends."""
    started = []
    plain = bench.shell.start

    class Shell:
        cwd = bench.shell.cwd

        async def start(self, command, **options):
            started.append(await plain(command, **options))
            return started[0]

    bench.shell = Shell()
    work = asyncio.ensure_future(
        bench.run("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    )
    while not "".join(bench.shown).endswith("\n"):
        await asyncio.sleep(0.01)
    await started[0].close_input()
    await gone(int("".join(bench.shown)))
    with pytest.raises(ToolError, match="the script was lost"):
        await work


async def test_variables_that_look_secret_are_withheld(bench):
    code = "import os; print(sorted(set(os.environ) & {'HARMLESS', 'OPENAI_API_KEY', "
    code += "'Db_Password', 'GITHUB_TOKEN'}))"
    assert (await bench.run(code))["output"] == "['HARMLESS']"
    result = await bench.run(code, exported_names=lambda: ("GITHUB_TOKEN",))
    assert result["output"] == "['GITHUB_TOKEN', 'HARMLESS']"


async def test_project_mode_runs_in_the_working_folder(bench, workspace):
    (workspace / "mine.py").write_text("value = 'of the project'\n")
    # Modules of the project that carry names of the standard library must not break our part.
    for name in ("socket", "json", "queue", "subprocess"):
        (workspace / f"{name}.py").write_text("raise RuntimeError('the wrong module')\n")
    code = "import os, mine; print(os.getcwd(), mine.value)"
    assert (await bench.run(code))["output"] == f"{workspace} of the project"
    assert not (workspace / "__pycache__").exists()


async def test_strict_mode_runs_in_an_empty_folder(bench, workspace):
    (workspace / "mine.py").write_text("")
    code = CASES["strict_mode_runs_in_an_empty_folder"]
    result = await bench.run(code, mode="strict")
    assert result["output"] == "[] 1 called"
    assert "No module named 'mine'" in result["error"]


async def test_project_s_own_python_is_used(bench, workspace):
    venv = workspace / ".venv" / "bin"
    venv.mkdir(parents=True)
    python = venv / "python"
    python.write_text('#!/bin/sh\nOF_THE_PROJECT=1 exec python3 "$@"\n')
    python.chmod(0o755)
    code = "import os; print(os.environ.get('OF_THE_PROJECT'))"
    assert (await bench.run(code))["output"] == "1"
    assert (await bench.run(code, mode="strict"))["output"] == "None"
    # One that is too old for us gives way to the next.
    python.write_text("#!/bin/sh\nexit 97\n")
    assert (await bench.run(code))["output"] == "None"


async def test_machine_without_python_is_reported(bench, user_home, workspace, tmp_path):
    for name in ("sh", "bash", "cat", "rm", "sleep"):
        found = next(
            Path(folder, name)
            for folder in os.environ["PATH"].split(":")
            if Path(folder, name).exists()
        )
        (tmp_path / name).symlink_to(found)
    bench.shell = LocalShell({"PATH": str(tmp_path), "HOME": str(user_home)}, workspace)
    try:
        with pytest.raises(ToolError, match=r"no Python 3\.8 or newer") as raised:
            await bench.run("print(1)")
        assert "install python3" in raised.value.hint
    finally:
        await bench.shell.close()


async def test_too_long_socket_path_falls_back_to_a_port(bench, user_home, workspace):
    deep = user_home / ("d" * 100)
    deep.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(user_home), "TMPDIR": str(deep)}
    bench.shell = LocalShell(environment, workspace)
    try:
        result = await bench.run(
            "from hermes_tools import terminal; print(terminal('echo over')['output'])"
        )
    finally:
        await bench.shell.close()
    assert result["output"] == "over"


async def test_text_that_is_not_ascii_survives(bench, workspace):
    code = (
        "from hermes_tools import write_file\nwrite_file('ü', '→ 🦊\\n')\nprint(open('ü').read())"
    )
    assert (await bench.run(code))["output"] == "→ 🦊"


async def test_file_names_that_are_not_utf_8_are_handled(bench, user_home):
    code = CASES["file_names_that_are_not_utf_8_are_handled"]
    result = await bench.run(code.replace("home", repr(str(user_home)), 1))
    assert result["output"].splitlines() == ["ToolError", "PermissionError"]
    assert bench.person.asked[0].subject == f"{user_home}/\\xff"


async def test_unexpected_tool_failure_ends_the_script(bench):
    async def broken(_context, _arguments):
        raise RuntimeError("a bug")

    bench.tools["terminal"] = msgspec.structs.replace(bench.tools["terminal"], handler=broken)
    with pytest.raises(RuntimeError, match="a bug"):
        await bench.run("from hermes_tools import terminal; terminal('ls')")


async def test_killed_agent_leaves_no_script_behind(workspace, gone):
    agent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CASES["agent"], str(workspace), stdout=asyncio.subprocess.PIPE
    )
    assert agent.stdout is not None
    pid = int(await agent.stdout.readline())
    assert psutil.pid_exists(pid)
    agent.kill()
    await agent.communicate()  # reads to the end: an open pipe would be reported as a leak
    await gone(pid)

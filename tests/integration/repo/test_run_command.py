"""`hermes run`."""

import os
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.integration.chat.conftest import hermes, work

__all__ = ["hermes", "work"]


@pytest.fixture
def script(work: Path):
    def write(text: str, name: str = "mine.py") -> str:
        path = work / "scripts" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return f"scripts/{name}"

    return write


def test_a_script_sees_its_arguments_its_folder_and_the_documented_names(
    hermes, script, work: Path, hermes_home: Path
) -> None:
    script("word = 'beside'\n", "neighbour.py")
    name = script(
        "import sys, neighbour\nfrom hermes_constants import get_hermes_home\n"
        "print(__name__, sys.argv[1:], neighbour.word, get_hermes_home())\n"
    )
    done = hermes("run", name, "--help", "-m", "x", "--", "y")
    expected = f"__main__ ['--help', '-m', 'x', '--', 'y'] beside {hermes_home}\n"
    assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0)


def test_the_profile_of_the_command_line_counts(hermes, script, hermes_home: Path) -> None:
    name = script("from hermes_constants import get_hermes_home\nprint(get_hermes_home().name)\n")
    assert hermes("profile", "create", "second").returncode == 0
    assert hermes("-p", "second", "run", name).stdout == "second\n"


@pytest.mark.parametrize(
    ("ending", "code", "message"),
    [
        ("import sys\nsys.exit(7)", 7, ""),
        ("import sys\nsys.exit('enough')", 1, "enough\n"),
        ("raise SystemExit", 0, ""),
    ],
)
def test_the_exit_code_is_the_script_s(hermes, script, ending, code, message) -> None:
    done = hermes("run", script(ending))
    assert (done.returncode, done.stderr) == (code, message)


def test_an_error_is_shown_as_python_shows_it(hermes, script, work: Path) -> None:
    name = script("print('first')\ndef divide():\n    return 1 / 0\ndivide()\n")
    done = hermes("run", name)
    assert (done.returncode, done.stdout) == (1, "first\n")
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{work}/scripts/mine.py", line 4, in <module>'
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert "hermes" not in done.stderr
    bad = hermes("run", script("def (\n"))
    assert bad.stderr.startswith(f'  File "{work}/scripts/mine.py", line 1')
    assert bad.stderr.endswith("SyntaxError: invalid syntax\n")


def test_an_error_of_hermes_says_what_to_do_and_where_it_was(hermes, script, work: Path) -> None:
    name = script("from toolsets import resolve_toolset\n\nresolve_toolset('fiel')\n")
    done = hermes("run", name)
    assert done.returncode == 2
    assert done.stderr == (
        "hermes: there is no toolset or tool 'fiel'; did you mean file?\n"
        "  `hermes tools list` shows all of them\n"
        f"  ({work}/scripts/mine.py, line 3)\n"
    )


def test_a_module_is_run_with_m(hermes, work: Path) -> None:
    (work / "package").mkdir()
    (work / "package" / "__init__.py").write_text("")
    (work / "package" / "__main__.py").write_text(
        "import sys\nfrom run_agent import AIAgent\nprint(sys.argv[1:], AIAgent.__name__)\n"
    )
    assert hermes("run", "-m", "package", "-q", "x").stdout == "['-q', 'x'] AIAgent\n"
    absent = hermes("run", "-m", "package.nothing")
    assert absent.returncode == 2
    assert "there is no module package.nothing" in absent.stderr


def test_wrong_use_is_reported(hermes, work: Path) -> None:
    (work / "folder").mkdir()
    for arguments, problem in (
        ((), "no script was named"),
        (("nothing.py",), "there is no file nothing.py"),
        (("folder",), "folder is not a Python file"),
        (("/dev/null",), "/dev/null is not a Python file"),
        (("-m",), "-m needs the name of a module"),
    ):
        done = hermes("run", *arguments)
        assert done.returncode == 2
        assert problem in done.stderr
    assert "usage: hermes run" in hermes("run", "--help").stdout


def test_processes_of_a_script_end_with_it(hermes, script, work: Path) -> None:
    sleep = f"sleep 3{os.getpid()}"  # a unique time, to find the process
    name = script(
        "import json\n"
        "from model_tools import handle_function_call as call\n"
        f"call('terminal', {{'command': '{sleep}', 'background': True}})\n"
        f"found = call('terminal', {{'command': 'pgrep -xf \"{sleep}\"'}})\n"
        "print(json.loads(found)['output'])\n"
    )
    done = hermes("run", name)
    assert (done.returncode, done.stderr) == (0, "")
    with suppress(psutil.NoSuchProcess):
        left = psutil.Process(int(done.stdout))
        _gone, alive = psutil.wait_procs([left], timeout=10)  # init may take its time to reap it
        assert not alive

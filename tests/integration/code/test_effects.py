"""Scripts are judged by what they do: harmless ones run without a question, others are held up."""

import os
import sys
from pathlib import Path

import pytest

from tests.cases import cases

CASES = cases(__file__)

REFUSED, ASKED, BEGIN = CASES["refused"], CASES["asked"], CASES["begin"]


@pytest.fixture
def home(user_home, hermes_home):
    for name in (".hermes/config.yaml", ".hermes/.env", ".ssh/id_rsa", "mine.txt", "folder/x"):
        path = user_home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("the user's\n")
    return user_home


def snapshot(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_relative_to(folder / "tmp")
    }


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_effects_are_denied(bench, home, name):
    bench.person.allows = True
    before = snapshot(home)
    result = await bench.run(BEGIN + REFUSED[name])
    assert result["status"] == "error"
    assert "PermissionError: [Errno 13] refused: " in result["error"]
    assert bench.person.asked == []
    assert snapshot(home) == before


@pytest.mark.parametrize("name", ASKED)
async def test_other_effects_need_approval(bench, home, name):
    code, kind = ASKED[name]
    before = snapshot(home)
    result = await bench.run(BEGIN + code)
    assert result["status"] == "error"
    assert "PermissionError: [Errno 13] the user did not allow this: " in result["error"]
    assert [concern.kind for concern in bench.person.asked] == [kind]
    assert snapshot(home) == before


async def test_approved_effect_happens_and_is_asked_once(bench, home):
    bench.person.allows = True
    code = CASES["approved_effect_happens_and_is_asked_once"]
    result = await bench.run(BEGIN + code)
    assert result["status"] == "success", result
    assert (home / "new.txt").read_text() == "new"
    assert not (home / "folder").exists()
    subjects = [concern.subject.replace(str(home), "~") for concern in bench.person.asked]
    assert subjects[0] == "~/new.txt"
    assert len([subject for subject in subjects if "folder" in subject]) == 1


async def test_denial_holds_for_the_rest_of_the_script(bench, home):
    code = CASES["denial_holds_for_the_rest_of_the_script"]
    result = await bench.run(BEGIN + code)
    assert result["output"].splitlines() == [
        "the user did not allow this",
        *["not allowed, as before"] * 4,
    ]
    assert len(bench.person.asked) == 1


async def test_harmless_scripts_need_no_approval(bench, home):
    code = CASES["harmless_scripts_need_no_approval"]
    result = await bench.run(BEGIN + code)
    assert result["status"] == "success", result
    assert bench.person.asked == []


async def test_adding_an_audit_hook_needs_approval(bench):
    code = "heard = []\nsys.addaudithook(lambda *event: heard.append(event))\nopen('x', 'w')\n"
    # Python swallows the denial; the hook is not added.
    assert (await bench.run(BEGIN + code + "print(len(heard))"))["output"] == "0"
    assert [concern.kind for concern in bench.person.asked] == ["native code"]
    bench.person.allows = True
    assert (await bench.run(BEGIN + code + "print(len(heard) > 0)"))["output"] == "True"


async def test_started_programs_are_examined(bench):
    """A Python without the hook is a program like any other: starting it is what is asked about."""
    code = CASES["started_programs_are_examined"]
    result = await bench.run(BEGIN + code)
    assert "PermissionError" in result["error"]
    assert len(bench.person.asked) == 1
    assert "multiprocessing.spawn" in bench.person.asked[0].subject


async def test_effects_of_a_forked_child_are_examined(bench, home):
    code = "fork(lambda: open(home + '/.hermes/config.yaml', 'w'))"
    result = await bench.run(BEGIN + code)
    assert result["status"] == "error"
    assert "refused" in result["error"]
    assert (home / ".hermes/config.yaml").read_text() == "the user's\n"


async def test_signal_handler_is_examined_while_waiting_for_a_verdict(bench, home):
    code = CASES["signal_handler_is_examined_while_waiting_for_a_verdict"]
    result = await bench.run(BEGIN + code)
    assert result["status"] == "success", result
    assert "handler: refused" in result["output"]
    assert (home / ".hermes/config.yaml").read_text() == "the user's\n"


async def test_isolated_backend_denies_only_refused_effects(bench, home):
    result = await bench.run(BEGIN + "open(home + '/new.txt', 'w').write('x')", isolated=True)
    assert result["status"] == "success"
    assert (home / "new.txt").exists()
    result = await bench.run(BEGIN + REFUSED["a wiped disk"], isolated=True)
    assert "refused" in result["error"]
    assert bench.person.asked == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
async def test_device_node_in_the_workspace_is_refused(bench, workspace):
    # 259:4095 is not a disk of this machine: opening it fails even if nothing held it up.
    code = "import stat; os.mknod('disk', 0o600 | stat.S_IFBLK, os.makedev(259, 4095))\n"
    result = await bench.run(BEGIN + code + "open('disk', 'wb')")
    assert "is a device" in result["error"]


async def test_command_is_examined_in_its_working_folder(bench, home):
    code = "subprocess.run('echo x > config.yaml', shell=True, cwd=home + '/.hermes')"
    assert "refused" in (await bench.run(BEGIN + code))["error"]
    assert (await bench.run(BEGIN + code.replace("home + '/.hermes'", "'.'")))[
        "status"
    ] == "success"


async def test_packages_with_compiled_parts_can_be_imported(bench):
    """Our own Python has some; the hook must not mistake them for foreign code."""
    bench.shell._environment["VIRTUAL_ENV"] = sys.prefix
    result = await bench.run("import msgspec, psutil, apsw; print(psutil.Process().pid > 0)")
    assert (result["output"], bench.person.asked) == ("True", [])

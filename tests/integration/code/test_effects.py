"""Scripts are judged by what they do: harmless ones run without a question, others are held up."""

import os
import sys
from pathlib import Path

import pytest

# Each of these would do no harm if it were not held up: there is no such disk.
REFUSED = {
    "a wiped disk": "subprocess.run(['mkfs.ext4', '/dev/no-disk'])",
    "a wiped disk through a shell": "subprocess.run('mk' + 'fs.ext4 /dev/no-disk', shell=True)",
    "a wiped disk in a string": "os.system(bytes([109, 107, 102, 115]).decode() + ' /dev/no-disk')",
    "a wiped disk by a redirection": "os.popen('echo > /dev/sdzz')",
    "another name": "subprocess.Popen(['ls', '/dev/no-disk'], executable='/sbin/mkfs.ext4')",
    "a forked exec": "fork(lambda: os.execvp('mkfs', ['mkfs', '/dev/no-disk']))",
    "a spawn": "os.posix_spawn('/sbin/mkfs', ['mkfs', '/dev/no-disk'], {})",
    "without the module": "fork_exec(['/sbin/mkfs', '/dev/no-disk'])",
    "our settings": "open(home + '/.hermes/config.yaml', 'w')",
    "our settings by a link": "os.symlink(home + '/.hermes', 'l'); open('l/config.yaml', 'a')",
    "our settings by a second name": "os.link(home + '/.hermes/config.yaml', 'x')",
    "our settings by a folder": (
        "f = os.open(home + '/.hermes', 0); os.open('config.yaml', os.O_WRONLY, dir_fd=f)"
    ),
    "our settings moved": "os.rename(home + '/.hermes', 'x')",
    "our settings deleted": "shutil.rmtree(home + '/.hermes')",
    "our store": "import sqlite3; sqlite3.connect(home + '/.hermes/state.db')",
    "our store by its address": (
        "import sqlite3; sqlite3.connect('file://' + home + '/.hermes/state%2Edb', uri=True)"
    ),
    "keys": "pathlib.Path(home, '.ssh', 'authorized_keys').write_text('x')",
    "a start-up file": "open(home + '/.bashrc', 'a')",
    "the system": "open('/etc/hermes-test-file', 'w')",
    "the whole home": "shutil.rmtree(home)",
}

ASKED = {
    "privileges": ("subprocess.run('sudo true', shell=True)", "privileges"),
    "privileges behind a shell": ("os.system('echo x; su' + 'do true')", "privileges"),
    "a program given as bytes": ("subprocess.run([b'sudo', b'true'])", "privileges"),
    "another file": ("open(home + '/other.txt', 'w')", "write outside the workspace"),
    "a deleted file": ("os.remove(home + '/mine.txt')", "write outside the workspace"),
    "a moved file": ("os.rename(home + '/mine.txt', 'x')", "write outside the workspace"),
    "a new folder": ("os.mkdir(home + '/new')", "write outside the workspace"),
    "new permissions": ("os.chmod(home + '/mine.txt', 0o777)", "write outside the workspace"),
    "a cut file": ("os.truncate(home + '/mine.txt', 0)", "write outside the workspace"),
    "a deleted folder": ("shutil.rmtree(home + '/folder')", "recursive delete"),
    "reading keys": ("open(home + '/.ssh/id_rsa').read()", "credential access"),
    "reading our keys": ("open(home + '/.hermes/.env').read()", "own secrets"),
    "another program's variables": (
        "open(f'/proc/{os.getppid()}/environ').read()",
        "credential access",
    ),
    "the C library": ("import ctypes; ctypes.CDLL('libc.so.6')", "native code"),
    "a C function": ("import ctypes; ctypes.CDLL(None).system(b'true')", "native code"),
}

BEGIN = """
import os, pathlib, shutil, subprocess, sys
home = os.path.expanduser("~")

def fork(work):
    pid = os.fork()
    if pid:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    work()

def fork_exec(words):
    import _posixsubprocess
    rest = [True, (), None, None, -1, -1, -1, -1, -1, -1, *os.pipe(), False, False]
    _posixsubprocess.fork_exec(words, [os.fsencode(words[0])], *rest)

"""


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
    code = """
open(home + "/new.txt", "w").write("new")
os.chmod(home + "/new.txt", 0o600)
shutil.rmtree(home + "/folder")
subprocess.run(["sh", "-c", "true"], check=True)
subprocess.run(["env", "true"], check=True)
"""
    result = await bench.run(BEGIN + code)
    assert result["status"] == "success", result
    assert (home / "new.txt").read_text() == "new"
    assert not (home / "folder").exists()
    subjects = [concern.subject.replace(str(home), "~") for concern in bench.person.asked]
    assert subjects[0] == "~/new.txt"
    assert len([subject for subject in subjects if "folder" in subject]) == 1


async def test_denial_holds_for_the_rest_of_the_script(bench, home):
    code = """
for n in range(5):
    try:
        open(f"{home}/{n}.txt", "w")
    except OSError as error:
        print(error.strerror.split(":")[0])
"""
    result = await bench.run(BEGIN + code)
    assert result["output"].splitlines() == [
        "the user did not allow this",
        *["not allowed, as before"] * 4,
    ]
    assert len(bench.person.asked) == 1


async def test_harmless_scripts_need_no_approval(bench, home):
    code = """
import csv, ctypes, decimal, glob, http.client, json, logging, multiprocessing, pickle, random
import shelve, sqlite3, tempfile, threading, unittest, urllib.request, uuid, zipfile
from multiprocessing import shared_memory

os.makedirs("a/b", exist_ok=True)
os.makedirs(home, exist_ok=True)
pathlib.Path("a/b/c.txt").write_text("x")
shutil.copy2("a/b/c.txt", "a/d.txt")
os.rename("a/d.txt", "a/e.txt")
os.symlink("e.txt", "a/link")
with tempfile.TemporaryDirectory() as folder:
    pathlib.Path(folder, "x").write_text("y")
with tempfile.NamedTemporaryFile("w") as file:
    file.write("z")
sqlite3.connect("a/data.db").execute("create table t (x)")
sqlite3.connect(":memory:").execute("create table t (x)")
shutil.rmtree("a")
open(os.devnull, "w").write("nothing")
print("to a pipe", file=open("/dev/stdout", "w"))
open("/etc/hosts").read()
open(f"/proc/self/environ").read()
open(home + "/mine.txt").read()
os.listdir(home)
print(subprocess.run(["ls", "-a"], capture_output=True, text=True).stdout.split())
print(subprocess.check_output("echo $((1 + 1)); git --version", shell=True, text=True).split()[0])
os.system("echo from a shell")
fork(lambda: os.execvp("true", ["true"])) if os.fork() == 0 else os.wait()
block = shared_memory.SharedMemory(create=True, size=10)
block.close()
block.unlink()
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(len, ["a", "bb"]))
"""
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
    code = """
import multiprocessing
context = multiprocessing.get_context("spawn")
context.Process(target=print).start()
"""
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
    code = """
import signal
def handler(*_):
    try:
        open(home + "/.hermes/config.yaml", "w")
    except PermissionError as error:
        print("handler:", error.strerror.split(":")[0])
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0)
for n in range(100):
    subprocess.run(["true"])
"""
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

"""A real bubblewrap around commands."""

import asyncio
import os
import pwd
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.sdk.testing.terminal import HostContract
from hermes.terminal import CommandResult
from hermes.terminal.host_files import HostFiles
from hermes.terminal.host_shell import HostShell
from hermes.terminal.sandbox import SandboxHost, SandboxOptions
from tests.cases import cases
from tests.integration.hosts.machine_host import runner
from tests.integration.terminal.parts import gone, kill, kill_actor, program, started, unique_sleep

CASES = cases(__file__)

PYTHON = Path(sys.executable).resolve()
"""Not that of the virtual environment, which may lie in /tmp: that is private inside."""


@pytest.fixture
def home():
    """A home that is not in /tmp, since the sandbox has a /tmp of its own."""
    around = pwd.getpwuid(os.geteuid()).pw_dir
    with tempfile.TemporaryDirectory(prefix=".hermes-test-", dir=around) as folder:
        yield Path(folder)


@pytest.fixture
def work(home):
    folder = home / "work"
    folder.mkdir()
    return folder


@pytest.fixture
async def make(work, home):
    program("bwrap")
    made = []

    def make(**options):
        given = SandboxOptions(**{"workspace": (str(work),), **options})  # type: ignore[arg-type]
        environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
        made.append(HostShell(SandboxHost(given, environment)))
        return made[-1]

    yield make
    for shell in made:
        await shell.close()


async def output(shell: HostShell, command: str) -> tuple[str, int]:
    result: CommandResult = await runner(shell)(command)
    return result.output, result.exit_code


async def test_only_the_workspace_can_be_written(make, work, home):
    (home / "kept").write_text("kept")
    shell = make()
    assert await output(shell, "pwd; echo new > file; cat file") == (f"{work}\nnew\n", 0)
    assert (work / "file").read_text() == "new\n"
    for place in (home / "other", home / "kept", Path("/etc/hermes"), Path("/usr/x")):
        text, code = await output(shell, f"echo x > {place}")
        assert code != 0
        assert "Read-only" in text
    assert (await output(shell, f"cat {home}/kept")) == ("kept", 0)
    assert (home / "kept").read_text() == "kept"


async def test_more_can_be_opened_and_parts_kept(make, work, home):
    (home / "cache").mkdir()
    (work / "policy").write_text("mine")
    shell = make(writable=(f"{home}/cache", "/does/not/exist"), readonly=(f"{work}/policy",))
    assert (await output(shell, "echo x > ~/cache/file"))[1] == 0
    for command in ("echo x > policy", "rm -f policy", "mv policy other"):
        assert (await output(shell, command))[1] != 0
    assert (work / "policy").read_text() == "mine"


async def test_a_link_in_the_workspace_opens_nothing(make, work, home):
    (home / "outside").mkdir()
    (work / "link").symlink_to(home / "outside")
    shell = make()
    assert (await output(shell, "echo x > link/file; ln -s ~ up; echo x > up/file"))[1] != 0
    assert list((home / "outside").iterdir()) == []
    assert not (home / "file").exists()


async def test_secrets_are_hidden(make, work, home):
    for name in (".ssh/key", ".hermes/.env", ".hermes/work/file", ".netrc", "real/key"):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")
    (home / ".gnupg").symlink_to(home / "real")
    names = (".ssh", ".hermes", ".netrc", ".gnupg", "missing")
    shell = make(
        workspace=(str(home), f"{home}/.hermes/work"),
        hidden=tuple(f"{home}/{name}" for name in names),
    )
    text, _ = await output(shell, "ls ~/.ssh ~/real; cat ~/.netrc ~/.gnupg/key; ls -A ~/.hermes")
    missing = f"cat: {home}/.gnupg/key: No such file or directory"
    assert text == f"{home}/.ssh:\n\n{home}/real:\n{missing}\nwork\n"
    assert await output(shell, "cat ~/.hermes/work/file") == ("secret", 0)
    for command in ("echo x > ~/.ssh/new", "echo x > ~/.netrc", "rm -rf ~/.ssh", "umount ~/.ssh"):
        assert (await output(shell, command))[1] != 0
    assert (home / ".ssh/key").read_text() == "secret"
    found = await output(shell, "unshare -Ur sh -c 'umount ~/.ssh; cat ~/.ssh/key'; true")
    assert "secret" not in found[0]


async def test_the_network_is_off_unless_allowed(make):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f'import socket; socket.create_connection(("127.0.0.1", {port}))'
        connect = f"{PYTHON} -c '{script}'"
        text, code = await output(make(), connect)
        assert code != 0
        assert "refused" in text
        assert (await output(make(network=True), connect))[1] == 0


async def test_sockets_of_services_are_out_of_reach(make, work, home):
    """A read-only mount would not keep anybody from talking to them."""
    path = f"{home}/s"
    assert not path.startswith("/run/")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        script = f'import socket; socket.socket(socket.AF_UNIX).connect("{path}")'
        assert (await output(make(network=True), f"{PYTHON} -c '{script}'"))[1] != 0
    assert await output(make(network=True), "ls -A /run") == ("", 0)


async def test_commands_share_processes_loopback_and_tmp(make, work):
    shell = make()
    serve = f"exec {PYTHON} -m http.server -b 127.0.0.1 8123"
    fetch = (
        f"{PYTHON} -c 'import urllib.request as u;"
        ' print(u.urlopen("http://127.0.0.1:8123/file").status)\''
    )
    (work / "file").touch()
    server = await shell.start(serve, on_output=len)
    await runner(shell)("echo kept > /tmp/kept; export A=1; cd /tmp")
    assert await output(shell, "cat kept; echo $A; [ $$ -lt 1000 ] && echo few") == (
        "kept\n1\nfew\n",
        0,
    )
    assert await output(shell, f"until {fetch} 2>/dev/null; do sleep 0.05; done") == ("200\n", 0)
    await server.stop()
    assert not Path("/tmp/kept").exists()


async def test_no_process_of_this_machine_is_seen(make):
    shell = make()
    assert (await output(shell, f"kill -0 {os.getpid()}"))[1] != 0
    names, _ = await output(shell, "cat /proc/[0-9]*/comm 2>/dev/null")
    assert set(names.split()) <= {"bwrap", PYTHON.name, "sh", "bash", "cat", "setsid"}


class TestSandboxHost(HostContract):
    @pytest.fixture
    def host(self, make):
        return make()._host


async def test_files_outside_are_read_only(make, work, home):
    shell = make()
    files = HostFiles(shell._host, shell)
    await files.write(await files.locate("a/b.txt"), b"needle\n")
    assert (work / "a/b.txt").read_bytes() == b"needle\n"
    with pytest.raises(OSError, match="Read-only file system"):
        await files.write(f"{home}/x", b"")


async def test_kill_of_this_process_leaves_nothing_running(work, home):
    program("bwrap")
    await kill_actor(CASES["actor"], SandboxOptions((str(work),)), 3)


async def test_a_sandbox_that_died_is_replaced(make):
    shell = make()
    run, sleep = runner(shell), unique_sleep()
    await run("export A=1")
    host = shell._host
    assert isinstance(host, SandboxHost)
    assert host._running is not None
    assert host._running._process is not None
    running = asyncio.ensure_future(run(sleep))
    await started(sleep)
    kill(host._running._process.pid)
    with pytest.raises(BackendUnavailable, match="was lost"):
        await running
    await gone(sleep)
    assert (await run("echo $A")).output == "1\n"


async def test_limits(make):
    shell = make(memory_mb=400)
    text, code = await output(shell, f"{PYTHON} -c 'print(len(bytearray(1 << 30)))'")
    assert code != 0
    assert "MemoryError" in text
    host = shell._host
    with pytest.raises(ToolError, match="too long"):
        await host.start(["echo", "x" * 300_000], on_output=len)


async def test_a_folder_for_tmp_that_is_kept(make, tmp_path):
    shell = make(tmp=f"{tmp_path}/kept")
    await runner(shell)("echo x > /tmp/file")
    await shell.close()
    assert (tmp_path / "kept/file").read_text() == "x\n"


async def refusal(options: SandboxOptions, path: str) -> BackendUnavailable:
    host = SandboxHost(options, {"PATH": path})
    with pytest.raises(BackendUnavailable) as caught:
        await host.open()
    await host.close()
    return caught.value


async def test_unavailable_sandbox_is_refused_with_the_reason(work, tmp_path):
    missing = await refusal(SandboxOptions((str(work),)), "/nowhere")
    assert missing.hint.startswith("apt install bubblewrap")
    whole = await refusal(SandboxOptions(("/",)), str(tmp_path / "bin"))
    assert whole.hint
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    refused = await refusal(SandboxOptions((str(work),)), str(fake.parent))
    assert "No permissions to create new namespace" in str(refused)
    assert "unprivileged_userns_clone" in refused.hint
    whole = await refusal(SandboxOptions(("/",)), str(fake.parent))
    assert "protect nothing" in str(whole)

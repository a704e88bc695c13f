"""The contract of terminal backends: what a `Host` has to do, as tests.

    class TestMyHost(HostContract):
        @pytest.fixture
        def host(self, tmp_path):
            return MyHost(backend_context(tmp_path, {"cwd": "/srv"}))

The tests need pytest with anyio. They look at the host only through the host, so it can be another
machine; it needs a POSIX shell and the usual small programs.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.config.settings import TerminalSettings
from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolError
from hermes.sdk.terminal import BackendContext, Host, Running
from hermes.terminal import CommandResult, GrepQuery, HostFiles, HostShell, Shell, Sync

BYTES = bytes(range(256)) * 400
ODD_NAMES = ("with space", "new\nline", "-dash", "quote'\"", "star*", "back\\slash", "$(id)", "é")


def backend_context(
    storage: Path, settings: Mapping[str, Any] | None = None, **changes: Any
) -> BackendContext:
    """Return a context with the default settings, changed by `settings`."""
    known = {**msgspec.structs.asdict(TerminalSettings()), **(settings or {})}
    return msgspec.structs.replace(BackendContext(settings=known, storage=storage), **changes)


async def run(shell: Shell, command: str, **options: Any) -> CommandResult:
    """Run a command with a timeout of a minute, unless `options` say otherwise."""
    settings = {"timeout": 60, "on_output": lambda _text: None, "cancel": CancelToken()}
    return await shell.run(command, **{**settings, **options})


async def start(host: Host, script: str, **options: Any) -> tuple[Running, bytearray]:
    """Start a script of `sh` on the host; return it with its output so far."""
    output = bytearray()
    running = await host.start(["sh", "-c", script], on_output=output.extend, **options)
    return running, output


async def wait_for_output(output: bytearray, text: bytes) -> None:
    while text not in output:  # noqa: ASYNC110 - the output is a plain buffer
        await asyncio.sleep(0.02)


async def wait_until_ended(shell: Shell, pid: str) -> None:
    """Wait until a process of the host has ended; the test's own timeout is the only limit."""
    alive = f"kill -0 {pid} 2>/dev/null && ! grep -q ') Z' /proc/{pid}/stat 2>/dev/null"
    assert not (await run(shell, f"while {alive}; do sleep 0.05; done")).timed_out


class HostContract:
    """Base class of the tests; a subclass adds a fixture `host`, a host that is not open yet."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    async def shell(self, host: Host) -> AsyncIterator[HostShell]:
        shell = HostShell(host)
        yield shell
        await shell.close()

    @pytest.fixture
    async def folder(self, shell: HostShell) -> AsyncIterator[str]:
        """A new folder on the host, in which the shell works."""
        path = (await run(shell, "cd $(mktemp -d) && pwd -P")).output.strip()
        yield path
        await run(shell, f"cd /; rm -rf {path}")

    async def test_program_exchanges_bytes(self, host: Host) -> None:
        output, errors = bytearray(), bytearray()
        running = await host.start(
            ["sh", "-c", 'cat; echo "no $1" >&2; exit 3', "x", "a 'quoted' word\n$HOME"],
            on_output=output.extend,
            on_error=errors.extend,
        )
        code = running.exit_code
        assert code is None
        await running.write(BYTES)
        await running.close_input()
        assert await running.wait() == running.exit_code == 3
        assert (bytes(output), bytes(errors)) == (BYTES, b"no a 'quoted' word\n$HOME\n")
        with pytest.raises(ToolError):
            await running.write(b"late")
        await host.close()

    async def test_output_arrives_while_the_program_runs(self, host: Host) -> None:
        running, output = await start(host, "echo name >&2; read name; echo hello $name")
        await wait_for_output(output, b"name\n")  # errors join the output
        await running.write(b"you\n")
        assert await running.wait() == 0
        assert output == b"name\nhello you\n"
        await host.close()

    async def test_program_ends_although_it_left_another(self, host: Host) -> None:
        running, output = await start(host, "sleep 30 & echo on")
        assert await running.wait() == 0
        assert output == b"on\n"
        await host.close()

    async def test_stopped_program_sees_the_end_of_its_input(self, host: Host) -> None:
        running, output = await start(host, "echo on; cat; echo over")
        await wait_for_output(output, b"on\n")
        await running.stop()
        assert running.exit_code is not None
        await host.close()

    async def test_programs_run_at_the_same_time(self, host: Host) -> None:
        programs = [(await start(host, f"read -r x; exit {n}"))[0] for n in range(12)]
        for program in programs:
            await program.write(b"\n")
        assert [await program.wait() for program in programs] == list(range(12))
        await host.close()

    async def test_closed_host_opens_again(self, host: Host) -> None:
        for _ in range(2):
            await host.open()
            await host.open()
            running, output = await start(host, "echo on")
            assert (await running.wait(), bytes(output)) == (0, b"on\n")
            await host.close()
        await host.close()

    async def test_shell_keeps_folder_and_variables(self, shell: HostShell, folder: str) -> None:
        await run(shell, "mkdir 'a b'; cd 'a b'; export X='y z'; exit 4")
        result = await run(shell, 'echo "$X"; pwd; echo err >&2; exit 3')
        assert (result.output, result.exit_code) == (f"y z\n{folder}/a b\nerr\n", 3)
        assert shell.cwd == f"{folder}/a b"
        assert (await run(shell, "kill -9 $$")).exit_code == 137
        assert (await run(shell, "cat; echo end")).output == "end\n"

    async def test_command_out_of_time_ends_with_all_it_started(
        self, shell: HostShell, folder: str
    ) -> None:
        command = "trap '' TERM; (sleep 600 & echo $! > pid; wait) & echo early; sleep 600"
        result = await run(shell, command, timeout=1)
        assert (result.timed_out, result.exit_code, result.output) == (True, 124, "early\n")
        await wait_until_ended(shell, f"$(cat {folder}/pid)")

    async def test_cancelled_command_ends_with_all_it_started(
        self, shell: HostShell, folder: str
    ) -> None:
        cancel = CancelToken()
        command = "sleep 600 & echo $! > pid; echo ready; sleep 600; touch finished"
        with pytest.raises(Interrupted, match="enough"):
            await run(
                shell, command, cancel=cancel, on_output=lambda _text: cancel.cancel("enough")
            )
        await wait_until_ended(shell, f"$(cat {folder}/pid)")
        assert (await run(shell, "ls")).output == "pid\n"

    async def test_background_program_has_input_and_is_stopped(self, shell: HostShell) -> None:
        output = bytearray()
        running = await shell.start(
            "read -r x; echo got $x; echo pid $$; cat; sleep 600", on_output=output.extend
        )
        await running.write(b"hello\nrest\0\xff")
        await wait_for_output(output, b"rest\0\xff")
        assert output.startswith(b"got hello\npid ")
        await running.stop()
        await wait_until_ended(shell, output.split()[3].decode())

    async def test_terminal(self, shell: HostShell) -> None:
        output = bytearray()
        running = await shell.start(
            "[ -t 0 ] && stty size; read -r x; echo got $x; exit 4",
            on_output=output.extend,
            pty=True,
        )
        await wait_for_output(output, b"40 120\r\n")
        await running.write(b"you\r")
        assert await running.wait() == 4
        assert output.endswith(b"got you\r\n")
        sleeping = await shell.start("echo on; sleep 600", on_output=output.extend, pty=True)
        await wait_for_output(output, b"on\r\n")
        await sleeping.write(b"\x03")
        assert await sleeping.wait() == 130

    async def test_files_are_read_written_and_searched(
        self, host: Host, shell: HostShell, folder: str
    ) -> None:
        files = HostFiles(host, shell)
        for name in ODD_NAMES:
            path = await files.locate(f"new/{name}")
            assert path == f"{folder}/new/{name}"
            await files.write(path, BYTES)
            assert await files.read(path, most=len(BYTES)) == BYTES
        assert sorted(await files.names(f"{folder}/new")) == sorted(ODD_NAMES)
        with pytest.raises(OSError):
            await files.read(f"{folder}/new/é", most=len(BYTES) - 1)
        with pytest.raises(FileNotFoundError):
            await files.read(f"{folder}/missing", most=10)
        await files.write(f"{folder}/text.py", "one\ntwo ✓\n".encode())
        page = await files.lines(f"{folder}/text.py", offset=2, limit=5, longest=80)
        assert (page.lines, page.total) == (("two ✓",), 2)
        assert await files.find("*.py", folder, CancelToken()) == [f"{folder}/text.py"]
        found = await files.grep(GrepQuery("t[w]o", folder, file_glob="*.py"), CancelToken())
        assert [(hit.path, hit.line) for hit in found.hits] == [(f"{folder}/text.py", 2)]
        await files.remove(f"{folder}/text.py")
        assert await files.stat(f"{folder}/text.py") is None

    async def test_local_files_are_copied_once(
        self, host: Host, shell: HostShell, folder: str, tmp_path: Path
    ) -> None:
        (tmp_path / "here/sub").mkdir(parents=True)
        (tmp_path / "here/sub/run.sh").write_bytes(BYTES)
        (tmp_path / "here/sub/run.sh").chmod(0o755)
        sync, pairs = Sync(host), [(tmp_path / "here", f"{folder}/there")]
        await sync.push(pairs)
        files = HostFiles(host, shell)
        assert await files.read(f"{folder}/there/sub/run.sh", most=len(BYTES)) == BYTES
        assert (await run(shell, "[ -x there/sub/run.sh ]")).exit_code == 0
        assert (await sync.push(pairs)).sent == ()
        await sync.push([(tmp_path / "here/sub/run.sh", f"{folder}/key")], private=True)
        assert (await run(shell, "ls -l key")).output.startswith("-r--------")

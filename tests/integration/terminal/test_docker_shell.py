"""The shell and the files of a container in a real Docker engine."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted
from hermes.terminal import CommandResult, GrepQuery
from hermes.terminal.docker import DockerHost
from hermes.terminal.host.files import HostFiles
from hermes.terminal.host.shell import HostShell
from tests.integration.terminal.container_hosts import Hosts, died, heard, hosts_of
from tests.integration.terminal.docker_engine import docker_engine

pytestmark = pytest.mark.timeout(300)


class Place:
    """A container with its shell."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.host: DockerHost = hosts.make()
        self.shell = HostShell(self.host)
        self.files = HostFiles(self.host, self.shell)

    async def run(self, command: str, **options: Any) -> CommandResult:
        settings = {"timeout": 60, "on_output": lambda _text: None, "cancel": CancelToken()}
        return await self.shell.run(command, **{**settings, **options})

    def processes(self) -> str:
        return self.hosts.engine.call("top", self.host.container)

    async def free_of(self, text: str) -> None:
        while text in self.processes():
            await asyncio.sleep(0.05)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with hosts_of(docker_engine(), tmp_path) as hosts:
        place = Place(hosts)
        yield place
        await place.shell.close()


async def test_folder_and_variables_persist_between_commands(place: Place) -> None:
    await place.run("mkdir -p /opt/work && cd /opt/work && export COLOUR='deep blue'")
    result = await place.run("pwd; echo $COLOUR; exit 3")
    assert (result.output, result.exit_code) == ("/opt/work\ndeep blue\n", 3)
    assert place.shell.cwd == "/opt/work"


async def test_a_command_out_of_time_ends_with_all_it_started(place: Place) -> None:
    result = await place.run("sleep 4321 & echo on; sleep 4321", timeout=1)
    assert result.timed_out
    assert "on" in result.output
    await place.free_of("sleep 4321")


async def test_a_cancelled_command_ends_with_all_it_started(place: Place) -> None:
    await place.run("true")
    cancel, on = CancelToken(), asyncio.Event()
    command = "trap '' TERM; sleep 4321 & echo on; while :; do sleep 1; done"
    running = asyncio.ensure_future(
        place.run(command, on_output=lambda _text: on.set(), cancel=cancel)
    )
    await on.wait()
    cancel.cancel()
    with pytest.raises(Interrupted):
        await running
    await place.free_of("sleep 4321")


async def test_a_background_program_is_written_to_and_stopped(place: Place) -> None:
    output = bytearray()
    command = "read line; echo got $line; sleep 4321"
    running = await place.shell.start(command, on_output=output.extend)
    await running.write(b"hello\n")
    await heard(output, b"got hello")
    await running.stop()
    await place.free_of("sleep 4321")


async def test_a_background_program_has_a_terminal(place: Place) -> None:
    output = bytearray()
    running = await place.shell.start(
        "tty && stty size; python3 -c 'print(input(\"name? \"))'; sleep 4321",
        on_output=output.extend,
        pty=True,
    )
    await heard(output, b"name? ")
    await running.write(b"Ada\r")
    await heard(output, b"Ada\r\nAda\r\n")
    assert b"/dev/pts/" in output
    assert b"40 120" in output
    await running.stop()
    await place.free_of("sleep 4321")


async def test_files_are_read_written_and_searched(place: Place) -> None:
    data = bytes(range(256)) * 400
    await place.files.write("/opt/new/data.bin", data)
    assert await place.files.read("/opt/new/data.bin", most=1_000_000) == data
    await place.files.write("/opt/new/notes.txt", "alpha\nbeta ✓\n".encode())
    page = await place.files.lines("/opt/new/notes.txt", offset=1, limit=10, longest=100)
    assert page.lines == ("alpha", "beta ✓")
    found = await place.files.grep(GrepQuery("beta", "/opt/new"), CancelToken())
    assert found.counts == {"/opt/new/notes.txt": 1}


async def test_after_the_container_died_the_next_command_runs_in_a_new_one(place: Place) -> None:
    await place.run("cd /opt && export KEPT=yes")
    first = place.host.container
    place.hosts.engine.call("kill", first)
    await died(place.host)
    result = await place.run("echo $KEPT; pwd")
    assert result.exit_code == 0, result
    assert place.host.container not in ("", first)

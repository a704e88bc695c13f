"""Daytona as a backend.

The SDK here is a fake (`fake_sdks/daytona.py`): the service cannot be had offline. It shows the
exact calls and runs our script on this machine, not that Daytona does what is asked.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal import CommandResult
from hermes.terminal.daytona import DaytonaHost, DaytonaOptions
from hermes.terminal.host.files import HostFiles
from hermes.terminal.host.shell import HostShell
from hermes.terminal.remote import owner_mark

Make = Callable[..., DaytonaHost]


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).with_name("fake_sdks"))
    monkeypatch.delitem(sys.modules, "daytona", raising=False)
    module = import_module("daytona")
    monkeypatch.setitem(sys.modules, "daytona", module)  # taken out again afterwards
    return module


@pytest.fixture
async def make(sdk: Any) -> AsyncIterator[Make]:
    hosts: list[DaytonaHost] = []

    def make(tell: Callable[[str], None] = lambda _: None, **options: Any) -> DaytonaHost:
        hosts.append(DaytonaHost(DaytonaOptions(**{"image": "box:1", **options}), tell))
        return hosts[-1]

    yield make
    for host in hosts:
        await host.close()


async def gone_mark() -> str:
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    place, _, start = owner_mark().rsplit(":", 2)
    return f"{place}:{ended.pid}:{start}"


async def test_a_sandbox_is_made_with_the_settings(make: Make, sdk: Any) -> None:
    told: list[str] = []
    host = make(told.append, cpu=1.5, memory=5120, disk=51200, forward_env={"A": "b"}, task="t")
    await host.open()
    await host.open()
    (sandbox,) = sdk.STATE.sandboxes
    labels = {
        "hermes": "1",
        "hermes.owner": owner_mark(),
        "hermes.task": "t",
        "hermes.keep": "yes",
    }
    assert sandbox.params == sdk.CreateSandboxFromImageParams(
        image="box:1",
        resources=sdk.Resources(cpu=2, memory=5, disk=10),
        env_vars={"A": "b"},
        labels=labels,
        auto_stop_interval=60,
        auto_delete_interval=-1,
    )
    assert sdk.STATE.configs == [None]
    assert told == ["building", "built"]


async def test_key_address_and_region_are_handed_over(make: Make, sdk: Any) -> None:
    await make(api_key="k", target="eu").open()
    assert sdk.STATE.configs == [sdk.DaytonaConfig(api_key="k", api_url=None, target="eu")]


async def test_a_program_gets_bytes_and_gives_bytes(make: Make, sdk: Any) -> None:
    host = make()
    output, errors = bytearray(), bytearray()
    running = await host.start(
        ["sh", "-c", 'cat; echo "no $1" >&2; exit 3', "x", "a 'quoted' word"],
        on_output=output.extend,
        on_error=errors.extend,
    )
    data = bytes(range(256)) * 300
    await running.write(data)
    await running.close_input()
    assert await running.wait() == 3
    assert output == data
    assert errors == b"no a 'quoted' word\n"
    (sandbox,) = sdk.STATE.sandboxes
    (request,) = sandbox.process.requests
    assert (request.run_async, request.suppress_input_echo) == (True, True)
    assert sandbox.process.sessions == {}
    with pytest.raises(ToolError, match="no input any more"):
        await running.write(b"late")


async def test_output_comes_while_the_program_runs(make: Make) -> None:
    output = bytearray()
    running = await make().start(
        ["sh", "-c", "echo name; read name; echo hello $name"], on_output=output.extend
    )
    while output != b"name\n":
        await asyncio.sleep(0.02)
    await running.write(b"you\n")
    assert await running.wait() == 0
    assert output == b"name\nhello you\n"


async def test_something_left_in_the_background_does_not_hold_a_program_up(make: Make) -> None:
    output = bytearray()
    running = await make().start(["sh", "-c", "sleep 30 & echo on"], on_output=output.extend)
    assert await running.wait() == 0
    assert output == b"on\n"


async def test_stopping_closes_the_input_and_then_ends_the_session(make: Make, sdk: Any) -> None:
    host = make()
    listening = await host.start(["cat"], on_output=lambda _: None)
    await listening.stop()
    assert listening.exit_code == 0
    deaf = await host.start(["sleep", "1000"], on_output=lambda _: None)
    await deaf.stop()
    assert await deaf.wait() == 137
    assert sdk.STATE.sandboxes[0].process.sessions == {}


async def test_a_terminal_shows_the_program_and_not_the_login_shell(make: Make) -> None:
    output = bytearray()
    running = await make().start(
        ["sh", "-c", "stty size; read name; echo hello $name; exit 4"],
        on_output=output.extend,
        pty=True,
    )
    await running.write(b"you\r")
    assert await running.wait() == 4
    assert b"40 120\r\n" in output
    assert b"hello you\r\n" in output
    assert b"prompt" not in output
    assert b"exec sh" not in output


async def test_stopping_a_terminal_ends_its_program(make: Make) -> None:
    running = await make().start(["sleep", "1000"], on_output=lambda _: None, pty=True)
    await running.stop()
    assert running.exit_code == 137


async def test_a_kept_sandbox_is_stopped_and_taken_up_again(make: Make, sdk: Any) -> None:
    first = make(task="t")
    await first.open()
    await first.close()
    (sandbox,) = sdk.STATE.sandboxes
    sandbox.labels["their.own"] = "label"
    await make(task="t").open()
    assert sdk.STATE.sandboxes == [sandbox]
    assert sandbox.done == ["stop", "start"]
    assert sandbox.labels["their.own"] == "label"
    await make(task="another").open()
    assert len(sdk.STATE.sandboxes) == 2
    assert sdk.STATE.closed == 1


async def test_a_sandbox_that_another_process_uses_is_left_to_it(make: Make, sdk: Any) -> None:
    labels = {"hermes": "1", "hermes.task": "default", "hermes.keep": "yes"}
    theirs = sdk.Sandbox({**labels, "hermes.owner": "another-machine:1:1"})
    sdk.STATE.sandboxes.append(theirs)
    await make().open()
    assert len(sdk.STATE.sandboxes) == 2
    assert theirs.done == []


async def test_without_persistence_the_sandbox_is_deleted(make: Make, sdk: Any) -> None:
    host = make(persistent=False)
    await host.open()
    assert sdk.STATE.sandboxes[0].params.auto_delete_interval == 0
    await host.close()
    assert sdk.STATE.sandboxes == []


async def test_a_sandbox_that_was_stopped_is_started_again(make: Make, sdk: Any) -> None:
    told: list[str] = []
    host = make(told.append)
    await host.open()
    told.clear()
    (sandbox,) = sdk.STATE.sandboxes
    await sandbox.stop()
    running = await host.start(["true"], on_output=lambda _: None)
    assert await running.wait() == 0
    assert sandbox.done == ["stop", "start"]
    assert len(sandbox.process.requests) == 1
    assert told == ["the Daytona sandbox had ended; it was started again"]


async def test_next_start_stops_sandboxes_of_dead_processes(make: Make, sdk: Any) -> None:
    gone = await gone_mark()
    cases = {
        "kept": {"hermes.keep": "yes", "hermes.owner": gone},
        "loose": {"hermes.keep": "no", "hermes.owner": gone},
        "elsewhere": {"hermes.keep": "no", "hermes.owner": "another-machine:1:1"},
        "same task": {"hermes.keep": "yes", "hermes.owner": gone, "hermes.task": "default"},
    }
    made = {}
    for name, labels in cases.items():
        made[name] = sdk.Sandbox({"hermes": "1", "hermes.task": name, **labels})
    sdk.STATE.sandboxes.extend(made.values())
    await make().open()
    assert {name: sandbox.done for name, sandbox in made.items()} == {
        "kept": ["stop"],
        "loose": ["delete"],
        "elsewhere": [],
        "same task": [],
    }
    assert made["same task"].labels["hermes.owner"] == owner_mark()


async def test_a_shell_on_top_keeps_its_state_and_ends_what_runs_too_long(
    make: Make, tmp_path: Path
) -> None:
    shell = HostShell(make())

    async def run(command: str, timeout: float = 30) -> CommandResult:
        ignored, token = (lambda _text: None), CancelToken()
        return await shell.run(command, timeout=timeout, on_output=ignored, cancel=token)

    await run(f"cd {tmp_path}; export A='b c'")
    assert (await run("pwd; echo $A; exit 7")).output == f"{tmp_path}\nb c\n"
    late = await run("sleep 100 & echo $!; sleep 100", timeout=1)
    assert late.timed_out
    while Path("/proc", late.output.strip()).exists():
        await asyncio.sleep(0.02)
    files = HostFiles(shell._host, shell)
    data = bytes(range(256))
    await files.write(f"{tmp_path}/x", data)
    assert await files.read(f"{tmp_path}/x", most=1000) == data
    await shell.close()


async def test_errors_say_what_to_do(make: Make, sdk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sdk.STATE.refuse = sdk.DaytonaAuthenticationError("no key")
    with pytest.raises(BackendUnavailable, match="no key") as caught:
        await make().open()
    assert caught.value.hint == "set DAYTONA_API_KEY"
    sdk.STATE.refuse = sdk.DaytonaError("down")
    with pytest.raises(BackendUnavailable, match="could not make a sandbox: down"):
        await make().open()
    monkeypatch.setitem(sys.modules, "daytona", None)
    with pytest.raises(BackendUnavailable, match="not installed") as caught:
        await make().open()
    assert caught.value.hint == "hermes setup daytona"

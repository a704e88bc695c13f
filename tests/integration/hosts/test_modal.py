"""Modal as a backend.

The SDK here is a fake (`fake_sdks/modal.py`): the service cannot be had offline. It shows the exact
calls, not that Modal does what they ask.
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
from hermes.terminal.host.files import HostFiles
from hermes.terminal.host.shell import HostShell
from hermes.terminal.modal import ModalHost, ModalOptions
from hermes.terminal.remote import owner_mark

Make = Callable[..., ModalHost]


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).with_name("fake_sdks"))
    monkeypatch.delitem(sys.modules, "modal", raising=False)
    module = import_module("modal")
    monkeypatch.setitem(sys.modules, "modal", module)  # taken out again afterwards
    return module


@pytest.fixture
async def make(sdk: Any, tmp_path: Path) -> AsyncIterator[Make]:
    hosts: list[ModalHost] = []

    def make(tell: Callable[[str], None] = lambda _: None, **options: Any) -> ModalHost:
        settings = {"image": "box:1", "sandbox_dir": str(tmp_path), **options}
        hosts.append(ModalHost(ModalOptions(**settings), tell))
        return hosts[-1]

    yield make
    for host in hosts:
        await host.close()


async def test_a_sandbox_is_made_with_the_settings(make: Make, sdk: Any) -> None:
    host = make(forward_env={"A": "b"}, cpu=2, memory=512, lifetime=60, task="t")
    await host.open()
    await host.open()
    (sandbox,) = sdk.STATE.sandboxes
    assert sandbox.args == ("sleep", "infinity")
    assert sandbox.options["image"].tag == "box:1"
    assert [secret.values for secret in sandbox.options["secrets"]] == [{"A": "b"}]
    limits = {name: sandbox.options[name] for name in ("cpu", "memory", "timeout", "idle_timeout")}
    assert limits == {"cpu": 2, "memory": 512, "timeout": 86_400, "idle_timeout": 60}
    assert sandbox.tags == {"hermes-owner": owner_mark(), "hermes-task": "t"}
    assert sdk.STATE.clients == []


async def test_a_key_of_the_settings_is_used_for_every_call(make: Make, sdk: Any) -> None:
    await make(token_id="ak-1", token_secret="as-1").open()
    assert sdk.STATE.clients == [("ak-1", "as-1")]
    assert isinstance(sdk.STATE.sandboxes[0].options["client"], sdk.Client)


async def test_a_program_gets_bytes_and_gives_bytes(make: Make) -> None:
    host = make()
    output, errors = bytearray(), bytearray()
    running = await host.start(
        ["sh", "-c", "cat; echo no >&2; exit 3"], on_output=output.extend, on_error=errors.extend
    )
    data = bytes(range(256)) * 20_000
    await running.write(data)
    await running.close_input()
    assert await running.wait() == 3
    assert output == data
    assert errors == b"no\n"
    with pytest.raises(ToolError, match="no input any more"):
        await running.write(b"late")


async def test_a_terminal_is_asked_for(make: Make, sdk: Any) -> None:
    running = await make().start(["true"], on_output=lambda _: None, pty=True)
    await running.wait()
    assert sdk.STATE.sandboxes[0].calls == [(("true",), {"pty": True})]


async def test_stop_closes_the_input_and_abandons_a_program_that_ignores_it(make: Make) -> None:
    host = make()
    listening = await host.start(["cat"], on_output=lambda _: None)
    await listening.stop()
    assert listening.exit_code == 0
    deaf = await host.start(["sleep", "1000"], on_output=lambda _: None)
    await deaf.stop()
    assert await deaf.wait() == 137


async def test_kept_files_are_a_snapshot_that_the_next_sandbox_begins_with(
    make: Make, sdk: Any
) -> None:
    first = make()
    await first.open()
    await first.close()
    assert sdk.STATE.sandboxes[0].over
    await make().open()
    assert sdk.STATE.sandboxes[1].options["image"].object_id == "im-2"


async def test_a_snapshot_that_is_gone_gives_way_to_the_image(make: Make, sdk: Any) -> None:
    first = make()
    await first.open()
    await first.close()
    sdk.STATE.images.clear()
    told: list[str] = []
    await make(told.append).open()
    assert sdk.STATE.sandboxes[1].options["image"].tag == "box:1"
    assert told == ["Modal no longer has the kept files; a fresh sandbox is made"]


async def test_without_persistence_nothing_is_kept(make: Make, sdk: Any, tmp_path: Path) -> None:
    host = make(persistent=False)
    await host.open()
    await host.close()
    assert sdk.STATE.sandboxes[0].over
    assert sdk.STATE.images == {"im-1"}
    assert list(tmp_path.iterdir()) == []


async def test_ended_sandbox_is_recreated(make: Make, sdk: Any) -> None:
    told: list[str] = []
    host = make(told.append)
    await host.open()
    sdk.STATE.sandboxes[0].over = True
    running = await host.start(["true"], on_output=lambda _: None)
    assert await running.wait() == 0
    assert [len(sandbox.calls) for sandbox in sdk.STATE.sandboxes] == [0, 1]
    assert told == ["the Modal sandbox had ended; a new one was made"]


async def test_a_program_that_cannot_start_is_not_tried_twice(make: Make, sdk: Any) -> None:
    with pytest.raises(ToolError, match="no such program"):
        await make().start(["refused"], on_output=lambda _: None)
    assert [len(sandbox.calls) for sandbox in sdk.STATE.sandboxes] == [1]


async def test_next_start_ends_sandboxes_of_dead_processes(make: Make, sdk: Any) -> None:
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    place, _, start = owner_mark().rsplit(":", 2)
    for mark in (
        f"{place}:{ended.pid}:{start}",
        f"elsewhere:{ended.pid}:{start}",
        owner_mark(),
        "",
    ):
        sandbox = sdk.Sandbox((), {})
        sandbox.tags = {"hermes-owner": mark}
        sdk.STATE.sandboxes.append(sandbox)
    await make().open()
    assert [sandbox.over for sandbox in sdk.STATE.sandboxes] == [True, False, False, False, False]


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
    sdk.STATE.refuse = sdk.AuthError("Token missing")
    with pytest.raises(BackendUnavailable, match="Token missing") as caught:
        await make().open()
    assert "modal setup" in caught.value.hint
    sdk.STATE.refuse = sdk.Error("down")
    with pytest.raises(BackendUnavailable, match="could not make a sandbox: down"):
        await make().open()
    monkeypatch.setitem(sys.modules, "modal", None)
    with pytest.raises(BackendUnavailable, match="not installed") as caught:
        await make().open()
    assert caught.value.hint == "hermes setup modal"

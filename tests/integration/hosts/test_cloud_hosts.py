"""The cloud backends.

The SDKs here are fakes (`fake_sdks`): the services cannot be had offline. They show the exact calls
and run our scripts on this machine, not that a service does what is asked.
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.sdk.terminal import owner_mark
from hermes.sdk.testing.terminal import HostContract, backend_context
from hermes.util.lazy import bundled_manifest
from tests.integration.hosts.machine_host import gone_mark

modal = pytest.mark.parametrize("service", ["modal"])
daytona = pytest.mark.parametrize("service", ["daytona"])


@pytest.fixture(params=["modal", "daytona"])
def service(request):
    return str(request.param)


@pytest.fixture
def sdk(service, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).with_name("fake_sdks"))
    monkeypatch.delitem(sys.modules, service, raising=False)
    module = import_module(service)
    monkeypatch.setitem(sys.modules, service, module)  # removed again afterwards
    return module


@pytest.fixture
async def make(service, sdk, tmp_path):
    hosts = []
    # The fakes read each stream in a thread of its own.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))

    def make(notify=lambda _: None, task="default", forward_env=None, secrets=None, **settings):
        context = backend_context(
            tmp_path,
            {f"{service}_image": "box:1", **settings},
            notify=notify,
            task=task,
            forward_env=forward_env or {},
            secret=(secrets or {}).get,
        )
        hosts.append(bundled_manifest("terminals", service).load()(context))
        return hosts[-1]

    yield make
    for host in hosts:
        await host.close()


class TestCloudHost(HostContract):
    @pytest.fixture
    def host(self, make):
        return make()

    @daytona  # the fake of Modal has no terminals
    async def test_terminal(self, shell):
        await super().test_terminal(shell)


async def test_stop_closes_the_input_and_abandons_a_program_that_ignores_it(service, make, sdk):
    host = make()
    listening = await host.start(["cat"], on_output=lambda _: None)
    await listening.stop()
    assert listening.exit_code == 0
    deaf = await host.start(["sleep", "1000"], on_output=lambda _: None)
    await deaf.stop()
    assert await deaf.wait() == 137
    if service == "daytona":
        process = sdk.STATE.sandboxes[0].process
        assert process.sessions == {}
        assert {(each.run_async, each.suppress_input_echo) for each in process.requests} == {
            (True, True)
        }


async def test_errors_name_the_next_step(service, make, sdk, monkeypatch):
    refused, failed, hint = {
        "modal": ("AuthError", "Error", "run `modal setup`, or set MODAL_TOKEN_ID"),
        "daytona": ("DaytonaAuthenticationError", "DaytonaError", "set DAYTONA_API_KEY"),
    }[service]
    sdk.STATE.refuse = getattr(sdk, refused)("no key")
    with pytest.raises(BackendUnavailable, match="no key") as caught:
        await make().open()
    assert caught.value.hint.startswith(hint)
    sdk.STATE.refuse = getattr(sdk, failed)("down")
    with pytest.raises(BackendUnavailable, match="could not make a sandbox: down"):
        await make().open()
    monkeypatch.setitem(sys.modules, service, None)
    with pytest.raises(BackendUnavailable, match="not installed") as caught:
        await make().open()
    assert caught.value.hint == f"hermes setup {service}"


@modal
async def test_modal_sandbox_is_made_with_the_settings(make, sdk):
    host = make(
        forward_env={"A": "b"}, task="t", container_cpu=2, container_memory=512, lifetime_seconds=60
    )
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


@modal
async def test_modal_token_of_the_settings_is_used(make, sdk):
    await make(secrets={"MODAL_TOKEN_ID": "ak-1", "MODAL_TOKEN_SECRET": "as-1"}).open()
    assert sdk.STATE.clients == [("ak-1", "as-1")]
    assert isinstance(sdk.STATE.sandboxes[0].options["client"], sdk.Client)


@modal
async def test_modal_terminal_is_requested(make, sdk):
    running = await make().start(["true"], on_output=lambda _: None, pty=True)
    await running.wait()
    assert sdk.STATE.sandboxes[0].calls == [(("true",), {"pty": True})]


@modal
async def test_modal_sandbox_starts_from_the_last_snapshot_or_the_image(make, sdk):
    first = make()
    await first.open()
    await first.close()
    assert sdk.STATE.sandboxes[0].over
    await make().open()
    assert sdk.STATE.sandboxes[1].options["image"].object_id == "im-2"
    sdk.STATE.images.clear()
    notices = []
    await make(notices.append).open()
    assert sdk.STATE.sandboxes[2].options["image"].tag == "box:1"
    assert notices == ["Modal no longer has the kept files; a fresh sandbox is made"]


@modal
async def test_modal_without_persistence_keeps_nothing(make, sdk, tmp_path):
    host = make(container_persistent=False)
    await host.open()
    await host.close()
    assert sdk.STATE.sandboxes[0].over
    assert sdk.STATE.images == {"im-1"}
    assert list(tmp_path.iterdir()) == []


@modal
async def test_modal_ended_sandbox_is_recreated(make, sdk):
    notices = []
    host = make(notices.append)
    await host.open()
    sdk.STATE.sandboxes[0].over = True
    running = await host.start(["true"], on_output=lambda _: None)
    assert await running.wait() == 0
    assert [len(sandbox.calls) for sandbox in sdk.STATE.sandboxes] == [0, 1]
    assert notices == ["the Modal sandbox had ended; a new one was made"]


@modal
async def test_modal_program_that_cannot_start_is_tried_once(make, sdk):
    with pytest.raises(ToolError, match="no such program"):
        await make().start(["refused"], on_output=lambda _: None)
    assert [len(sandbox.calls) for sandbox in sdk.STATE.sandboxes] == [1]


@modal
async def test_modal_next_start_ends_sandboxes_of_dead_processes(make, sdk):
    gone = await gone_mark()
    for mark in (gone, "elsewhere:" + gone.split(":", 1)[1], owner_mark(), ""):
        sandbox = sdk.Sandbox((), {})
        sandbox.tags = {"hermes-owner": mark}
        sdk.STATE.sandboxes.append(sandbox)
    await make().open()
    assert [sandbox.over for sandbox in sdk.STATE.sandboxes] == [True, False, False, False, False]


@daytona
async def test_daytona_sandbox_is_made_with_the_settings(make, sdk):
    notices = []
    host = make(notices.append, task="t", forward_env={"A": "b"}, container_cpu=1.5)
    await host.open()
    await host.open()
    (sandbox,) = sdk.STATE.sandboxes
    labels = {"hermes": "1", "hermes.owner": owner_mark(), "hermes.task": "t", "hermes.keep": "yes"}
    assert sandbox.params == sdk.CreateSandboxFromImageParams(
        image="box:1",
        resources=sdk.Resources(cpu=2, memory=5, disk=10),
        env_vars={"A": "b"},
        labels=labels,
        auto_stop_interval=60,
        auto_delete_interval=-1,
    )
    assert sdk.STATE.configs == [None]
    assert notices == ["building", "built"]


@daytona
async def test_daytona_key_and_region_are_passed_on(make, sdk):
    await make(secrets={"DAYTONA_API_KEY": "k", "DAYTONA_TARGET": "eu"}).open()
    assert sdk.STATE.configs == [sdk.DaytonaConfig(api_key="k", api_url=None, target="eu")]


@daytona
async def test_daytona_terminal_shows_the_program_and_not_the_login_shell(make):
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


@daytona
async def test_daytona_stopped_terminal_ends_its_program(make):
    running = await make().start(["sleep", "1000"], on_output=lambda _: None, pty=True)
    await running.stop()
    assert running.exit_code == 137


@daytona
async def test_daytona_persistent_sandbox_is_stopped_and_resumed(make, sdk):
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


@daytona
async def test_daytona_sandbox_in_use_by_another_process_is_not_taken(make, sdk):
    labels = {"hermes": "1", "hermes.task": "default", "hermes.keep": "yes"}
    theirs = sdk.Sandbox({**labels, "hermes.owner": "another-machine:1:1"})
    sdk.STATE.sandboxes.append(theirs)
    await make().open()
    assert len(sdk.STATE.sandboxes) == 2
    assert theirs.done == []


@daytona
async def test_daytona_without_persistence_deletes_the_sandbox(make, sdk):
    host = make(container_persistent=False)
    await host.open()
    assert sdk.STATE.sandboxes[0].params.auto_delete_interval == 0
    await host.close()
    assert sdk.STATE.sandboxes == []


@daytona
async def test_daytona_stopped_sandbox_is_restarted(make, sdk):
    notices = []
    host = make(notices.append)
    await host.open()
    notices.clear()
    (sandbox,) = sdk.STATE.sandboxes
    await sandbox.stop()
    running = await host.start(["true"], on_output=lambda _: None)
    assert await running.wait() == 0
    assert sandbox.done == ["stop", "start"]
    assert len(sandbox.process.requests) == 1
    assert notices == ["the Daytona sandbox had ended; it was started again"]


@daytona
async def test_daytona_next_start_stops_sandboxes_of_dead_processes(make, sdk):
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

"""Containers in a real Docker engine, and in podman, which has no daemon and other messages."""

import anyio
import psutil
import pytest

from hermes.core.errors import BackendUnavailable
from hermes.sdk.testing.terminal import HostContract, run
from hermes.terminal.host_shell import HostShell
from hermes.terminal.remote import credential_mounts, owner_mark
from tests.integration.terminal.container_hosts import (
    died,
    heard,
    hosts_of,
    process_with_container,
    said,
    started,
)
from tests.integration.terminal.docker_engine import IMAGE, docker_engine, podman_engine

pytestmark = pytest.mark.timeout(300)
"""The first run makes the image."""


docker = pytest.mark.parametrize("engine", ["docker"])
podman = pytest.mark.parametrize("engine", ["podman"])


@pytest.fixture(params=["docker", "podman"])
def engine(request):
    return str(request.param)


@pytest.fixture
async def hosts(engine, tmp_path):
    running = docker_engine() if engine == "docker" else podman_engine()
    async with hosts_of(running, tmp_path) as hosts:
        yield hosts


class TestDockerHost(HostContract):
    @pytest.fixture
    def host(self, hosts):
        return hosts.make()


async def test_container_has_no_rights_and_limited_means(hosts):
    host = hosts.make(cpu=0.5, memory=300, disk=1000)
    status = await said(host, "cat /proc/self/status")
    assert "CapEff:\t000000000000000b" in status
    assert "NoNewPrivs:\t1" in status
    settings = hosts.inspect(host)["HostConfig"]
    assert settings["PidsLimit"] == 256
    assert settings["NanoCpus"] == 500_000_000
    assert settings["Memory"] == settings["MemorySwap"] == 300 * 1024 * 1024
    assert settings["Tmpfs"].keys() == {"/tmp", "/var/tmp", "/run"}


@docker
async def test_docker_options_of_a_container(hosts):
    host = hosts.make(cpu=0.5, memory=300)
    await host.open()
    settings = hosts.inspect(host)["HostConfig"]
    assert settings["CapDrop"] == ["ALL"]
    capabilities = {name.removeprefix("CAP_") for name in settings["CapAdd"]}
    assert capabilities == {"CHOWN", "DAC_OVERRIDE", "FOWNER"}
    assert settings["SecurityOpt"] == ["no-new-privileges"]
    assert settings["Init"] is True
    lines = (await said(host, "grep -E ' (/tmp|/var/tmp|/run) ' /proc/mounts")).splitlines()
    mounts = {line.split()[1]: line.split()[3] for line in lines}
    assert "size=524288k" in mounts["/tmp"]
    assert "noexec" not in mounts["/tmp"]
    assert "size=262144k" in mounts["/var/tmp"]
    assert "size=65536k" in mounts["/run"]
    assert "noexec" in mounts["/var/tmp"]
    assert "noexec" in mounts["/run"]


@docker
async def test_a_disk_limit_that_the_engine_cannot_set_is_given_up_once(hosts, caplog):
    host = hosts.make(disk=1000)
    await host.open()
    await host.close()
    await host.open()
    assert await said(host, "echo fine") == "fine"
    assert caplog.text.count("the disk of the container is not limited") <= 1


@docker
async def test_variables_stay_outside_unless_forwarded(hosts):
    environment = {**hosts.engine.environment, "OPENAI_API_KEY": "sk-not-for-you"}
    forwarded = {"WANTED": "a value; with $signs and 'quotes'"}
    host = hosts.make(environment=environment, forward_env=forwarded)
    inside = await said(host, "env")
    assert f"WANTED={forwarded['WANTED']}" in inside
    assert "sk-not-for-you" not in inside
    processes = psutil.process_iter(["cmdline"])
    everybody = [" ".join(process.info["cmdline"] or ()) for process in processes]
    assert any(host.container in line for line in everybody)
    assert not any(forwarded["WANTED"] in line for line in everybody)


@docker
@pytest.mark.parametrize("persistent", [True, False])
async def test_credential_files_can_be_read_and_not_changed(hosts, tmp_path, persistent):
    (tmp_path / "google").mkdir()
    (tmp_path / "google/token.json").write_text("a token")
    files = credential_mounts(tmp_path, ["google/token.json", "not-there.json"])
    host = hosts.make(credential_files=files, persistent=persistent)
    assert await said(host, "cat /root/.hermes/google/token.json") == "a token"
    running, output = await started(host, "echo x >/root/.hermes/google/token.json")
    assert await running.wait() != 0
    assert b"Read-only" in output
    assert (tmp_path / "google/token.json").read_text() == "a token"


@docker
async def test_the_working_folder_and_volumes_are_mounted(hosts, tmp_path):
    project, data = tmp_path / "my, project", tmp_path / "data"
    project.mkdir()
    data.mkdir()
    (data / "file").write_text("read me")
    host = hosts.make(workspace=str(project), volumes=(f"{data}:/data:ro",), persistent=True)
    assert await said(host, "pwd; cat /data/file; echo mine >made") == "/workspace\nread me"
    assert (project / "made").read_text() == "mine\n"
    running, _ = await started(host, "touch /data/new")
    assert await running.wait() != 0


@docker
async def test_kept_files_outlive_the_container_and_others_do_not(hosts):
    for persistent, expected in ((True, "kept kept"), (False, "")):
        host = hosts.make(persistent=persistent, task="one")
        assert await said(host, "pwd") == "/root"
        assert await said(host, "ls -a /root | grep bashrc") == ".bashrc", "the image's own"
        await said(host, "echo kept >/root/a; echo kept >/workspace/b; echo lost >/opt/c")
        await host.close()
        again = hosts.make(persistent=persistent, task="one")
        looked = "cat /opt/c /root/a /workspace/b 2>/dev/null || true"
        assert (await said(again, looked)).split() == expected.split()
        await again.close()
        other = hosts.make(persistent=persistent, task="another")
        assert await said(other, looked) == ""


@docker
async def test_a_terminal_has_its_size_and_ends_with_all_that_runs_in_it(hosts):
    host = hosts.make()
    script = "stty size; setsid sleep 4321 & trap '' HUP; read line; echo heard $line; sleep 4321"
    running, output = await started(host, script, pty=True)
    await running.write(b"\x10you\r")
    await heard(output, b"heard \x10you")
    assert b"40 120" in output
    assert "sleep 4321" in hosts.engine.call("top", host.container)
    await running.stop()
    assert "sleep 4321" not in hosts.engine.call("top", host.container)


@docker
async def test_a_program_hears_the_end_of_its_input_when_it_is_stopped(hosts):
    host = hosts.make()
    running, output = await started(host, "echo on; cat; echo over >/workspace/end")
    await heard(output, b"on")
    await running.stop()
    while "over" not in await said(host, "cat /workspace/end 2>/dev/null || true"):
        await anyio.sleep(0.05)


async def test_dead_container_is_recreated_without_running_a_command_twice(hosts, tmp_path):
    count = tmp_path / "count"
    count.mkdir()
    host = hosts.make(volumes=(f"{count}:/count",))
    running, output = await started(host, "echo one >>/count/runs; echo on; sleep 1000")
    await heard(output, b"on")
    first = host.container
    hosts.engine.call("kill", first)
    assert await running.wait() != 0
    await died(host)
    assert await said(host, "cat /count/runs") == "one"
    assert host.container != first
    assert [line for line in hosts.told if first in line], hosts.told


@docker
async def test_shell_of_a_dead_container_continues_in_a_new_one(hosts):
    host = hosts.make()
    shell = HostShell(host)
    await run(shell, "cd /opt && export KEPT=yes")
    first = host.container
    hosts.engine.call("kill", first)
    await died(host)
    assert (await run(shell, "echo $KEPT; pwd")).output == "yes\n/opt\n"
    assert host.container not in ("", first)
    await shell.close()


@docker
async def test_closing_leaves_no_container(hosts):
    host = hosts.make()
    _, output = await started(host, "trap '' TERM HUP; echo on; while :; do sleep 1; done")
    await heard(output, b"on")
    name = host.container
    await host.close()
    assert name not in hosts.containers()


async def test_a_killed_process_leaves_no_container(hosts, tmp_path):
    process = process_with_container(hosts.engine, tmp_path)
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    assert name in hosts.containers()
    process.kill()
    process.communicate()
    await hosts.gone(name)


@docker
async def test_next_start_removes_containers_of_dead_processes(hosts):
    """An engine that was down when the owner died could not see its input close."""
    ended = await anyio.open_process(["true"])
    place, pid, start = owner_mark().rsplit(":", 2)
    await ended.wait()
    marks = {
        "left": f"{place}:{ended.pid}:{start}",
        "reused": f"{place}:{pid}:{int(start) - 1000}",
        "ours": owner_mark(),
        "elsewhere": f"another-machine:{ended.pid}:{start}",
    }
    for name, mark in marks.items():
        labels = ("--label", "hermes=1", "--label", f"hermes.owner={mark}")
        hosts.engine.call("create", "--name", name, "--network", "none", *labels, IMAGE, "true")
    try:
        await hosts.make().open()
        assert set(marks) & set(hosts.containers()) == {"ours", "elsewhere"}
    finally:
        hosts.engine.call("rm", "-f", *(set(marks) & set(hosts.containers())))


async def test_image_that_cannot_be_fetched_is_an_error_with_advice(engine, hosts):
    host = hosts.make(image="127.0.0.1:9/nobody/nothing:1")
    with pytest.raises(BackendUnavailable, match="cannot be fetched") as caught:
        await host.open()
    assert ("terminal.docker_image" if engine == "docker" else "podman load") in caught.value.hint
    if engine == "docker":
        assert "fetching the image 127.0.0.1:9/nobody/nothing:1" in hosts.told


@docker
async def test_an_engine_that_is_not_there_is_an_error_with_advice(hosts):
    nowhere = {**hosts.engine.environment, "DOCKER_HOST": f"unix://{hosts.folder}/none.sock"}
    with pytest.raises(BackendUnavailable, match="the docker engine does not run") as caught:
        await hosts.make(environment=nowhere).open()
    assert "systemctl start docker" in caught.value.hint


@docker
async def test_too_many_processors_is_an_error_that_names_the_setting(hosts):
    with pytest.raises(BackendUnavailable) as caught:
        await hosts.make(cpu=5000).open()
    assert "terminal.container_cpu" in caught.value.hint


@podman
async def test_podman_variables_are_forwarded_and_files_kept(hosts, tmp_path):
    (tmp_path / "a, b").mkdir()
    volumes = (f"{tmp_path}/a, b:/data:ro",)
    options = {"persistent": True, "forward_env": {"WANTED": "a $value"}, "volumes": volumes}
    host = hosts.make(**options)
    assert await said(host, "echo $WANTED; pwd; echo kept >a; ls /data") == "a $value\n/root"
    await host.close()
    assert await said(hosts.make(**options), "cat /root/a") == "kept"


@podman
async def test_podman_terminal_ends_with_all_that_runs_in_it(hosts):
    host = hosts.make()
    running, output = await started(host, "stty size; sleep 4321", pty=True)
    await heard(output, b"40 120")
    await running.stop()
    assert "sleep 4321" not in hosts.engine.call("top", host.container)

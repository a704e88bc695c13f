"""The same containers in a real podman, which has no daemon and other messages."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.core.errors import BackendUnavailable
from tests.integration.terminal.container_hosts import (
    Hosts,
    died,
    heard,
    hosts_of,
    process_with_container,
    said,
    started,
)
from tests.integration.terminal.docker_engine import podman_engine

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
async def hosts(tmp_path: Path) -> AsyncIterator[Hosts]:
    async with hosts_of(podman_engine(), tmp_path) as hosts:
        yield hosts


async def test_the_container_has_no_rights_and_limited_means(hosts: Hosts) -> None:
    host = hosts.make(cpu=0.5, memory=300, disk=1000)
    status = await said(host, "cat /proc/self/status")
    assert "CapEff:\t000000000000000b" in status
    assert "NoNewPrivs:\t1" in status
    settings = hosts.inspect(host)["HostConfig"]
    assert settings["PidsLimit"] == 256
    assert settings["NanoCpus"] == 500_000_000
    assert settings["Memory"] == settings["MemorySwap"] == 300 * 1024 * 1024
    assert settings["Tmpfs"].keys() == {"/tmp", "/var/tmp", "/run"}


async def test_variables_are_forwarded_and_files_kept(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "a, b").mkdir()
    volumes = (f"{tmp_path}/a, b:/data:ro",)
    options = {"persistent": True, "forward_env": {"WANTED": "a $value"}, "volumes": volumes}
    host = hosts.make(**options)
    assert await said(host, "echo $WANTED; pwd; echo kept >a; ls /data") == "a $value\n/root"
    await host.close()
    assert await said(hosts.make(**options), "cat /root/a") == "kept"


async def test_a_terminal_ends_with_all_that_runs_in_it(hosts: Hosts) -> None:
    host = hosts.make()
    running, output = await started(host, "stty size; sleep 4321", pty=True)
    await heard(output, b"40 120")
    await running.stop()
    assert "sleep 4321" not in hosts.engine.call("top", host.container)


async def test_dead_container_is_recreated(hosts: Hosts) -> None:
    host = hosts.make()
    await host.open()
    first = host.container
    hosts.engine.call("kill", first)
    await died(host)
    assert await said(host, "echo anew") == "anew"
    assert host.container != first
    assert [line for line in hosts.told if first in line], hosts.told


async def test_a_killed_process_leaves_no_container(hosts: Hosts, tmp_path: Path) -> None:
    process = process_with_container(hosts.engine, tmp_path)
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    assert name in hosts.containers()
    process.kill()
    process.communicate()
    await hosts.gone(name)


async def test_an_image_that_cannot_be_fetched_is_an_error_with_advice(hosts: Hosts) -> None:
    host = hosts.make(image="127.0.0.1:9/nobody/nothing:1")
    with pytest.raises(BackendUnavailable, match="cannot be fetched") as caught:
        await host.open()
    assert "podman load" in caught.value.hint

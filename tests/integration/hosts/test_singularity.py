"""Apptainer as a backend.

The program here is a fake: a shell script in place of `apptainer` that notes its arguments, keeps
instances as files and runs programs on this machine. It shows the exact calls, not that Apptainer
does what they ask.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.core.errors import BackendUnavailable
from hermes.sdk.terminal import Host, Mount
from hermes.sdk.testing.terminal import HostContract, backend_context
from hermes_plugins.terminals.singularity.backend import SingularityHost
from tests.cases import cases
from tests.integration.hosts.machine_host import gone_mark

CASES = cases(__file__)


class Fake:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: list[str] = []
        (folder / "bin").mkdir()
        self.install("apptainer")

    def install(self, program: str) -> None:
        path = self.folder / "bin" / program
        path.write_text(CASES["fake"].replace("@HERE@", str(self.folder)))
        path.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def calls(self, words: str) -> list[str]:
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if line.startswith(words)]

    def instances(self) -> list[str]:
        folder = self.folder / "instances"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def fake(tmp_path):
    return Fake(tmp_path)


@pytest.fixture
async def make(fake):
    hosts = []

    def make(settings=None, **changes):
        context = backend_context(
            fake.folder / "kept",
            {"singularity_image": "docker://box", **(settings or {})},
            **{"environment": fake.environment, "notify": fake.told.append, **changes},
        )
        hosts.append(SingularityHost(context))
        return hosts[-1]

    yield make
    for host in hosts:
        await host.close()


class TestSingularityHost(HostContract):
    @pytest.fixture
    def host(self, make):
        return make()


async def said(host: Host, script: str, **options: Any) -> str:
    output = bytearray()
    running = await host.start(["sh", "-c", script], on_output=output.extend, **options)
    await running.close_input()
    assert await running.wait() == 0, output
    return output.decode().strip()


async def test_a_kept_instance_has_an_overlay_and_a_home(make, fake):
    mount = Mount("/etc/hostname", "/root/.hermes/x", read_only=True)
    host = make({"container_cpu": 2, "container_memory": 100}, credential_mounts=(mount,))
    await host.open()
    (start,) = fake.calls("instance start")
    kept = fake.folder / "kept/default"
    assert start.startswith(
        f"instance start --containall --no-privs --overlay {kept}/overlay --home {kept}/home:/root "
        "--cpus 2 --memory 100M --bind /etc/hostname:/root/.hermes/x:ro docker://box hermes."
    )
    assert fake.told == ["INFO:    instance started"]


async def test_an_instance_that_is_not_kept_writes_to_memory(make, fake):
    await make({"container_persistent": False}).open()
    (start,) = fake.calls("instance start")
    assert "--writable-tmpfs --home " in start
    assert "--overlay" not in start
    assert not (fake.folder / "kept").exists()


async def test_programs_run_in_the_instance_with_the_forwarded_variables(make, fake):
    host = make(forward_env={"WANTED": "a secret"})
    assert await said(host, "echo $WANTED") == "a secret"
    (instance,) = fake.instances()
    (call,) = fake.calls("exec")
    assert call == f"exec --cleanenv --pwd /root instance://{instance} sh -c echo $WANTED"


async def test_closing_stops_the_instance(make, fake):
    host = make()
    await host.open()
    assert len(fake.instances()) == 1
    await host.close()
    assert fake.instances() == []
    assert fake.calls("instance stop")[0].startswith("instance stop -t 2 hermes.")


async def test_ended_instance_is_restarted(make, fake):
    host = make()
    await host.open()
    (first,) = fake.instances()
    (fake.folder / "instances" / first).unlink()
    assert await said(host, "echo on") == "on"
    assert fake.instances() != [first]
    assert fake.told[-1] == f"the instance {first} had ended; a new one was made"


async def test_limits_the_machine_cannot_set_are_given_up(make, fake, caplog):
    (fake.folder / "no-cgroups").touch()
    await make().open()
    assert ["--cpus" in call for call in fake.calls("instance start")] == [True, False]
    assert "cannot limit processor and memory" in caplog.text


async def test_next_start_stops_instances_of_dead_processes(make, fake):
    place, pid, start = (await gone_mark()).rsplit(":", 2)
    left, others = f"hermes.{place}.{pid}.{start}.0a", ("mine", "hermes.x", "hermes.a.1.2.3")
    (fake.folder / "instances").mkdir()
    for name in (left, *others):
        (fake.folder / "instances" / name).touch()
    await make().open()
    assert left not in fake.instances()
    assert set(others) < set(fake.instances())


async def test_a_killed_process_leaves_no_instance(fake):
    program = f"""
import asyncio
from pathlib import Path
from hermes.sdk.testing.terminal import backend_context
from hermes_plugins.terminals.singularity.backend import SingularityHost
async def main():
    settings = {{"container_persistent": False}}
    context = backend_context(Path(), settings, environment={fake.environment!r})
    await SingularityHost(context).open()
    print("open", flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    assert len(fake.instances()) == 1
    process.send_signal(signal.SIGKILL)
    await process.wait()
    while fake.instances():
        await asyncio.sleep(0.02)


async def test_singularity_is_taken_where_there_is_no_apptainer(make, fake):
    fake.install("singularity")
    (fake.folder / "bin/apptainer").unlink()
    await make().open()
    assert len(fake.instances()) == 1


async def test_errors_say_what_to_do(make, fake):
    (fake.folder / "broken").write_text("while setting up overlay: not permitted")
    with pytest.raises(BackendUnavailable, match="setting up overlay") as caught:
        await make().open()
    assert "container_persistent" in caught.value.hint
    with pytest.raises(BackendUnavailable, match="apptainer or singularity is not installed"):
        await make(environment={"PATH": "/nowhere"}).open()

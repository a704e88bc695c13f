"""A machine behind a real sshd."""

import asyncio
import os
from pathlib import Path

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import BackendUnavailable, Interrupted
from hermes.sdk.testing.terminal import HostContract
from hermes.terminal import OutputLimits
from hermes.terminal.host_shell import HostShell
from hermes.terminal.ssh import SshHost
from tests.cases import cases
from tests.integration.hosts.machine_host import runner
from tests.integration.terminal.conftest import Sshd
from tests.integration.terminal.parts import gone, kill, kill_actor, started, unique_sleep

CASES = cases(__file__)


@pytest.fixture
async def shell(ssh, tmp_path):
    shell = HostShell(ssh, cwd=str(tmp_path))
    yield shell
    await shell.close()


class TestSshHost(HostContract):
    """Among the rest it starts more programs than a server allows over one connection."""

    @pytest.fixture
    def host(self, ssh):
        return ssh


async def test_much_output_comes_whole(ssh):
    shell = HostShell(ssh, limits=OutputLimits(6_000_000, 1_000_000))
    result = await runner(shell)("yes 123456789 | head -c 5000000; echo end")
    assert result.output == "123456789\n" * 500_000 + "end\n"
    await shell.close()


async def test_cancel_does_not_wait_for_a_network_that_is_stuck(sshd):
    host = SshHost(sshd.options(alive_seconds=1_000), dict(os.environ))
    shell, sleep, cancel = HostShell(host), unique_sleep(), CancelToken()
    running = asyncio.ensure_future(runner(shell)(f"exec {sleep}", cancel=cancel))
    await started(sleep)
    servers = [
        process
        for session in sshd.sessions()
        for process in (session, *session.children(recursive=True))
        if process.name() == "sshd"
    ]
    for server in servers:
        server.suspend()
    try:
        cancel.cancel("enough")
        with pytest.raises(Interrupted):
            await running
        await shell.close()
    finally:
        for server in servers:
            server.resume()
    await gone(sleep)


@pytest.mark.parametrize("end", ["client", "server"])
async def test_cut_connection_is_reported_and_reopened(ssh, shell, sshd, end):
    run, sleep = runner(shell), unique_sleep()
    await run("export A=1; cd /")
    running = asyncio.ensure_future(run(f"{sleep}; touch finished"))
    await started(sleep)
    if end == "client":
        assert ssh._master is not None
        kill(ssh._master.pid)
    else:
        for session in sshd.sessions():
            for process in (session, *session.children()):
                if process.name() == "sshd":
                    kill(process.pid)
    with pytest.raises(BackendUnavailable, match="was lost"):
        await running
    await gone(sleep)
    assert (await run("echo $A $PWD")).output == "1 /\n"


async def test_closing_leaves_no_files_or_processes(sshd, ssh):
    shell, sleep = HostShell(ssh), unique_sleep()
    await runner(shell)(f"{sleep} >/dev/null 2>&1 & :")
    folder = shell._session and shell._session.folder
    assert folder is not None
    assert ssh._lifeline is not None
    ours = ssh._lifeline.folder
    await started(sleep)
    await shell.close()
    await gone(sleep)
    assert not Path(folder).exists()
    assert not ours.exists()


async def test_kill_of_this_process_stops_remote_programs(sshd):
    await kill_actor(CASES["actor"], sshd.options(), 4)


async def refusal(options: dict[str, object], sshd: Sshd) -> BackendUnavailable:
    host = SshHost(sshd.options(**options), dict(os.environ))
    with pytest.raises(BackendUnavailable) as caught:
        await host.open()
    await host.close()
    return caught.value


async def test_failed_connection_is_refused_with_the_reason(sshd, tmp_path):
    unknown = await refusal({"options": (f"UserKnownHostsFile={tmp_path}/none",)}, sshd)
    assert "host key of 127.0.0.1 is not known" in str(unknown)
    assert "ssh 127.0.0.1" in unknown.hint
    wrong = (sshd.folder / "user.pub").read_text().split()[:2]
    (tmp_path / "wrong").write_text(f"[127.0.0.1]:{sshd.port} {' '.join(wrong)}\n")
    changed = await refusal({"options": (f"UserKnownHostsFile={tmp_path}/wrong",)}, sshd)
    assert "not the one that is known" in str(changed)
    refused = await refusal({"key": str(sshd.folder / "host")}, sshd)
    assert "refused the login" in str(refused)
    closed = await refusal({"port": 1}, sshd)
    assert "takes no SSH connections" in str(closed)


async def test_ssh_is_not_installed(sshd):
    host = SshHost(sshd.options(), {"PATH": "/nowhere"})
    with pytest.raises(BackendUnavailable, match="ssh is not installed"):
        await host.open()

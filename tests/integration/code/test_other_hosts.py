"""The same on any host that has a POSIX shell and a Python."""

import asyncio
import os

import pytest

from hermes.core.errors import Interrupted
from hermes.terminal.host_shell import HostShell
from tests.cases import cases
from tests.integration.hosts.machine_host import MachineHost

CASES = cases(__file__)


@pytest.fixture(params=["", "Welcome!\n", "no line end"])
async def there(request, bench, user_home, workspace, temporary):
    """The bench, working on another host; `param` is what its login files print."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(user_home),
        "TMPDIR": str(temporary),
        "CLOUD_API_KEY": "secret",
    }
    bench.shell = HostShell(MachineHost(environment, workspace, noise=request.param))
    yield bench
    await bench.shell.close()


async def test_script_runs_remotely_and_its_tools_locally(there, workspace):
    (workspace / "poem.txt").write_text("roses\n")
    code = CASES["script_runs_remotely_and_its_tools_locally"]
    result = await there.run(code)
    assert result["output"] == f"{workspace} 1|roses False"
    assert 'File "script.py", line 5' in result["error"]
    assert "refused" in result["error"]
    assert result["tool_calls_made"] == 1


async def test_cancelled_turn_leaves_nothing_on_the_host(there, gone, temporary):
    code = CASES["cancelled_turn_leaves_nothing_on_the_host"]
    work = asyncio.ensure_future(there.run(code))
    while not there.shown:
        await asyncio.sleep(0.01)
    there.cancel.cancel()
    with pytest.raises(Interrupted):
        await work
    for pid in "".join(there.shown).split():
        await gone(int(pid))
    while [path for path in temporary.iterdir() if path.name.startswith("hermes-code-")]:
        await asyncio.sleep(0.02)


async def test_timeout_is_reported(there):
    result = await there.run("import time; print('begun', flush=True); time.sleep(600)", timeout=1)
    assert result["status"] == "timeout"

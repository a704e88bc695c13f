"""The reference server over streamable HTTP and over SSE, in a network of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installed import node_server, node_version

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("kind", "transport"), [("streamableHttp", "http"), ("sse", "sse")])
def test_a_conversation_over_http(kind: str, transport: str) -> None:
    program = node_server("everything").command
    flags = "-n" if os.geteuid() == 0 else "-rn"
    if subprocess.run(["unshare", flags, "true"], capture_output=True).returncode:
        pytest.skip("no network of our own is allowed here (unshare -n)")
    # This server needs what Node has had since version 20, and Node 18 on request.
    options = {"NODE_OPTIONS": "--experimental-global-webcrypto"} if node_version() < 20 else {}
    done = subprocess.run(
        [
            *("unshare", flags, sys.executable),
            *("-m", "tests.integration.mcp_servers.http_scene", program, kind),
        ],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **options},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["transport"] == transport
    assert said["echo"] == "Echo: hi"
    assert "hello" in said["sampled"]
    assert "Resource 3" in said["resource"]
    assert said["shown"] == ["1 of 2\n", "2 of 2\n"]

"""Gateways as real processes: started, seen, stopped and killed; services checked by systemd."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from hermes.cli.commands.gateway import MORE
from hermes.config.home import Home
from hermes.core.errors import HermesError
from hermes.gateway import process
from hermes.gateway.process import (
    GatewayProcess,
    GatewayState,
    claim_home,
    is_gone,
    running_gateway,
    stop_gateway,
    write_state,
)
from hermes.gateway.services import ServiceFailed, ServiceSpec, unit_text, verify_unit
from tests.fakes.local.server import LocalServer
from tests.unit.cli.terminal import Hermes

GATEWAY = """
import signal, sys, time
from pathlib import Path
from hermes.config.home import Home
from hermes.gateway.process import claim_home
from hermes.gateway.process import GatewayState, write_state

home = Home(Path(sys.argv[1]))
signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in sys.argv else lambda *_: sys.exit(0))
with claim_home(home, now=time.time()) as me:
    write_state(home.root, GatewayState(me.pid, "running", me.started_at, me.started_at))
    time.sleep(60)
"""


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path / "home")
    yield home
    if left := running_gateway(home.root):
        os.kill(left.pid, signal.SIGKILL)


def started(home: Home, *words: str) -> GatewayProcess:
    command = [sys.executable, "-c", GATEWAY, str(home.root), *words]
    return process.start_in_background(home, command)


def test_gateway_starts_in_the_background_and_stops_on_request(home):
    found = started(home)
    assert running_gateway(home.root) == found
    assert stop_gateway(found, seconds=20)
    assert running_gateway(home.root) is None
    assert not (home.root / "gateway.pid").exists()


def test_unresponsive_gateway_is_killed_only_by_force(home):
    found = started(home, "deaf")
    assert not stop_gateway(found, seconds=0.1)
    assert running_gateway(home.root) == found
    assert stop_gateway(found, seconds=0.1, force=True)
    assert is_gone(found)


def test_a_killed_gateway_leaves_the_home_free(home):
    found = started(home)
    os.kill(found.pid, signal.SIGKILL)
    assert stop_gateway(found, seconds=20), "it is gone already"
    assert (home.root / "gateway.pid").exists()
    assert running_gateway(home.root) is None
    with claim_home(home, now=1.0):
        assert running_gateway(home.root) is not None


def test_gateway_that_cannot_start_reports_why(home):
    home.root.mkdir()
    home.logs.mkdir()
    (home.logs / "gateway.out").write_text("of yesterday\n")
    with pytest.raises(HermesError, match="did not start: no token") as failed:
        process.start_in_background(home, [sys.executable, "-c", "raise SystemExit('no token')"])
    assert "of yesterday" not in str(failed.value)
    assert "gateway.out" in failed.value.hint


def test_a_second_one_is_refused_while_the_first_runs(home):
    found = started(home)
    with (
        pytest.raises(HermesError, match=rf"running already \(process {found.pid}\)"),
        claim_home(home, now=1.0),
    ):
        pass
    assert stop_gateway(found, seconds=20)


def test_gateway_with_broken_settings_can_be_stopped(home):
    """But it is not restarted: it would not come back."""
    found = started(home)
    home.config_file.write_text("model: [oops\n")
    hermes = Hermes("gateway", home.root)
    assert hermes("restart").code == 3
    assert running_gateway(home.root) == found
    done = hermes("stop")
    assert (done.code, is_gone(found)) == (0, True), done.err


def test_stop_reports_running_turns(home):
    found = started(home)
    state = GatewayState(found.pid, "running", 1.0, 1.0, turns=2)
    write_state(home.root, state)
    done = Hermes("gateway", home.root)("stop")
    assert "2 turns may still end, for at most 30 seconds" in done.err


@pytest.fixture
def no_service(tmp_path, monkeypatch):
    monkeypatch.setattr("hermes.gateway.services.BOOTED", tmp_path / "no-systemd")


@pytest.mark.usefixtures("no_service")
def test_start_reports_why_a_platform_failed(home, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCAL_SOCKET", str(tmp_path / "missing"))
    hermes = Hermes("gateway", home.root)
    done = hermes("start")
    why = "the local platform cannot be reached: No such file or directory"
    assert done.out.splitlines()[1:] == [
        f"local  not connected: {why}; it is tried again",
        "       start it, or correct LOCAL_SOCKET",
    ]
    assert (done.code, done.err) == (1, f"{MORE}\n")
    assert running_gateway(home.root) is not None
    assert hermes("stop").code == 0


@pytest.mark.usefixtures("no_service")
async def test_start_reports_connected_platforms(home, tmp_path, monkeypatch):
    """Also of what lacks variables, and of a port that is taken; it runs all the same."""
    platform = LocalServer()
    await platform.listen(tmp_path / "s")
    monkeypatch.setenv("LOCAL_SOCKET", str(tmp_path / "s"))
    monkeypatch.setenv("DISCORD_ENABLED", "true")
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    home.root.mkdir()
    hermes = Hermes("gateway", home.root)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        home.config_file.write_text(f"gateway: {{metrics_port: {port}}}\n")
        done = await asyncio.to_thread(hermes, "start")
    first, *lines = done.out.splitlines()[1:]
    status = await asyncio.to_thread(hermes, "status")
    facts = json.loads((await asyncio.to_thread(hermes, "status", "--json")).out)["gateway"]
    assert (await asyncio.to_thread(hermes, "stop")).code == 0
    await platform.close()
    assert done.code == 0
    assert f"gateway.metrics_port {port} cannot be used: address already in use" in first
    assert f"trouble   {first}\n" in status.out
    assert facts["troubles"] == [first]
    assert any(line.startswith("discord  not connected: ") for line in lines), done
    assert "local    connected" in lines
    missing = lines.index("slack    not connected: SLACK_APP_TOKEN is missing")
    assert lines[missing + 1].startswith("         `hermes gateway setup slack` asks")
    (slack,) = [each for each in facts["adapters"] if each["platform"] == "slack"]
    assert (slack["state"], slack["hint"]) == ("incomplete", lines[missing + 1].strip())


@pytest.mark.usefixtures("no_service")
def test_gateway_without_platforms_runs_scheduled_jobs(home):
    hermes, jobs = (Hermes("gateway", home.root), Hermes("cron", home.root))
    done = hermes("start")
    assert done.code == 1
    assert "no platform is set up, and there is no scheduled job" in done.err
    assert jobs("create", "every 1d", "say hello").code == 0
    home.env_file.write_text("EMAIL_ADDRESS=me@example.org\n")
    done = hermes("start")
    none, email, _hint = done.out.splitlines()[1:]
    assert (done.code, none) == (0, "no platform is set up: only scheduled jobs run")
    assert email.startswith("email  not connected: EMAIL_PASSWORD, ")
    assert jobs("status").out.startswith("the gateway runs the jobs")
    assert hermes("stop").code == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("system", [True, False], ids=["machine", "user"])
def test_systemd_takes_the_service(tmp_path, system):
    program = tmp_path / "a b $c %d"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    job = ServiceSpec(
        (str(program), "gateway", "run", "$HOME %h"),
        {"HERMES_HOME": str(tmp_path / "my home %h"), "PATH": "/usr/bin"},
        tmp_path, tmp_path, 45, "root",
    )  # fmt: skip
    text = unit_text(job, "~/x %n", system=system)
    verify_unit(text, "hermes-gateway.service")
    unit = tmp_path / "hermes-gateway.service"
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "--recursive-errors=no", "verify", unit],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_error_of_systemd_is_reported(tmp_path):
    job = ServiceSpec((str(tmp_path / "gone"),), {}, tmp_path, tmp_path, 45)
    with pytest.raises(ServiceFailed, match=r"systemd does not accept the service: .*gone"):
        verify_unit(unit_text(job, "x", system=False), "hermes-gateway.service")

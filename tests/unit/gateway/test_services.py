"""The text of services, and what is said where there can be none."""

import plistlib
from pathlib import Path

import pytest

from hermes.config.home import Home
from hermes.gateway import services
from hermes.gateway.services import (
    LaunchdService,
    ServiceFailed,
    ServiceSpec,
    SystemdService,
    plist,
    service_suffix,
    unit_text,
)

JOB = ServiceSpec(
    command=("/opt/a b/hermes", "gateway", "run", 'x"$HOME%h'),
    environment={"HERMES_HOME": "/srv/ann/.hermes 50%", "PATH": "/bin"},
    folder=Path("/srv/ann"),
    logs=Path("/srv/ann/.hermes/logs"),
    stop_seconds=45,
    user="ann",
)


def test_user_unit():
    text = unit_text(JOB, "/srv/ann/.hermes", system=False)
    lines = text.splitlines()
    assert r'ExecStart="/opt/a b/hermes" "gateway" "run" "x\"$$HOME%%h"' in lines
    assert 'Environment="HERMES_HOME=/srv/ann/.hermes 50%%"' in lines
    assert "TimeoutStopSec=45" in lines
    assert "RestartForceExitStatus=75" in lines
    assert "WantedBy=default.target" in lines
    assert "User=" not in text
    assert "network-online" not in text


def test_system_unit_runs_as_its_user():
    lines = unit_text(JOB, "", system=True).splitlines()
    assert "User=ann" in lines
    assert "After=network-online.target" in lines
    assert "WantedBy=multi-user.target" in lines


def test_line_break_cannot_add_a_setting():
    evil = ServiceSpec(("/bin/x\nUser=root",), {}, Path("/"), Path("/"), 1)
    assert "User=root" not in unit_text(evil, "a\nUser=root", system=True).splitlines()


def test_launchd_agent():
    found = plistlib.loads(plist(JOB, "ai.hermes.gateway"))
    assert found["Label"] == "ai.hermes.gateway"
    assert found["ProgramArguments"] == list(JOB.command)
    assert found["KeepAlive"] == {"SuccessfulExit": False}
    assert found["EnvironmentVariables"]["HERMES_HOME"] == "/srv/ann/.hermes 50%"


def test_services_of_several_homes_have_names_of_their_own(user_home):
    usual = user_home / ".hermes"
    assert service_suffix(Home(usual), usual) == ""
    other = service_suffix(Home(usual / "profiles" / "work"), usual)
    assert len(other) == 9
    assert SystemdService("").file == user_home / ".config/systemd/user/hermes-gateway.service"
    assert SystemdService(other, system=True).file.name == f"hermes-gateway{other}.service"
    assert LaunchdService(other).file.name == f"ai.hermes.gateway{other}.plist"


def test_the_service_runs_this_hermes_on_this_home(hermes_home):
    job = services.service_spec(Home(hermes_home), drain_seconds=30)
    assert job.command[-3:] == ("gateway", "run", "--quiet")
    assert job.environment["HERMES_HOME"] == str(hermes_home)
    assert job.stop_seconds > 30


def test_machine_without_services_gets_a_hint(tmp_path):
    mark, kernel = tmp_path / "dockerenv", tmp_path / "version"
    assert "in the background" in services.manual_hint((mark,), kernel)
    kernel.write_text("Linux version 5.15 Microsoft WSL2")
    assert "/etc/wsl.conf" in services.manual_hint((mark,), kernel)
    mark.touch()
    assert "container" in services.manual_hint((mark,), kernel)


def test_no_service_without_systemd(hermes_home, tmp_path, monkeypatch):
    monkeypatch.setattr("hermes.gateway.services.BOOTED", tmp_path / "none")
    with pytest.raises(ServiceFailed, match="no systemd") as no:
        services.find_service(Home(hermes_home))
    assert "hermes gateway" in no.value.hint
    assert services.installed_service(Home(hermes_home)) is None

"""The gateway process of a home: its PID file and its state file."""

import os

import msgspec
import pytest

from hermes.config.home import Home
from hermes.core.errors import ConfigError
from hermes.gateway.process import (
    AdapterState,
    AlreadyRunning,
    GatewayProcess,
    GatewayState,
    claim_home,
    read_state,
    running_gateway,
    running_gateways,
    write_state,
)


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home")


def test_claimed_home_names_its_process(home):
    assert running_gateway(home.root) is None
    with claim_home(home, now=5.0, version="1") as me:
        assert running_gateway(home.root) == me
        assert (me.pid, me.started_at, me.home) == (os.getpid(), 5.0, str(home.root))
        assert (home.root / "gateway.pid").stat().st_mode & 0o777 == 0o600
    assert running_gateway(home.root) is None
    assert not (home.root / "gateway.pid").exists()


def test_a_second_gateway_is_refused(home):
    with (
        claim_home(home, now=5.0),
        pytest.raises(AlreadyRunning, match=rf"running already \(process {os.getpid()}\)") as no,
        claim_home(home, now=6.0),
    ):
        pass
    assert "--replace" in no.value.hint
    with claim_home(home, now=7.0):
        pass


def test_a_second_try_leaves_the_first_its_file(home):
    with claim_home(home, now=5.0) as me:
        with pytest.raises(AlreadyRunning), claim_home(home, now=6.0):
            pass
        assert running_gateway(home.root) == me


def test_the_number_of_a_crashed_gateway_may_be_used_again(home):
    home.root.mkdir()
    left = GatewayProcess(os.getpid(), "an earlier boot:1", 5.0, str(home.root))
    (home.root / "gateway.pid").write_bytes(msgspec.json.encode(left))
    assert running_gateway(home.root) is None
    with claim_home(home, now=6.0) as me:
        assert running_gateway(home.root) == me


@pytest.mark.parametrize("text", ["", "12345", "{", '{"pid": "x"}', '{"pid": 0, "began": ""}'])
def test_invalid_pid_file_means_no_gateway(home, text):
    home.root.mkdir()
    (home.root / "gateway.pid").write_text(text)
    assert running_gateway(home.root) is None


def test_gateways_of_profiles_and_of_other_homes_are_found(tmp_path, user_home):
    default = Home(user_home / ".hermes")
    profile = Home(default.root / "profiles" / "work")
    elsewhere = Home(tmp_path / "elsewhere")
    assert running_gateways(default) == []
    with claim_home(elsewhere, now=1.0):
        assert [each.home for each in running_gateways(default)] == [str(elsewhere.root)]
    with claim_home(profile, now=2.0):
        assert [each.home for each in running_gateways(default)] == [str(profile.root)]


STATE = GatewayState(
    pid=7, state="running", started_at=1.0, updated_at=2.0,
    adapters=(AdapterState("telegram", "connected", last_in=1.5),),
)  # fmt: skip


def test_state_file_round_trip(tmp_path):
    assert read_state(tmp_path) is None
    write_state(tmp_path, STATE)
    assert read_state(tmp_path) == STATE
    assert (tmp_path / "gateway_state.json").stat().st_mode & 0o777 == 0o600


def test_damaged_state_file_is_ignored(tmp_path):
    (tmp_path / "gateway_state.json").write_text("{")
    assert read_state(tmp_path) is None


def test_missing_home_is_reported(tmp_path):
    with pytest.raises(ConfigError, match="cannot use"):
        write_state(tmp_path / "gone", STATE)

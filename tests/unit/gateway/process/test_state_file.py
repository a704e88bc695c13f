"""What the gateway says of itself."""

from pathlib import Path

import pytest

from hermes.core.errors import ConfigError
from hermes.gateway.process import AdapterState, GatewayState, read_state, write_state

STATE = GatewayState(
    pid=7, state="running", started_at=1.0, updated_at=2.0,
    adapters=(AdapterState("telegram", "connected", last_in=1.5),),
)  # fmt: skip


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    write_state(tmp_path, STATE)
    assert read_state(tmp_path) == STATE
    assert (tmp_path / "gateway_state.json").stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "gateway_state.json").write_text("{")
    assert read_state(tmp_path) is None


def test_a_home_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot use"):
        write_state(tmp_path / "gone", STATE)

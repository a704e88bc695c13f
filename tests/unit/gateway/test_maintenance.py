"""When the conversation of a chat is over by itself."""

from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from hermes.config.settings import SessionResetSettings
from hermes.core.errors import ConfigError
from hermes.gateway.maintenance import ResetPolicy

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 3, 28, 12, 0, tzinfo=BERLIN)


def resets(tmp_path: Path, own: str = "", **usual: object) -> ResetPolicy:
    if own:
        (tmp_path / "gateway.json").write_text(own)
    return ResetPolicy.read(SessionResetSettings(**usual), tmp_path, BERLIN)


@pytest.mark.parametrize(
    ("mode", "silent", "over"),
    [
        ("both", timedelta(minutes=5), False), ("both", timedelta(hours=9), True),
        ("idle", timedelta(hours=9), False), ("idle", timedelta(hours=24), True),
        ("daily", timedelta(hours=7), False), ("daily", timedelta(hours=9), True),
        ("none", timedelta(days=900), False),
    ],
)  # fmt: skip
def test_a_conversation_ends_as_its_mode_says(tmp_path, mode, silent, over):
    assert bool(resets(tmp_path, mode=mode).reset_reason("telegram", NOON - silent, NOON)) is over


def test_the_hour_is_that_of_the_user(tmp_path):
    """At 02:30 in UTC it is past four in Berlin, but only in summer."""
    winter = datetime(2026, 1, 10, 2, 30, tzinfo=ZoneInfo("UTC"))
    summer = datetime(2026, 7, 10, 2, 30, tzinfo=ZoneInfo("UTC"))
    policy = resets(tmp_path, mode="daily")
    assert policy.reset_reason("x", winter - timedelta(hours=1), winter) == ""
    assert policy.reset_reason("x", summer - timedelta(hours=1), summer) == "it is past 04:00"


def test_the_hour_comes_once_on_days_with_another_length(tmp_path):
    policy = resets(tmp_path, mode="daily", at_hour=2)
    before = datetime(2026, 3, 29, 1, 59, tzinfo=BERLIN)  # 02:00 does not exist on this day
    after = datetime(2026, 3, 29, 3, 1, tzinfo=BERLIN)
    assert policy.reset_reason("x", before, after)
    assert not policy.reset_reason("x", after, after + timedelta(hours=5))


def test_a_platform_may_have_its_own_rule(tmp_path):
    own = '{"reset_by_platform": {"slack": {"mode": "idle", "idle_minutes": 30}}}'
    policy = resets(tmp_path, own)
    assert policy.reset_reason("slack", NOON - timedelta(minutes=31), NOON)
    assert not policy.reset_reason("telegram", NOON - timedelta(minutes=31), NOON)


def test_invalid_file_is_reported(tmp_path):
    with pytest.raises(ConfigError, match=r"gateway\.json cannot be read"):
        resets(tmp_path, '{"reset_by_platform": {"slack": {"mode": "often"}}}')

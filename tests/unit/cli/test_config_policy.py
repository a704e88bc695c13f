"""The confirmed policy and rejected files at the command line. A terminal counts as a person."""

import json
from pathlib import Path

import pytest

from hermes.config import policy
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.config.own_files import OwnFiles
from hermes.plugins import HookApprovals


@pytest.fixture
def confirmed(hermes_home: Path) -> Home:
    home = Home(hermes_home)
    policy.store(home.root, load(home).policy, [])
    return home


def test_config_set_warns_about_a_secret_too_short_to_be_redacted(hermes):
    hermes("config", "set", "WEBHOOK_SECRET", "a").expect(err="fewer than 6 characters")
    hermes("config", "set", "model.api_key", "a").expect(err="fewer than 6 characters")
    assert "fewer" not in hermes("config", "set", "WEBHOOK_SECRET", "long enough").err


def test_config_set_at_a_terminal_confirms_what_it_sets_and_nothing_else(hermes, confirmed):
    hermes("config", "set", "command_allowlist", "[sudo]")
    assert load(confirmed).settings.command_allowlist == ()
    assert hermes("config", "set", "approvals.mode", "off", typed="").code == 0
    assert load(confirmed).settings.approvals.mode == "off"
    assert list(load(confirmed).unconfirmed) == ["command_allowlist"]
    hermes("config", "set", "approvals.effects.planted", "allow")
    hermes("config", "set", "approvals.effects.mine", "allow", typed="")
    assert load(confirmed).settings.approvals.effects == {"mine": "allow"}
    hermes("config", "set", "HERMES_ACCEPT_HOOKS", "true").expect(err="not in effect: hooks_auto")
    hermes("config", "set", "HERMES_ACCEPT_HOOKS", "true", typed="")
    assert load(confirmed).settings.hooks_auto_accept


def test_confirm_shows_the_differences_and_asks(hermes, confirmed):
    hermes("approvals", "confirm").expect(out="nothing to confirm")
    hermes("config", "set", "approvals.mode", "off").expect(err="not in effect: approvals.mode")
    hermes("config", "explain", "approvals.mode").expect(out='instead of "off" from')
    hermes("approvals", "confirm").expect(2, err="not a terminal")
    hermes("approvals", "confirm", typed="n\n").expect(1, out="the confirmed policy stays")
    assert load(confirmed).settings.approvals.mode == "manual"
    done = hermes("approvals", "confirm", typed="y\n")
    assert 'approvals.mode: "off" instead of "manual"' in done.out
    assert load(confirmed).settings.approvals.mode == "off"


def test_an_approved_hook_from_elsewhere_is_confirmed_with_the_rest(hermes, confirmed):
    approvals = HookApprovals(confirmed.root)
    planted = {"allowed": [{"event": "on_session_start", "command": "date\x1b[2K"}]}
    (confirmed.root / "shell-hooks-allowlist.json").write_text(json.dumps(planted))
    assert approvals.find("on_session_start", "date\x1b[2K") is None
    done = hermes("approvals", "confirm", typed="y\n")
    assert "shell hook at on_session_start: date" in done.out
    assert "\x1b" not in done.out
    assert approvals.find("on_session_start", "date\x1b[2K") is not None


def test_a_rejected_version_is_taken_over_after_a_look(hermes, confirmed):
    guard = OwnFiles(confirmed.root)
    guard.begin_call()
    confirmed.config_file.write_text("approvals:\n  mode: 'off'\n")
    assert guard.check()
    (kept,) = (confirmed.root / "rejected").glob("*/config.yaml")
    hermes("config", "accept", str(kept)).expect(2, err="not a terminal")
    hermes("config", "accept", "/etc/passwd", typed="y\n").expect(2, err="not a rejected version")
    assert "+  mode: 'off'" in hermes("config", "accept", str(kept), typed="y\ny\n").out
    assert guard.check() == []
    assert load(confirmed).settings.approvals.mode == "off"


def test_the_content_of_a_rejected_key_file_is_not_shown(hermes, confirmed):
    guard = OwnFiles(confirmed.root)
    guard.begin_call()
    confirmed.env_file.write_text("MY_KEY=secret-value\n")
    guard.check()
    (kept,) = (confirmed.root / "rejected").glob("*/.env")
    assert "secret-value" not in hermes("config", "accept", str(kept), typed="y\n").out
    assert load(confirmed).variable("MY_KEY") == "secret-value"
    assert guard.check() == []

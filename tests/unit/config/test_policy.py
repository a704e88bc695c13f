"""Which policy holds: the confirmed one, unless the settings are stricter."""

import json
from pathlib import Path

import pytest

from hermes.config import policy
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.config.own_files import POLICY

STRICTER_FIRST = [
    ("approvals: {mode: deny}", "approvals: {mode: manual}"),
    ("approvals: {mode: manual}", "approvals: {mode: smart}"),
    ("approvals: {mode: smart}", "approvals: {mode: 'off'}"),
    ("approvals: {mode: deny}", ""),
    ("", "approvals: {headless: allow}"),
    ("", "approvals: {effects: {write: allow}}"),
    ("approvals: {effects: {read: ask}}", ""),
    ("approvals: {effects: {send: deny}}", "approvals: {effects: {send: ask}}"),
    ("", "command_allowlist: [sudo]"),
    ("command_allowlist: [a]", "command_allowlist: [a, b]"),
    ("", "hooks_auto_accept: true"),
    ("", "security: {boundary: none}"),
    ("", "security: {boundary_writable: [config.yaml]}"),
    ("terminal: {backend: docker}", "terminal: {backend: local}"),
    ("terminal: {backend: sandbox}", "terminal: {backend: ssh}"),
]


@pytest.fixture
def home(hermes_home: Path) -> Home:
    hermes_home.mkdir()
    return Home(hermes_home)


def start(home: Home, text: str) -> dict[str, object]:
    """Write the settings and start an agent; return what is not in effect."""
    home.config_file.write_text(text)
    loaded = load(home)
    policy.store(home.root, loaded.policy, [])
    return dict(loaded.unconfirmed)


@pytest.mark.parametrize(("strict", "weak"), STRICTER_FIRST)
def test_a_weaker_value_has_no_effect_until_it_is_confirmed(home: Home, strict: str, weak: str):
    start(home, strict)
    before = load(home).policy
    waiting = start(home, weak)
    assert waiting
    assert load(home).policy == before
    policy.confirm(home.root, waiting)
    assert load(home).unconfirmed == {}
    assert load(home).policy != before


@pytest.mark.parametrize(("strict", "weak"), STRICTER_FIRST)
def test_a_stricter_value_holds_at_once_and_from_then_on(home: Home, strict: str, weak: str):
    start(home, weak)
    assert start(home, strict) == {}
    assert start(home, weak)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"approvals.mode": []}', '{"hooks": {}}'])
def test_a_damaged_record_means_the_defaults(home: Home, text: str):
    start(home, "")
    (home.root / POLICY).write_text(text)
    home.config_file.write_text("approvals: {mode: 'off'}\n")
    assert load(home).settings.approvals.mode == "manual"


def test_the_command_line_is_not_recorded(home: Home):
    policy.store(home.root, load(home, {"approvals.mode": "off"}).policy, [])
    assert json.loads((home.root / POLICY).read_text())["approvals.mode"] == "manual"


def test_a_start_without_the_users_settings_confirms_nothing(home: Home):
    start(home, "command_allowlist: [sudo]\n")
    assert load(home, user_config=False).policy == {}
    assert load(home).settings.command_allowlist == ("sudo",)


def test_the_origin_says_that_a_value_is_not_confirmed(home: Home):
    start(home, "")
    start(home, "approvals:\n  mode: 'off'\n  effects: {mine: allow}\n")
    origin = load(home).origin("approvals.mode")
    assert (origin.value, origin.kind, origin.overrode[0].value) == ("manual", "confirmed", "off")
    assert load(home).origin("approvals.effects.mine").value is None
    assert load(home).origin("approvals.timeout").kind == "default"

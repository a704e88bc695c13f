"""`hermes plugins` as a user sees it."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from hermes.config.environment import read_dotenv
from hermes.config.home import Home
from hermes.config.loader import load
from tests.cases import cases
from tests.unit.cli.terminal import Hermes
from tests.unit.plugins.stage import write_plugin

CASES = cases(__file__)

BOOBY_TRAP = "raise SystemExit('this code was run')\n"
MANIFEST = CASES["manifest"]


@pytest.fixture
def hermes(hermes_home: Path) -> Hermes:
    return Hermes("plugins", hermes_home)


@pytest.fixture
def weather(tmp_path: Path) -> Path:
    return write_plugin(tmp_path, "weather", BOOBY_TRAP, MANIFEST)


@pytest.fixture
def settings(hermes_home: Path) -> Callable[[], Any]:
    return lambda: load(Home(hermes_home)).settings


def test_a_folder_is_installed_shown_and_not_enabled(hermes, weather, settings):
    outcome = hermes("install", str(weather))
    assert outcome.out.splitlines() == CASES["folder is installed shown and not"]
    assert settings().plugins.enabled == ()
    listed = hermes("list").out
    assert "· disk-cleanup 1.0.0  (not enabled, bundled)" in listed
    assert "· weather 1.2.0       (not enabled, user)  Tells the weather." in listed


@pytest.mark.parametrize(("words", "typed", "enabled"), CASES["install enables the plugin on"])
def test_install_enables_the_plugin_on_request_or_by_option(
    hermes, weather, settings, words, typed, enabled
):
    assert hermes("install", str(weather), *words, typed=typed).code == 0
    assert settings().plugins.enabled == (("weather",) if enabled else ())


def test_enable_and_disable_change_both_lists_and_keep_comments(
    hermes, weather, hermes_home, settings
):
    hermes("install", str(weather))
    (hermes_home / "config.yaml").write_text(
        "# mine\nplugins:\n  disabled: [weather, other]  # not these\n"
    )
    assert hermes("enable", "weather").out == (
        "weather is enabled; it is loaded when Hermes starts\n"
    )
    now = settings().plugins
    assert (now.enabled, now.disabled) == (("weather",), ("other",))
    hermes("disable", "weather")
    now = settings().plugins
    assert (now.enabled, now.disabled) == ((), ("other", "weather"))
    assert "# mine" in (hermes_home / "config.yaml").read_text()


def test_a_plugin_that_is_gone_can_still_be_disabled(hermes, hermes_home, settings):
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text("plugins: {enabled: [ghost]}\n")
    assert hermes("disable", "ghost").code == 0
    assert settings().plugins.enabled == ()


def test_unknown_name_is_refused_with_the_known_ones(hermes: Hermes) -> None:
    outcome = hermes("enable", "wether")
    assert (outcome.code, outcome.out) == (2, "")
    assert "there is no plugin 'wether'\n  plugins here: disk-cleanup;" in outcome.err


def test_a_broken_plugin_is_not_enabled(hermes: Hermes, hermes_home: Path) -> None:
    place = write_plugin(hermes_home / "plugins", "broken")
    (place / "__init__.py").unlink()
    assert "__init__.py is missing" in hermes("enable", "broken").err
    assert "__init__.py is missing" in hermes("list").out


def test_the_list_as_json(hermes: Hermes, hermes_home: Path) -> None:
    write_plugin(hermes_home / "plugins" / "memory", "elephant")
    rows = {row["name"]: row for row in json.loads(hermes("ls", "--json").out)}
    assert rows["elephant"]["kind"] == "memory provider"
    assert rows["disk-cleanup"]["state"] == "not enabled"
    assert rows["compressor"]["state"] == "enabled"
    assert rows["holographic"]["origin"] == "built in"


def test_update_and_remove(hermes: Hermes, weather: Path, hermes_home: Path) -> None:
    hermes("install", str(weather), "--enable")
    assert hermes("update").out == "weather: up to date\n"
    (weather / "plugin.yaml").write_text(MANIFEST.replace("1.2.0", "1.3.0"))
    assert hermes("update", "weather").out == "weather: 1.2.0 → 1.3.0\n"
    assert "needs --yes" in hermes("remove", "weather").err
    assert hermes("rm", "weather", typed="n\n").code == 1
    assert hermes("uninstall", "weather", "--yes").out == "removed weather\n"
    assert not (hermes_home / "plugins" / "weather").exists()
    assert load(Home(hermes_home)).settings.plugins.enabled == ()


def test_a_removed_plugin_is_forgotten_under_both_its_names(hermes, hermes_home, settings):
    """Its folder may be called otherwise than itself, and the settings know it by either."""
    write_plugin(hermes_home / "plugins", "folder", manifest="name: weather\n")
    (hermes_home / "config.yaml").write_text("plugins:\n  enabled: [folder, weather, other]\n")
    assert hermes("remove", "weather", "--yes").code == 0
    assert settings().plugins.enabled == ("other",)


def test_bundled_plugin_cannot_be_removed(hermes: Hermes) -> None:
    for name in ("disk-cleanup", "holographic"):
        assert "hermes plugins disable" in hermes("remove", name, "--yes").err


def test_failing_update_does_not_stop_others(hermes: Hermes, tmp_path: Path) -> None:
    sources = [write_plugin(tmp_path / "sources", name) for name in ("one", "two")]
    for source in sources:
        hermes("install", str(source))
    (sources[0] / "plugin.yaml").unlink()
    outcome = hermes("update")
    assert (outcome.code, outcome.out) == (1, "two: up to date\n")
    assert "one: " in outcome.err


def test_a_password_in_an_address_is_not_shown(hermes: Hermes) -> None:
    outcome = hermes("install", "https://me:hunter2@127.0.0.1:1/x.git")
    assert outcome.code != 0
    assert "hunter2" not in outcome.out + outcome.err


def test_without_a_terminal_the_help_is_shown(hermes: Hermes) -> None:
    assert "install" in hermes().out


def test_the_menu_switches_plugins_and_chooses_providers(hermes, weather, settings, hermes_home):
    hermes("install", str(weather))
    write_plugin(hermes_home / "plugins" / "memory", "elephant")
    rows = [row["name"] for row in json.loads(hermes("list", "--json").out)]
    number = {name: str(rows.index(name) + 1) for name in rows}
    typed = [number["weather"], number["elephant"], number["lcm"], "99", "x", ""]
    hermes(typed="\n".join(typed) + "\n").expect(
        out=[
            "weather is enabled",
            "memory provider: elephant",
            "context engine: lcm",
            "'99' is not in the list",
        ]
    )
    now = settings()
    assert now.plugins.enabled == ("weather",)
    assert (now.memory.provider, now.context.engine) == ("elephant", "lcm")
    again = [number["weather"], number["elephant"], number["lcm"], ""]
    outcome = hermes(typed="\n".join(again) + "\n")
    assert "memory provider: none" in outcome.out and "context engine: compressor" in outcome.out
    now = settings()
    assert now.plugins.disabled == ("weather",)
    assert (now.memory.provider, now.context.engine) == ("", "compressor")


def test_a_provider_can_be_enabled_by_name(hermes: Hermes, settings: Callable[[], Any]) -> None:
    assert hermes("enable", "lcm").out == "context engine: lcm\n"
    assert hermes("disable", "lcm").out == "context engine: compressor\n"
    assert settings().context.engine == "compressor"


BOTH = CASES["both"]


@pytest.mark.parametrize(("settings", "shown"), CASES["contents of a plugin are listed with it"])
def test_contents_of_a_plugin_are_listed_with_it(hermes, hermes_home, settings, shown):
    write_plugin(hermes_home / "plugins", "both", BOTH)
    (hermes_home / "config.yaml").write_text(settings)
    lines = hermes("list").out.splitlines()
    assert [line for line in lines if line in shown] == shown
    assert json.loads(hermes("list", "--json").out)


def test_choosing_a_provider_allows_it_again(hermes, hermes_home, settings):
    write_plugin(hermes_home / "plugins" / "memory", "elephant")
    (hermes_home / "config.yaml").write_text("plugins:\n  disabled: [elephant, other]\n")
    assert hermes("enable", "elephant").out == "memory provider: elephant\n"
    assert settings().plugins.disabled == ("other",)


def test_a_folder_whose_name_cannot_be_one_is_listed_with_that(hermes, hermes_home):
    write_plugin(hermes_home / "plugins", "my plugin", BOOBY_TRAP, manifest="name: mine\n")
    write_plugin(hermes_home / "plugins", ".hidden", BOOBY_TRAP)
    listed = hermes("list").out
    assert "· my plugin           (not enabled, user, invalid folder name" in listed
    assert "hidden" not in listed
    assert "cannot be loaded" in hermes("enable", "my plugin").err


def test_missing_variable_is_reported_without_a_terminal(hermes: Hermes, tmp_path: Path) -> None:
    source = write_plugin(tmp_path, "keyed", manifest="name: keyed\nrequires_env: [MY_API_KEY]\n")
    outcome = hermes("install", str(source), "--enable")
    assert "keyed needs MY_API_KEY: `hermes config set MY_API_KEY …`" in outcome.err


PROGRAM = CASES["program"]


def test_variables_are_asked_for_on_a_terminal_and_secrets_not_shown(tmp_path, hermes_home):
    source = write_plugin(
        tmp_path,
        "keyed",
        manifest="""
name: keyed
requires_env:
  - {name: MY_API_KEY, description: The key of the service, url: "https://example.org/keys"}
  - {name: MY_REGION, secret: false}
  - {name: MY_OTHER, secret: false}
""",
    )
    root = Path(__file__).parents[3]
    child = pexpect.spawn(
        sys.executable,
        ["-c", PROGRAM, "install", str(source)],
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        encoding="utf-8",
        timeout=60,
    )
    child.expect("Enable keyed\\?")
    child.sendline("y")
    child.expect("The key of the service\r\n  https://example.org/keys")
    child.expect("MY_API_KEY \\(it is not shown")
    child.sendline("abc-123-secret")
    child.expect("MY_REGION")
    child.sendline("north")
    child.expect("MY_OTHER")
    child.sendline("")
    child.expect("keyed is enabled")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "abc-123-secret" not in (child.before or "")
    saved = read_dotenv(hermes_home / ".env", {})
    assert saved == {"MY_API_KEY": "abc-123-secret", "MY_REGION": "north"}

"""`hermes fallback`."""

from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import Run

OWN = ("--base-url", "http://127.0.0.1:9/v1")


def saved(hermes_home: Path) -> dict:
    return yaml.safe_load((hermes_home / "config.yaml").read_text()) or {}


def test_a_chain_is_built_shown_and_taken_down(hermes: Run, hermes_home: Path) -> None:
    assert "no fallbacks" in hermes("fallback").out
    assert hermes("fallback", "add", "custom:one", *OWN).code == 0
    assert hermes("fallback", "add", "local:0.5b").code == 0
    assert "is already a fallback" in hermes("fallback", "add", "custom:one", *OWN).out
    assert saved(hermes_home)["fallback_providers"] == [
        {"provider": "custom", "model": "one", "base_url": "http://127.0.0.1:9/v1"},
        {"provider": "local", "model": "0.5b"},
    ]
    listed = hermes("fallback", "list", "--json").document
    assert [(one["provider"], one["problem"]) for one in listed] == [("custom", ""), ("local", "")]
    assert hermes("fallback").out.startswith("  1  one on custom\n  2  ")
    assert "removed one on custom" in hermes("fallback", "remove", "1").out
    assert hermes("fallback", "remove", "local:0.5b").code == 0
    assert saved(hermes_home) == {}


def test_unusable_fallback_is_not_saved(hermes: Run, hermes_home: Path) -> None:
    hermes("fallback", "add", "groq:some-model").expect(4, err="no key for Groq")
    assert hermes("fallback", "add", "no-provider").code == 2
    assert not (hermes_home / "config.yaml").exists()


def test_the_older_setting_becomes_a_part_of_the_chain(hermes: Run, hermes_home: Path) -> None:
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text(
        "# mine\nfallback_model:\n  provider: custom\n  model: old\n  base_url: http://127.0.0.1:9/v1\n"
        "  api_key: ${SOME_KEY}\n"
    )
    assert hermes("fallback", "add", "local:0.5b").code == 0
    text = (hermes_home / "config.yaml").read_text()
    assert text.startswith("# mine\n")
    assert "${SOME_KEY}" in text
    assert "fallback_model" not in saved(hermes_home)
    assert [one["model"] for one in saved(hermes_home)["fallback_providers"]] == ["old", "0.5b"]


@pytest.mark.parametrize("setting", ["fallback_providers", "fallback_model"])
def test_clearing_asks_and_takes_both_settings(hermes, hermes_home, setting):
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text(f"{setting}:\n- provider: local\n  model: 0.5b\n")
    assert "needs --yes" in hermes("fallback", "clear").err
    assert hermes("fallback", "clear", typed="n\n").code == 1
    assert hermes("fallback", "clear", typed="y\n").code == 0
    assert saved(hermes_home) == {}
    assert "there were none" in hermes("fallback", "clear", "-y").out


def test_missing_fallback_is_reported(hermes: Run) -> None:
    hermes("fallback", "remove", "3").expect(2, err="no fallback '3'; it is empty")

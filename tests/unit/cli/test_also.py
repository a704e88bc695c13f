"""The last lines of `hermes --help`: what extensions add, without running any."""

from pathlib import Path

import pytest

from hermes.cli.main import plugin_commands_help
from hermes.plugins.discovery import cache_commands


@pytest.mark.parametrize(
    "settings",
    [
        None,
        "model: some/model\n",
        "# plugins:\n#   enabled: [alpha]\n",
        "memory:\n  memory_enabled: false\nplugins: {}\n",
        "memory: {provider: holographic}\n",
        "plugins: {enabled: [alpha], disabled: [alpha]}\n",
        "memory: {provider: mine}\nplugins: {disabled: [mine]}\n",
        "plugins: [",
        "plugins: 7\nmemory: [provider]\n",
        "plugins: {enabled: [7]}\nmemory: {provider: {}}\n",
    ],
)
def test_without_extensions_there_is_nothing_to_say(
    hermes_home: Path, settings: str | None
) -> None:
    (hermes_home / "plugins" / "mine").mkdir(parents=True)
    (hermes_home / "plugins" / "mine" / "cli.py").touch()
    if settings is not None:
        (hermes_home / "config.yaml").write_text(settings)
    assert plugin_commands_help(None) == ""


def test_an_unknown_profile_is_no_matter_here() -> None:
    assert plugin_commands_help("nowhere") == ""


def test_commands_are_named_with_who_brings_them(hermes_home: Path) -> None:
    hermes_home.mkdir(exist_ok=True)
    (hermes_home / "config.yaml").write_text(
        "memory: {provider: honcho}\nplugins: {enabled: [alpha, beta, new]}\n"
    )
    cache_commands(hermes_home / "cache", {"alpha": ["one", "chat"], "beta": [], "gone": ["two"]})
    assert plugin_commands_help(None) == (
        "\nalso: honcho (memory provider), one (plugin alpha)\n"
        "\nmay add commands, listed here once loaded: new\n"
    )


@pytest.mark.parametrize("data", [b"[1", b'{"alpha": ["\xff"]}'])
def test_a_damaged_cache_is_as_none(hermes_home: Path, data: bytes) -> None:
    (hermes_home / "cache").mkdir(parents=True)
    (hermes_home / "cache" / "plugin-commands.json").write_bytes(data)
    (hermes_home / "config.yaml").write_text("plugins: {enabled: [alpha]}\n")
    assert plugin_commands_help(None).endswith("once loaded: alpha\n")

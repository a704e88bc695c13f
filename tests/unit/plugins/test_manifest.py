"""plugin.yaml in the forms people write it, and what is said of a wrong one."""

from pathlib import Path

import pytest

from hermes.core.errors import ConfigError
from hermes.plugins.discovery import PluginManifest, RequiredVariable, read_manifest
from tests.cases import cases

CASES = cases(__file__)


def read(folder: Path, text: str) -> PluginManifest:
    place = folder / "weather"
    place.mkdir(exist_ok=True)
    (place / "plugin.yaml").write_text(text)
    return read_manifest(place)


def test_everything_documented_is_read(tmp_path: Path) -> None:
    manifest = read(tmp_path, CASES["complete"])
    assert manifest == PluginManifest(
        "weather",
        "1.1",  # an unquoted number, as YAML reads it
        "Tells the weather.",
        "Alice",
        ("forecast", "radar"),
        ("post_tool_call", "on_session_end"),
        (
            RequiredVariable("WEATHER_API_KEY", secret=True),
            RequiredVariable(
                "WEATHER_REGION", "Where you live", "https://example.org/regions", False
            ),
            RequiredVariable("WEATHER_PIN", secret=True),
        ),
    )


@pytest.mark.parametrize(
    "text",
    ["", "name:\n", "provides_tools: forecast\n", "requires_env:\n", "version: 2026-01-01\n"],
)
def test_missing_field_has_a_default(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).name == "weather"


def test_a_single_value_stands_for_a_list(tmp_path: Path) -> None:
    manifest = read(tmp_path, "provides_tools: forecast\nrequires_env: TOKEN\n")
    assert manifest.provides_tools == ("forecast",)
    assert manifest.requires_env == (RequiredVariable("TOKEN", secret=True),)


def test_tools_may_be_blocks_with_a_name(tmp_path: Path) -> None:
    assert read(tmp_path, "provides_tools: [{name: radar, of: rain}]\n").provides_tools == (
        "radar",
    )


@pytest.mark.parametrize(("text", "said"), CASES["wrong"])
def test_a_wrong_one_is_one_line_with_a_way_out(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert said in str(caught.value)
    assert "plugin.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_missing_manifest_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is missing"):
        read_manifest(tmp_path)


def test_the_other_ending_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "plugin.yml").write_text("name: other\n")
    assert read_manifest(tmp_path).name == "other"


def test_a_manifest_cannot_send_commands_to_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "plugin.yaml").write_text(
        'name: x\ndescription: "red \\e[31m\\u202e"\nprovides_tools: ["a\\e[2J"]\n'
    )
    manifest = read_manifest(tmp_path)
    assert (manifest.description, manifest.provides_tools) == ("red [31m", ("a[2J",))

"""The documented keys and defaults, and the reference made from them."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from hermes.config.loader import VARIABLES
from hermes.config.reference import entries, meaning
from hermes.config.schema import find, leaf_keys, locate, split_key, suggestion
from hermes.config.settings import Settings

ROOT = Path(__file__).parents[3]

DEFAULTS = Path(__file__).parent / "fixtures" / "defaults.yaml"


def leaves(data: object, path: str = "") -> dict[str, object]:
    if isinstance(data, dict) and data:
        return {
            key: value
            for name, held in data.items()
            for key, value in leaves(held, f"{path}.{name}" if path else name).items()
        }
    return {path: data}


@pytest.mark.parametrize(("key", "default"), leaves(yaml.safe_load(DEFAULTS.read_text())).items())
def test_a_documented_default_holds(key: str, default: object) -> None:
    value = find(Settings(), split_key(key))
    assert msgspec.json.decode(msgspec.json.encode(value)) == default


def test_every_setting_says_what_it_means() -> None:
    silent = [entry.key for entry in entries() if not entry.meaning]
    assert silent == []
    assert len(list(entries())) > 350


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.name)
def test_every_variable_sets_a_key_that_exists(variable) -> None:
    assert variable.key in set(leaf_keys())


def test_no_variable_is_listed_twice() -> None:
    names = [variable.name for variable in VARIABLES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("terminal.timeout", "Longest run"),
        ("auxiliary.vision.model", "Model for this task"),
        ("mcp_servers.github.url", "Address"),
        ("custom_providers.0.name", "What you call it"),
        ("mcp_servers", "MCP servers"),
        ("skills.config.wiki.path", "Settings of skills"),
        ("nope", ""),
    ],
)
def test_the_meaning_of_a_key_is_found(key: str, words: str) -> None:
    assert meaning(split_key(key)).startswith(words)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("terminal.tiemout", "terminal.timeout"),
        ("max_concurrent_children", "delegation.max_concurrent_children"),
        ("displai", "display"),
        ("zzz", ""),
    ],
)
def test_a_typing_mistake_gets_a_suggestion(key: str, expected: str) -> None:
    assert suggestion(key) == expected


def test_a_name_with_dots_is_one_part_of_a_key() -> None:
    place = locate(split_key("providers.openai.models.gpt-4.1.timeout_seconds"))
    assert place is not None
    assert place.parts == ("providers", "openai", "models", "gpt-4.1", "timeout_seconds")
    assert locate(split_key("terminal.nope")) is None


def test_the_reference_is_up_to_date() -> None:
    script = ROOT / "scripts" / "settings_reference.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")

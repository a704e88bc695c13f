"""The documented keys and defaults, and the reference made from them."""

from pathlib import Path

import msgspec
import yaml

from hermes.config.loader import all_variables
from hermes.config.reference import entries, meaning
from hermes.config.schema import complete_settings, find, leaf_keys, locate, split_key, suggestion

DEFAULTS = Path(__file__).parent / "fixtures" / "defaults.yaml"


def leaves(data: object, path: str = "") -> dict[str, object]:
    if isinstance(data, dict) and data:
        return {
            key: value
            for name, held in data.items()
            for key, value in leaves(held, f"{path}.{name}" if path else name).items()
        }
    return {path: data}


def test_documented_defaults_hold() -> None:
    documented, settings = leaves(yaml.safe_load(DEFAULTS.read_text())), complete_settings()()
    values = {key: msgspec.json.encode(find(settings, split_key(key))) for key in documented}
    assert {key: msgspec.json.decode(value) for key, value in values.items()} == documented


def test_every_setting_says_what_it_means() -> None:
    silent = [entry.key for entry in entries() if not entry.meaning]
    assert silent == []
    assert len(list(entries())) > 350


def test_every_variable_is_listed_once_and_sets_a_key_that_exists() -> None:
    keys, names = set(leaf_keys()), [variable.name for variable in all_variables()]
    assert len(names) == len(set(names))
    assert [variable for variable in all_variables() if variable.key not in keys] == []


MEANINGS = {
    "terminal.timeout": "Longest run",
    "auxiliary.vision.model": "Model for this task",
    "mcp_servers.github.url": "Address",
    "custom_providers.0.name": "What you call it",
    "mcp_servers": "MCP servers",
    "skills.config.wiki.path": "Settings of skills",
}


def test_the_meaning_of_a_key_is_found() -> None:
    found = {key: meaning(split_key(key))[: len(words)] for key, words in MEANINGS.items()}
    assert (found, meaning(("nope",))) == (MEANINGS, "")


SUGGESTIONS = {
    "terminal.tiemout": "terminal.timeout",
    "max_concurrent_children": "delegation.max_concurrent_children",
    "displai": "display",
    "zzz": "",
}


def test_a_typing_mistake_gets_a_suggestion() -> None:
    assert {key: suggestion(key) for key in SUGGESTIONS} == SUGGESTIONS


def test_a_name_with_dots_is_one_part_of_a_key() -> None:
    place = locate(split_key("providers.openai.models.gpt-4.1.timeout_seconds"))
    assert place is not None
    assert place.parts == ("providers", "openai", "models", "gpt-4.1", "timeout_seconds")
    assert locate(split_key("terminal.nope")) is None

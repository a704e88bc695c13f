"""cli-config.yaml.example: complete, valid and made of defaults."""

import runpy
import sys
from pathlib import Path

import msgspec
import yaml

from hermes.config.home import Home
from hermes.config.loader import load
from hermes.config.schema import complete_settings

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "cli-config.yaml.example"


def settings_of_the_example() -> str:
    """The file as a user has it who copies all of it without the `# `."""
    lines = EXAMPLE.read_text("utf-8").splitlines()
    return "\n".join(line[2:] for line in lines if line.startswith("# "))


def test_example_loads_without_a_warning(hermes_home: Path) -> None:
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text(settings_of_the_example(), "utf-8")
    (hermes_home / ".env").write_text("BUILDS_SECRET=named-in-the-example\n")
    assert load(Home(hermes_home)).complete().warnings == ()


def test_file_as_it_is_changes_nothing(hermes_home: Path) -> None:
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_bytes(EXAMPLE.read_bytes())
    assert load(Home(hermes_home)).complete().settings == complete_settings()()


def test_example_has_every_key_with_its_default(monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    examples = runpy.run_path(str(ROOT / "scripts" / "example_config_reference.py"))["EXAMPLES"]
    defaults = msgspec.json.decode(msgspec.json.encode(complete_settings()()))
    for key, value in examples.items():
        *sections, name = key.split(".")
        holder = defaults
        for section in sections:
            holder = holder[section]
        assert holder[name] in ({}, []), f"{key} has a default that would be hidden"
        holder[name] = value
    assert yaml.safe_load(settings_of_the_example()) == defaults

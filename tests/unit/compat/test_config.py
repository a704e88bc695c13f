"""The functions of `agent.prompt_builder`."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from hermes.compat import runtime as config

Write = Callable[[str, str], Path]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


@pytest.fixture
def write(project: Path) -> Write:
    def write(name: str, text: str) -> Path:
        (project / name).write_text(text)
        return project / name

    return write


def test_the_constants_of_the_prompt_are_found_by_their_documented_names():
    builder = import_module("agent.prompt_builder")
    assert builder.CONTEXT_FILE_MAX_CHARS == 20_000
    assert set(builder.TOOL_USE_ENFORCEMENT_MODELS) == {"gpt", "codex", "gemini", "gemma", "grok"}


def test_load_soul_md_creates_and_reads_the_home(hermes_home: Path):
    assert config.load_soul_md() is None
    assert hermes_home.is_dir()
    (hermes_home / "SOUL.md").write_text(" You are Pan.\n")
    assert config.load_soul_md() == "You are Pan."


def test_soul_follows_project_files_unless_skipped(hermes_home: Path, project: Path, write: Write):
    hermes_home.mkdir()
    (hermes_home / "SOUL.md").write_text("You are Pan.")
    write("AGENTS.md", "Use tabs.")
    text = config.build_context_files_prompt(project)
    assert text.endswith("## AGENTS.md\n\nUse tabs.\n\nYou are Pan.")
    assert config.build_context_files_prompt(project / "none") == "You are Pan."
    text = config.build_context_files_prompt(cwd=str(project), skip_soul=True)
    assert text.endswith("## AGENTS.md\n\nUse tabs.")
    assert config.build_context_files_prompt(project / "none", skip_soul=True) == ""


def test_default_folder_is_the_working_folder(project, write, monkeypatch):
    write("AGENTS.md", "Use tabs.")
    monkeypatch.chdir(project)
    assert "Use tabs." in config.build_context_files_prompt()


def test_keys_in_project_files_are_redacted(project: Path, write: Write):
    key = "sk-ant-" + "api03-" + "a1B2" * 20
    write("AGENTS.md", f"Use the key {key}.")
    assert key not in config.build_context_files_prompt(project)


def test_environment_hints_are_text():
    assert isinstance(config.build_environment_hints(), str)


def _tuples(value: object, path: str = "") -> list[str]:
    if isinstance(value, dict):
        return [found for key in value for found in _tuples(value[key], f"{path}.{key}")]
    if isinstance(value, list):
        return [found for each in value for found in _tuples(each, f"{path}[]")]
    return [path] if isinstance(value, tuple) else []


def test_settings_are_plain_lists_and_dicts(hermes_home: Path) -> None:
    module = import_module("hermes_cli.config")
    assert _tuples(module.DEFAULT_CONFIG) == _tuples(module.load_config()) == []


def test_key_that_yaml_reads_as_a_number_is_not_doubled(hermes_home: Path) -> None:
    hermes_home.mkdir()
    text = "discord:\n  channel_prompts:\n    123: Be brief.\n"
    (hermes_home / "config.yaml").write_text(text)
    module = import_module("hermes_cli.config")
    assert module.load_config()["discord"]["channel_prompts"] == {"123": "Be brief."}
    module.save_config(module.load_config())
    assert (hermes_home / "config.yaml").read_text() == text


def test_optional_variables_describe_keys_and_tokens() -> None:
    known = import_module("hermes_cli.config").OPTIONAL_ENV_VARS
    assert known["OPENROUTER_API_KEY"]["password"] is True
    assert known["TELEGRAM_BOT_TOKEN"]["category"] == "messaging"
    assert known["HERMES_TIMEZONE"]["description"]
    assert all(isinstance(each["description"], str) for each in known.values())

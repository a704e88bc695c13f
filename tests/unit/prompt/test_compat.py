"""The names that scripts and plugins import."""

from pathlib import Path

import pytest

from hermes.compat import config
from tests.unit.prompt.conftest import Write

DOCUMENTED = [
    "load_soul_md",
    "build_context_files_prompt",
    "build_environment_hints",
    "PLATFORM_HINTS",
    "DEFAULT_AGENT_IDENTITY",
    "MEMORY_GUIDANCE",
    "SESSION_SEARCH_GUIDANCE",
    "SKILLS_GUIDANCE",
    "TOOL_USE_ENFORCEMENT_MODELS",
    "TOOL_USE_ENFORCEMENT_GUIDANCE",
    "OPENAI_MODEL_EXECUTION_GUIDANCE",
    "GOOGLE_MODEL_OPERATIONAL_GUIDANCE",
    "WSL_ENVIRONMENT_HINT",
    "DEVELOPER_ROLE_MODELS",
    "CONTEXT_FILE_MAX_CHARS",
]


def test_all_documented_names_are_exported():
    assert sorted(config.__all__) == sorted(DOCUMENTED)
    assert all(getattr(config, name) for name in DOCUMENTED)
    assert config.CONTEXT_FILE_MAX_CHARS == 20_000
    assert set(config.TOOL_USE_ENFORCEMENT_MODELS) == {"gpt", "codex", "gemini", "gemma", "grok"}


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
    assert text.endswith("## AGENTS.md\n\nUse tabs.\n\n## SOUL.md\n\nYou are Pan.")
    text = config.build_context_files_prompt(cwd=str(project), skip_soul=True)
    assert text.endswith("## AGENTS.md\n\nUse tabs.")
    assert config.build_context_files_prompt(project / "none", skip_soul=True) == ""


def test_default_folder_is_the_working_folder(
    project: Path, write: Write, monkeypatch: pytest.MonkeyPatch
):
    write("AGENTS.md", "Use tabs.")
    monkeypatch.chdir(project)
    assert "Use tabs." in config.build_context_files_prompt()


def test_keys_in_project_files_are_redacted(project: Path, write: Write):
    key = "sk-ant-" + "api03-" + "a1B2" * 20
    write("AGENTS.md", f"Use the key {key}.")
    assert key not in config.build_context_files_prompt(project)


def test_environment_hints_are_text():
    assert isinstance(config.build_environment_hints(), str)

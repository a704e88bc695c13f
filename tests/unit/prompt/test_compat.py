"""The names that scripts and plugins import."""

from pathlib import Path

import pytest

from hermes.prompt import compat
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
    assert sorted(compat.__all__) == sorted(DOCUMENTED)
    assert all(getattr(compat, name) for name in DOCUMENTED)
    assert compat.CONTEXT_FILE_MAX_CHARS == 20_000
    assert set(compat.TOOL_USE_ENFORCEMENT_MODELS) == {"gpt", "codex", "gemini", "gemma", "grok"}


def test_load_soul_md_creates_and_reads_the_home(hermes_home: Path):
    assert compat.load_soul_md() is None
    assert hermes_home.is_dir()
    (hermes_home / "SOUL.md").write_text(" You are Pan.\n")
    assert compat.load_soul_md() == "You are Pan."


def test_soul_follows_project_files_unless_skipped(hermes_home: Path, project: Path, write: Write):
    hermes_home.mkdir()
    (hermes_home / "SOUL.md").write_text("You are Pan.")
    write("AGENTS.md", "Use tabs.")
    text = compat.build_context_files_prompt(project)
    assert text.endswith("## AGENTS.md\n\nUse tabs.\n\n## SOUL.md\n\nYou are Pan.")
    text = compat.build_context_files_prompt(cwd=str(project), skip_soul=True)
    assert text.endswith("## AGENTS.md\n\nUse tabs.")
    assert compat.build_context_files_prompt(project / "none", skip_soul=True) == ""


def test_default_folder_is_the_working_folder(
    project: Path, write: Write, monkeypatch: pytest.MonkeyPatch
):
    write("AGENTS.md", "Use tabs.")
    monkeypatch.chdir(project)
    assert "Use tabs." in compat.build_context_files_prompt()


def test_keys_in_project_files_are_redacted(project: Path, write: Write):
    key = "sk-ant-" + "api03-" + "a1B2" * 20
    write("AGENTS.md", f"Use the key {key}.")
    assert key not in compat.build_context_files_prompt(project)


def test_environment_hints_are_text():
    assert isinstance(compat.build_environment_hints(), str)

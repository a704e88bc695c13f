"""Changing config.yaml and .env keeps everything else in them."""

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from hermes.config import edit
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import ConfigError, UsageError

Write = Callable[..., Home]

TEXT = (Path(__file__).parent / "fixtures" / "edited.yaml").read_text()


def test_comments_order_quotes_and_indentation_are_kept(write: Write) -> None:
    home = write(TEXT)
    edit.set_value(home, ("terminal", "timeout"), 300)
    assert home.config_file.read_text() == TEXT.replace("timeout: 60", "timeout: 300")
    edit.set_value(home, ("discord", "channel_prompts", "123"), "Be kind.")
    assert "        123: Be kind.\n" in home.config_file.read_text()
    edit.set_value(home, ("display", "skin"), "ares")
    assert home.config_file.read_text().endswith("display:\n    skin: ares\n")
    assert edit.unset_value(home, ("display", "skin"))
    assert "display" not in home.config_file.read_text()
    assert not edit.unset_value(home, ("display", "skin"))


@pytest.mark.parametrize("word", ["off", "yes", "12", "1e3", "null", "~", "2025-01-01", "a: b", ""])
def test_text_stays_text(write: Write, word: str) -> None:
    home = write("display: {compact: true}\n")
    edit.set_value(home, ("display", "skin"), word)
    assert load(home).settings.display.skin == word


def test_a_name_that_yaml_reads_as_something_else_stays_a_name(write: Write) -> None:
    home = write("timezone: UTC\n")
    edit.set_value(home, ("skills", "config", "on"), {"no": "yes"})
    assert load(home).settings.skills.config == {"on": {"no": "yes"}}


def test_other_words_that_yaml_reads_as_something_else_stay_as_they_were(write: Write) -> None:
    home = write(TEXT)
    edit.set_value(home, ("timezone",), "UTC")
    assert "mode: off}" in home.config_file.read_text()
    assert load(home).settings.approvals.mode == "off"


def test_both_yaml_libraries_agree_on_the_result(write: Write) -> None:
    home = write(TEXT)
    edit.set_value(home, ("fallback_providers",), [{"provider": "nous", "model": "on"}])
    text = home.config_file.read_text()
    strict = YAML(typ="safe")
    strict.version = (1, 1)
    assert strict.load(text) == yaml.load(text, Loader=yaml.CSafeLoader)
    assert load(home).settings.fallback_providers[0].model == "on"


SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(10**6), 10**6),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=30),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), inner, max_size=3),
    ),
    max_leaves=8,
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES)
def test_any_value_is_read_back_as_it_was_set(home: Home, value: object) -> None:
    home.config_file.write_text(TEXT)
    before = yaml.safe_load(TEXT)
    edit.set_value(home, ("skills", "config", "x"), value)
    after = yaml.safe_load(home.config_file.read_text())
    assert after == {**before, "skills": {"config": {"x": value}}}


def test_a_first_setting_makes_the_file_private(hermes_home: Path) -> None:
    home = Home(hermes_home)
    edit.set_value(home, ("timezone",), "UTC")
    assert home.config_file.read_text() == "timezone: UTC\n"
    assert stat.S_IMODE(home.config_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(hermes_home.stat().st_mode) == 0o700


def test_a_file_with_only_comments_keeps_them(write: Write) -> None:
    home = write("# mine\n\n# more")
    edit.set_value(home, ("timezone",), "UTC")
    assert home.config_file.read_text() == "# mine\n\n# more\ntimezone: UTC\n"


def test_a_symbolic_link_stays_and_the_file_is_private(write: Write, tmp_path: Path) -> None:
    home = write()
    real = tmp_path / "dotfiles.yaml"
    real.write_text("timezone: A\n")
    real.chmod(0o640)
    home.config_file.symlink_to(real)
    edit.set_value(home, ("timezone",), "UTC")
    assert home.config_file.is_symlink()
    assert real.read_text() == "timezone: UTC\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["a: [1\n", "- 1\n", "\ta: 1\n", "timezone: A\ntimezone: B\n"])
def test_a_broken_file_is_never_written_to(write: Write, text: str) -> None:
    home = write(text)
    with pytest.raises(ConfigError):
        edit.set_value(home, ("worktree",), True)
    assert home.config_file.read_text() == text
    assert not list(home.root.glob(".*.tmp"))


def test_a_plain_model_name_becomes_a_block(write: Write) -> None:
    home = write("model: gpt\n")
    edit.set_value(home, ("model", "provider"), "custom")
    model = load(home).settings.model
    assert (model.default, model.provider) == ("gpt", "custom")


def test_an_entry_of_a_list_can_be_changed_but_not_invented(write: Write) -> None:
    home = write("custom_providers:\n- name: a\n  base_url: u\n")
    edit.set_value(home, ("custom_providers", "0", "base_url"), "v")
    assert home.config_file.read_text() == "custom_providers:\n- name: a\n  base_url: v\n"
    with pytest.raises(UsageError, match=r"custom_providers\.1 does not exist"):
        edit.set_value(home, ("custom_providers", "1", "name"), "b")


def test_an_entry_is_added_to_a_list_once(write: Write) -> None:
    home = write("# mine\n")
    for item in ("off", "b", "off"):
        edit.add_value(home, ("command_allowlist",), item)
    assert load(home).settings.command_allowlist == ("off", "b")
    assert home.config_file.read_text().startswith("# mine\n")


def test_older_forms_are_rewritten_with_a_backup(write: Write, tmp_path: Path) -> None:
    text = (
        "# top\nmodel: gpt  # good\nmax_turns: 5 # few\npersonalities:\n  x: y\n"
        "compression:\n  summary_model: s\n  threshold: 0.4 # low\n"
        "fallback_model: {provider: p, model: m}\napprovals: {mode: yolo}\n"
    )
    home = write(text)
    before = load(home).settings
    backup = tmp_path / "backup"
    done = edit.migrate(home, backup)
    assert len(done) == 6
    assert backup.read_text() == text
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    loaded = load(home)
    assert loaded.settings == before
    assert loaded.moves == ()
    new = home.config_file.read_text()
    assert new.startswith("# top\n")
    assert "threshold: 0.4 # low" in new
    assert "summary_model" not in new
    assert edit.migrate(home, tmp_path / "second") == []
    assert not (tmp_path / "second").exists()


def test_a_secret_file_is_private_also_when_it_was_not(write: Write) -> None:
    home = write(env="# keys\nA=1\n")
    home.env_file.chmod(0o644)
    edit.set_variable(home, "OPENAI_API_KEY", "sk 1")
    assert home.env_file.read_text() == "# keys\nA=1\nOPENAI_API_KEY='sk 1'\n"
    assert stat.S_IMODE(home.env_file.stat().st_mode) == 0o600
    assert edit.unset_variable(home, "A")
    assert not edit.unset_variable(home, "A")
    assert home.env_file.read_text() == "# keys\nOPENAI_API_KEY='sk 1'\n"


def test_a_full_disk_leaves_the_old_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    home = write("timezone: A\n")
    edit.set_value(home, ("timezone",), "B")
    # Python would keep half a file of bytecode as if it were whole.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal = pytest.importorskip("signal")
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(ConfigError, match=r"config\.yaml: file too large"):
            edit.set_value(home, ("agent", "system_prompt"), "x" * 500)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert home.config_file.read_text() == "timezone: B\n"
    assert not list(home.root.glob(".*.tmp"))

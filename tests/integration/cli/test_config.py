"""`hermes config` as a user sees it."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.cli.context import Cli
from tests.cases import cases
from tests.unit.cli.terminal import Hermes, Outcome

CASES = cases(__file__)


@pytest.fixture
def hermes(hermes_home: Path) -> Hermes:
    return Hermes("config", hermes_home)


@pytest.fixture
def config(hermes_home: Path) -> Path:
    hermes_home.mkdir(mode=0o700)
    return hermes_home / "config.yaml"


def test_paths_are_printed_without_making_anything(hermes: Hermes, hermes_home: Path) -> None:
    assert hermes("path").out == f"{hermes_home}/config.yaml\n"
    assert hermes("env-path").out == f"{hermes_home}/.env\n"
    assert hermes("check").code == 0
    assert not hermes_home.exists()


def test_a_setting_goes_to_the_file_and_back(hermes: Hermes, hermes_home: Path) -> None:
    assert hermes("set", "terminal.timeout", "300").code == 0
    assert (hermes_home / "config.yaml").read_text() == "terminal:\n  timeout: 300\n"
    assert hermes("get", "terminal.timeout").out == "300\n"
    assert hermes("unset", "terminal.timeout").code == 0
    assert hermes("get", "terminal.timeout").out == "180\n"
    assert hermes("unset", "terminal.timeout").code == 1


@pytest.mark.parametrize(("key", "value", "written"), CASES["value is written as it is meant"])
def test_a_value_is_written_as_it_is_meant(hermes, hermes_home, key, value, written):
    outcome = hermes("set", key, value)
    assert (outcome.code, outcome.err) == (0, "")
    text = (hermes_home / "config.yaml").read_text()
    assert written is None or text == written
    assert hermes("check").code == 0, text
    assert '"kind": "config"' in hermes("explain", key, "--json").out


@pytest.mark.parametrize(("key", "value", "code", "message"), CASES["wrong value is refused and"])
def test_a_wrong_value_is_refused_and_nothing_is_written(
    hermes, hermes_home, key, value, code, message
):
    outcome = hermes("set", key, value).expect(code, err=message)
    assert "Traceback" not in outcome.err
    assert not (hermes_home / "config.yaml").exists()


def test_an_unknown_key_can_be_forced(hermes: Hermes) -> None:
    assert hermes("set", "my_plugin.colour", "red").code == 2
    assert hermes("set", "--force", "my_plugin.colour", "red").code == 0
    assert hermes("get", "my_plugin.colour").out == "red\n"


def test_a_backend_of_a_plugin_can_be_forced(hermes: Hermes, hermes_home: Path) -> None:
    refused = hermes("set", "terminal.backend", "box")
    assert "terminal.backend: expected one of local, sandbox" in refused.err
    assert 'found "box"' in refused.err
    assert hermes("set", "--force", "terminal.backend", "box").code == 0
    assert "backend: box" in (hermes_home / "config.yaml").read_text()


@pytest.mark.parametrize("name", ["OPENROUTER_API_KEY", "openrouter_api_key"])
def test_a_key_goes_to_the_env_file_which_is_private(hermes, hermes_home, name):
    outcome = hermes("set", name, "sk-or-0123456789abcdefgh")
    assert "saved in ~/.hermes/.env" in outcome.out
    file = hermes_home / ".env"
    assert file.read_text() == "OPENROUTER_API_KEY=sk-or-0123456789abcdefgh\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not (hermes_home / "config.yaml").exists()
    assert hermes("get", name).out == "sk-o…efgh\n"
    assert hermes("get", "--reveal", name).out == "sk-or-0123456789abcdefgh\n"
    assert hermes("unset", name).code == 0
    assert hermes("get", name).code == 2


def test_other_variables_go_to_the_env_file_too(hermes: Hermes, hermes_home: Path) -> None:
    assert hermes("set", "TERMINAL_ENV", "docker").err == ""
    assert (hermes_home / ".env").read_text() == "TERMINAL_ENV=docker\n"
    assert hermes("get", "terminal.backend").out == "docker\n"
    assert "does not use SOMETHING_ELSE" in hermes("set", "SOMETHING_ELSE", "1").err


def test_variable_overruled_by_the_file_is_reported(hermes: Hermes, config: Path) -> None:
    config.write_text("terminal: {backend: local}\n")
    assert "config.yaml sets terminal.backend" in hermes("set", "TERMINAL_ENV", "ssh").err


def test_show_masks_secrets(hermes: Hermes, config: Path) -> None:
    secret = "sk-0123456789abcdefghijkl"
    config.write_text(
        "model: {api_key: '${MY_API_KEY}', base_url: 'http://me:hush@h'}\n"
        "mcp_servers: {a: {env: {X: short}, headers: {Authorization: Bearer xyz}}}\n"
    )
    (config.parent / ".env").write_text(f"MY_API_KEY={secret}\nTERMINAL_TIMEOUT=5\n")
    for words in (("show",), ("show", "--json"), ("show", "--changed"), ("get", "model")):
        outcome = hermes(*words).expect()
        for hidden in (secret, "hush", "short", "Bearer xyz"):
            assert hidden not in outcome.out
    shown = json.loads(hermes("show", "--json").out)
    assert shown["settings"]["terminal"]["timeout"] == 5
    assert shown["variables"] == {"MY_API_KEY": "sk-0…ijkl", "TERMINAL_TIMEOUT": "5"}


def test_show_can_be_limited_to_what_differs(hermes: Hermes, config: Path) -> None:
    config.write_text("timezone: UTC\nterminal: {timeout: 5, cwd: .}\n")
    out = hermes("show", "--changed").out
    assert out.splitlines()[1:] == ["timezone: UTC", "terminal:", "  timeout: 5"]
    config.write_text("terminal: {timout: 5}\n")
    assert "did you mean terminal.timeout?" in hermes("show").err


def test_settings_of_skills_are_shown_and_missing_ones_named(hermes: Hermes, config: Path) -> None:
    folder = config.parent / "skills" / "wiki"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: wiki\ndescription: d\nmetadata: {hermes: {config: ["
        "{key: wiki.path, description: Folder of the wiki}, "
        "{key: wiki.style, description: Style, default: plain}]}}\n---\nx\n"
    )
    assert "skills.config.wiki.style: plain" in hermes("show").out
    assert "skills.config.wiki.path: (not set)" in hermes("show").out
    out = hermes("migrate").out
    assert "not set: skills.config.wiki.path (wiki: Folder of the wiki)\n" in out
    assert "not set: skills.config.wiki.style (wiki: Style; the default is plain)\n" in out
    hermes("set", "skills.config.wiki.path", "~/wiki")
    assert "skills.config.wiki.path" not in hermes("migrate").out
    changed = hermes("show", "--changed").out
    assert "wiki.path: ~/wiki" in changed and "wiki.style" not in changed
    config.write_text("skills: {disabled: [wiki]}\n")
    assert "wiki" not in hermes("migrate").out


def test_migrate_asks_for_settings_of_skills(hermes, config, monkeypatch):
    folder = config.parent / "skills" / "wiki"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: wiki\ndescription: d\nmetadata: {hermes: {config: ["
        "{key: wiki.path, description: Folder, default: ~/wiki, prompt: Where is your wiki?}, "
        "{key: wiki.size, description: Most pages, default: 50}, "
        "{key: wiki.tags, description: Tags}]}}\n---\nx\n"
    )
    asked: list[str] = []

    def ask(_: Cli, prompt: str) -> str:
        asked.extend([prompt] if prompt.startswith("wiki: ") else [])
        return "7" if "Most pages" in prompt else ""

    monkeypatch.setattr(Cli, "interactive", True)
    monkeypatch.setattr(Cli, "ask", ask)
    hermes("migrate")
    assert asked == [
        "wiki: Where is your wiki? [~/wiki] ",
        "wiki: Most pages [50] ",
        "wiki: Tags [Enter skips it] ",
    ]
    assert hermes("get", "skills.config.wiki").out == "path: ~/wiki\nsize: 7\n"
    hermes("migrate")
    assert asked[3:] == asked[2:3], "only what is not set is asked again"


def test_explain_says_where_a_value_comes_from(hermes, config, monkeypatch):
    config.write_text("# mine\nterminal:\n  timeout: 300\n")
    (config.parent / ".env").write_text("TERMINAL_TIMEOUT=60\n")
    assert hermes("explain", "terminal.timeout").out == (
        "terminal.timeout = 300\n"
        "  from       ~/.hermes/config.yaml line 3\n"
        '  instead of "60" from TERMINAL_TIMEOUT in ~/.hermes/.env\n'
        "  instead of 180 from the default\n"
        "  meaning    Longest run of one command.\n"
        "  takes      a number from 0\n"
    )
    explained = json.loads(hermes("explain", "terminal.timeout", "--json").out)
    assert (explained["kind"], explained["overrode"][0]["kind"]) == ("config", "dotenv")
    monkeypatch.setenv("HERMES_MODEL", "m")
    assert "from       HERMES_MODEL in the environment" in hermes("explain", "model.default").out
    assert "from       the default" in hermes("explain", "agent.max_turns").out


def test_explain_knows_blocks_variables_and_mistakes(hermes: Hermes, config: Path) -> None:
    (config.parent / ".env").write_text("TERMINAL_TIMEOUT=60\nMY_API_KEY=abcdefgh\n")
    out = hermes("explain", "terminal").out
    assert "terminal.timeout = 60  (TERMINAL_TIMEOUT in ~/.hermes/.env)\n" in out
    assert hermes("explain", "TERMINAL_TIMEOUT").out == (
        "TERMINAL_TIMEOUT = 60\n"
        "  from       ~/.hermes/.env\n"
        "  sets       terminal.timeout (where config.yaml does not)\n"
    )
    assert "abcdefgh" not in hermes("explain", "MY_API_KEY").out
    assert hermes("explain", "NOT_SET_KEY").out == "NOT_SET_KEY is not set\n"
    hermes("explain", "terminal.timout").expect(2, err="did you mean terminal.timeout?")


def test_check_lists_every_mistake_and_fails(hermes: Hermes, config: Path) -> None:
    config.write_text("terminal: {timeout: x, nope: 1}\n")
    env = config.parent / ".env"
    env.write_text("A_KEY=1\n")
    env.chmod(0o644)
    outcome = hermes("check").expect(1)
    assert outcome.out.count("\n") == 3
    assert outcome.out.startswith("error: ~/.hermes/config.yaml:1:12: terminal.timeout: expected")
    assert "chmod 600" in outcome.out
    found = json.loads(hermes("check", "--json").out)
    assert found["ok"] is False
    assert [problem["severity"] for problem in found["problems"]] == ["error", "warning", "warning"]


def test_check_names_variables_that_are_not_set(hermes: Hermes, config: Path) -> None:
    config.write_text("model:\n  api_key: ${NOBODY_HAS_THIS}\n  base_url: http://h\n")
    (config.parent / ".env").write_text("WEBHOOK_SECRET=${NOR_THIS}\n")
    (config.parent / ".env").chmod(0o600)
    outcome = hermes("check").expect(1)
    first, second = outcome.out.splitlines()
    assert first.endswith("model.api_key: ${NOBODY_HAS_THIS} is not set, so it counts as missing")
    assert second.endswith(".env: WEBHOOK_SECRET: ${NOR_THIS} is not set, so it counts as missing")


def test_check_reports_a_file_that_cannot_be_parsed(hermes: Hermes, config: Path) -> None:
    config.write_text("a: [\n")
    outcome = hermes("check").expect(1)
    assert outcome.out.startswith("error: ~/.hermes/config.yaml:2:1: did not find expected")
    assert hermes("check", "--json").code == 1


@pytest.mark.parametrize("words", [("show",), ("get", "timezone"), ("explain", "timezone")])
def test_a_broken_file_is_one_line_with_the_place(hermes: Hermes, config: Path, words) -> None:
    config.write_text("a: [\n")
    outcome = hermes(*words).expect(3)
    assert outcome.err.startswith("hermes: ~/.hermes/config.yaml:2:1: ")
    assert outcome.err.count("\n") == 2
    assert hermes("set", "timezone", "UTC").code == 3
    assert config.read_text() == "a: [\n"


def editor(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    file = folder / "my editor"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setenv("EDITOR", f"'{file}' --wait")


def test_edit_opens_the_users_editor(hermes, hermes_home, tmp_path, monkeypatch):
    editor(tmp_path, monkeypatch, 'test "$1" = --wait && echo "timezone: UTC" >> "$2"')
    outcome = hermes("edit")
    assert (outcome.code, outcome.out) == (0, "~/.hermes/config.yaml is fine\n")
    assert (hermes_home / "config.yaml").read_text().endswith("timezone: UTC\n")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("a: [", "cannot be used: ~/.hermes/config.yaml:2:1"), ("worktree: x", "expected true or")],
)
def test_edit_keeps_a_mistaken_text_and_says_what_is_wrong(
    hermes, config, tmp_path, monkeypatch, text, complaint
):
    editor(tmp_path, monkeypatch, f'echo "{text}" > "$2"')
    hermes("edit").expect(3, err=complaint)
    assert config.read_text() == f"{text}\n"


def test_edit_without_an_editor_says_what_to_do(hermes, hermes_home, monkeypatch):
    assert "there is no editor to use" in hermes("edit").err
    monkeypatch.setenv("EDITOR", "no-such-editor")
    assert "cannot find the editor 'no-such-editor'" in hermes("edit").err
    assert not hermes_home.exists()


def test_migrate_rewrites_older_forms(hermes: Hermes, config: Path) -> None:
    config.write_text("# mine\nmax_turns: 5\nmodel: m\n")
    hermes("migrate").expect(out="max_turns is now agent.max_turns")
    (backup,) = config.parent.glob("config.yaml.*.bak")
    assert backup.read_text() == "# mine\nmax_turns: 5\nmodel: m\n"
    assert hermes("get", "agent.max_turns").out == "5\n"
    assert hermes("get", "model.default").out == "m\n"
    assert "nothing to do" in hermes("migrate").out


def test_config_works_as_a_real_process(user_home: Path) -> None:
    def real(*words: str) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-c", "from hermes.cli.main import run; run()", *words],
            capture_output=True,
            text=True,
            env={"HOME": str(user_home), "PATH": "/usr/bin:/bin"},
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    assert real("profile", "create", "work").code == 0
    assert real("-p", "work", "config", "set", "timezone", "UTC").code == 0
    assert real("config", "get", "timezone").out == "\n"
    assert real("-p", "work", "config", "get", "timezone").out == "UTC\n"
    assert real("profile", "use", "work").code == 0
    assert real("config", "path").out == f"{user_home}/.hermes/profiles/work/config.yaml\n"
    assert real("-p", "nope", "config", "path").code == 2

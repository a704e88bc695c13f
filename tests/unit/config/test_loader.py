"""Which value wins, what is understood, and what is said about mistakes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.config.home import Home
from hermes.config.loader import Loaded, examine, load
from hermes.core.errors import ConfigError, UsageError
from tests.cases import cases

CASES = cases(__file__)

Write = Callable[..., Home]
FIXTURES = Path(__file__).parent / "fixtures"


def test_files_of_the_described_system_load_without_a_warning(write: Write) -> None:
    described = [(FIXTURES / f"described.{kind}").read_text() for kind in ("yaml", "env")]
    loaded = load(write(*described))
    assert loaded.warnings == ()
    expected = CASES["described"]
    complete = msgspec.json.decode(msgspec.json.encode(loaded.complete().settings))
    assert {key: find(complete, key.split("/")) for key in expected} == expected
    assert loaded.raw["weather"] == {"city": "Berlin"}


def test_the_command_line_beats_the_file_beats_variables_beat_the_default(write, monkeypatch):
    key = "terminal.timeout"
    home = write()
    assert load(home).origin(key).kind == "default"
    monkeypatch.setenv("TERMINAL_TIMEOUT", "1")
    assert (load(home).settings.terminal.timeout, load(home).origin(key).kind) == (1, "env")
    write(env="TERMINAL_TIMEOUT=2\n")
    assert (load(home).settings.terminal.timeout, load(home).origin(key).kind) == (2, "dotenv")
    write("# first\nterminal:\n  timeout: 3\n")
    assert (load(home).settings.terminal.timeout, load(home).origin(key).kind) == (3, "config")
    loaded = load(home, {key: 4})
    assert loaded.settings.terminal.timeout == 4
    origin = loaded.origin(key)
    assert (origin.kind, origin.where) == ("cli", "the command line")
    assert [(lower.value, lower.where) for lower in origin.overrode] == [
        (3, "~/.hermes/config.yaml line 3"),
        ("2", "TERMINAL_TIMEOUT in ~/.hermes/.env"),
        (180, "the default"),
    ]
    older = load(write("# one\nmax_turns: 5\n")).origin("agent.max_turns")
    assert older.where == "~/.hermes/config.yaml line 2 (max_turns)"


def test_null_means_that_the_file_does_not_say(write: Write) -> None:
    home = write("terminal:\n  timeout: null\n  cwd:\nagent: ~\n", "TERMINAL_TIMEOUT=7\n")
    loaded = load(home)
    assert loaded.settings.terminal.timeout == 7
    assert loaded.settings.terminal.cwd == "."
    assert loaded.settings.agent.max_turns == 90
    assert loaded.origin("terminal.timeout").kind == "dotenv"


def test_an_empty_variable_says_nothing(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-shell")
    home = write(env="OPENAI_API_KEY=\nTERMINAL_TIMEOUT=\n")
    loaded = load(home)
    assert loaded.secret("OPENAI_API_KEY") == "from-shell"
    assert loaded.settings.terminal.timeout == 180
    assert loaded.secret("NOPE_API_KEY") is None
    assert load(write(env="OPENAI_API_KEY=saved\n")).secret("OPENAI_API_KEY") == "saved"


def test_references_are_expanded_when_set_and_else_kept(write, monkeypatch) -> None:
    monkeypatch.setenv("HOST", "h")
    monkeypatch.setenv("BOTH", "shell")
    home = write(
        "model:\n  base_url: http://${HOST}:${PORT}/${BOTH}/$HOST\n"
        "custom_providers:\n  - {name: a, base_url: '${HOST}'}\n",
        "BOTH=saved\n",
    )
    settings = load(home).settings
    assert settings.model.base_url == "http://h:${PORT}/saved/$HOST"
    assert settings.custom_providers[0].base_url == "h"


def test_a_credential_with_something_unset_in_it_is_missing(write, monkeypatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "${NOBODY}")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-shell")
    home = write(
        "platforms:\n  webhook:\n    extra:\n      routes: {a: {secret: '${NOBODY}'}}\n"
        "timezone: UTC\nmodel: {base_url: 'http://${HOST_OF_MINE}'}\n"
        "mcp_servers: {a: {headers: {Authorization: 'Bearer ${NOBODY}'}}}\n",
        "API_SERVER_KEY=${NOBODY}\nOPENAI_API_KEY=${NOBODY}\nFOLDER=${NOBODY}\nA_KEY='${x}'\n",
    )
    loaded = load(home)
    expected = {
        "API_SERVER_KEY": (None, ("NOBODY",)),
        "SLACK_BOT_TOKEN": (None, ("NOBODY",)),
        "OPENAI_API_KEY": ("sk-of-the-shell", ()),
        "FOLDER": ("${NOBODY}", ()),
        "A_KEY": ("${x}", ()),
    }
    assert {name: (loaded.variable(name), loaded.unset(name)) for name in expected} == expected
    assert loaded.secret("OPENAI_API_KEY") == "sk-of-the-shell"
    reported = {problem.key: problem.message for problem in loaded.problems}
    missing, kept = "so it counts as missing", "so it stays as it is written"
    assert reported == {
        "platforms.webhook.extra.routes.a.secret": f"${{NOBODY}} is not set, {missing}",
        "model.base_url": f"${{HOST_OF_MINE}} is not set, {kept}",
        "API_SERVER_KEY": f"${{NOBODY}} is not set, {missing}",
        "OPENAI_API_KEY": f"${{NOBODY}} is not set, {missing}",
        "FOLDER": f"${{NOBODY}} is not set, {kept}",
    }
    assert loaded.problems[0].where.endswith("config.yaml:4:20")
    assert "${NOBODY}" not in loaded.secrets()  # it is reported, and would be blotted out
    home.env_file.write_text("NOBODY=somebody\nAPI_SERVER_KEY=${NOBODY}\n")
    assert "API_SERVER_KEY" in loaded.reread_variables()
    assert (loaded.variable("API_SERVER_KEY"), loaded.unset("API_SERVER_KEY")) == ("somebody", ())


@pytest.mark.parametrize(
    ("provider", "expected"),
    [("", "http://own"), ("custom", "http://own"), ("auto", "http://own"), ("openrouter", "")],
)
def test_the_openai_address_counts_only_for_a_custom_endpoint(write, provider, expected) -> None:
    config = f"model: {{provider: {provider}}}\n" if provider else ""
    assert load(write(config, "OPENAI_BASE_URL=http://own\n")).value("model.base_url") == expected
    named = f"HERMES_INFERENCE_PROVIDER={provider}\nOPENAI_BASE_URL=http://own\n"
    assert load(write("", named)).value("model.base_url") == expected


def find(value: Any, parts: list[str]) -> Any:
    for part in parts:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def value_of(loaded: Loaded, key: str) -> object:
    found = loaded.value(key)
    return list(found) if isinstance(found, tuple) else found


@pytest.mark.parametrize(("variables", "key", "value"), CASES["variables"])
def test_variables_set_what_they_are_documented_to_set(write, variables, key, value) -> None:
    assert value_of(load(write(env=f"{variables}\n")), key) == value


@pytest.mark.parametrize(("text", "key", "value"), CASES["older forms"])
def test_older_forms_are_understood(write: Write, text: str, key: str, value: object) -> None:
    loaded = load(write(text))
    assert (value_of(loaded, key), loaded.warnings) == (value, ())


@pytest.mark.parametrize(("text", "place", "message"), CASES["broken yaml"])
def test_broken_yaml_is_located_and_not_changed(write, text, place, message) -> None:
    home = write(text)
    with pytest.raises(ConfigError) as caught:
        load(home)
    assert str(caught.value).startswith(f"~/.hermes/config.yaml:{place}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert home.config_file.read_text() == text


STAIRS = "".join(" " * n + "a:\n" for n in range(300))
NESTED = ["a: " + "[" * 100_000, "- " * 100_000, "{" * 500, STAIRS]


@pytest.mark.parametrize("text", NESTED, ids=["lists", "items", "blocks", "stairs"])
def test_absurd_nesting_is_refused(write: Write, text: str) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        load(write(text))


def test_aliases_that_expand_without_end_are_refused(write: Write) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)
    )
    for text, problem in ((bomb, "aliases stand for more"), ("a: &a\n  b: *a\n", "itself")):
        with pytest.raises(ConfigError, match=problem):
            load(write(text))


def test_an_empty_file_means_defaults_and_a_byte_order_mark_does_not_matter(home: Home) -> None:
    for data in (b"", b"\n# only a comment\n", b"---\n", b"\xef\xbb\xbf"):
        home.config_file.write_bytes(data)
        assert load(home).settings.agent.max_turns == 90
    home.config_file.write_bytes("\ufefftimezone: UTC\n".encode())
    assert load(home).settings.timezone == "UTC"


def test_a_file_that_cannot_be_read_is_refused(home, open_folder, as_ordinary_user) -> None:
    home.config_file.write_bytes("timezone: é\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(home)
    home.config_file.unlink()
    home.config_file.mkdir()
    with pytest.raises(ConfigError, match="is a directory"):
        load(home)
    home = Home(open_folder)
    home.config_file.write_text("timezone: UTC\n")
    home.config_file.chmod(0o000)
    with as_ordinary_user(), pytest.raises(ConfigError, match="permission denied"):
        load(home)


@pytest.mark.parametrize(("text", "expected"), CASES["wrong values"])
def test_a_wrong_value_is_named_with_its_line(write: Write, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(text))
    assert expected in str(caught.value)


def test_a_wrong_variable_or_option_is_named(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"^the command line: agent\.max_turns: expected"):
        load(write(), {"agent.max_turns": "x"})
    variable = r"^TERMINAL_TIMEOUT in ~/\.hermes/\.env: terminal\.timeout: "
    with pytest.raises(ConfigError, match=variable):
        load(write(env="TERMINAL_TIMEOUT=soon\n"))


def test_all_mistakes_are_found_at_once(write: Write) -> None:
    home = write("terminal: {timeout: x, cwd: []}\nagent: {max_turns: y}\n")
    wrong = ["terminal.timeout", "terminal.cwd", "agent.max_turns"]
    assert [problem.key for problem in examine(home).problems] == wrong
    with pytest.raises(ConfigError) as caught:
        load(home)
    assert "2 more" in caught.value.hint


@pytest.mark.parametrize(("text", "key", "value"), CASES["lenient values"])
def test_lenient_values_are_converted(write: Write, text: str, key: str, value: object) -> None:
    found = value_of(load(write(f"{text}\n")), key)
    assert (found, type(found)) == (value, type(value))


def test_unknown_keys_are_kept_and_named_with_a_suggestion(write: Write) -> None:
    unknown = "unknown key, kept but not used"
    loaded = load(write("terminal:\n  timout: 5\nmodle: {default: x}\nfoo: {bar: 1}\n_note: x\n"))
    assert loaded.warnings == (
        f"~/.hermes/config.yaml:2:3: terminal.timout: {unknown}; did you mean terminal.timeout?",
        f"~/.hermes/config.yaml:3:1: modle: {unknown}; did you mean model?",
        f"~/.hermes/config.yaml:4:1: foo: {unknown}",
    )
    assert loaded.raw["foo"] == {"bar": 1}
    assert loaded.value("foo.bar") == 1


def test_a_key_given_twice_is_a_warning_and_the_last_counts(write: Write) -> None:
    loaded = load(write("timezone: A\nterminal: {cwd: a, cwd: b}\ntimezone: UTC\n"))
    assert loaded.settings.timezone == "UTC"
    assert loaded.warnings == (
        "~/.hermes/config.yaml:2:20: terminal.cwd: is set twice; the last one counts",
        "~/.hermes/config.yaml:3:1: timezone: is set twice; the last one counts",
    )


def test_merged_blocks_are_not_duplicates(write: Write) -> None:
    text = "_base: &b {timeout: 5, cwd: x}\nterminal:\n  <<: *b\n  timeout: 6\n"
    loaded = load(write(text))
    assert loaded.warnings == ()
    assert (loaded.settings.terminal.timeout, loaded.settings.terminal.cwd) == (6, "x")


def test_asking_for_an_unknown_key_suggests_one(home: Home) -> None:
    with pytest.raises(UsageError, match=r"no setting terminal\.timout") as caught:
        load(home).origin("terminal.timout")
    assert caught.value.hint == "did you mean terminal.timeout?"


def test_names_with_dots_are_found(write: Write) -> None:
    home = write("providers: {openai: {models: {gpt-4.1: {timeout_seconds: 5}}}}\n")
    loaded = load(home)
    for name in ("gpt-4.1", '"gpt-4.1"'):
        origin = loaded.origin(f"providers.openai.models.{name}.timeout_seconds")
        assert (origin.value, origin.kind) == (5, "config")


def test_config_yaml_can_be_left_aside(write: Write) -> None:
    home = write("broken: [\n", "TERMINAL_TIMEOUT=5\n")
    assert load(home, user_config=False).settings.terminal.timeout == 5


def test_every_secret_is_known_for_redaction(write: Write, monkeypatch) -> None:
    monkeypatch.setenv("SHELL_API_KEY", "shell-secret")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Known")
    home = write(
        "model: {api_key: config-secret}\n"
        "mcp_servers: {a: {env: {X: env-secret}, headers: {Authorization: header-secret}}}\n"
        "fallback_providers: [{provider: p, model: m, api_key: list-secret}]\n"
        "platforms: {slack: {token: slack-secret}}\nvoice: {record_key: ctrl+bbb}\n",
        "SAVED_TOKEN=saved-secret\nSHORT_TOKEN=abc\nTERMINAL_ENV=local\n",
    )
    places = ("shell", "config", "env", "header", "list", "slack", "saved")
    assert load(home).secrets() == {f"{place}-secret" for place in places}


def test_a_time_zone_that_does_not_exist_is_an_error(write: Write) -> None:
    for zone in ("Mars/Base", "clear; ls", "../../etc/passwd", "/etc/localtime"):
        with pytest.raises(ConfigError, match="timezone: expected the name of a time zone"):
            load(write(f"timezone: {zone}\n"))
    for zone in ("Europe/Berlin", "UTC", '""'):
        assert load(write(f"timezone: {zone}\n")).settings.timezone == zone.strip('"')


@pytest.mark.parametrize(
    ("text", "env", "key", "value"),
    [
        ("cron: {script_timeout_seconds: 5}", "HERMES_CRON_SCRIPT_TIMEOUT=9",
         "cron.script_timeout_seconds", 5),
        ("", "HERMES_CRON_SCRIPT_TIMEOUT=9", "cron.script_timeout_seconds", 9),
        ("approvals: {mode: ask}", "", "approvals.mode", "manual"),
        ("approvals: {mode: yolo}", "", "approvals.mode", "off"),
        ("approvals: {mode: off}", "", "approvals.mode", "off"),
        ("", "HERMES_YOLO_MODE=1", "approvals.mode", "off"),
        ("approvals: {mode: manual}", "HERMES_YOLO_MODE=1", "approvals.mode", "manual"),
        ("personalities: {x: y}", "", "agent.personalities", {"x": "y"}),
        ("max_turns: 5", "", "agent.max_turns", 5),
        ("", "", "thread_sessions_per_user", False),
        ("", "", "checkpoints.enabled", True),
        ("", "", "display.streaming", True),
        ("", "", "streaming.enabled", False),
        ("bedrock: {guardrail: {id: a}}", "", "bedrock.guardrail.guardrail_identifier", "a"),
        ("", "TERMINAL_DOCKER_VOLUMES=/a:/b,/c:/d", "terminal.docker_volumes", ("/a:/b", "/c:/d")),
        ("", 'TERMINAL_DOCKER_VOLUMES=["/a:/b"]', "terminal.docker_volumes", ("/a:/b",)),
        ("", "", "telegram.reactions", False),
        ("", "TELEGRAM_REACTIONS=true", "telegram.reactions", True),
    ],
)  # fmt: skip
def test_contradictions_are_resolved_as_decision_002_says(write, text, env, key, value) -> None:
    found: Any = load(write(f"{text}\n", f"{env}\n")).complete().settings
    for name in key.split("."):
        found = getattr(found, name)
    assert found == value

"""Which value wins, what is understood, and what is said about mistakes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.config.home import Home
from hermes.config.loader import examine, load
from hermes.core.errors import ConfigError, UsageError

Write = Callable[..., Home]
FIXTURES = Path(__file__).parent / "fixtures"


def test_files_of_the_described_system_load_without_a_warning(write: Write) -> None:
    home = write(
        (FIXTURES / "described.yaml").read_text(), (FIXTURES / "described.env").read_text()
    )
    loaded = load(home)
    assert loaded.warnings == ()
    settings: Any = loaded.complete().settings
    assert settings.model.api_key == "sk-or-v1-0123456789abcdef"
    assert settings.fallback_providers[0].model == "hermes-4"
    assert settings.auxiliary.compression.model == "google/gemini-3-flash"
    assert settings.agent.personalities["grumpy"] == "You are grumpy."
    assert settings.agent.tool_use_enforcement == ("gpt", "codex")
    assert settings.custom_providers[0].models["big-model-4.1"].context_length == 128000
    assert settings.terminal.backend == "docker"
    assert settings.terminal.timeout == 180
    assert settings.terminal.docker_volumes == ("/home/me/src:/src:ro",)
    assert settings.discord.ignored_channels == ("123456789012345678",)
    assert settings.discord.allowed_channels == ("1", "2")
    assert settings.discord.channel_prompts == {"123": "Be nice."}
    assert settings.display.tool_progress == "off"
    assert settings.display.tool_progress_overrides == {"signal": "off"}
    assert settings.approvals.mode == "off"
    assert settings.human_delay.mode == "off"
    assert settings.agent.reasoning_effort == "none"
    assert settings.mcp_servers["github"].env == {
        "GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_0123456789abcdef"
    }
    assert settings.quick_commands["standup"] == "What did I do yesterday?"
    assert settings.hooks["pre_tool_call"][0].command == "~/bin/guard"
    assert settings.platforms.webhook.extra.routes["gh"]["deliver"] == "log"
    assert settings.delegation.model == ""
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


def test_a_saved_key_beats_a_stale_export(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "stale")
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
    assert (loaded.variable("API_SERVER_KEY"), loaded.unset("API_SERVER_KEY")) == (
        None,
        ("NOBODY",),
    )
    assert (loaded.variable("SLACK_BOT_TOKEN"), loaded.unset("SLACK_BOT_TOKEN")) == (
        None,
        ("NOBODY",),
    )
    assert (loaded.secret("OPENAI_API_KEY"), loaded.unset("OPENAI_API_KEY")) == (
        "sk-of-the-shell",
        (),
    )
    assert (loaded.variable("FOLDER"), loaded.unset("FOLDER")) == ("${NOBODY}", ())
    assert (loaded.variable("A_KEY"), loaded.unset("A_KEY")) == ("${x}", ())
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
    home = write(config, "OPENAI_BASE_URL=http://own\n")
    assert load(home).settings.model.base_url == expected


def test_the_provider_named_by_a_variable_counts_for_that_too(write: Write) -> None:
    home = write(env="HERMES_INFERENCE_PROVIDER=nous\nOPENAI_BASE_URL=http://own\n")
    settings = load(home).settings
    assert (settings.model.provider, settings.model.base_url) == ("nous", "")


@pytest.mark.parametrize(
    ("variables", "key", "value"),
    [
        ("HERMES_MODEL=m", "model.default", "m"),
        ("HERMES_MAX_ITERATIONS=5", "agent.max_turns", 5),
        ("HERMES_YOLO_MODE=1", "approvals.mode", "off"),
        ("HERMES_YOLO_MODE=0", "approvals.mode", "manual"),
        ("HERMES_TIMEZONE=UTC", "timezone", "UTC"),
        ("SESSION_IDLE_MINUTES=3", "session_reset.idle_minutes", 3),
        ("HERMES_API_TIMEOUT=9", "timeouts.request_seconds", 9),
        ("TERMINAL_ENV=ssh", "terminal.backend", "ssh"),
        ("TERMINAL_SSH_PERSISTENT=no", "terminal.ssh_persistent", False),
        ("TERMINAL_DOCKER_VOLUMES=/a:/a,/b:/b", "terminal.docker_volumes", ("/a:/a", "/b:/b")),
        ('TERMINAL_DOCKER_VOLUMES=["/a:/a"]', "terminal.docker_volumes", ("/a:/a",)),
        ("AUXILIARY_VISION_MODEL=v", "auxiliary.vision.model", "v"),
        ("HERMES_TOOL_PROGRESS=off", "display.tool_progress", "off"),
        ("DISCORD_ALLOW_MENTION_ROLES=true", "discord.allow_mentions.roles", True),
        ("WEBHOOK_PORT=99", "platforms.webhook.extra.port", 99),
    ],
)
def test_variables_set_what_they_are_documented_to_set(write, variables, key, value) -> None:
    assert load(write(env=f"{variables}\n")).value(key) == value


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("model: gpt-x\n", "model.default", "gpt-x"),
        ("max_turns: 5\n", "agent.max_turns", 5),
        ("max_turns: 5\nagent: {max_turns: 6}\n", "agent.max_turns", 6),
        ("approvals: {mode: yolo}\n", "approvals.mode", "off"),
        ("approvals: {mode: ask}\n", "approvals.mode", "manual"),
        ("bedrock: {guardrail: {id: g}}\n", "bedrock.guardrail.guardrail_identifier", "g"),
        ("compression: {summary_model: s}\n", "auxiliary.compression.model", "s"),
        ("fallback_model: {provider: '', model: m}\n", "fallback_providers", ()),
        ("fallback_model: null\n", "fallback_providers", ()),
        ("fallback_model: [{provider: p, model: m}]\n", "fallback_providers.0.model", "m"),
        (
            "fallback_providers: [{provider: a}]\nfallback_model: {provider: p, model: m}\n",
            "fallback_providers.1.provider",
            "p",
        ),
    ],
)
def test_older_forms_are_understood(write: Write, text: str, key: str, value: object) -> None:
    loaded = load(write(text))
    assert loaded.value(key) == value
    assert loaded.warnings == ()


def test_the_line_of_an_older_form_is_found(write: Write) -> None:
    origin = load(write("# one\nmax_turns: 5\n")).origin("agent.max_turns")
    assert origin.where == "~/.hermes/config.yaml line 2 (max_turns)"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: [1\nb: 2\n", "2:2", "did not find expected ',' or ']'"),
        ("terminal:\n\ttimeout: 1\n", "2:1", "tabs cannot be used"),
        ("a: b: c\n", "1:5", "mapping values are not allowed"),
        ("- a\n- b\n", "1:1", "expected keys and values, found a list"),
        ("just text\n", "1:1", "found a single value"),
        ("a: !python/name:os.system\n", "1:4", "constructor for the tag"),
        ("ok: 1\nbad: \x01\n", "2:6", "U+0001"),
        ("a: *nope\n", "1:4", "undefined alias"),
    ],
)
def test_broken_yaml_is_located_and_not_changed(write, text, place, message) -> None:
    home = write(text)
    with pytest.raises(ConfigError) as caught:
        load(home)
    assert str(caught.value).startswith(f"~/.hermes/config.yaml:{place}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert home.config_file.read_text() == text


def test_an_alias_that_contains_itself_is_refused(write: Write) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        load(write("a: &a\n  b: *a\n"))


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 100_000,
        "- " * 100_000,
        "{" * 500,
        "".join(" " * n + "a:\n" for n in range(300)),
    ],
)
def test_absurd_nesting_is_refused(write: Write, text: str) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        load(write(text))


@pytest.mark.parametrize("data", [b"", b"\n# only a comment\n", b"---\n", b"\xef\xbb\xbf"])
def test_an_empty_file_means_defaults(home: Home, data: bytes) -> None:
    home.config_file.write_bytes(data)
    assert load(home).settings.agent.max_turns == 90


def test_a_byte_order_mark_does_not_matter(home: Home) -> None:
    home.config_file.write_bytes("\ufefftimezone: UTC\n".encode())
    assert load(home).settings.timezone == "UTC"


def test_a_file_that_is_not_utf8_is_refused(home: Home) -> None:
    home.config_file.write_bytes("timezone: é\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(home)


def test_a_folder_in_place_of_the_file_is_refused(home: Home) -> None:
    home.config_file.mkdir()
    with pytest.raises(ConfigError, match="is a directory"):
        load(home)


def test_a_file_that_may_not_be_read_is_refused(open_folder, as_ordinary_user) -> None:
    home = Home(open_folder)
    home.config_file.write_text("timezone: UTC\n")
    home.config_file.chmod(0o000)
    with as_ordinary_user(), pytest.raises(ConfigError, match="permission denied"):
        load(home)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "terminal:\n  timeout: soon\n",
            ':2:3: terminal.timeout: expected a number from 0, found "soon"',
        ),
        (
            "agent:\n  max_turns: 1.5\n",
            ":2:3: agent.max_turns: expected a whole number from 1, found 1.5",
        ),
        (
            "agent: {max_turns: 0}\n",
            ":1:9: agent.max_turns: expected a whole number from 1, found 0",
        ),
        (
            "gateway: {metrics_port: 70000}",
            ":1:11: gateway.metrics_port: expected a whole number from 0 to 65535, found 70000",
        ),
        ("terminal: 5\n", ":1:1: terminal: expected a block of keys, found 5"),
        ("toolsets: {a: b}\n", ":1:1: toolsets: expected a list, found a block of keys"),
        ("terminal: {cwd: [a]}\n", ":1:12: terminal.cwd: expected text, found a list"),
        ("stt: {local: {language: no}}\n", "expected text (put it in quotes), found false"),
        ("worktree: perhaps\n", 'worktree: expected true or false, found "perhaps"'),
        ("context: {engine: {}}\n", "expected text, found a block of keys"),
        (
            "approvals:\n  mode: sometimes\n",
            'expected one of manual, smart, off, deny, found "sometimes"',
        ),
        ("compression: {threshold: 50}\n", "expected a number from 0 to 1, found 50"),
        ("custom_providers:\n  - name: x\n", ":2:5: custom_providers.0.base_url: is missing"),
        ("mcp_servers:\n  a:\n    args: {}\n", ":3:5: mcp_servers.a.args: expected a list"),
        ("max_turns: many\n", ":1:1: agent.max_turns: expected a whole number"),
    ],
)
def test_a_wrong_value_is_named_with_its_line(write: Write, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(text))
    assert expected in str(caught.value)


def test_a_wrong_variable_is_named(write: Write) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(env="TERMINAL_TIMEOUT=soon\n"))
    assert str(caught.value).startswith("TERMINAL_TIMEOUT in ~/.hermes/.env: terminal.timeout: ")


def test_a_wrong_option_is_named(home: Home) -> None:
    with pytest.raises(ConfigError, match=r"^the command line: agent\.max_turns: expected"):
        load(home, {"agent.max_turns": "x"})


def test_all_mistakes_are_found_at_once(write: Write) -> None:
    home = write("terminal: {timeout: x, cwd: []}\nagent: {max_turns: y}\n")
    assert [problem.key for problem in examine(home).problems] == [
        "terminal.timeout",
        "terminal.cwd",
        "agent.max_turns",
    ]
    with pytest.raises(ConfigError) as caught:
        load(home)
    assert "2 more" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ('worktree: "true"', "worktree", True),
        ("worktree: 'off'", "worktree", False),
        ("worktree: 1", "worktree", True),
        ('agent: {max_turns: "90"}', "agent.max_turns", 90),
        ("agent: {max_turns: 90.0}", "agent.max_turns", 90),
        ('agent: {max_turns: ""}', "agent.max_turns", 90),
        ("compression: {threshold: 1}", "compression.threshold", 1.0),
        ("terminal: {ssh_user: 1000}", "terminal.ssh_user", "1000"),
        ("model: {default: 2025-01-01}", "model.default", "2025-01-01"),
        ("toolsets: web, file", "toolsets", ("web", "file")),
        ("toolsets: []", "toolsets", ()),
        ("logging: {level: debug}", "logging.level", "DEBUG"),
        ("platforms: {slack: {reply_to_mode: off}}", "platforms.slack.reply_to_mode", "off"),
        ("streaming: {transport: other}", "streaming.transport", "other"),
        ("display: {tool_progress: true}", "display.tool_progress", "all"),
        ("streaming: {cursor: ''}", "streaming.cursor", ""),
        ("budget: {turn_usd: 0.5}", "budget.turn_usd", 0.5),
    ],
)
def test_lenient_values_are_converted(write: Write, text: str, key: str, value: object) -> None:
    loaded = load(write(f"{text}\n"))
    assert loaded.value(key) == value
    assert type(loaded.value(key)) is type(value)


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
    assert load(home).secrets() == {
        "shell-secret",
        "config-secret",
        "env-secret",
        "header-secret",
        "list-secret",
        "slack-secret",
        "saved-secret",
    }


@pytest.mark.parametrize("zone", ["Mars/Base", "clear; ls", "../../etc/passwd", "/etc/localtime"])
def test_a_time_zone_that_does_not_exist_is_an_error(write: Write, zone: str) -> None:
    with pytest.raises(ConfigError, match="timezone: expected the name of a time zone"):
        load(write(f"timezone: {zone}\n"))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", '""'])
def test_a_time_zone_that_exists(write: Write, zone: str) -> None:
    assert load(write(f"timezone: {zone}\n")).settings.timezone == zone.strip('"')

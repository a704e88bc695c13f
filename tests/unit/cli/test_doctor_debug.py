"""A report holds nothing that is secret or personal, wherever it was planted."""

import asyncio
import base64
import getpass
import json
import tarfile
from pathlib import Path
from urllib.parse import quote

import pytest

from hermes.config.home import Home
from hermes.core.errors import UsageError
from hermes.core.messages import User
from hermes.ops.debug_report import WINDOW, Cleaner
from hermes.store.session_store import open_store
from tests.cases import cases
from tests.unit.cli.terminal import call

CASES = cases(__file__)

SHAPED = {
    "openrouter": "sk-or-v1-" + "0a1b2c3d" * 8,
    "anthropic": "sk-ant-api03-" + "Ab1" * 30,
    "openai": "sk-proj-" + "Zy9" * 20,
    "github": "ghp_" + "a1B2" * 9,
    "gitlab": "glpat-" + "x9Y8" * 5,
    "slack": "xoxb-1234567890-" + "abC1" * 6,
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "google": "AIza" + "Sy0" * 11 + "ab",
    "huggingface": "hf_" + "Qq1" * 12,
    "jwt": "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF2QT4",
    "telegram": "123456789:AAF" + "x1" * 16,
    "bearer": "abcDEF123456789012345",
}
"""Secrets that are only known by their form."""

SAID = CASES["said"]
"""Secrets that only their place gives away."""

PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA1c7+9z5Pad7OejecsQ0bu3aumhOFB4iU\n" * 12
)
EMAIL = "alice.liddell@example.org"
PHONE = "+4915112345678"
TALK = "what was said in a conversation"


@pytest.fixture
def home(hermes_home, monkeypatch):
    """A home with a secret of every kind in every place."""
    home = Home(hermes_home)
    home.logs.mkdir(parents=True)
    monkeypatch.setenv("SOME_API_KEY", SAID["environment"])
    home.env_file.write_text(
        f"OPENROUTER_API_KEY={SHAPED['openrouter']}\n"
        f'MY_THING="{SAID["dotenv"]}"\n'
        f"UNSUSPICIOUS={SAID['odd name']}\n"
        f"TELEGRAM_ALLOWED_USERS=99887766\n"
    )
    home.config_file.write_text(
        "model: {default: maker/one, provider: custom,"
        f" base_url: 'https://models.example.org/v1', api_key: {SAID['config']}}}\n"
        "agent: {max_turns: 7}\n"
        "telemetry: {endpoint: 'https://bob:pass-word-9@collector.example.org'}\n"
        "terminal: {ssh_host: secret-host.example.org, ssh_user: carol}\n"
        "mcp_servers:\n"
        "  notes:\n"
        f"    url: 'https://notes.example.org/mcp?token={SHAPED['bearer']}'\n"
        f"    headers: {{X-Api: {SAID['header']}}}\n"
        "  local: {command: sh, args: [--api-key, argument-secret-77]}\n"
        "plugins: {enabled: [weather]}\n"
        f"weather: {{api_key: {SAID['plugin block']}}}\n"
        f"quick_commands: {{mail: 'mail {EMAIL}'}}\n"
    )
    home.auth_file.write_text(
        json.dumps(
            {
                "version": 1,
                "credential_pool": {"openrouter": [{"id": "manual:1", "secret": SAID["auth"]}]},
                "providers": {"nous": {"refresh_token": SAID["login"]}},
            }
        )
    )
    tokens = home.root / "mcp-tokens"
    tokens.mkdir()
    (tokens / "notes.json").write_text(
        json.dumps({"access_token": SAID["mcp"], "url": "https://x"})
    )
    _plant_logs(home)

    async def talk():
        store = open_store("", home.state_db)
        await store.create("s", source="cli", model="m", system_prompt="")
        await store.append("s", User.say(TALK))
        store.close()

    asyncio.run(talk())
    return home


def _plant_logs(home):
    said = [*SHAPED.values(), *SAID.values()]
    spelled = [
        *said,
        *(quote(secret, safe="") for secret in SAID.values()),
        *(json.dumps({"key": secret}) for secret in said),
        *(base64.b64encode(f"user:{secret}".encode()).decode() for secret in SAID.values()),
    ]
    then = "2026-03-01 10:00:00.000+00:00 INFO [s]"
    lines = [
        *(f"{then} hermes.agent: it said {x}" for x in spelled),
        f"{then} hermes.cli: Authorization: Bearer {SHAPED['bearer']}",
        f"{then} hermes.mcp: ran server with argument-secret-77 and pass-word-9",
        f"{then} hermes.cli: mail to {EMAIL} or {quote(EMAIL)}",
        f"{then} hermes.gateway: from {PHONE}",
        f"{then} hermes.cli: wrote {home.root}/x and {Path.home()}/y",
        f"{then} hermes.cli: saw {'/home/'}dorothea/z, {'/Users/'}dorothea/z",
        f"{then} hermes.cli: the useful line 4711",
        *PEM.splitlines(),
    ]
    for name in ("agent.log", "errors.log"):
        (home.logs / name).write_text("\n".join(lines) + "\n")
    entry = {"time": "", "level": "INFO", "logger": "hermes", "message": f"\n{SHAPED['github']}"}
    (home.logs / "gateway.log").write_text(json.dumps(entry) + "\n")


def hermes_debug(home, *arguments):
    return call("debug", home, *arguments)[:2]


def assert_clean(text, home):
    for name, secret in {**SHAPED, **SAID}.items():
        assert secret not in text, name
        assert quote(secret, safe="") not in text, name
        assert base64.b64encode(secret.encode()).decode()[4:-4] not in text, name
    for private in (
        "MIIEpAIBAAKCAQEA", EMAIL, "alice.liddell", PHONE, TALK, "dorothea", "secret-host",
        "carol", "pass-word-9", "argument-secret-77", "99887766", str(Path.home()), str(home.root),
    ):  # fmt: skip
        assert private not in text, private


def test_the_bundle_holds_what_helps_and_nothing_secret_or_personal(home):
    code, out = hermes_debug(home, "share", "--lines", "5000")
    assert code == 0
    (file,) = (home.root / "debug").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()
    assert_clean(text, home)
    assert "the useful line 4711" in text and "agent.max_turns = 7" in text
    assert "maker/one on custom at models.example.org" in text
    assert "notes (address, on), local (program, on)" in text
    assert "OPENROUTER_API_KEY set (.env)" in text and "===== doctor.txt =====" in text
    assert "~/.hermes" in text
    assert "Nothing was sent" in out and "agent.log" in out


def test_an_archive_is_as_clean_and_names_no_owner(home, tmp_path):
    target = tmp_path / "report.tar.gz"
    code, out = hermes_debug(home, "share", "--local", "-o", str(target))
    assert code == 0
    assert "Nothing was sent" not in out
    with tarfile.open(target) as archive:
        members = archive.getmembers()
        texts = [archive.extractfile(member).read().decode() for member in members]
    assert {member.name for member in members} >= {
        "hermes-debug/summary.txt",
        "hermes-debug/agent.log",
    }
    assert {(member.uid, member.uname) for member in members} == {(0, "")}
    assert_clean("\n".join(texts), home)


@pytest.mark.parametrize("lines", [1, 3, 12])
def test_a_key_whose_beginning_is_cut_off_is_still_taken_out(home, lines):
    hermes_debug(home, "share", "--lines", str(lines))
    (file,) = (home.root / "debug").iterdir()
    assert_clean(file.read_text(), home)


def test_a_long_log_is_cut_between_lines(home):
    secret = SAID["odd name"]
    (home.logs / "agent.log").write_text(f"{secret} filler\n" * (2 * WINDOW // len(secret)))
    hermes_debug(home, "share", "--lines", "10000")
    (file,) = (home.root / "debug").iterdir()
    assert "wintermute" not in file.read_text()


def test_a_home_that_cannot_be_read_still_gives_a_clean_report(home):
    home.config_file.write_text(f"a: [\n# {SAID['config']}\n")
    home.auth_file.write_text("{")
    code, _ = hermes_debug(home, "share")
    assert code == 0
    (file,) = (home.root / "debug").iterdir()
    text = file.read_text()
    for name in ("dotenv", "odd name", "mcp", "environment"):
        assert SAID[name] not in text
    assert "auth.json cannot be read" in text


def test_expire_is_explained_and_nonsense_is_refused(home, tmp_path):
    assert "--expire has no effect" in hermes_debug(home, "share", "--expire", "3")[1]
    for wrong in (("--expire", "0"), ("--lines", "-1"), ("-o", str(tmp_path / "no" / "x.txt"))):
        with pytest.raises(UsageError):
            hermes_debug(home, "share", *wrong)
    there = tmp_path / "there.txt"
    there.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        hermes_debug(home, "share", "-o", str(there))
    assert there.read_text() == "mine"


def test_the_name_of_the_user_is_taken_out_as_a_word(home, monkeypatch):
    monkeypatch.setenv("LOGNAME", "zaphod")
    assert getpass.getuser() == "zaphod"
    cleaned = Cleaner(home, ()).clean(
        "zaphod and ZAPHOD_x, but not zaphodic; C:\\Users\\Trillian\\a"
    )
    assert cleaned == "USER and USER_x, but not zaphodic; C:\\Users\\USER\\a"

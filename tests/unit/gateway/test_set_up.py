"""Which platforms there is enough for, and what is said of the others."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.config.home import Home
from hermes.config.loader import Loaded, load
from hermes.core.errors import HermesError
from hermes.gateway.platforms.registry import (
    configured_platforms,
    incomplete_platforms,
    make_adapter,
    sandbox_warning,
    unknown_platforms,
)
from hermes.sdk.platforms import Capabilities, PlatformManifest

Settings = Callable[..., Loaded]


@pytest.fixture
def settings(tmp_path):
    def made(env: str, **said: Any) -> Loaded:
        (tmp_path / ".env").write_text(env.replace(" ", "\n"))
        return load(Home(tmp_path), {key.replace("__", "."): value for key, value in said.items()})

    return made


def reported(loaded: Loaded) -> dict[str, str]:
    return {each.name: str(problem) for each, problem in incomplete_platforms(loaded)}


@pytest.mark.parametrize(
    ("env", "missing"),
    [
        ("SLACK_BOT_TOKEN=xoxb-1", {"slack": "SLACK_APP_TOKEN is missing"}),
        (
            "EMAIL_ADDRESS=a@b.org EMAIL_PASSWORD=p",
            {"email": "EMAIL_IMAP_HOST, EMAIL_SMTP_HOST are missing"},
        ),
        ("MATRIX_ACCESS_TOKEN=t", {"matrix": "MATRIX_HOMESERVER is missing"}),
        ("SLACK_BOT_TOKEN=xoxb-1 SLACK_APP_TOKEN=xapp-1 GITHUB_TOKEN=g", {}),
        (
            "TELEGRAM_BOT_TOKEN=${MY_BOT}",
            {"telegram": "TELEGRAM_BOT_TOKEN is missing: ${MY_BOT} is not set"},
        ),
        ("SLACK_BOT_TOKEN=xoxb-1 SLACK_ENABLED=false", {}),
        ("SLACK_BOT_TOKEN=xoxb-1 SLACK_ENABLED=true", {}),
        ("", {}),
    ],
)
def test_incomplete_platform_is_reported(settings, env, missing):
    loaded = settings(env)
    assert reported(loaded) == missing
    assert not missing.keys() & configured_platforms(loaded).keys()


def test_disabled_platform_is_not_reported(settings):
    assert reported(settings("SLACK_BOT_TOKEN=xoxb-1", platforms__slack__enabled=False)) == {}


def test_a_token_of_the_settings_is_enough_to_try(settings):
    loaded = settings("SLACK_APP_TOKEN=xapp-1", platforms__slack__token="xoxb-1")
    assert reported(loaded) == {}
    assert "slack" in configured_platforms(loaded)


def test_unset_token_reference_is_reported(settings, tmp_path):
    loaded = settings("", platforms__telegram__token="${MY_BOT}")
    app: Any = SimpleNamespace(loaded=loaded, home=Home(tmp_path))
    with pytest.raises(HermesError, match=r"platforms.telegram.token is missing: \$\{MY_BOT\}"):
        make_adapter(configured_platforms(loaded)["telegram"], app, {})


@pytest.mark.parametrize(
    ("more", "message", "hint"),
    [
        (
            {"needs": ("json", "no_such_module")},
            "Pigeon needs the Python module no_such_module",
            "`hermes gateway setup pigeon` installs what is missing",
        ),
        ({}, "unexpected ModuleNotFoundError", "`hermes logs gateway` has the details"),
    ],
)
def test_adapter_error_has_a_hint(tmp_path, more, message, hint):
    manifest = PlatformManifest("pigeon", "Pigeon", "no_such_module:X", Capabilities(100), **more)
    home = Home(tmp_path)
    app: Any = SimpleNamespace(loaded=load(home), home=home)
    with pytest.raises(HermesError) as failed:
        make_adapter(manifest, app, {})
    assert (str(failed.value), failed.value.hint) == (message, hint)


def test_unknown_enabled_platform_is_reported(settings):
    loaded = settings("", platforms__sms__enabled=True, platforms__telegram__enabled=True)
    assert {name: str(why) for name, why in unknown_platforms(loaded).items()} == {
        "sms": "Hermes cannot connect to sms"
    }
    assert "platforms.sms.enabled: false" in unknown_platforms(loaded)["sms"].hint


@pytest.mark.parametrize(
    ("bwrap", "reported"),
    [
        (None, "install bubblewrap"),
        ("echo no namespaces for you >&2; exit 1", "bwrap says: no namespaces for you"),
        ("exit 0", ""),
    ],
    ids=["missing", "refused", "fine"],
)
def test_missing_sandbox_is_reported(settings, tmp_path, monkeypatch, bwrap, reported):
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    if bwrap is not None:
        (programs / "bwrap").write_text(f"#!/bin/sh\n{bwrap}\n")
        (programs / "bwrap").chmod(0o755)
    said = sandbox_warning(settings("").settings)
    assert reported in said
    assert bool(said) == bool(reported)
    assert sandbox_warning(settings("", gateway__terminal="local").settings) == ""

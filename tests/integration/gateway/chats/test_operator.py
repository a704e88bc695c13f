"""Commands for the operator of the gateway, and periodic work."""

import asyncio
import json
import logging
import stat
from pathlib import Path

from hermes import __version__
from hermes.config.installation import Checkout, InstallFailed, Package
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer, Step, echo
from hermes.gateway import runner
from hermes.gateway.runner import GatewayRunner
from hermes.gateway.services import RESTART
from hermes.gateway.updates import NOTE, OUTPUT

OPEN = {"display__tool_progress_command": True}
TODO = Step((ToolCall("c1", "todo", '{"todos": []}'),))
PACKAGE = Package("pipx", "pipx install --force git+https://x", "pipx uninstall hermes")


async def test_verbose_is_there_only_when_the_settings_say_so(harness):
    await harness.open()
    await harness.ask("/verbose", "There is no command `/verbose`")
    shown = await harness.ask("/help", "/status")
    assert "`/skills`" not in shown.text, "no command of chats"
    assert "/verbose" not in harness.texts()[-1]


async def test_verbose_affects_one_chat_and_survives_a_restart(harness):
    await harness.open([TODO, "first", TODO, "second", TODO, "third"], **OPEN)
    await harness.ask("/verbose all", "Tool calls in this chat: all")
    await harness.ask("go", "first")
    await harness.wait_idle()
    assert any("**todo**" in text for text in harness.texts())
    await harness.ask("go", "second", user="ben")
    await harness.wait_idle()
    assert harness.texts("ben") == ["second"]
    await harness.close()
    await harness.open(**OPEN)
    await harness.ask("go on", "third")
    await harness.wait_idle()
    assert sum("**todo**" in text for text in harness.texts()) == 2, "it is kept over a restart"


async def test_verbose_shows_the_mode_and_changes_it_only_when_named(harness):
    await harness.open(**OPEN)
    for mode in ("new", "all", "verbose", "off"):
        await harness.ask(f"/verbose {mode}", f"Tool calls in this chat: {mode}")
        await harness.ask("/verbose", f"Tool calls in this chat: {mode}")
    await harness.ask("/verbose loud", "'loud' is not a display mode")
    await harness.ask("/help verbose", "how much of tool calls is shown".capitalize())


def program(folder: Path, check: int, update: int, said: str = "updated to 9.9 (abc)") -> Path:
    """What answers to `hermes update`, as the real one does."""
    file = folder / "update-program"
    file.write_text(
        f'#!/bin/sh\nif [ "$2" = --check ]; then echo looked; exit {check}; fi\n'
        f"echo '{said}'\nexit {update}\n"
    )
    file.chmod(0o755)
    return file


def installed(runner: GatewayRunner, folder: Path, program: Path) -> None:
    """A checkout that can update itself."""
    (folder / ".git").mkdir(exist_ok=True)
    runner.gateway.updates.found = Checkout(folder)
    runner.gateway.updates.command = (str(program),)


async def test_after_an_update_the_new_version_tells(harness, tmp_path):
    owners = {"gateway__owners": ["local:anna"]}
    runner = await harness.open(**owners)
    installed(runner, tmp_path, program(tmp_path, check=10, update=0))
    await harness.ask("/update", "Checking for a newer version")
    assert await harness.wait_exit() == RESTART
    assert not any("9.9" in text for text in harness.texts())
    note = harness.home / NOTE
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    await harness.open(**owners)
    shown = await harness.wait_for("updated to 9.9")
    assert f"This is Hermes {__version__}" in shown.text
    await harness.until(lambda: not note.exists(), "the note is gone")
    assert (harness.home / "logs" / OUTPUT).is_file()


async def test_failed_update_is_reported_without_a_restart(harness, tmp_path):
    runner = await harness.open(gateway__owners=["local:anna"])
    installed(runner, tmp_path, program(tmp_path, check=0, update=0))
    await harness.ask("/update", "looked")
    installed(runner, tmp_path, program(tmp_path, check=10, update=1, said="no space left"))
    await harness.ask("/update", "no space left")
    shown = await harness.wait_for("The update failed")
    assert "no space left" in shown.text
    assert not (harness.home / NOTE).exists()
    await harness.ask("still here", "still here")


async def test_update_note_for_a_removed_platform_does_not_prevent_the_start(harness):
    harness.home.mkdir(exist_ok=True)
    target = {"platform": "telegram", "chat_id": "1"}
    (harness.home / NOTE).write_text(json.dumps({"target": target, "before": "1.0"}))
    await harness.open()
    await harness.ask("hello", "hello")
    await harness.until(lambda: not (harness.home / NOTE).exists(), "the note is gone")


async def test_interrupted_update_is_reported(harness):
    harness.home.mkdir(exist_ok=True)
    target = {"platform": "local", "chat_id": "anna"}
    (harness.home / NOTE).write_text(json.dumps({"target": target, "before": "1.0"}))
    await harness.open()
    await harness.wait_for("stopped while an update ran")


async def test_only_an_owner_may_update(harness):
    await harness.open(gateway__owners=["local:anna"])
    await harness.ask("/update", "Only an owner may use /update", user="ben")


async def test_refused_update_names_the_alternative(harness, tmp_path):
    runner = await harness.open(gateway__owners=["local:anna"])
    runner.gateway.updates.found = PACKAGE
    shown = await harness.ask("/update", "pipx installed Hermes here")
    assert "pipx install --force git+https://x" in shown.text
    runner.gateway.updates.found = Checkout(tmp_path)
    await harness.ask("/update", "is not a git repository")


async def test_the_list_of_models_is_fetched_once_a_day(harness):
    def asked() -> int:
        return sum(each.path.endswith("/models") for each in harness.server.requests)

    runner = await harness.open()
    runner.maintenance.learn_models()
    assert not asked(), "the endpoint in use is not known yet"
    await harness.ask("hello", "hello")
    runner.maintenance.learn_models()
    await harness.until(asked, "the list")
    runner.maintenance.learn_models()
    await harness.ask("again", "again")
    assert asked() == 1


async def test_an_endpoint_without_a_list_costs_a_line_in_the_log(harness, caplog):
    caplog.set_level(logging.INFO)
    with ModelServer(echo) as server:
        runner = await harness.open(server)
        await harness.ask("hello", "hello")
    for _ in range(3):
        runner.maintenance.learn_models()
        await harness.until(lambda: "are not known" in caplog.text, "the line")
    assert caplog.text.count("are not known") == 1


async def test_library_of_a_platform_is_installed_at_its_first_start(harness, monkeypatch):
    installed = []

    async def install(extra, *, quiet):
        installed.append(extra)

    monkeypatch.setattr(runner, "install_extra", install)
    monkeypatch.setattr(runner, "missing_modules", lambda _: [] if installed else ["local"])
    monkeypatch.setattr(runner, "extra_of", lambda manifest: manifest.name)
    await harness.open(security__install_packages=False)
    assert installed == []
    await harness.close()
    await harness.open()
    assert installed == ["local"]
    assert "installing the packages for Local (once) …" in harness.notes


async def test_failed_installation_of_a_library_is_reported_with_the_next_step(
    harness, monkeypatch
):
    async def install(extra, *, quiet):
        raise InstallFailed(f"{extra} could not be installed", hint="to try again: hermes setup x")

    monkeypatch.setattr(runner, "install_extra", install)
    monkeypatch.setattr(runner, "missing_modules", lambda _: ["local"])
    monkeypatch.setattr(runner, "extra_of", lambda manifest: manifest.name)
    opening = asyncio.create_task(harness.open())
    failed = "local is not started: local could not be installed\nto try again: hermes setup x"
    await harness.until(lambda: failed in harness.notes)
    opening.cancel()

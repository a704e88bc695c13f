"""The home: there, writable, private, whole."""

import os

import pytest

from hermes.config.home import Home
from hermes.ops.doctor import machine_checks
from tests.unit.ops.doctor.run_checks import found, only, texts


async def test_a_home_that_is_not_there_is_made_by_fix(hermes_home):
    home = Home(hermes_home)
    assert (await only(home, "folder")).level == "warning"
    assert not hermes_home.exists()
    outcome = await only(home, "folder", fix=True)
    assert outcome.level == "ok"
    assert hermes_home.stat().st_mode & 0o777 == 0o700


async def test_a_file_in_its_place_is_a_problem(hermes_home):
    hermes_home.write_text("oops")
    outcome = await only(Home(hermes_home), "folder")
    assert outcome.level == "problem"


async def test_keys_that_others_can_read_are_closed_by_fix(home):
    home.env_file.write_text("X_KEY=abc\n")
    home.auth_file.write_text("{}")
    tokens = home.root / "mcp-tokens"
    tokens.mkdir()
    (tokens / "a.json").write_text("{}")
    for path in (home.root, home.env_file, home.auth_file, tokens, tokens / "a.json"):
        path.chmod(0o755)
    before = await only(home, "permissions")
    assert before.level == "warning"
    assert texts(before).count("other users can open") == 5
    after = await only(home, "permissions", fix=True)
    assert after.level == "ok"
    assert len(after.fixed) == 5
    assert home.env_file.stat().st_mode & 0o777 == 0o600
    assert home.root.stat().st_mode & 0o777 == 0o700
    assert home.env_file.read_text() == "X_KEY=abc\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
async def test_files_of_another_owner_are_named(home):
    home.env_file.touch()
    os.chown(home.env_file, 12345, 12345)
    outcome = await only(home, "owner")
    assert outcome.level == "problem"
    assert "~/.hermes/.env" in texts(outcome)
    assert "chown" in texts(outcome)


async def test_a_disk_that_fills_up_is_a_warning_and_a_full_one_a_problem(home, monkeypatch):
    monkeypatch.setattr(machine_checks, "LOW_SPACE", 0)
    monkeypatch.setattr(machine_checks, "NO_SPACE", 0)
    monkeypatch.setattr(machine_checks, "FEW_FILES", 0)
    assert (await only(home, "disk space")).level == "ok"
    monkeypatch.setattr(machine_checks, "LOW_SPACE", 10**20)
    assert (await only(home, "disk space")).level == "warning"
    monkeypatch.setattr(machine_checks, "NO_SPACE", 10**20)
    assert (await only(home, "disk space")).level == "problem"


async def test_a_network_file_system_is_a_warning(home, monkeypatch):
    here = texts(await only(home, "file system"))
    if here.startswith("ok: the type of its file system is not known"):
        return  # a chroot whose root is not a mount point
    assert here.startswith("ok: it is on ")
    kind = here.removeprefix("ok: it is on ").split(",")[0]
    monkeypatch.setattr(machine_checks, "NETWORK", {kind})
    assert (await only(home, "file system")).level == "warning"


async def test_another_profile_that_cannot_be_used_is_named(home):
    other = home.root / "profiles" / "work"
    other.mkdir(parents=True)
    (other / "config.yaml").write_text("a: [\n")
    assert "the profile work cannot be used" in await found(home, "profiles", "warning")

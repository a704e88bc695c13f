"""Skills, plugins, hooks, MCP servers, memory, programs and the terminal."""

import stat

import pytest

from hermes.ops.doctor.check import TerminalInfo
from hermes.ops.doctor.machine_checks import Requirement, parse_requirement, requirements
from tests.unit.ops.doctor.run_checks import found, only, run_named, texts


def plugin(home, name, code, manifest=""):
    folder = home.plugins / name
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text(f"name: {name}\nversion: '1'\n{manifest}")
    (folder / "__init__.py").write_text(code)


async def test_the_installed_packages_are_compared_with_what_is_needed(home):
    assert (await only(home, "packages")).level == "ok"
    names = {one.name for one in requirements()}
    assert {"msgspec", "apsw"} <= names


def test_requirements_of_extras_and_other_systems_are_left_out():
    assert parse_requirement("apsw>=3.46") == Requirement("apsw", "3.46")
    assert parse_requirement('xllamacpp>=1; extra == "local"') is None
    assert parse_requirement("psycopg[binary]>=3.2,<4") == Requirement("psycopg", "3.2")


async def test_a_broken_skill_is_named(home):
    folder = home.skills / "mine" / "broken"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: [\n---\n")
    assert "broken/SKILL.md does not load" in await found(home, "skills", "warning")


async def test_folders_of_skills_that_are_not_there_are_named(home, config):
    (home.root / "team").mkdir(parents=True)
    config("skills: {external_dirs: [team, gone, '']}\n")
    found = texts(await only(home, "skills"))
    assert "there is no folder ~/.hermes/gone" in found
    assert "skills.external_dirs has an empty entry" in found
    assert "team" not in found


async def test_plugins_that_are_missing_or_cannot_load_are_problems_and_none_is_run(home, config):
    trace = home.root / "ran"
    plugin(home, "good", f"open({str(trace)!r}, 'w')\ndef register(ctx): pass\n")
    plugin(home, "typo", "def register(ctx:\n")
    plugin(home, "empty", "x = 1\n")
    plugin(home, "needy", "def register(ctx): pass\n", "requires_env: [NEEDY_TOKEN]\n")
    plugin(home, "off", "def register(ctx:\n")
    config("plugins: {enabled: [good, typo, empty, needy, gone]}\n")
    found = texts(await only(home, "plugins"))
    assert "the plugin gone is enabled but not installed" in found
    assert "the plugin typo cannot be loaded" in found
    assert "the plugin empty cannot be loaded: __init__.py has no register(ctx)" in found
    assert "the plugin needy needs NEEDY_TOKEN" in found
    assert "good" not in found
    assert "plugin off" not in found
    assert not trace.exists()


async def test_hooks_without_approval_or_program_are_reported(home, config):
    script = home.root / "hook.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    config(f"hooks: {{pre_tool_call: [{{command: {script}}}, {{command: /no/such/hook}}]}}\n")
    found = texts(await only(home, "hooks"))
    assert "does not run: it is not approved" in found
    assert "there is no program /no/such/hook" in found


async def test_mcp_servers_that_cannot_start_are_problems(home, config):
    config(
        "mcp_servers:\n"
        "  ok: {command: sh}\n"
        "  gone: {command: no-such-program-here}\n"
        "  odd: {url: 'ftp://example.org'}\n"
        "  both: {url: 'https://example.org', command: sh}\n"
        "  login: {url: 'https://example.org', auth: oauth}\n"
        "  off: {command: no-such-program-here, enabled: false}\n"
    )
    outcome = await only(home, "mcp")
    found = texts(outcome)
    assert len(outcome.found) == 4
    for name in ("gone", "odd", "both", "login"):
        assert f"the MCP server {name}:" in found


async def test_a_memory_provider_that_is_not_there_or_not_set_up_is_a_problem(home, config):
    config("memory: {provider: nonesuch}\n")
    assert "there is no memory provider nonesuch" in texts(await only(home, "memory"))
    config("memory: {provider: mem0}\n")
    assert "mem0 is not set up" in texts(await only(home, "memory"))
    config("memory: {provider: holographic}\n")
    assert (await only(home, "memory")).level == "ok"


async def test_missing_programs_are_reported_with_their_effect(home, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = texts(await only(home, "programs"))
    assert "git is not installed: no checkpoints" in found
    assert "rg is not installed" in found


@pytest.mark.parametrize("backend", ["docker", "ssh", "sandbox", "singularity"])
async def test_a_backend_without_its_program_is_a_problem(
    home, config, tmp_path, monkeypatch, backend
):
    monkeypatch.setenv("PATH", str(tmp_path))
    config(f"terminal: {{backend: {backend}, ssh_host: h}}\n")
    assert "not installed" in await found(home, "backend", "problem")


async def test_error_of_an_engine_that_does_not_answer_is_quoted(
    home, config, tmp_path, monkeypatch
):
    engine = tmp_path / "docker"
    engine.write_text("#!/bin/sh\necho 'the daemon sleeps' >&2\nexit 1\n")
    engine.chmod(engine.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    config("terminal: {backend: docker, container_program: docker}\n")
    assert "does not answer: the daemon sleeps" in texts(await only(home, "backend"))


async def test_ssh_needs_a_host_and_a_private_key_file(home, config, tmp_path, monkeypatch):
    (tmp_path / "ssh").write_text("#!/bin/sh\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    config("terminal: {backend: ssh}\n")
    assert "ssh_host is not set" in texts(await only(home, "backend"))
    key = tmp_path / "key"
    key.write_text("k")
    key.chmod(0o644)
    config(f"terminal: {{backend: ssh, ssh_host: h, ssh_key: {key}}}\n")
    assert "others can read" in texts(await only(home, "backend"))
    key.chmod(0o600)
    assert (await only(home, "backend")).level == "ok"


async def test_cloud_backends_need_their_keys(home, config):
    config("terminal: {backend: daytona}\n")
    assert "DAYTONA_API_KEY is not set" in texts(await only(home, "backend"))


async def test_limits_of_a_terminal_are_reported(home):
    poor = TerminalInfo(is_terminal=True, columns=20, encoding="latin-1", term="dumb")
    found = texts(await only(home, "terminal", screen=poor))
    for words in ("20 columns", "not UTF-8", "TERM is dumb"):
        assert words in found
    (plain, processes) = await run_named(home, "terminal", "processes")
    assert plain.level == "ok"
    assert processes.found

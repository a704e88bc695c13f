"""What is never attached, however it is spelled."""

import os
from pathlib import Path

import msgspec
import pytest

from hermes.security import PathGuard


def put(path: Path, text: str = "hush\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def assert_blocked(attach, text: str, **changes: object) -> None:
    done = await attach(text, **changes)
    assert "hush" not in done.text, text
    assert len(done.warnings) == 1, text
    assert "blocked" in done.warnings[0], text


@pytest.mark.parametrize(
    "name",
    [
        ".ssh/id_ed25519", ".ssh/config", ".aws/credentials", ".gnupg/private-keys-v1.d/x",
        ".kube/config", ".bashrc", ".zshrc", ".profile", ".zshenv", ".bash_history",
        ".config/fish/config.fish", ".netrc", ".pgpass", ".npmrc", ".pypirc", ".docker/config.json",
        ".hermes/.env", ".hermes/.env.bak", ".hermes/auth.json", ".hermes/profiles/work/.env",
    ],
)  # fmt: skip
async def test_keys_passwords_and_shell_settings(attach, user_home: Path, name: str) -> None:
    put(user_home / name)
    await assert_blocked(attach, f"@file:~/{name}")
    await assert_blocked(attach, f"@~/{name}:1")
    await assert_blocked(attach, f"@file:./../{name}")
    await assert_blocked(attach, f"@file:{user_home}/./x/../{name}")


async def test_names_in_a_blocked_folder_are_not_told(attach, user_home: Path) -> None:
    put(user_home / ".ssh/id_ed25519")
    for text in ("@folder:~/.ssh", "@file:~/.ssh", "@~/.ssh/", "@file:~/.ssh/id_ed2551"):
        done = await attach(text)
        assert "id_ed25519" not in done.text + "".join(done.warnings)
        assert "blocked" in done.warnings[0]


async def test_links_lead_to_where_they_lead(attach, user_home: Path, workspace: Path) -> None:
    put(user_home / ".ssh/key")
    (workspace / "innocent.txt").symlink_to(user_home / ".ssh/key")
    (workspace / "docs").symlink_to(user_home / ".ssh")
    (workspace / "twice").symlink_to("docs")
    for text in ("@innocent.txt", "@docs/key", "@twice/key", "@folder:docs", "@folder:twice"):
        await assert_blocked(attach, text)


async def test_a_blocked_place_that_is_a_link_itself(attach, user_home, workspace) -> None:
    put(workspace / "dotfiles/bashrc")
    put(workspace / "vault/id_rsa")
    (user_home / ".bashrc").symlink_to(workspace / "dotfiles/bashrc")
    (user_home / ".ssh").symlink_to(workspace / "vault")
    for text in ("@~/.bashrc", "@dotfiles/bashrc", "@~/.ssh/id_rsa", "@vault/id_rsa"):
        await assert_blocked(attach, text)


async def test_other_letter_case_and_other_homes(attach, tmp_path: Path) -> None:
    for name in (".SSH/id_rsa", "kim/.ssh/id_rsa", "kim/.hermes/.env", "kim/.NetRC"):
        put(tmp_path / name)
        await assert_blocked(attach, f"@file:{tmp_path / name}")


async def test_a_hermes_home_of_another_name(attach, desk, tmp_path: Path) -> None:
    guard = PathGuard(desk.guard.home, (), (tmp_path / "h",))
    for name in ("h/.env", "h/.env.old", "h/auth.json", "h/profiles/p/.env"):
        put(tmp_path / name)
        await assert_blocked(attach, f"@file:{tmp_path / name}", guard=guard)


async def test_a_token_file_of_a_project(attach, workspace: Path) -> None:
    put(workspace / "web/.npmrc")
    await assert_blocked(attach, "@web/.npmrc")
    put(workspace / "web/index.js", "fine\n")
    assert ".npmrc" not in (await attach("@folder:web")).text.partition("---")[2]


async def test_the_live_state_of_the_system(attach) -> None:
    for path in ("/proc/self/environ", f"/proc/{os.getpid()}/cmdline", "/proc/self/root/etc"):
        (warning,) = (await attach(f"@file:{path}")).warnings
        assert "blocked" in warning


async def test_what_is_no_secret_stays_readable(attach, user_home, hermes_home, workspace) -> None:
    put(hermes_home / "config.yaml", "model: x\n")
    put(hermes_home / "skills/a/SKILL.md", "a skill\n")
    put(workspace / ".env", "DEBUG=1\n")
    put(workspace / "bashrc.md", "about shells\n")
    done = await attach("@~/.hermes/config.yaml @~/.hermes/skills/a/SKILL.md @.env @bashrc.md")
    assert done.warnings == ()
    for text in ("model: x", "a skill", "DEBUG=1", "about shells"):
        assert text in done.text


def test_the_desk_is_frozen(desk) -> None:
    with pytest.raises(AttributeError):
        desk.folder = Path("/")
    assert msgspec.structs.replace(desk, context_length=10).most_tokens == 5

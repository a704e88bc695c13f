"""Which files are protected."""

from pathlib import Path

import pytest

from hermes.core.tool import Concern
from hermes.security import PathGuard


def guard(home: str = "/home/u", workspace: str = "/home/u/work") -> PathGuard:
    return PathGuard(Path(home), (Path(workspace),), (Path(home) / ".hermes",))


def writing(guard: PathGuard, path: str, folder: str) -> Concern | None:
    return guard.check_write(path, guard.resolve(path, folder))


def reading(guard: PathGuard, path: str, folder: str) -> Concern | None:
    return guard.check_read(path, guard.resolve(path, folder))


@pytest.mark.parametrize(
    "path",
    ["~/.ssh", "~/.ssh/id_rsa", "~/.gnupg/x", "~/.npmrc", "~/.bashrc", "~/.config/gh/hosts.yml",
     "/etc", "/etc/hosts", "/lib/x", "/usr/local/bin/x", "/dev/sda", "/proc/1/mem", "/etc/shadow",
     "~/.hermes/.env", "~/.hermes/profiles/p/.env", "~/.hermes/mcp-tokens/a.json",
     "~/work/../.ssh/x"],
)  # fmt: skip
def test_protected(path: str) -> None:
    concern = writing(guard(), path, "/home/u/work")
    assert concern is not None
    assert concern.refused


@pytest.mark.parametrize("path", ["a.py", "~/work/.env", "./.ssh/x", ".bashrc", "etc/hosts"])
def test_inside_the_workspace(path: str) -> None:
    assert writing(guard(), path, "/home/u/work") is None


@pytest.mark.parametrize("path", ["~/other", "/tmp/x", "/home/u/work2/x", "/srv/x", "~/.sshx"])
def test_elsewhere_is_asked(path: str) -> None:
    concern = writing(guard(), path, "/home/u/work")
    assert concern is not None
    assert not concern.refused


@pytest.mark.parametrize(
    "path",
    ["skills/x/SKILL.md", "memories/MEMORY.md", "plugins/a.py", "scripts/a.sh", ".import/x",
     "config.yaml.bak", "SOUL.md", "profiles/p/cron/jobs.json", "cache/skills.json"],
)  # fmt: skip
def test_everything_else_in_the_hermes_home_is_refused(path: str) -> None:
    concern = writing(guard(), f"~/.hermes/{path}", "/home/u/work")
    assert concern is not None
    assert (concern.kind, concern.refused) == ("own files", True)


def test_the_refusal_names_the_tool_that_writes_there() -> None:
    for path, tool in (("skills/x", "skill_manage"), ("memories/USER.md", "memory")):
        assert tool in guard().write_refusal(f"/home/u/.hermes/{path}")


def test_work_folders_in_the_hermes_home_can_be_written() -> None:
    for path in ("workspaces/bob/a", "cache/media/a.png", "profiles/p/workspaces/bob/a"):
        assert not guard().write_refusal(f"/home/u/.hermes/{path}")
    chosen = guard(workspace="/home/u/.hermes/plugins/mine")
    assert writing(chosen, "a.py", "/home/u/.hermes/plugins/mine") is None


@pytest.mark.parametrize(
    "path",
    ["~/.gitconfig", "~/.config/git/config", "~/.vimrc", "~/.tmux.conf", "~/.config/nvim/init.lua",
     "~/.emacs", "~/.config/environment.d/a.conf", "~/.pam_environment", "~/.config/pip/pip.conf",
     "~/.local/bin/ls", ".git/hooks/pre-commit", "deep/in/repo/.git/config", ".envrc",
     ".vscode/tasks.json", ".idea/workspace.xml", ".husky/pre-push", ".git/modules/a/hooks/x",
     ".venv/lib/python3.12/site-packages/x.pth", "lib/sitecustomize.py"],
)  # fmt: skip
def test_files_that_run_later_are_a_question(path: str) -> None:
    concern = writing(guard(), path, "/home/u/work")
    assert concern is not None
    assert (concern.kind, concern.refused) == ("runs later", False)


@pytest.mark.parametrize(
    "path",
    ["package.json", "Makefile", ".github/workflows/ci.yml", ".gitignore", ".gitattributes",
     ".vscode/extensions.json", ".pre-commit-config.yaml", "git/hooks/x", "a.pth"],
)  # fmt: skip
def test_ordinary_files_of_a_project_are_not(path: str) -> None:
    assert writing(guard(), path, "/home/u/work") is None


def test_a_new_program_of_the_user_takes_the_place_of_none() -> None:
    assert not guard().runs_later("/home/u/.local/bin/tool-of-mine")


def test_a_project_in_a_system_folder_is_a_workplace_but_etc_is_not() -> None:
    assert writing(guard(workspace="/usr/src/app"), "a.py", "/usr/src/app") is None
    for workspace in ("/usr", "/etc/nginx", "/"):
        concern = writing(guard(workspace=workspace), "/etc/nginx/a", "/")
        assert concern is not None
        assert concern.refused
    assert guard(workspace="/usr").is_system("/usr/bin/ls")


def test_a_home_at_the_root_opens_nothing() -> None:
    assert guard(home="/").is_system("/etc/hosts")
    assert guard(home="/").is_credential("/.ssh/id_rsa")


def test_a_service_user_at_home_in_a_system_folder() -> None:
    own = guard(home="/var/lib/hermes", workspace="/var/lib/hermes/work")
    assert writing(own, "a.py", "/var/lib/hermes/work") is None
    assert own.write_refusal("/var/lib/other/x")


def test_null_device_is_not_a_system_path() -> None:
    assert not guard().is_system("/dev/null")
    assert guard().is_system("/dev/sda")


def test_reading_what_holds_secrets_is_a_question() -> None:
    for path in ("~/.ssh/id_rsa", "/etc/shadow", "~/.hermes/.env"):
        concern = reading(guard(), path, "/")
        assert concern is not None
        assert not concern.refused
    assert reading(guard(), "/etc/hosts", "/") is None


def test_stores_that_are_links_are_followed(tmp_path: Path) -> None:
    home, dotfiles = tmp_path / "home", tmp_path / "dotfiles"
    (dotfiles / "config").mkdir(parents=True)
    home.mkdir()
    (home / ".config").symlink_to(dotfiles / "config")
    (home / ".bashrc").symlink_to(dotfiles / "bashrc")
    watching = guard(str(home), str(tmp_path))
    for path in ("config/gh/hosts.yml", "config/git/credentials", "bashrc"):
        assert watching.write_refusal(str(dotfiles / path)), path
    assert not watching.write_refusal(str(dotfiles / "config/nvim/init.lua"))
    assert watching.runs_later(str(dotfiles / "config/nvim/init.lua"))


def test_a_name_spelt_with_escapes_is_judged_by_the_file_it_means(tmp_path: Path):
    """Tools show bytes that are not UTF-8 as `\\xNN` and take such names back."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519").write_text("key")
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (other / "note.txt").write_text("x")
    guard = PathGuard(home=tmp_path, workspace=(work,))
    read = reading(guard, r"~/.ss\x68/id_ed25519", str(work))
    assert read is not None
    assert read.kind == "credential access"
    written = writing(guard, r"../othe\x72/note.txt", str(work))
    assert written is not None
    assert written.kind == "write outside the workspace"

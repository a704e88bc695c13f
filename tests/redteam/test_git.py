"""Repositories whose settings start a program, and everything that Hermes does with git in them.

Each attack is armed in a repository of the user. `ordinary_git` shows that it works: one of the
commands that users type starts the program. Then Hermes does all that it does in a repository.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from hermes.app import ReferenceContext, UserGit, expand_references
from hermes.core.errors import HermesError
from hermes.core.testing import ModelServer
from hermes.ops.worktrees import open_worktree
from hermes.plugins.installer import PluginFetcher
from hermes.security import PathGuard
from hermes.tools.checkpoints import Checkpoints
from tests.integration.chat.conftest import HERMES, at
from tests.redteam.conftest import TAX, Machine
from tests.workspace import IDENTITY, run_git

pytestmark = pytest.mark.requires("git")


class Repository:
    """A repository of the user, a program of the attacker and the trace that it leaves."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.folder, self.home = machine, machine.work, machine.home
        self.trace = machine.home / "the-program-ran"
        self.evil = machine.home / "evil.sh"
        self.evil.write_text(f"#!/bin/sh\ntouch {self.trace}\nexec timeout 1 cat\n")
        self.evil.chmod(0o755)
        self.git("init", "--quiet", "--initial-branch=main")
        self.write("a.txt", "one\n")
        self.write(".gitattributes", "*.txt filter=evil diff=evil\n")
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "first")
        self.write("a.txt", "two\n")
        run_git("clone", "--quiet", "--bare", str(self.folder), f"{self.home}/origin.git",
                folder=self.home)  # fmt: skip
        self.git("remote", "add", "origin", f"{self.home}/origin.git")
        self.git("fetch", "--quiet")
        self.git("branch", "--quiet", "--set-upstream-to=origin/main")

    def git(self, *arguments: str, folder: Path | None = None) -> str:
        return run_git(*arguments, folder=folder or self.folder)

    def set(self, name: str, value: str = "") -> None:
        self.git("config", name, value or str(self.evil))

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def ordinary_git(self) -> None:
        """What users type. Some of it fails when the program of the attacker is strange."""
        self.write("a.txt", "five\n")
        for words in (
            "status", "diff", "diff --submodule=diff", "log -p", "log --show-signature", "fetch",
            "show HEAD:a.txt", "cat-file -p " + "1" * 40, "add a.txt",
            "worktree add ../tree -b hermes/x", "push origin HEAD:refs/heads/z", "pull",
        ):  # fmt: skip
            subprocess.run(
                ["git", *words.split()],
                cwd=self.folder,
                env={**os.environ, **IDENTITY},
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
            )

    async def everything(self) -> str:
        """All that Hermes does with git in a repository. Returns what the model would see."""
        guard = PathGuard(self.home, (self.folder,), (self.machine.hermes,))
        context = ReferenceContext(guard, self.folder, 100_000, str)
        shown = await expand_references("@diff @staged @git:2", context)
        with suppress(HermesError):
            worktree = await open_worktree(self.folder, "attack", print)
            (worktree.folder / "a.txt").write_text("three\n")
            with suppress(HermesError):
                await worktree.close()
        git = UserGit(self.folder)
        for words in (
            ["status", "--porcelain"], ["ls-files", "--cached", "--others", "-z"],
            ["show", "HEAD:a.txt"], ["diff", "HEAD"], ["fetch", "--quiet", "--", "origin"],
            ["worktree", "prune"], ["reset", "--hard", "--quiet"],
            ["merge", "--ff-only", "--quiet", "origin/main"], ["cat-file", "-p", "1" * 40],
        ):  # fmt: skip
            with suppress(HermesError):
                await git.run(*words)
        checkpoints = Checkpoints(self.home / "checkpoints", self.folder, self.home)
        record = await checkpoints.take("an attack")
        self.write("a.txt", "four\n")
        if record is not None:
            await checkpoints.finish(record)
        await checkpoints.diff(1)
        await checkpoints.restore(1)
        with suppress(HermesError):
            PluginFetcher({**os.environ}).update(self.folder)
        return str(shown)


@pytest.fixture
def repository(machine: Machine) -> Repository:
    return Repository(machine)


def add_submodule(repository: Repository) -> Path:
    """A repository inside this one, which git enters to find out whether it has changes."""
    inner = repository.folder / "inner"
    inner.mkdir()
    repository.git("init", "--quiet", folder=inner)
    (inner / "b.txt").write_text("b\n")
    repository.git("add", ".", folder=inner)
    repository.git("commit", "--quiet", "-m", "inner", folder=inner)
    repository.git("add", "inner")
    repository.git("commit", "--quiet", "-m", "with inner", "--", "inner")
    (inner / "b.txt").write_text("c\n")
    return inner


def clean_filter(r: Repository) -> None:
    r.set("filter.evil.clean")


def smudge_filter(r: Repository) -> None:
    r.set("filter.evil.smudge")


def required_filter(r: Repository) -> None:
    r.set("filter.evil.clean")
    r.set("filter.evil.smudge")
    r.set("filter.evil.required", "true")


def filter_process(r: Repository) -> None:
    r.set("filter.evil.process")
    r.set("filter.evil.required", "true")


def filter_of_attributes_in_the_git_folder(r: Repository) -> None:
    r.write(".git/info/attributes", "* filter=other\n")
    r.set("filter.other.clean")
    r.set("filter.other.smudge")


def filter_with_an_odd_name(r: Repository) -> None:
    name = 'a "=b\\.c [d'
    r.write(".gitattributes", "* filter=x\n")
    r.git("config", f"filter.{name}.clean", "true")
    r.set("filter.x.clean")


def included_file(r: Repository) -> None:
    r.write(".git/more", f'[filter "evil"]\nclean = {r.evil}\nsmudge = {r.evil}\n')
    r.set("include.path", "more")


def file_included_by_an_included_file(r: Repository) -> None:
    r.write("settings/a", "[include]\npath = b\n")
    r.write("settings/b", f'[filter "evil"]\nclean = {r.evil}\nsmudge = {r.evil}\n')
    r.set("include.path", "../settings/a")


def include_that_only_applies_in_the_worktree(r: Repository) -> None:
    """When Hermes reads the settings, the condition is false."""
    r.write(".git/more", f'[filter "evil"]\nsmudge = {r.evil}\n')
    r.set("includeIf.onbranch:hermes/**.path", "more")


def settings_of_the_worktree(r: Repository) -> None:
    r.set("extensions.worktreeConfig", "true")
    r.git("config", "--worktree", "filter.evil.clean", str(r.evil))
    r.git("config", "--worktree", "filter.evil.smudge", str(r.evil))


def fsmonitor(r: Repository) -> None:
    r.set("core.fsmonitor")


def hook(r: Repository) -> None:
    for name in ("post-checkout", "post-index-change", "reference-transaction", "post-merge"):
        shutil.copy(r.evil, r.write(f".git/hooks/{name}", ""))


def folder_of_hooks(r: Repository) -> None:
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        shutil.copy(r.evil, r.write(f"hooks/{name}", ""))
    r.set("core.hooksPath", "hooks")


def textconv(r: Repository) -> None:
    r.set("diff.evil.textconv")


def external_diff(r: Repository) -> None:
    r.set("diff.external")


def diff_driver(r: Repository) -> None:
    r.set("diff.evil.command")


def fsmonitor_of_a_submodule(r: Repository) -> None:
    inner = add_submodule(r)
    r.git("config", "core.fsmonitor", str(r.evil), folder=inner)


def filter_of_a_submodule(r: Repository) -> None:
    inner = add_submodule(r)
    (inner / ".gitattributes").write_text("* filter=inner\n")
    r.git("config", "filter.inner.clean", str(r.evil), folder=inner)


def submodule_that_is_always_compared(r: Repository) -> None:
    """.gitmodules would win over `diff.ignoreSubmodules`."""
    inner = add_submodule(r)
    r.write(".gitmodules", '[submodule "inner"]\npath = inner\nurl = ./inner\nignore = none\n')
    r.set("submodule.inner.ignore", "none")
    r.set("diff.submodule", "diff")
    r.set("submodule.recurse", "true")
    r.set("status.submoduleSummary", "true")
    r.git("config", "core.fsmonitor", str(r.evil), folder=inner)


def missing_objects_that_are_fetched(r: Repository) -> None:
    r.set("extensions.partialClone", "origin")
    r.set("core.repositoryFormatVersion", "1")
    r.set("remote.origin.promisor", "true")
    r.set("remote.origin.uploadpack")


def program_at_the_other_side(r: Repository) -> None:
    r.set("remote.origin.uploadpack")
    r.set("remote.origin.receivepack")


def ssh_command(r: Repository) -> None:
    r.set("remote.origin.url", "ssh://127.0.0.1:1/x.git")
    r.set("core.sshCommand")


def address_that_is_a_command(r: Repository) -> None:
    r.set("remote.origin.url", f"ext::{r.evil} %S")
    r.set("protocol.ext.allow", "always")
    r.set("protocol.allow", "always")


def proxy_command(r: Repository) -> None:
    r.set("remote.origin.url", "git://127.0.0.1:1/x.git")
    r.set("core.gitProxy")


def alternate_refs_command(r: Repository) -> None:
    r.write(".git/objects/info/alternates", f"{r.home}/origin.git/objects\n")
    r.set("core.alternateRefsCommand")


def signature_check(r: Repository) -> None:
    commit = r.git("cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n", 1
    )
    path = r.home / "commit"
    path.write_text(commit)
    signed = r.git("hash-object", "-t", "commit", "-w", str(path)).strip()
    r.git("update-ref", "refs/heads/main", signed)
    r.set("log.showSignature", "true")
    r.set("merge.verifySignatures", "true")
    r.set("gpg.program")


ATTACKS: list[Callable[[Repository], None]] = [
    clean_filter, smudge_filter, required_filter, filter_process,
    filter_of_attributes_in_the_git_folder, filter_with_an_odd_name, included_file,
    file_included_by_an_included_file, include_that_only_applies_in_the_worktree,
    settings_of_the_worktree, fsmonitor, hook, folder_of_hooks, textconv, external_diff,
    diff_driver, fsmonitor_of_a_submodule, filter_of_a_submodule,
    submodule_that_is_always_compared, missing_objects_that_are_fetched,
    program_at_the_other_side, ssh_command, address_that_is_a_command, proxy_command,
    alternate_refs_command, signature_check,
]  # fmt: skip


@pytest.mark.parametrize("attack", [pytest.param(each, id=each.__name__) for each in ATTACKS])
async def test_no_program_of_the_repository_runs(repository: Repository, attack):
    attack(repository)
    repository.trace.unlink(missing_ok=True)
    await repository.everything()
    assert not repository.trace.exists()
    repository.ordinary_git()
    assert repository.trace.exists(), "the attack has no effect at all"


async def test_working_tree_elsewhere_shows_none_of_its_files(repository: Repository):
    """The index names a private file, and the working tree is where that file is."""
    machine = repository.machine
    blob = repository.git("hash-object", "-w", "a.txt").strip()
    repository.git("update-index", "--add", "--cacheinfo", f"100644,{blob},Documents/tax.txt")
    repository.set("core.worktree", str(machine.home))
    assert TAX in repository.git("diff")
    assert TAX not in await repository.everything()
    machine.assert_unharmed()


async def test_filter_of_the_user_still_runs(repository: Repository):
    """It is in the settings of the user, also if the repository replaces it."""
    repository.git("config", "--global", "filter.evil.clean", "sed s/two/TWO/")
    repository.set("filter.evil.clean")
    repository.trace.unlink(missing_ok=True)
    diff = await UserGit(repository.folder).run("diff")
    assert "+TWO" in diff.text
    assert not repository.trace.exists()


@pytest.mark.parametrize("options", [(), ("--worktree",)], ids=["diff", "worktree"])
def test_chat_about_a_hostile_repository(repository: Repository, options):
    """The finding: the next `hermes chat -q "… @diff"` of the user ran the filter."""
    clean_filter(repository)
    smudge_filter(repository)
    fsmonitor(repository)
    repository.trace.unlink(missing_ok=True)
    with ModelServer(["Done."]) as server:
        done = subprocess.run(
            [*HERMES, "chat", *options, "-q", "What changed? @diff", *at(server)],
            cwd=repository.folder,
            check=False,
            capture_output=True,
            text=True,
        )
        sent = str([each.body for each in server.calls])
    assert "Done." in done.stdout, done.stderr
    assert options or "+two" in sent
    assert not repository.trace.exists()

"""Updating to another version, completely or not at all.

The new version gets its own folder and, if its packages differ, its own environment. The checkout
is switched only after the new version has started there: the source by git, the environment by a
rename. During the switch, `undo.sh` exists; if the launcher finds it, it restores the old version,
so a kill is harmless. The replaced environment is kept for `rollback`.
"""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hermes.app import GitFailed, UserGit
from hermes.config import environment
from hermes.config.installation import Checkout
from hermes.core.errors import HermesError
from hermes.ops import update_undo
from hermes.util import files

# The checkout: available commits, and local changes that prevent an update.

FETCH_SECONDS = 300.0
SHOWN_COMMITS = 20
SHOWN_LINES = 40
VERSION_FILE = "src/hermes/__init__.py"

_VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)
_OFFLINE = (
    "could not resolve host", "unable to access", "could not read from remote",
    "connection", "network is unreachable", "timed out", "took longer",
)  # fmt: skip


class UpdateFailed(HermesError):
    """The update failed; the program is unchanged."""


class AvailableUpdate(msgspec.Struct, frozen=True):
    """The content of an update."""

    current: str  #: The commit in use.
    target: str  #: The commit to switch to.
    upstream: str  #: Its branch, such as `origin/main`.
    version: str  #: The version of the target.
    commits: tuple[str, ...]  #: Commit subjects, newest first; at most `SHOWN_COMMITS`.
    total: int  #: The number of commits.
    changes: tuple[str, ...]  #: New lines of the changelog.


class Repository:
    """The checkout, through git."""

    def __init__(self, root: Path) -> None:
        self.root, self._git = root, UserGit(root)

    async def head(self) -> str:
        return await self._git.line("rev-parse", "HEAD")

    async def fetch(self) -> str:
        """Fetch the branch that this one follows and return its name."""
        branch = await self._git.line("symbolic-ref", "--quiet", "--short", "HEAD")
        if not branch:
            raise UpdateFailed(
                f"{self.root} is on no branch", hint=f"git -C {self.root} switch main"
            )
        upstream = await self._git.line(
            "rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}"
        )
        remote = await self._git.line("config", "--get", f"branch.{branch}.remote")
        if not upstream or not remote:
            raise UpdateFailed(
                f"the branch {branch} follows no other branch, so newer versions are not known",
                hint=f"git -C {self.root} branch --set-upstream-to origin/{branch}",
            )
        try:
            await self._git.run("fetch", "--quiet", remote, seconds=FETCH_SECONDS)
        except GitFailed as error:
            raise _fetch_failure(remote, error) from error
        return upstream

    async def news(self, upstream: str) -> AvailableUpdate | None:
        """Return the new commits of `upstream`. Raises `UpdateFailed` for diverged branches."""
        counted = await self._git.run("rev-list", "--left-right", "--count", f"HEAD...{upstream}")
        ahead, behind = (int(number) for number in counted.text.split())
        if not behind:
            return None
        if ahead:
            raise UpdateFailed(
                f"there are {ahead} commits here that {upstream} does not have",
                hint=f"git -C {self.root} rebase {upstream}, then again: hermes update",
            )
        current, target = await self.head(), await self._git.line("rev-parse", upstream)
        subjects = await self._git.run(
            "log", "--format=%s", f"--max-count={SHOWN_COMMITS}", f"{current}..{target}"
        )
        diff = await self._git.run("diff", "--unified=0", current, target, "--", "CHANGELOG.md")
        lines = [line[1:].rstrip() for line in diff.text.splitlines() if line.startswith("+")]
        return AvailableUpdate(
            current,
            target,
            upstream,
            await self.version_of(target),
            tuple(subjects.text.splitlines()),
            behind,
            tuple(line for line in lines if line and not line.startswith("++ "))[:SHOWN_LINES],
        )

    async def version_of(self, commit: str) -> str:
        found = _VERSION.search(await self._git.line("show", f"{commit}:{VERSION_FILE}"))
        return found[1] if found else "?"

    async def check_clean(self, target: str) -> None:
        """Raise `UpdateFailed` if local changes could be lost."""
        changed = (await self._git.run("status", "--porcelain", "--untracked-files=no")).text
        if changed:
            names = [line[3:] for line in changed.splitlines()]
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise UpdateFailed(
                f"files were changed here: {', '.join(names[:3])}{more}",
                hint=f"git -C {self.root} stash; hermes update; git -C {self.root} stash pop",
            )
        new = await self._git.run("diff", "--name-only", "--diff-filter=A", "-z", "HEAD", target)
        for name in filter(None, new.text.split("\0")):
            if os.path.lexists(self.root / name):
                raise UpdateFailed(
                    f"{name} conflicts with a file of the new version",
                    hint=f"move {self.root / name} elsewhere",
                )

    async def is_ancestor(self, one: str, other: str) -> bool:
        """Return whether `other` contains all commits of `one`."""
        return not await self._git.line("rev-list", "--max-count=1", one, f"^{other}")

    async def add_tree(self, folder: Path, commit: str) -> None:
        """Check out `commit` in a separate folder."""
        await self.forget_trees()
        await self._git.run(
            "worktree", "add", "--detach", "--force", str(folder), commit, seconds=FETCH_SECONDS
        )

    async def forget_trees(self) -> None:
        """Let git forget worktrees whose folders were deleted."""
        await self._git.run("worktree", "prune")

    async def forward(self, target: str) -> None:
        await self._git.run("merge", "--ff-only", "--quiet", target, seconds=FETCH_SECONDS)

    async def back(self, commit: str) -> None:
        """Return to an earlier commit. Local changes are kept, or git refuses."""
        await self._git.run("reset", "--keep", "--quiet", commit, seconds=FETCH_SECONDS)


def _fetch_failure(remote: str, error: GitFailed) -> UpdateFailed:
    reason = str(error).removeprefix("git fetch: ")
    if any(sign in reason.lower() for sign in _OFFLINE):
        return UpdateFailed(
            f"{remote} cannot be reached: {reason}",
            hint="check the network connection and try again; nothing was changed",
        )
    return UpdateFailed(f"git cannot fetch from {remote}: {reason}", hint="nothing was changed")


CHECK_SECONDS = 120
OUTPUT_TAIL = 12
CHECKS = (["--version"], ["version", "--json"])  #: Commands that the new version must run.
FROM_SOURCE = (
    "import sys; sys.path.insert(0, {source!r}); from hermes.cli.main import main;"
    " sys.exit(main(sys.argv[1:]))"
)

Tell = Callable[[str], None]


class Switch(msgspec.Struct, frozen=True):
    """A change of version; the last one is recorded for a rollback."""

    before: str  #: The commit.
    after: str
    version: str  #: The previous version.
    incoming: str = ""  #: The folder of the new environment; empty if the old one is used.


class Updater:
    """Changes the version of one checkout."""

    def __init__(self, checkout: Checkout, tell: Tell) -> None:
        self._checkout, self._tell = checkout, tell
        self._repository = Repository(checkout.root)
        self._records = update_undo.Records(checkout.root)
        self._tree = self._records.folder / "tree"
        self._last = self._records.folder / "previous.json"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the checkout against other updates, and clean up after an interrupted one."""
        try:
            with update_undo.hold_lock(self._records.lock, wait=False):
                if update_undo.undo(self._checkout.root):
                    self._tell("an update was interrupted; the previous version was restored")
                yield
        except BlockingIOError:
            raise UpdateFailed(
                "another update of this checkout is running", hint="wait until it ends"
            ) from None
        except (OSError, subprocess.CalledProcessError) as error:
            raise UpdateFailed(f"the update failed: {error}") from error

    async def news(self) -> AvailableUpdate | None:
        return await self._repository.news(await self._repository.fetch())

    async def update(self, news: AvailableUpdate) -> None:
        """Switch to another version; call within `alone`. Raises `UpdateFailed` without changes."""
        await self._repository.check_clean(news.target)
        version = await self._repository.version_of(news.current)
        try:
            await self._remove_tree()
            self._records.folder.mkdir(parents=True, exist_ok=True)
            await self._repository.add_tree(self._tree, news.target)
            built = await asyncio.to_thread(self._build)
            incoming = str(self._tree / ".venv") if built else ""
            await self._switch(Switch(news.current, news.target, version, incoming))
        finally:
            await self._remove_tree()

    def previous(self) -> Switch | None:
        """Return the last change of version if it can be undone."""
        try:
            return msgspec.json.decode(self._last.read_bytes(), type=Switch)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    async def rollback(self) -> Switch:
        """Return to the version before the last update; call within `alone`."""
        last = self.previous()
        head = await self._repository.head()
        if last is None or last.after != head:
            raise UpdateFailed(
                "there is no earlier version to go back to",
                hint="git log shows them; git switch --detach COMMIT uses one",
            )
        await self._repository.check_clean(last.before)
        kept = self._records.replaced(last.before)
        if last.incoming and not kept.is_dir():
            raise UpdateFailed(f"the environment of {last.version} is gone ({kept})")
        version = await self._repository.version_of(head)
        await self._switch(Switch(head, last.before, version, str(kept) if last.incoming else ""))
        self._last.unlink()
        self._sweep()
        return last

    async def _remove_tree(self) -> None:
        if self._tree.exists():
            await asyncio.to_thread(shutil.rmtree, self._tree)
        await self._repository.forget_trees()

    def _build(self) -> bool:
        """Start the new version once; return whether it needs its own environment."""
        lock, extras = self._installed()
        records = self._checkout.environment / "hermes"
        wanted = self._tree / lock
        if not wanted.is_file():
            hint = "set it up by hand: see its README"
            raise UpdateFailed(f"the new version has no {lock}", hint=hint)
        pairs = [(records / "lock", wanted)]
        if extras:
            pairs.append((records / "extras.lock", self._tree / "requirements-extras.lock"))
        if all(one.is_file() and one.read_bytes() == new.read_bytes() for one, new in pairs):
            python = str(self._checkout.environment / "bin" / "python")
            code = FROM_SOURCE.format(source=str(self._tree / "src"))
            self._check([python, "-I", "-c", code])
            return False
        self._tell("the new version needs other packages: building its environment")
        setup = ["sh", str(self._tree / "scripts" / "setup.sh"), lock]
        setup += [word for extra in extras for word in ("--extra", extra)]
        self._run(setup, "its environment cannot be built", seconds=None)
        self._check([str(self._tree / "hermes")])
        return True

    def _installed(self) -> tuple[str, list[str]]:
        """Return the lock file and the extras of this environment, for the new one."""
        stamp = self._checkout.environment / "hermes" / "stamp"
        lines = stamp.read_text().splitlines() if stamp.is_file() else []
        lock = lines[1] if len(lines) > 1 else "requirements.lock"
        return lock, lines[2].split() if len(lines) > 2 else []

    async def _switch(self, switch: Switch) -> None:
        self._prepare_undo(switch)
        try:
            await self._exchange(switch)
            await asyncio.to_thread(self._check_here)
        except (
            HermesError, OSError, subprocess.CalledProcessError,
            asyncio.CancelledError, KeyboardInterrupt,
        ):  # fmt: skip
            update_undo.undo(self._checkout.root)
            raise
        self._records.switch.replace(self._last)
        self._records.starter.unlink()
        self._sweep()

    async def _exchange(self, switch: Switch) -> None:
        forward = await self._repository.is_ancestor(switch.before, switch.after)
        move = self._repository.forward if forward else self._repository.back
        await move(switch.after)
        update_undo.forget_bytecode(self._checkout.root, switch.before, switch.after)
        if switch.incoming:
            self._checkout.environment.rename(self._records.replaced(switch.before))
            Path(switch.incoming).rename(self._checkout.environment)

    def _check_here(self) -> None:
        """Run the new version without the launcher, which would undo the switch."""
        lock, _ = self._installed()
        setup = ["sh", str(self._checkout.root / "scripts" / "setup.sh"), lock]
        self._run(setup, "its environment cannot be used", seconds=None)
        self._check([str(self._checkout.environment / "bin" / "python"), "-I", "-m", "hermes"])

    def _prepare_undo(self, switch: Switch) -> None:
        folder = self._records.folder
        folder.mkdir(parents=True, exist_ok=True)
        files.write_bytes(folder / "undo.py", Path(update_undo.__file__).read_bytes())
        files.write_bytes(self._records.switch, msgspec.json.encode(switch))
        python = os.path.realpath(sys.executable)  # outside the environment
        words = [python, "-I", str(folder / "undo.py"), str(self._checkout.root)]
        files.write_text(self._records.starter, f"exec {shlex.join(words)}\n")

    def _sweep(self) -> None:
        """Delete environments that no rollback needs."""
        last = self.previous()
        kept = self._records.replaced(last.before) if last and last.incoming else None
        for folder in self._records.folder.glob("env-*"):
            if folder != kept:
                shutil.rmtree(folder, ignore_errors=True)

    def _check(self, start: Sequence[str]) -> None:
        for words in CHECKS:
            self._run([*start, *words], "it does not start", seconds=CHECK_SECONDS)

    def _run(self, command: Sequence[str], trouble: str, seconds: float | None) -> None:
        variables = dict(environment.variables())
        variables.setdefault("HERMES_PYTHON", os.path.realpath(sys.executable))
        try:
            done = subprocess.run(
                command,
                cwd=self._checkout.root,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=variables,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            raise UpdateFailed(f"the new version is not used: {trouble}") from None
        if done.returncode:
            for line in done.stdout.splitlines()[-OUTPUT_TAIL:]:
                self._tell(f"  {line}")
            raise UpdateFailed(
                f"the new version is not used: {trouble}", hint="nothing was changed"
            )

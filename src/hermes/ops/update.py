"""Another version in the place of this one, as a whole or not at all.

The new version gets a folder and, when its packages differ, an environment of its own beside the
old one. Only when it starts there is the checkout switched: the source by git, the environment by a
rename. From the first change to the last `undo.sh` is there, and the launcher runs it when it finds
it: a kill in between brings the old version back. The environment that was replaced is kept for
`rollback`.
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

from hermes.app.git import GitFailed, UserGit
from hermes.app.installation import Checkout
from hermes.config import environment
from hermes.core.errors import HermesError
from hermes.ops import update_undo
from hermes.util import files

# What git knows about a checkout: what is new, and what stands in the way of having it.

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
    """The program stays as it is."""


class AvailableUpdate(msgspec.Struct, frozen=True):
    """What an update would bring."""

    current: str
    """The commit in use."""
    target: str
    """The commit it goes to."""
    upstream: str
    """The branch it comes from, such as `origin/main`."""
    version: str
    """The version of the target."""
    commits: tuple[str, ...]
    """Subjects, newest first; at most `SHOWN_COMMITS`."""
    total: int
    """How many commits there are."""
    changes: tuple[str, ...]
    """New lines of the changelog."""


class Repository:
    """The checkout as git sees it."""

    def __init__(self, root: Path) -> None:
        self.root, self._git = root, UserGit(root)

    async def head(self) -> str:
        return await self._git.line("rev-parse", "HEAD")

    async def fetch(self) -> str:
        """Get what is new from the branch that this one follows; the name of that branch."""
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
                f"the branch {branch} follows no other one, so nothing says what is newer",
                hint=f"git -C {self.root} branch --set-upstream-to origin/{branch}",
            )
        try:
            await self._git.run("fetch", "--quiet", remote, seconds=FETCH_SECONDS)
        except GitFailed as error:
            raise _not_fetched(remote, error) from error
        return upstream

    async def news(self, upstream: str) -> AvailableUpdate | None:
        """What `upstream` has that is not here. Raises `UpdateFailed` when both went apart."""
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
        return AvailableUpdate(
            current,
            target,
            upstream,
            await self.version_of(target),
            tuple(subjects.text.splitlines()),
            behind,
            await self._changes(current, target),
        )

    async def version_of(self, commit: str) -> str:
        found = _VERSION.search(await self._git.line("show", f"{commit}:{VERSION_FILE}"))
        return found[1] if found else "?"

    async def check_clean(self, target: str) -> None:
        """Raises `UpdateFailed` when changes of the user's could be lost."""
        changed = (await self._git.run("status", "--porcelain", "--untracked-files=no")).text
        if changed:
            names = [line[3:] for line in changed.splitlines()]
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise UpdateFailed(
                f"files were changed here: {', '.join(names[:3])}{more}",
                hint=f"git -C {self.root} stash; hermes update; git -C {self.root} stash pop",
            )
        new = await self._git.run("diff", "--name-only", "--diff-filter=A", "-z", "HEAD", target)
        in_the_way = [name for name in new.text.split("\0") if name and self._is_there(name)]
        if in_the_way:
            raise UpdateFailed(
                f"{in_the_way[0]} is in the way: the new version has a file of that name",
                hint=f"move {self.root / in_the_way[0]} elsewhere",
            )

    def _is_there(self, name: str) -> bool:
        path = self.root / name
        return path.is_symlink() or path.exists()

    async def is_ancestor(self, one: str, other: str) -> bool:
        """Whether `other` has everything that `one` has."""
        return not await self._git.line("rev-list", "--max-count=1", one, f"^{other}")

    async def add_tree(self, folder: Path, commit: str) -> None:
        """The files of `commit` in a folder of their own."""
        await self._git.run("worktree", "prune")
        await self._git.run(
            "worktree", "add", "--detach", "--force", str(folder), commit, seconds=FETCH_SECONDS
        )

    async def forget_trees(self) -> None:
        """After their folders were deleted."""
        await self._git.run("worktree", "prune")

    async def forward(self, target: str) -> None:
        await self._git.run("merge", "--ff-only", "--quiet", target, seconds=FETCH_SECONDS)

    async def back(self, commit: str) -> None:
        """To an earlier commit; changes of the user's stay, or git refuses."""
        await self._git.run("reset", "--keep", "--quiet", commit, seconds=FETCH_SECONDS)

    async def _changes(self, current: str, target: str) -> tuple[str, ...]:
        diff = await self._git.run("diff", "--unified=0", current, target, "--", "CHANGELOG.md")
        lines = [line[1:].rstrip() for line in diff.text.splitlines() if line.startswith("+")]
        return tuple(line for line in lines if line and not line.startswith("++ "))[:SHOWN_LINES]


def _not_fetched(remote: str, error: GitFailed) -> UpdateFailed:
    said = str(error).removeprefix("git fetch: ")
    if any(sign in said.lower() for sign in _OFFLINE):
        return UpdateFailed(
            f"{remote} cannot be reached: {said}",
            hint="check the network connection and try again; nothing was changed",
        )
    return UpdateFailed(f"git cannot fetch from {remote}: {said}", hint="nothing was changed")


CHECK_SECONDS = 120
OUTPUT_TAIL = 12
CHECKS = (["--version"], ["version", "--json"])
"""A version that cannot do this is not switched to."""
FROM_SOURCE = (
    "import sys; sys.path.insert(0, {source!r}); from hermes.cli.main import main;"
    " sys.exit(main(sys.argv[1:]))"
)

Tell = Callable[[str], None]


class Switch(msgspec.Struct, frozen=True):
    """A change of version; the record of the last one says what a rollback goes back to."""

    before: str
    """The commit."""
    after: str
    version: str
    """The version before."""
    incoming: str = ""
    """Where the new environment comes from; empty when the old one does."""


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
        """Nobody else updates this checkout meanwhile. What another one left is tidied."""
        try:
            with update_undo.hold_lock(self._records.lock, wait=False):
                if update_undo.undo(self._checkout.root):
                    self._tell("an update was cut short; the version before is back")
                yield
        except BlockingIOError:
            raise UpdateFailed(
                "another update of this checkout is running", hint="wait for its end"
            ) from None
        except (OSError, subprocess.CalledProcessError) as error:
            raise UpdateFailed(f"the update failed: {error}") from error

    async def news(self) -> AvailableUpdate | None:
        return await self._repository.news(await self._repository.fetch())

    async def update(self, news: AvailableUpdate) -> None:
        """Within `alone`. Raises `UpdateFailed`, and then everything is as before."""
        await self._repository.check_clean(news.target)
        version = await self._repository.version_of(news.current)
        try:
            await self._put_beside(news.target)
            built = await asyncio.to_thread(self._build)
            incoming = str(self._tree / ".venv") if built else ""
            await self._switch(Switch(news.current, news.target, version, incoming))
        finally:
            await self._remove_tree()

    def previous(self) -> Switch | None:
        """The last change of version, when it can be taken back."""
        try:
            return msgspec.json.decode(self._last.read_bytes(), type=Switch)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    async def rollback(self) -> Switch:
        """Within `alone`: back to the version before the last update."""
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

    async def _put_beside(self, commit: str) -> None:
        await self._remove_tree()
        self._records.folder.mkdir(parents=True, exist_ok=True)
        await self._repository.add_tree(self._tree, commit)

    async def _remove_tree(self) -> None:
        if self._tree.exists():
            await asyncio.to_thread(shutil.rmtree, self._tree)
        await self._repository.forget_trees()

    def _build(self) -> bool:
        """Make the new version start; whether it got an environment of its own."""
        lock, extras = self._installed()
        records = self._checkout.environment / "hermes"
        wanted = self._tree / lock
        if not wanted.is_file():
            raise UpdateFailed(
                f"the new version has no {lock}",
                hint="it needs to be set up by hand: see its README",
            )
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
        """The lock file and the extras of this environment: the new one gets the same."""
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
        """Not with the launcher, which would take the switch for one that was cut short."""
        lock, _ = self._installed()
        setup = ["sh", str(self._checkout.root / "scripts" / "setup.sh"), lock]
        self._run(setup, "its environment cannot be used", seconds=None)
        self._check([str(self._checkout.environment / "bin" / "python"), "-I", "-m", "hermes"])

    def _prepare_undo(self, switch: Switch) -> None:
        folder = self._records.folder
        folder.mkdir(parents=True, exist_ok=True)
        files.write_bytes(folder / "undo.py", Path(update_undo.__file__).read_bytes())
        files.write_bytes(self._records.switch, msgspec.json.encode(switch))
        python = os.path.realpath(sys.executable)  # outside of the environment
        words = [python, "-I", str(folder / "undo.py"), str(self._checkout.root)]
        files.write_text(self._records.starter, f"exec {shlex.join(words)}\n")

    def _sweep(self) -> None:
        """Environments that no rollback needs."""
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
                f"the new version is not used: {trouble}", hint="everything is as before"
            )

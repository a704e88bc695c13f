"""Updating to another version, completely or not at all; and removing the program.

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
from functools import partial
from pathlib import Path

import msgspec

from hermes.app import UserGit
from hermes.config import environment
from hermes.config.home import PROFILES, default_root, tilde
from hermes.config.installation import LAUNCHER, Checkout, Package
from hermes.core.errors import HermesError
from hermes.ops import update_undo
from hermes.ops.profiles import alias_folder, aliases
from hermes.store import GitCommandFailed
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
        self._root, self._git = checkout.root, UserGit(checkout.root)
        self._records = update_undo.Records(checkout.root)
        self._tree = self._records.folder / "tree"
        self._last = self._records.folder / "previous.json"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the checkout against other updates, and clean up after an interrupted one."""
        try:
            with update_undo.hold_lock(self._records.lock, wait=False):
                if update_undo.undo(self._root):
                    self._tell("an update was interrupted; the previous version was restored")
                yield
        except BlockingIOError:
            raise UpdateFailed(
                "another update of this checkout is running", hint="wait until it ends"
            ) from None
        except (OSError, subprocess.CalledProcessError) as error:
            raise UpdateFailed(f"the update failed: {error}") from error

    async def news(self) -> AvailableUpdate | None:
        """Fetch and return the new commits. Raises `UpdateFailed` for diverged branches."""
        upstream = await self._fetch()
        counted = await self._git.run("rev-list", "--left-right", "--count", f"HEAD...{upstream}")
        ahead, behind = (int(number) for number in counted.text.split())
        if not behind:
            return None
        if ahead:
            raise UpdateFailed(
                f"there are {ahead} commits here that {upstream} does not have",
                hint=f"git -C {self._root} rebase {upstream}, then again: hermes update",
            )
        current, target = await self._commit("HEAD"), await self._commit(upstream)
        subjects = await self._git.run(
            "log", "--format=%s", f"--max-count={SHOWN_COMMITS}", f"{current}..{target}"
        )
        diff = await self._git.run("diff", "--unified=0", current, target, "--", "CHANGELOG.md")
        lines = [line[1:].rstrip() for line in diff.text.splitlines() if line.startswith("+")]
        return AvailableUpdate(
            current,
            target,
            upstream,
            await self._version_of(target),
            tuple(subjects.text.splitlines()),
            behind,
            tuple(line for line in lines if line and not line.startswith("++ "))[:SHOWN_LINES],
        )

    async def update(self, news: AvailableUpdate) -> None:
        """Switch to another version; call within `alone`. Raises `UpdateFailed` without changes."""
        await self._check_clean(news.target)
        version = await self._version_of(news.current)
        try:
            await self._remove_tree()
            self._records.folder.mkdir(parents=True, exist_ok=True)
            tree = ("--detach", "--force", str(self._tree), news.target)
            await self._git.run("worktree", "add", *tree, seconds=FETCH_SECONDS)
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
        head = await self._commit("HEAD")
        if last is None or last.after != head:
            raise UpdateFailed(
                "there is no earlier version to go back to",
                hint="git log shows them; git switch --detach COMMIT uses one",
            )
        await self._check_clean(last.before)
        kept = self._records.replaced(last.before)
        if last.incoming and not kept.is_dir():
            raise UpdateFailed(f"the environment of {last.version} is gone ({kept})")
        version = await self._version_of(head)
        await self._switch(Switch(head, last.before, version, str(kept) if last.incoming else ""))
        self._last.unlink()
        self._sweep()
        return last

    async def _commit(self, name: str) -> str:
        return await self._git.line("rev-parse", name)

    async def _fetch(self) -> str:
        """Fetch the branch that this one follows and return its name."""
        branch = await self._git.line("symbolic-ref", "--quiet", "--short", "HEAD")
        if not branch:
            raise UpdateFailed(
                f"{self._root} is on no branch", hint=f"git -C {self._root} switch main"
            )
        upstream = await self._git.line(
            "rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}"
        )
        remote = await self._git.line("config", "--get", f"branch.{branch}.remote")
        if not upstream or not remote:
            raise UpdateFailed(
                f"the branch {branch} follows no other branch, so newer versions are not known",
                hint=f"git -C {self._root} branch --set-upstream-to origin/{branch}",
            )
        try:
            await self._git.run("fetch", "--quiet", "--", remote, seconds=FETCH_SECONDS)
        except GitCommandFailed as error:
            reason = str(error).removeprefix("git fetch: ")
            if any(sign in reason.lower() for sign in _OFFLINE):
                raise UpdateFailed(
                    f"{remote} cannot be reached: {reason}",
                    hint="check the network connection and try again; nothing was changed",
                ) from error
            text = f"git cannot fetch from {remote}: {reason}"
            raise UpdateFailed(text, hint="nothing was changed") from error
        return upstream

    async def _version_of(self, commit: str) -> str:
        found = _VERSION.search(await self._git.line("show", f"{commit}:{VERSION_FILE}"))
        return found[1] if found else "?"

    async def _check_clean(self, target: str) -> None:
        """Raise `UpdateFailed` if local changes could be lost."""
        changed = (await self._git.run("status", "--porcelain", "--untracked-files=no")).text
        if changed:
            names = [line[3:] for line in changed.splitlines()]
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise UpdateFailed(
                f"files were changed here: {', '.join(names[:3])}{more}",
                hint=f"git -C {self._root} stash; hermes update; git -C {self._root} stash pop",
            )
        new = await self._git.run("diff", "--name-only", "--diff-filter=A", "-z", "HEAD", target)
        for name in filter(None, new.text.split("\0")):
            if os.path.lexists(self._root / name):
                raise UpdateFailed(
                    f"{name} conflicts with a file of the new version",
                    hint=f"move {self._root / name} elsewhere",
                )

    async def _remove_tree(self) -> None:
        if self._tree.exists():
            await asyncio.to_thread(shutil.rmtree, self._tree)
        await self._git.run("worktree", "prune")

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
            update_undo.undo(self._root)
            raise
        self._records.switch.replace(self._last)
        self._records.starter.unlink()
        self._sweep()

    async def _exchange(self, switch: Switch) -> None:
        if await self._git.line("rev-list", "--max-count=1", switch.before, f"^{switch.after}"):
            # To an earlier commit. Local changes are kept, or git refuses.
            move = ("reset", "--keep", "--quiet", switch.after)
        else:
            move = ("merge", "--ff-only", "--quiet", switch.after)
        await self._git.run(*move, seconds=FETCH_SECONDS)
        update_undo.forget_bytecode(self._root, switch.before, switch.after)
        if switch.incoming:
            self._checkout.environment.rename(self._records.replaced(switch.before))
            Path(switch.incoming).rename(self._checkout.environment)

    def _check_here(self) -> None:
        """Run the new version without the launcher, which would undo the switch."""
        lock, _ = self._installed()
        setup = ["sh", str(self._root / "scripts" / "setup.sh"), lock]
        self._run(setup, "its environment cannot be used", seconds=None)
        self._check([str(self._checkout.environment / "bin" / "python"), "-I", "-m", "hermes"])

    def _prepare_undo(self, switch: Switch) -> None:
        folder = self._records.folder
        folder.mkdir(parents=True, exist_ok=True)
        files.write_bytes(folder / "undo.py", Path(update_undo.__file__).read_bytes())
        files.write_bytes(self._records.switch, msgspec.json.encode(switch))
        python = os.path.realpath(sys.executable)  # outside the environment
        words = [python, "-I", str(folder / "undo.py"), str(self._root)]
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
                cwd=self._root,
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


# Removing the program, its links and services, and optionally the data.

COMPLETION_MARK = "completion of hermes, written by `hermes completion"
"""In the first lines of every completion script."""
COMPLETION_FILES = (
    ".local/share/bash-completion/completions/hermes",
    ".config/fish/completions/hermes.fish",
    ".zfunc/_hermes",
)
SHELL_FILES = (
    ".bashrc", ".bash_profile", ".profile", ".zshrc", ".config/fish/config.fish",
)  # fmt: skip
COMPLETION_LINES = re.compile(
    r'^[ \t]*(?:eval "\$\(hermes completion \w+\)"|source <\(hermes completion \w+\)'
    r"|hermes completion fish \| source)[ \t]*(?:\n|\Z)",
    re.MULTILINE,
)
"""Lines that `hermes completion --help` suggests to add."""

USUAL_NAME = ".hermes"
SIGNS = ("config.yaml", ".env", "auth.json", "state.db", "SOUL.md", PROFILES)
"""A folder without any of these is not a home of Hermes."""
OURS = (
    *SIGNS, ".config.lock", "active_profile", "audio_cache", "cache", "checkpoints", "cron",
    "history", "hooks", "image_cache", "logs", "mcp-tokens", "memories", "models", "pairing",
    "plugins", "sandboxes", "scripts", "sessions", "shell-hooks-allowlist.json", "skills",
    "snapshots", "state.db-shm", "state.db-wal", "integrity", "rejected",
)  # fmt: skip
"""Entries deleted from a home with an unusual name, which may be shared with other files."""


class RemovablePart(msgspec.Struct, frozen=True):
    what: str
    path: Path
    remove: Callable[[], None]


class RemovalOutcome(msgspec.Struct, frozen=True):
    part: RemovablePart
    problem: str = ""  #: Why it still exists; empty if it was removed.


def removable_parts(found: Checkout | Package, *, full: bool) -> list[RemovablePart]:
    """List the parts in order. The environment that runs this code is last."""
    gone = [
        RemovablePart(f"command of the profile {alias.profile}", alias.path, alias.path.unlink)
        for alias in aliases()
    ]
    gone += _completion_parts()
    if full:
        gone += _home_parts(default_root(), found)
    if isinstance(found, Checkout):
        gone += _program_parts(found)
    return gone


def remove_all(gone: list[RemovablePart]) -> Iterator[RemovalOutcome]:
    """Remove each part; one that cannot be removed does not prevent the others."""
    for part in gone:
        try:
            part.remove()
        except OSError as error:
            yield RemovalOutcome(part, error.strerror or str(error))
        else:
            yield RemovalOutcome(part)


def _completion_parts() -> Iterator[RemovablePart]:
    user = Path.home()
    for name in COMPLETION_FILES:
        path = user / name
        if COMPLETION_MARK in _text(path)[:500]:
            yield RemovablePart("shell completion", path, path.unlink)
    for name in SHELL_FILES:
        path = user / name
        if COMPLETION_LINES.search(_text(path)):
            text = COMPLETION_LINES.sub("", _text(path))
            yield RemovablePart(
                "completion line in it", path, partial(files.write_text, path, text)
            )


def _program_parts(checkout: Checkout) -> Iterator[RemovablePart]:
    link = alias_folder() / LAUNCHER
    if link.is_symlink() and link.resolve() == checkout.launcher.resolve():
        yield RemovablePart("link to the program", link, link.unlink)
    for what, folder in (
        ("update and set-up records", checkout.cache),
        ("program environment", checkout.environment),
    ):
        if folder.is_dir() and not folder.is_symlink():
            yield RemovablePart(what, folder, partial(_remove_tree, folder))


def _home_parts(root: Path, found: Checkout | Package) -> Iterator[RemovablePart]:
    if not root.exists():
        return
    _check_home(root, found)
    what = "settings, keys, sessions, everything"
    if root.name == USUAL_NAME:
        yield RemovablePart(what, root, partial(_remove_tree, root))
    else:
        yield RemovablePart(f"{what} of Hermes in", root, partial(_clear, root))


def _check_home(root: Path, found: Checkout | Package) -> None:
    """Raise if `root` cannot be a home of Hermes."""
    real, user = root.resolve(), Path.home().resolve()
    above = [user, *user.parents]
    if isinstance(found, Checkout):
        program = found.root.resolve()
        above += [program, *program.parents]
    looks_right = any((root / name).exists() for name in SIGNS)
    if real in above or (not looks_right and any(root.iterdir())):
        raise HermesError(
            f"{tilde(root)} does not look like a home of Hermes, so nothing was deleted",
            hint="check HERMES_HOME; without --full the home is kept",
        )


def _clear(root: Path) -> None:
    for name in OURS:
        path = root / name
        if path.is_dir() and not path.is_symlink():
            _remove_tree(path)
        else:
            path.unlink(missing_ok=True)
    if not any(root.iterdir()):
        root.rmdir()


def _remove_tree(path: Path) -> None:
    """Delete a path. A link is deleted, not its target. Read-only folders are deleted too."""
    if path.is_symlink():
        path.unlink()
        return
    for folder, names, _files in os.walk(path):
        for name in names:
            inner = Path(folder, name)
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(path)


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""

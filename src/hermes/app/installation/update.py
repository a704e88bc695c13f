"""Another version in the place of this one, as a whole or not at all.

The new version gets a folder and, when its packages differ, an environment of its own beside the
old one. Only when it starts there is the checkout switched: the source by git, the environment by a
rename. From the first change to the last `undo.sh` is there, and the launcher runs it when it finds
it: a kill in between brings the old version back. The environment that was replaced is kept for
`rollback`.
"""

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hermes.app.installation import undo
from hermes.app.installation.place import Checkout
from hermes.app.installation.repository import News, Repository, UpdateFailed
from hermes.config import environment
from hermes.core.errors import HermesError
from hermes.util import atomic

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
        self._records = undo.Records(checkout.root)
        self._tree = self._records.folder / "tree"
        self._last = self._records.folder / "previous.json"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else updates this checkout meanwhile. What another one left is tidied."""
        try:
            with undo.held(self._records.lock, wait=False):
                if undo.undo(self._checkout.root):
                    self._tell("an update was cut short; the version before is back")
                yield
        except BlockingIOError:
            raise UpdateFailed(
                "another update of this checkout is running", hint="wait for its end"
            ) from None
        except (OSError, subprocess.CalledProcessError) as error:
            raise UpdateFailed(f"the update failed: {error}") from error

    async def news(self) -> News | None:
        return await self._repository.news(await self._repository.fetch())

    async def update(self, news: News) -> None:
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
            undo.undo(self._checkout.root)
            raise
        self._records.switch.replace(self._last)
        self._records.starter.unlink()
        self._sweep()

    async def _exchange(self, switch: Switch) -> None:
        forward = await self._repository.is_ancestor(switch.before, switch.after)
        move = self._repository.forward if forward else self._repository.back
        await move(switch.after)
        undo.forget_bytecode(self._checkout.root, switch.before, switch.after)
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
        atomic.write_bytes(folder / "undo.py", Path(undo.__file__).read_bytes())
        atomic.write_bytes(self._records.switch, msgspec.json.encode(switch))
        python = os.path.realpath(sys.executable)  # outside of the environment
        words = [python, "-I", str(folder / "undo.py"), str(self._checkout.root)]
        atomic.write_text(self._records.starter, f"exec {shlex.join(words)}\n")

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

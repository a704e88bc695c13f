"""Making a plan so, in one step: a reader, and a process that dies, see all of it or nothing."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from hermes.skills.history.files import drop_empty
from hermes.skills.writing import overlays
from hermes.skills.writing.drafts import ChangeRefused
from hermes.skills.writing.plans import Plan
from hermes.util.atomic import write_bytes

STAGE = ".stage-"
"""Folders at the top in which things are made ready, or taken apart."""


class Workshop:
    """The folder `<home>/skills`. Whoever uses it holds its lock."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def apply(self, plan: Plan) -> None:
        """Raises `ChangeRefused` when the disk does not let it."""
        if not plan.file:
            self._done(lambda: self._discard(plan.target))
        elif plan.original is not None or not plan.target.exists():
            self._done(lambda: self._make(plan))
        else:
            self._done(lambda: self._put(plan.target, plan))

    def discard(self, folder: Path) -> None:
        """Remove the folder of a skill."""
        self._done(lambda: self._discard(folder))

    def move(self, folder: Path, target: Path) -> None:
        """The folder of a skill to another place, which must be free."""

        def work() -> None:
            target.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(target)
            drop_empty(folder.parent, self._home)

        self._done(work)

    def _done(self, work: Callable[[], None]) -> None:
        for left in self._home.glob(f"{STAGE}*"):  # by a process that died
            shutil.rmtree(left, ignore_errors=True)
        try:
            work()
        except OSError as error:
            raise ChangeRefused(
                f"the skill cannot be written: {error.strerror or error}",
                hint=f"look at the room and the permissions of {self._home}",
            ) from error

    def _make(self, plan: Plan) -> None:
        with self._stage() as stage:
            made = stage / plan.target.name
            made.mkdir()
            if plan.original is not None:
                overlays.copy(plan.original, made)
            self._put(made, plan)
            plan.target.parent.mkdir(parents=True, exist_ok=True)
            made.rename(plan.target)

    def _put(self, folder: Path, plan: Plan) -> None:
        file = folder / plan.file
        if plan.after is None:
            file.unlink(missing_ok=True)
            drop_empty(file.parent, folder)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        mode = None if file.exists() else (0o755 if plan.after.startswith(b"#!") else 0o644)
        write_bytes(file, plan.after, mode=mode)

    def _discard(self, folder: Path) -> None:
        with self._stage() as stage:
            folder.rename(stage / folder.name)
        drop_empty(folder.parent, self._home)

    @contextlib.contextmanager
    def _stage(self) -> Iterator[Path]:
        stage = Path(tempfile.mkdtemp(prefix=STAGE, dir=self._home))
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)

"""Makes sure that nothing we started outlives this process, however this process ends.

A small `sh` reads from a pipe the numbers of the process groups we start. When the pipe closes,
because we closed it or because we were killed, it stops the groups that are left with all their
descendants, as `process_tree` does, and removes the private folder. It runs in a session of its
own, so a Ctrl-C or a closed terminal does not reach it.
"""

import asyncio
import contextlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Protocol

from hermes.terminal.family_script import FAMILY
from hermes.terminal.here.process_tree import group_alive

# Only what the shell itself can do, but for `sleep` and `rm`.
KEEPER = r"""
trap '' HUP INT TERM
groups=' ' members=' '
while read -r sign group; do
  kept=' '
  for known in $groups; do [ "$known" = "$group" ] || kept="$kept$known "; done
  groups=$kept
  [ "$sign" = + ] && groups="$groups$group "
done
FAMILY
if alive; then
  signal TERM
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.1
    alive || break
  done
  signal KILL
fi
rm -rf -- "$1"
""".replace("FAMILY", FAMILY)


class Held(Protocol):
    """A program whose process and pipes end with the lifeline."""

    @property
    def pid(self) -> int: ...

    async def release(self) -> None: ...


class Lifeline:
    """`folder` is private to this user and vanishes with the lifeline."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-shell-"))
        self._left: set[int] = set()
        self._held: set[Held] = set()
        self._begin()

    def _begin(self) -> None:
        reading, self._descriptor = os.pipe()
        try:
            self._keeper = subprocess.Popen(
                ["/bin/sh", "-c", KEEPER, "hermes-lifeline", str(self.folder)],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        finally:
            os.close(reading)

    @property
    def descriptor(self) -> int:
        """The pipe to the keeper, for a program that writes `+ GROUP` there before all else."""
        if self._descriptor < 0:
            raise RuntimeError("the lifeline is closed")
        if self._keeper.poll() is not None:  # somebody killed it
            os.close(self._descriptor)
            self._begin()
            for group in {held.pid for held in self._held} | self._left:
                self._tell(b"+ %d\n" % group)
        return self._descriptor

    def hold(self, held: Held) -> None:
        """`held` is released when the lifeline closes, if not dropped before."""
        self._held.add(held)

    def drop(self, held: Held) -> None:
        self._held.discard(held)

    def leader_ended(self, group: int) -> None:
        """Its number may be used again as soon as nothing of the group is left."""
        self._left.add(group)
        for each in [each for each in self._left if not group_alive(each)]:
            self._left.remove(each)
            self._tell(b"- %d\n" % each)

    def is_left(self, group: int) -> bool:
        """Whether members of the group outlived its leader."""
        return group in self._left

    async def close(self) -> None:
        """Stop every group that is left; returns when that is done."""
        if self._descriptor < 0:
            return
        os.close(self._descriptor)
        self._descriptor = -1
        await asyncio.to_thread(self._keeper.wait)
        for held in tuple(self._held):
            await held.release()

    def _tell(self, line: bytes) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._descriptor, line)

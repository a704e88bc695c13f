"""Makes sure that nothing a shell started outlives this process, however this process ends.

A small `sh` reads from a pipe the numbers of the process groups we start. When the pipe closes,
because we closed it or because we were killed, it stops the groups that are left and removes the
shell's private folder. It runs in a session of its own, so a Ctrl-C or a closed terminal does not
reach it.
"""

import asyncio
import contextlib
import os
import subprocess
import tempfile
from pathlib import Path

KEEPER = r"""
trap '' HUP INT TERM
groups=
while read -r sign group; do
  kept=
  for known in $groups; do [ "$known" = "$group" ] || kept="$kept $known"; done
  groups=$kept
  [ "$sign" = + ] && groups="$groups $group"
done
alive() {
  for group in $groups; do kill -s 0 -- "-$group" && return 0; done
  return 1
}
signal() { for group in $groups; do kill -s "$1" -- "-$group"; done; }
signal TERM
for _ in 1 2 3 4 5 6 7 8 9 10; do
  alive || break
  sleep 0.1
done
signal KILL
rm -rf -- "$1"
"""


class Lifeline:
    """Started with the first command of a shell; `folder` is private and vanishes with it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-shell-"))
        reading, self.descriptor = os.pipe()
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

    def forget(self, group: int) -> None:
        """`group` has no process any more."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.descriptor, b"- %d\n" % group)

    async def close(self) -> None:
        """Stop every group that is left; returns when that is done."""
        os.close(self.descriptor)
        await asyncio.to_thread(self._keeper.wait)


def group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs as somebody else: macOS says so for zombies as well
        return True
    return True

"""A program in a terminal inside a container.

When the client of `docker exec -t` goes away, the terminal inside does not hang up. So what runs
there carries a variable by which it is found and ended.
"""

import secrets
from collections.abc import Callable, Sequence

from hermes.terminal.base import Running
from hermes.terminal.containers.client import Client
from hermes.terminal.here.spawn import COLUMNS, LINES

VARIABLE = "HERMES_TERMINAL"
DETACH_KEYS = "ctrl-],ctrl-],ctrl-],ctrl-]"
"""The default, Ctrl-P Ctrl-Q, would swallow a Ctrl-P that is typed."""

# Docker tells the terminal its size a moment after the program has begun.
SIZED = f'stty rows {LINES} cols {COLUMNS} 2>/dev/null; exec "$@"'
HANG_UP = r"""
alive() {
  found=
  for one in $(grep -ls "HERMES_TERMINAL=$1" /proc/[0-9]*/environ); do
    one=${one#/proc/}
    found="$found ${one%/environ}"
  done
  [ -n "$found" ]
}
alive "$1" && kill -s HUP $found 2>/dev/null
for _ in 1 2 3 4; do
  alive "$1" || exit 0
  sleep 0.1
done
kill -s KILL $found 2>/dev/null
exit 0
"""


class ContainerTerminal:
    """`Running` around the client."""

    def __init__(self, client: Client, container: str, running: Running, mark: str) -> None:
        self._client, self._container = client, container
        self._running, self._mark = running, mark

    @classmethod
    async def start(
        cls, client: Client, container: str, argv: Sequence[str], on_output: Callable[[bytes], None]
    ) -> "ContainerTerminal":
        mark = secrets.token_hex(8)
        running = await client.start(
            *("exec", "-i", "-t", "--detach-keys", DETACH_KEYS, "--env", f"{VARIABLE}={mark}"),
            *(container, "sh", "-c", SIZED, "hermes", *argv),
            on_output=on_output,
            pty=True,
        )
        return cls(client, container, running, mark)

    @property
    def pid(self) -> int | None:
        return self._running.pid

    @property
    def exit_code(self) -> int | None:
        return self._running.exit_code

    async def wait(self) -> int:
        return await self._running.wait()

    async def write(self, data: bytes) -> None:
        await self._running.write(data)

    async def close_input(self) -> None:
        await self._running.close_input()

    async def stop(self) -> None:
        await self._running.stop()
        # When the container is gone this fails, and there is nothing left to end.
        await self._client.call("exec", self._container, "sh", "-c", HANG_UP, "hermes", self._mark)

"""`/rollback` as text, the same for the terminal and for chats."""

import re
import time
from collections.abc import Sequence

from hermes.core.errors import UsageError
from hermes.tools.checkpoints.restoring import Restored
from hermes.tools.checkpoints.store import Checkpoint, Checkpoints
from hermes.util.text import human_duration, many

COMMAND = "/rollback"
USAGE = "/rollback, /rollback N, /rollback diff N or /rollback N FILE"
MOST_NAMED = 20
"""Files named one by one in a report."""
_ARGUMENTS = re.compile(r"(?P<diff>diff\s+)?(?P<number>\d+)(?:\s+(?P<file>.+))?")


async def rollback(checkpoints: Checkpoints, arguments: str) -> str:
    """What `/rollback ARGUMENTS` answers. Raises `UsageError` and `StoreError`."""
    if not arguments.strip():
        return listing(await checkpoints.list(), checkpoints.problem)
    match = _ARGUMENTS.fullmatch(arguments.strip())
    if match is None:
        raise UsageError(f"{arguments.strip()!r} is not understood", hint=USAGE)
    number, file = int(match["number"]), match["file"] or ""
    if match["diff"]:
        return await checkpoints.diff(number, file) or f"nothing differs from checkpoint {number}"
    return report(await checkpoints.restore(number, file))


def listing(
    found: Sequence[Checkpoint],
    problem: str = "",
    *,
    command: str = COMMAND,
    now: float | None = None,
) -> str:
    """`command` is what goes back, as the reader types it."""
    if not found:
        return problem or "there are no checkpoints here yet"
    moment = time.time() if now is None else now
    lines = [
        f"{each.number:>3}  {human_duration(moment - each.time):>7} ago  {_changed(each):>9}  "
        f"{each.reason}"
        for each in found
    ]
    return "\n".join([*lines, "", f"Files as they were before each. `{command} N` goes back."])


def _changed(each: Checkpoint) -> str:
    return many(each.changed, "file") if each.ended else "…"


def report(done: Restored, *, command: str = COMMAND) -> str:
    lines = [
        *_named("restored", done.restored),
        *_named("restored, with your own changes kept", done.merged),
        *_named("removed", done.removed),
    ]
    if not lines:
        lines = ["nothing to restore"]
    if done.kept:
        lines.append("left as they are:")
        kept = list(done.kept.items())
        lines += [f"  {path}: {reason}" for path, reason in kept[:MOST_NAMED]]
        lines += [f"  and {len(kept) - MOST_NAMED} more"] if len(kept) > MOST_NAMED else []
    if done.restored or done.merged or done.removed:
        lines.append(f"`{command} 1` undoes this.")
    return "\n".join(lines)


def _named(what: str, paths: Sequence[str]) -> list[str]:
    if not paths:
        return []
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return [f"{what}: {', '.join(paths[:MOST_NAMED])}{more}"]

"""Handlers of /snapshot, /insights and /debug, for the terminal and for chats."""

import asyncio

from hermes.app import CommandCall, CommandHandler, user_zone
from hermes.core.errors import UsageError
from hermes.ops.restore import KEPT_SNAPSHOTS, Snapshot, Snapshots
from hermes.util.text import human_size, many


async def snapshot(call: CommandCall) -> str:
    """List, create, restore or prune snapshots of the settings."""
    action, _, rest = call.arguments.partition(" ")
    snapshots, now, rest = Snapshots(call.app.home), call.app.clock.now(), rest.strip()
    match action.lower():
        case "" | "list":
            found = await asyncio.to_thread(snapshots.newest_first)
            lines = [f"{number}. {_line(each)}" for number, each in enumerate(found, start=1)]
            return "\n".join(lines) or "There are no snapshots: `/snapshot create [LABEL]`"
        case "create":
            made = await asyncio.to_thread(snapshots.create, rest, now)
            return f"Kept {_line(made)}"
        case "restore" if rest:
            wanted, before = await asyncio.to_thread(snapshots.restore, rest, now)
            kept = f" The state before is `{before.id}`." if before else ""
            return f"Restored `{wanted.id}`.{kept} Restart `hermes` to use the settings."
        case "prune":
            keep = int(rest) if rest.isdecimal() else KEPT_SNAPSHOTS
            gone = await asyncio.to_thread(snapshots.prune, keep)
            return f"Deleted {many(len(gone), 'snapshot')}."
    raise UsageError("an action is missing", hint=f"/snapshot {call.command.usage}")


def _line(one: Snapshot) -> str:
    if one.problem:
        return f"`{one.id}` cannot be used: {one.problem}"
    label = f" “{one.label}”" if one.label else ""
    return f"`{one.id}`{label}, {many(one.files, 'file')}, {human_size(one.bytes)}"


async def insights(call: CommandCall) -> str:
    """Return the usage of the last days as Markdown."""
    from hermes.ops.insights import insights_markdown  # rarely needed

    if call.arguments and not call.arguments.isdecimal():
        raise UsageError(f"{call.arguments!r} is not a number of days", hint="/insights [DAYS]")
    zone = user_zone(call.app.loaded.settings)
    return await insights_markdown(call.app.store, int(call.arguments or 30), zone)


async def debug(call: CommandCall) -> str:
    """Return a report on the installation without secrets."""
    from hermes.ops.debug_report import debug_text  # rarely needed

    return await debug_text(call.app.home, call.app.loaded)


OPS_HANDLERS: dict[str, CommandHandler] = {
    "snapshot": snapshot,
    "insights": insights,
    "debug": debug,
}

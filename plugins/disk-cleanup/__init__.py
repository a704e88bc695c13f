"""Remembers the temporary files that the agent makes, and removes them when asked.

Before a call it looks which of the temporary paths in its arguments exist; after it, which of the
others do: these were made by the call. Nothing else is ever listed or removed.
"""

from .command import answer
from .tracker import Tracker


def register(ctx):
    tracker = Tracker()

    def before(args):
        tracker.before(args)

    def after(args):
        tracker.after(args)

    ctx.register_hook("pre_tool_call", before)
    ctx.register_hook("post_tool_call", after)
    ctx.register_command(
        "disk-cleanup",
        lambda raw_args: answer(tracker, raw_args),
        "list temporary files the agent made; `remove` or `remove N` deletes them",
    )

"""Whether a message in doubt is there: it has a mark of ours that people do not see."""

from hermes.gateway.platforms.base import Unknowable
from hermes.gateway.platforms.slack.failures import GONE, TROUBLE, code_of, of_connecting
from hermes.gateway.platforms.slack.ids import ts_at, ts_of
from hermes.gateway.platforms.slack.missed import after
from hermes.gateway.platforms.slack.sending import is_marked
from hermes.gateway.platforms.slack.workspace import Workspace
from hermes.store.records import OutboxRow

MOST = 1000
"""Messages that are looked at."""
CLOCKS = 300.0
"""Seconds that our clock may differ from Slack's."""


async def find(workspace: Workspace, channel: str, thread: str, row: OutboxRow) -> str | None:
    """Its time, or None when it surely is not there."""
    client = workspace.client
    since = ts_of(row.after_id) or ts_at(row.created_at - CLOCKS)
    where = {"channel": channel, "include_all_metadata": True}
    try:
        if thread:
            there = await after(client.conversations_replies, since, MOST, ts=thread, **where)
        else:
            there = await after(client.conversations_history, since, MOST, **where)
    except TROUBLE as error:
        code = code_of(error)
        if code in GONE:
            return None  # nobody sees it there, and sending will say why
        if code == "missing_scope":
            raise Unknowable("Slack does not let us read that channel") from error
        raise of_connecting(error) from error
    for message in there:
        if is_marked(message, row.key):
            return str(message["ts"])
    if len(there) >= MOST:
        raise Unknowable("too much was written on Slack since then")
    return None

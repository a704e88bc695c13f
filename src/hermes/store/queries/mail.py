"""Messages on their way in both directions: counted, and forgotten once they are done."""

from hermes.store.mail import MailCount
from hermes.store.queries import inbox, outbox
from hermes.store.sql import Database

_IN = """
SELECT platform, sum(CASE WHEN state IN ('new', 'begun', 'working') THEN 1 ELSE 0 END),
    max(received_at), sum(CASE state WHEN 'unreadable' THEN 1 ELSE 0 END)
FROM inbox GROUP BY platform
"""
_OUT = f"""
SELECT platform, sum(CASE WHEN {outbox.UNDER_WAY} THEN 1 ELSE 0 END),
    sum(CASE state WHEN 'failed' THEN 1 ELSE 0 END),
    sum(CASE state WHEN 'uncertain' THEN 1 ELSE 0 END), max(sent_at)
FROM outbox GROUP BY platform
"""


def counts(database: Database) -> tuple[MailCount, ...]:
    """By the name of the platform."""
    came = {str(platform): rest for platform, *rest in database.rows(_IN)}
    went = {str(platform): rest for platform, *rest in database.rows(_OUT)}
    made: list[MailCount] = []
    for platform in sorted({*came, *went}):
        waiting, last_in, unreadable = came.get(platform, (0, None, 0))
        pending, failed, uncertain, last_out = went.get(platform, (0, 0, 0, None))
        counted = (waiting, pending, failed, uncertain, last_in, last_out, unreadable)
        made.append(MailCount(platform, *counted))
    return tuple(made)


def clean(database: Database, before: float) -> int:
    return outbox.clean(database, before) + inbox.clean(database, before)

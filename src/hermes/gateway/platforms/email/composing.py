"""A message of ours as a mail. The same message gives the same Message-ID each time."""

import email.policy
import re
from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path

from hermes.gateway.events import Media, Outgoing
from hermes.gateway.platforms.base import SendRefused
from hermes.gateway.platforms.email.threads import Thread
from hermes.gateway.platforms.kit.media import mime_of
from hermes.util.text import clean

POLICY = email.policy.SMTP.clone(cte_type="7bit")
SUBJECT_CHARS = 70

_ADDRESS = re.compile(r"[^\s<>,;:\"()\\\[\]@]{1,64}@[A-Za-z0-9.-]{1,255}")
_REPLY = re.compile(r"\s*(re|aw|sv|antw|vs|ref)\s*(\[\d+\])?\s*:", re.IGNORECASE)
_ID = re.compile(r"[^\s<>]{1,500}")


def checked_address(address: str) -> str:
    """Raises `SendRefused` for what is no address, also for one that would add headers."""
    if not address.isascii() or not _ADDRESS.fullmatch(address):
        raise SendRefused(f"{address[:80]!r} is no mail address that can be written to")
    return address


def compose(
    own: str,
    to: str,
    message: Outgoing,
    *,
    message_id: str,
    thread: Thread | None,
    root: str,
    files: Sequence[tuple[Media, Path]],
    now: datetime,
) -> bytes:
    mail = EmailMessage(policy=POLICY)
    text = clean(message.text or message.plain)
    before = _before(message, thread, root)
    mail["From"], mail["To"] = own, to
    mail["Subject"] = _subject(message, thread, text, answers=bool(before))
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{message_id}>"
    if before:
        mail["In-Reply-To"] = f"<{before[-1]}>"
        mail["References"] = " ".join(f"<{each}>" for each in before)
    mail["Auto-Submitted"] = "auto-replied" if before else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(text, cte="quoted-printable" if text.isascii() else "base64")
    for media, path in files:
        name = media.name or path.name
        main, _, sub = (media.mime or mime_of(name)).partition("/")
        data = path.read_bytes()
        mail.add_attachment(data, maintype=main, subtype=sub or "octet-stream", filename=name)
    return mail.as_bytes()


def _before(message: Outgoing, thread: Thread | None, root: str) -> list[str]:
    """The mails before this one, the one it answers last."""
    known = [*(thread.references if thread else (root,)), message.reply_to]
    if message.reply_to and thread and message.reply_to in thread.references:
        known = list(thread.references[: thread.references.index(message.reply_to) + 1])
    return [each for each in dict.fromkeys(known) if _ID.fullmatch(each)]


def _subject(message: Outgoing, thread: Thread | None, text: str, *, answers: bool) -> str:
    said = " ".join(clean(message.subject or (thread.subject if thread else "")).split())
    if not said:
        first = next((line for line in text.splitlines() if line.strip()), "Hermes")
        said = " ".join(first.split())
        said = said if len(said) <= SUBJECT_CHARS else f"{said[:SUBJECT_CHARS]}…"
    return f"Re: {said}" if answers and not message.subject and not _REPLY.match(said) else said

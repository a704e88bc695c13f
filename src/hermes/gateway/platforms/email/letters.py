"""A mail as it came, and what it says."""

import re
from collections.abc import Iterator
from email.message import EmailMessage, Message

import msgspec

from hermes.gateway.platforms.email import quoting, screening
from hermes.gateway.platforms.email.html_bodies import split_html
from hermes.gateway.platforms.email.parsing import decoded
from hermes.util.text import clean

_ID = re.compile(r"<([^<>\s]{1,500})>")
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
MOST_PARTS = 200
MOST_REFERENCES = 100


class Attachment(msgspec.Struct, frozen=True):
    number: int
    """Among the parts of the mail."""
    name: str
    mime: str
    size: int


class Letter(msgspec.Struct, frozen=True):
    message_id: str
    """Without the angle brackets; "" when it has none."""
    sender: str
    name: str
    subject: str
    references: tuple[str, ...]
    """The mails before it in the thread, the oldest first."""
    answers: str
    """The mail it answers; "" for none."""
    text: str
    quoted: str
    attachments: tuple[Attachment, ...] = ()


def letter(message: EmailMessage) -> Letter:
    address, name = screening.sender(message)
    subject = " ".join(clean(str(message.get("Subject", ""))).split())[:300]
    before = _ids(message, "References")[-MOST_REFERENCES:]
    answers = (_ids(message, "In-Reply-To") or [""])[0]
    if answers and answers not in before:
        before = [*before, answers]
    text, quoted = _text(message, forwarded=quoting.is_forwarded(subject))
    return Letter(
        message_id=(_ids(message, "Message-ID") or [""])[0],
        sender=address,
        name=name,
        subject=subject,
        references=tuple(before),
        answers=answers,
        text=text,
        quoted=quoted,
        attachments=tuple(_attachments(message)),
    )


def content(message: EmailMessage, number: int) -> bytes | None:
    """The bytes of an attachment; None when there is none of that number."""
    return next((_bytes(part) for place, part in _parts(message) if place == number), None)


def _ids(message: EmailMessage, name: str) -> list[str]:
    return [found[1] for found in _ID.finditer(str(message.get(name, "")))]


def _text(message: EmailMessage, *, forwarded: bool) -> tuple[str, str]:
    bodies: dict[str, str] = {}
    for _, part in _parts(message):
        if _is_body(part):
            bodies.setdefault(part.get_content_type(), _decoded(part))
    plain, html = bodies.get("text/plain", ""), bodies.get("text/html", "")
    if plain.strip() or not html:
        return (plain.strip("\n"), "") if forwarded else quoting.split(plain)
    new, quoted = split_html(html)
    if forwarded:
        return f"{new}\n\n{quoted}".strip(), ""
    below, more = quoting.split(new)
    return (below, f"{more}\n{quoted}".strip()) if below.strip() else (quoted, "")


def _attachments(message: EmailMessage) -> Iterator[Attachment]:
    for number, part in _parts(message):
        if not _is_body(part) and (data := _bytes(part)):
            name = clean(part.get_filename() or "")
            if part.get_content_type() == "message/rfc822" and not name:
                name = "mail.eml"
            yield Attachment(number, name, part.get_content_type(), len(data))


def _parts(message: EmailMessage) -> Iterator[tuple[int, Message]]:
    """The leaves of the tree, numbered. A mail inside the mail is a leaf."""
    pending: list[Message] = [message]
    number = 0
    while pending and number < MOST_PARTS:
        part = pending.pop(0)
        if part.get_content_maintype() == "multipart" and part.is_multipart():
            inner = part.get_payload()
            pending = [each for each in inner if isinstance(each, Message)] + pending
        else:
            yield number, part
            number += 1


def _is_body(part: Message) -> bool:
    shown = part.get_content_disposition() != "attachment" and not part.get_filename()
    return shown and part.get_content_type() in ("text/plain", "text/html")


def _bytes(part: Message) -> bytes:
    inner = part.get_payload()
    if part.get_content_maintype() == "message" and isinstance(inner, list):
        return b"".join(each.as_bytes() for each in inner if isinstance(each, Message))
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _decoded(part: Message) -> str:
    text = decoded(_bytes(part), part.get_content_charset() or "utf-8")
    return _ODD.sub("", clean(text.replace("\r\n", "\n").replace("\r", "\n")))

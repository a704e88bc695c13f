"""Read, search, draft and send mail over IMAP and SMTP.

Set EMAIL_ADDRESS, EMAIL_PASSWORD (an app password), EMAIL_IMAP_HOST and EMAIL_SMTP_HOST; optional
EMAIL_USER (the login, when it is not the address), EMAIL_IMAP_PORT (993) and EMAIL_SMTP_PORT (587).

  mail.py folders
  mail.py list --unseen --since 2024-05-01 --from ann --limit 20
  mail.py read 4711 --save attachments/
  mail.py draft --to ann@example.org --subject "Offer" --body-file body.txt --reply 4711
  mail.py send  --to ann@example.org --subject "Offer" --body-file body.txt --attach offer.pdf --yes

Reading leaves mails unread. `send` without --yes only shows what would go out.
Exit code: 0 done, 1 nothing found or nothing sent, 2 an error.
"""
# ruff: noqa: T201, TID251, SIM905 - prints its answer; its settings are variables of the environment

from __future__ import annotations

import argparse
import contextlib
import email
import email.policy
import email.utils
import html
import imaplib
import mimetypes
import os
import re
import smtplib
import ssl
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import date
from email.message import EmailMessage
from pathlib import Path

SECONDS = 30
LOOPBACK = ("127.0.0.1", "localhost", "::1")
TAG = re.compile(r"<(script|style|head)\b.*?</\1>|<[^>]+>", re.DOTALL | re.IGNORECASE)
UNSAFE = re.compile(r"[^\w.() -]")
MONTHS = ("", *"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())


class Problem(Exception):
    """Something the user has to correct, or a server that refuses."""


def setting(name: str, default: str = "") -> str:
    value = os.environ.get(name, default)
    if not value:
        raise Problem(f"{name} is not set")
    return value


def plain_allowed(host: str) -> bool:
    """Only for a bridge on this machine."""
    return os.environ.get("EMAIL_TLS", "on") == "off" and host in LOOPBACK


@contextlib.contextmanager
def inbox(folder: str, readonly: bool = True) -> Iterator[imaplib.IMAP4]:
    host, port = setting("EMAIL_IMAP_HOST"), int(setting("EMAIL_IMAP_PORT", "993"))
    user = os.environ.get("EMAIL_USER") or setting("EMAIL_ADDRESS")
    secure = ssl.create_default_context()
    server: imaplib.IMAP4
    if port == 993:
        server = imaplib.IMAP4_SSL(host, port, ssl_context=secure, timeout=SECONDS)
    else:
        server = imaplib.IMAP4(host, port, timeout=SECONDS)
        if not plain_allowed(host):
            server.starttls(secure)
    try:
        server.login(user, setting("EMAIL_PASSWORD"))
        if folder:
            done(server.select(quoted(folder), readonly=readonly), f"the folder {folder!r}")
        yield server
    finally:
        with contextlib.suppress(OSError, imaplib.IMAP4.error):
            server.logout()


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def done(answer: tuple[str, Sequence[object]], what: str) -> Sequence[object]:
    state, data = answer
    if state != "OK":
        words = data[0].decode("utf-8", "replace") if data and isinstance(data[0], bytes) else ""
        raise Problem(f"{what}: {words or state}")
    return data


def folders(_: argparse.Namespace) -> int:
    with inbox("") as server:
        for row in done(server.list(), "folders"):
            if isinstance(row, bytes):
                found = re.match(rb"\(([^)]*)\) (?:\"[^\"]*\"|NIL) \"?(.*?)\"?$", row)
                if found:
                    print(found[2].decode("ascii", "replace"), found[1].decode("ascii", "replace"))
    return 0


def criteria(options: argparse.Namespace) -> list[str]:
    found = ["UNSEEN"] if options.unseen else []
    if options.since:
        day: date = options.since
        found += ["SINCE", f"{day.day:02}-{MONTHS[day.month]}-{day.year}"]
    for name in ("sender", "subject", "text"):
        value = getattr(options, name)
        if value:
            found += ["FROM" if name == "sender" else name.upper(), quoted(value)]
    return found or ["ALL"]


def fetched(
    server: imaplib.IMAP4, uids: list[bytes], what: str
) -> Iterator[tuple[str, str, bytes]]:
    """UID, flags and data of each mail."""
    if not uids:
        return
    data = done(server.uid("FETCH", b",".join(uids).decode(), what), "reading")
    for place, part in enumerate(data):
        if isinstance(part, tuple):
            # Servers name UID and flags before or after the text.
            tail = data[place + 1] if place + 1 < len(data) else b""
            facts = part[0] + (tail if isinstance(tail, bytes) else b"")
            uid = re.search(rb"UID (\d+)", facts)
            flags = re.search(rb"FLAGS \(([^)]*)\)", facts)
            seen = flags[1].decode("ascii", "replace") if flags else ""
            yield (uid[1].decode() if uid else "0"), seen, part[1]


def listed(options: argparse.Namespace) -> int:
    wanted = criteria(options)
    charset = [] if all(part.isascii() for part in wanted) else ["CHARSET", "UTF-8"]
    with inbox(options.folder) as server:
        encoded = [part.encode() if not part.isascii() else part for part in [*charset, *wanted]]
        answer = server.uid("SEARCH", *encoded)  # type: ignore[arg-type]  # bytes are sent as they are
        first = done(answer, "the search")[0]
        uids = first.split() if isinstance(first, bytes) else []
        fields = "(UID FLAGS BODY.PEEK[HEADER.FIELDS (DATE FROM SUBJECT)])"
        rows = list(fetched(server, uids[-options.limit :], fields))
    for uid, flags, data in sorted(rows, key=lambda row: int(row[0]), reverse=True):
        head = email.message_from_bytes(data, policy=email.policy.default)
        when = email.utils.parsedate_to_datetime(head["Date"]) if head["Date"] else None
        new = " " if "\\Seen" in flags else "*"
        stamp = f"{when:%Y-%m-%d %H:%M}" if when else "no date"
        print(f"{uid:>7} {new} {stamp}  {head['From'] or ''}  |  {head['Subject'] or ''}")
    print(f"{len(rows)} of {len(uids)} mails", file=sys.stderr)
    return 0 if rows else 1


def message(options: argparse.Namespace, uid: str) -> EmailMessage:
    with inbox(options.folder) as server:
        rows = list(fetched(server, [uid.encode()], "(UID BODY.PEEK[])"))
    if not rows:
        raise Problem(f"there is no mail {uid} in {options.folder}")
    found = email.message_from_bytes(rows[0][2], policy=email.policy.default)
    assert isinstance(found, EmailMessage)
    return found


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(preferencelist=("plain", "html"))
    if body is None:
        return ""
    text = str(body.get_content())
    if body.get_content_subtype() == "html":
        broken = re.sub(r"(?i)<(br|/p|/div|/tr|/h\d)\b[^>]*>", "\n", text)
        text = html.unescape(TAG.sub("", broken))
        text = "\n".join(" ".join(row.split()) for row in text.splitlines())
    return re.sub(r"\n{3,}", "\n\n", text.replace("\r\n", "\n")).strip()


def read(options: argparse.Namespace) -> int:
    mail = message(options, options.uid)
    for name in ("From", "To", "Cc", "Date", "Subject", "Message-ID"):
        if mail[name]:
            print(f"{name}: {mail[name]}")
    print(f"\n{text_of(mail)}\n")
    for number, part in enumerate(mail.iter_attachments(), 1):
        name = UNSAFE.sub("_", Path(part.get_filename() or f"part-{number}").name).lstrip(".")
        data = part.get_payload(decode=True)
        size = len(data) if isinstance(data, bytes) else 0
        print(f"attachment: {name} ({part.get_content_type()}, {size} bytes)")
        if options.save and isinstance(data, bytes):
            options.save.mkdir(parents=True, exist_ok=True)
            file = options.save / f"{number}-{name or 'file'}"
            file.write_bytes(data)
            print(f"  saved as {file}")
    return 0


def composed(options: argparse.Namespace) -> EmailMessage:
    mail = EmailMessage()
    address = setting("EMAIL_ADDRESS")
    mail["From"] = email.utils.formataddr((os.environ.get("EMAIL_NAME", ""), address))
    for name, values in (("To", options.to), ("Cc", options.cc)):
        if values:
            mail[name] = ", ".join(checked(value) for value in values)
    mail["Subject"] = options.subject
    mail["Date"] = email.utils.formatdate(localtime=True)
    mail["Message-ID"] = email.utils.make_msgid(domain=address.rpartition("@")[2] or None)
    if options.reply:
        old = message(options, options.reply)
        mail["In-Reply-To"] = str(old["Message-ID"] or "")
        mail["References"] = f"{old['References'] or ''} {old['Message-ID'] or ''}".strip()
    body = (
        sys.stdin.read() if options.body_file == "-" else Path(options.body_file).read_text("utf-8")
    )
    mail.set_content(body)
    for file in options.attach:
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        main, sub = kind.split("/")
        mail.add_attachment(file.read_bytes(), maintype=main, subtype=sub, filename=file.name)
    return mail


def checked(value: str) -> str:
    address = email.utils.parseaddr(value)[1]
    if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+|[^@\s]+@localhost", address):
        raise Problem(f"{value!r} is no mail address")
    return value


def shown(mail: EmailMessage) -> None:
    for name in ("From", "To", "Cc", "Subject", "In-Reply-To"):
        if mail[name]:
            print(f"{name}: {mail[name]}")
    print(f"\n{text_of(mail)}\n")
    for part in mail.iter_attachments():
        print(f"attachment: {part.get_filename()}")


def draft(options: argparse.Namespace) -> int:
    mail = composed(options)
    with inbox("") as server:
        stamp = imaplib.Time2Internaldate(time.time())
        answer = server.append(quoted(options.drafts), "(\\Draft)", stamp, mail.as_bytes())
        done(answer, f"the folder {options.drafts!r} (see: folders)")
    shown(mail)
    print(f"kept as a draft in {options.drafts}")
    return 0


def send(options: argparse.Namespace) -> int:
    mail = composed(options)
    shown(mail)
    if not options.yes:
        print("not sent: show this to the user, then send with --yes")
        return 1
    host, port = setting("EMAIL_SMTP_HOST"), int(setting("EMAIL_SMTP_PORT", "587"))
    user = os.environ.get("EMAIL_USER") or setting("EMAIL_ADDRESS")
    secure = ssl.create_default_context()
    server: smtplib.SMTP
    if port == 465:
        server = smtplib.SMTP_SSL(host, port, timeout=SECONDS, context=secure)
    else:
        server = smtplib.SMTP(host, port, timeout=SECONDS)
    with server:
        if port != 465 and not plain_allowed(host):
            server.starttls(context=secure)
        server.login(user, setting("EMAIL_PASSWORD"))
        refused = server.send_message(mail)
    for address, reason in refused.items():
        print(f"refused: {address}: {reason}", file=sys.stderr)
    print(f"sent, {mail['Message-ID']}")
    return 2 if refused else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", default="INBOX", help="of list, read and --reply (INBOX)")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    actions.add_parser("folders", help="names of the folders").set_defaults(run=folders)
    it = actions.add_parser("list", help="the newest mails, * is unread")
    it.set_defaults(run=listed)
    it.add_argument("--unseen", action="store_true", help="only unread ones")
    it.add_argument("--since", type=date.fromisoformat, help="YYYY-MM-DD")
    it.add_argument("--from", dest="sender")
    it.add_argument("--subject")
    it.add_argument("--text", help="a word anywhere in the mail")
    it.add_argument("--limit", type=int, default=20)
    it = actions.add_parser("read", help="one mail")
    it.set_defaults(run=read)
    it.add_argument("uid", help="the number that list shows")
    it.add_argument("--save", type=Path, metavar="FOLDER", help="keep attachments there")
    for name, run, text in (("draft", draft, "keep a draft"), ("send", send, "send a mail")):
        it = actions.add_parser(name, help=text)
        it.set_defaults(run=run)
        it.add_argument("--to", action="append", required=True)
        it.add_argument("--cc", action="append", default=[])
        it.add_argument("--subject", required=True)
        it.add_argument("--body-file", required=True, help="text; - is standard input")
        it.add_argument("--attach", action="append", default=[], type=Path)
        it.add_argument("--reply", metavar="UID", help="of the mail that is answered")
        if name == "draft":
            it.add_argument("--drafts", default="Drafts", help="the folder of drafts")
        else:
            it.add_argument("--yes", action="store_true", help="really send")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return int(options.run(options))
    except smtplib.SMTPAuthenticationError:
        reason = "the login was refused: an app password is needed with two-factor login"
    except imaplib.IMAP4.error as error:
        reason = f"the mail server refused: {error} (is it an app password?)"
    except (Problem, OSError, ValueError, smtplib.SMTPException) as error:
        reason = str(error)
    print(f"error: {reason}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

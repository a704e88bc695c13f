"""Read, search, draft and send mail over IMAP and SMTP; sent mails are kept in Sent.

Set EMAIL_ADDRESS, EMAIL_PASSWORD (an app password), EMAIL_IMAP_HOST and EMAIL_SMTP_HOST; optional
EMAIL_USER (the login, when it is not the address), EMAIL_IMAP_PORT (993) and EMAIL_SMTP_PORT (587).

  mail.py folders
  mail.py list --unseen --since 2024-05-01 --from ann --limit 20
  mail.py read 4711 --save attachments/
  mail.py thread 4711
  mail.py draft --to ann@example.org --subject "Offer" --body-file body.txt --reply 4711
  mail.py send  --to ann@example.org --subject "Offer" --body-file body.txt --attach offer.pdf --yes

Reading leaves mails unread. `send` without --yes only shows what would go out.
Exit code: 0 done, 1 nothing found or nothing sent, 2 an error.
"""
# ruff: noqa: T201, TID251, SIM905 - prints its answer; its settings are variables of the environment

from __future__ import annotations

import argparse
import base64
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


def setting(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise Problem(f"{name} is not set")
    return value


def plain_allowed(host: str) -> bool:
    """Only for a bridge on this machine."""
    return os.environ.get("EMAIL_TLS", "on") == "off" and host in LOOPBACK


@contextlib.contextmanager
def inbox(folder: str) -> Iterator[imaplib.IMAP4]:
    host, port = setting("EMAIL_IMAP_HOST"), port_of("EMAIL_IMAP_PORT", 993)
    user = os.environ.get("EMAIL_USER") or setting("EMAIL_ADDRESS")
    server: imaplib.IMAP4
    if port == 993:
        secure = ssl.create_default_context()
        server = imaplib.IMAP4_SSL(host, port, ssl_context=secure, timeout=SECONDS)
    else:
        server = imaplib.IMAP4(host, port, timeout=SECONDS)
        if not plain_allowed(host):
            server.starttls(ssl.create_default_context())
    try:
        server.login(user, setting("EMAIL_PASSWORD"))
        if folder:
            done(server.select(folder_name(folder), readonly=True), f"the folder {folder!r}")
        yield server
    finally:
        with contextlib.suppress(OSError, imaplib.IMAP4.error):
            server.logout()


def port_of(name: str, default: int) -> int:
    text = os.environ.get(name, "") or str(default)
    if not text.isdigit():
        raise Problem(f"{name} must be a number, not {text!r}")
    return int(text)


def folder_name(name: str) -> str:
    """As IMAP writes it: other letters than English ones in a form of UTF-7."""

    def packed(found: re.Match[str]) -> str:
        code = base64.b64encode(found[0].encode("utf-16-be")).decode("ascii")
        return "&" + code.rstrip("=").replace("/", ",") + "-"

    return quoted(re.sub(r"[^\x20-\x7e]+", packed, name.replace("&", "&-")))


def readable_folder(name: str) -> str:
    def unpacked(found: re.Match[str]) -> str:
        code = found[1].replace(",", "/")
        return base64.b64decode(code + "===").decode("utf-16-be", "replace") if code else "&"

    return re.sub(r"&([A-Za-z0-9+,]*)-", unpacked, name)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def done(answer: tuple[str, Sequence[object]], what: str) -> Sequence[object]:
    state, data = answer
    if state != "OK":
        words = data[0].decode("utf-8", "replace") if data and isinstance(data[0], bytes) else ""
        raise Problem(f"{what}: {words or state}")
    return data


def folder_list(server: imaplib.IMAP4) -> Iterator[tuple[str, str]]:
    """Name and flags of each folder."""
    for row in done(server.list(), "folders"):
        if isinstance(row, bytes):
            found = re.match(rb"\(([^)]*)\) (?:\"[^\"]*\"|NIL) \"?(.*?)\"?$", row)
            if found:
                name, flags = (part.decode("ascii", "replace") for part in found.group(2, 1))
                yield readable_folder(name), flags


def folders(_: argparse.Namespace) -> int:
    with inbox("") as server:
        for name, flags in folder_list(server):
            print(name, flags)
    return 0


def sent_folder(server: imaplib.IMAP4) -> str:
    """The folder that the server marks as that of sent mails, else one with a usual name."""
    found = list(folder_list(server))
    for name, flags in found:
        if "\\sent" in flags.lower():
            return name
    usual = ("sent", "sent items", "sent messages", "inbox.sent")
    return next((name for name, _ in found if name.lower() in usual), "")


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
        new = " " if "\\Seen" in flags else "*"
        sender, subject = head["From"] or "", head["Subject"] or ""
        print(f"{uid:>7} {new} {stamp_of(head['Date'])}  {sender}  |  {subject}")
    print(f"{len(rows)} of {len(uids)} mails", file=sys.stderr)
    return 0 if rows else 1


def stamp_of(written: str | None) -> str:
    try:
        return f"{email.utils.parsedate_to_datetime(written or ''):%Y-%m-%d %H:%M}"
    except (TypeError, ValueError):
        return "no date"


def message(options: argparse.Namespace, uid: int) -> EmailMessage:
    with inbox(options.folder) as server:
        rows = list(fetched(server, [str(uid).encode()], "(UID BODY.PEEK[])"))
    if not rows:
        raise Problem(f"there is no mail {uid} in {options.folder}")
    found = email.message_from_bytes(rows[0][2], policy=email.policy.default)
    assert isinstance(found, EmailMessage)
    return found


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(preferencelist=("plain", "html"))
    if body is None:
        return ""
    try:
        text = str(body.get_content())
    except LookupError:  # an encoding that Python does not know
        data = body.get_payload(decode=True)
        text = data.decode("utf-8", "replace") if isinstance(data, bytes) else ""
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
            print(f"  saved as {kept(options.save, f'{options.uid}-{number}-{name}', data)}")
    return 0


def thread(options: argparse.Namespace) -> int:
    """Print a conversation, oldest first, with the user's own mails from the folder Sent."""
    first = message(options, options.uid)
    ids = re.findall(r"<[^<>\s]+>", f"{first['References'] or ''} {first['In-Reply-To'] or ''}")
    root = quoted((ids or [str(first["Message-ID"] or "")])[0].strip())
    if root == '""':
        raise Problem("this mail has no Message-ID, so its thread cannot be found")
    wanted = f"OR HEADER Message-ID {root} OR HEADER References {root} HEADER In-Reply-To {root}"
    mails: dict[str, EmailMessage] = {}
    with inbox("") as server:
        sent = options.sent or sent_folder(server)
        for folder in dict.fromkeys(filter(None, (options.folder, sent))):
            done(server.select(folder_name(folder), readonly=True), f"the folder {folder!r}")
            numbers = done(server.uid("SEARCH", wanted), "the search")[0]
            uids = numbers.split() if isinstance(numbers, bytes) else []
            for uid, _, data in fetched(server, uids, "(UID BODY.PEEK[])"):
                mail = email.message_from_bytes(data, policy=email.policy.default)
                assert isinstance(mail, EmailMessage)
                mails.setdefault(str(mail["Message-ID"] or f"{folder} {uid}"), mail)
    for mail in sorted(mails.values(), key=lambda mail: stamp_of(mail["Date"])):
        rows = [row for row in text_of(mail).splitlines() if not row.startswith(">")]
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(rows)).strip()
        print(f"--- {stamp_of(mail['Date'])}  {mail['From']}  |  {mail['Subject']}\n{text}\n")
    print(f"{len(mails)} mails", file=sys.stderr)
    return 0 if mails else 1


def kept(folder: Path, name: str, data: bytes) -> Path:
    """The file that now holds an attachment; one with other content is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    file, number = folder / name, 1
    while file.exists() and file.read_bytes() != data:
        number += 1
        file = folder / f"{Path(name).stem} ({number}){Path(name).suffix}"
    file.write_bytes(data)
    return file


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
    stdin = options.body_file == "-"
    body = sys.stdin.buffer.read() if stdin else Path(options.body_file).read_bytes()
    try:
        mail.set_content(body.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Problem(f"the text in {options.body_file} is not UTF-8") from None
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
        answer = server.append(folder_name(options.drafts), "(\\Draft)", stamp, mail.as_bytes())
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
    host, port = setting("EMAIL_SMTP_HOST"), port_of("EMAIL_SMTP_PORT", 587)
    user = os.environ.get("EMAIL_USER") or setting("EMAIL_ADDRESS")
    server: smtplib.SMTP
    if port == 465:
        secure = ssl.create_default_context()
        server = smtplib.SMTP_SSL(host, port, timeout=SECONDS, context=secure)
    else:
        server = smtplib.SMTP(host, port, timeout=SECONDS)
    with server:
        if port != 465 and not plain_allowed(host):
            server.starttls(context=ssl.create_default_context())
        server.login(user, setting("EMAIL_PASSWORD"))
        refused = server.send_message(mail)
    for address, reason in refused.items():
        print(f"refused: {address}: {reason}", file=sys.stderr)
    print(f"sent, {mail['Message-ID']}")
    try:
        print(copied(mail, options.sent))
    except (Problem, OSError, imaplib.IMAP4.error) as error:
        print(f"the mail was sent, but no copy was kept: {error}", file=sys.stderr)
    return 2 if refused else 0


def copied(mail: EmailMessage, folder: str) -> str:
    """Keep a copy of a sent mail by IMAP APPEND, unless the provider has done it."""
    if folder == "none":
        return "no copy was kept"
    with inbox("") as server:
        if "X-GM-EXT-1" in server.capabilities:
            return "Gmail keeps the copy"
        folder = folder or sent_folder(server)
        if not folder:
            raise Problem("no folder is marked as Sent; name one with --sent (see: folders)")
        done(server.select(folder_name(folder), readonly=True), f"the folder {folder!r}")
        same = server.uid("SEARCH", f"HEADER Message-ID {quoted(str(mail['Message-ID']))}")
        if done(same, "the search")[0]:
            return f"the provider kept a copy in {folder}"
        stamp = imaplib.Time2Internaldate(time.time())
        answer = server.append(folder_name(folder), "(\\Seen)", stamp, mail.as_bytes())
        done(answer, f"the folder {folder!r} (see: folders)")
    return f"a copy is in {folder}"


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
    it.add_argument("uid", type=int, help="the number that list shows")
    it.add_argument("--save", type=Path, metavar="FOLDER", help="keep attachments there")
    it = actions.add_parser("thread", help="the conversation of a mail, oldest first")
    it.set_defaults(run=thread)
    it.add_argument("uid", type=int, help="the number that list shows")
    it.add_argument("--sent", default="", help="the folder of sent mails (found by itself)")
    for name, run, text in (("draft", draft, "keep a draft"), ("send", send, "send a mail")):
        it = actions.add_parser(name, help=text)
        it.set_defaults(run=run)
        it.add_argument("--to", action="append", required=True)
        it.add_argument("--cc", action="append", default=[])
        it.add_argument("--subject", required=True)
        it.add_argument("--body-file", required=True, help="text; - is standard input")
        it.add_argument("--attach", action="append", default=[], type=Path)
        it.add_argument("--reply", type=int, metavar="UID", help="of the mail that is answered")
        if name == "draft":
            it.add_argument("--drafts", default="Drafts", help="the folder of drafts")
        else:
            it.add_argument("--yes", action="store_true", help="really send")
            it.add_argument("--sent", default="", help="the folder for the copy, or none")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return int(options.run(options))
    except BrokenPipeError:
        raise
    except smtplib.SMTPAuthenticationError:
        reason = "the login was refused: an app password is needed with two-factor login"
    except imaplib.IMAP4.error as error:
        reason = f"the mail server refused: {error} (is it an app password?)"
    except (Problem, OSError, ValueError, smtplib.SMTPException) as error:
        reason = str(error)
    print(f"error: {reason}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)

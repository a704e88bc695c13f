"""A mail server in small: IMAP and SMTP on one mailbox, as far as the skill email-by-cli goes.

python3 everyday_mail.py variables.sh &
"""

import re
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "secret"
PLAIN_LOGIN = "AGFsaWNlQGV4YW1wbGUub3JnAHNlY3JldA=="  # \0alice@example.org\0secret


def raw_mail(number: int, sender: str, subject: str, day: str, rest: str) -> bytes:
    return (
        f"From: {sender}\r\nTo: alice@example.org\r\nSubject: {subject}\r\nDate: {day}\r\n"
        f"Message-ID: <m{number}@example.org>\r\n{rest}"
    ).encode()


ATTACHED = (
    'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n'
    "--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>Tea &amp; cake<br>at four</p>\r\n"
    "--b\r\nContent-Type: text/plain\r\n"
    'Content-Disposition: attachment; filename="../../evil.txt"\r\n\r\nattached\r\n--b--\r\n'
)
ANN = ("Ann <ann@example.org>", "Meeting on Tuesday", "Wed, 01 May 2024 10:00:00 +0200")
BOB = ("Bob <bob@example.org>", "=?utf-8?q?Gr=C3=BC=C3=9Fe?=", "Thu, 02 May 2024 09:30:00 +0000")


class Mailbox:
    """Mails by UID with their flags, drafts, and what was sent."""

    def __init__(self) -> None:
        first = raw_mail(1, *ANN, "\r\nAt 15:00?\r\n")
        self.mails = {1: (first, ""), 2: (raw_mail(2, *BOB, ATTACHED), "\\Seen")}
        self.drafts: list[bytes] = []
        self.sent: list[bytes] = []
        self.copies: list[bytes] = []
        self.gmail = False


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    box: Mailbox


class Talk(socketserver.StreamRequestHandler):
    server: Server

    def say(self, *lines: str) -> None:
        for line in lines:
            self.wfile.write(line.encode() + b"\r\n")


class Imap(Talk):
    folder = '"INBOX"'

    def handle(self) -> None:
        self.say("* OK ready")
        while row := self.rfile.readline():
            tag, name, rest = (row.decode().rstrip("\r\n") + " ").split(" ", 2)
            if name == "LOGOUT":
                self.say("* BYE", f"{tag} OK done")
                return
            answer = getattr(self, f"on_{name.lower()}", self.unknown)
            self.say(f"{tag} {answer(rest.strip())}")

    def unknown(self, rest: str) -> str:
        return "BAD unknown command"

    def on_capability(self, rest: str) -> str:
        self.say("* CAPABILITY IMAP4rev1" + " X-GM-EXT-1" * self.server.box.gmail)
        return "OK done"

    def on_login(self, rest: str) -> str:
        ok = rest == f'alice@example.org "{PASSWORD}"'
        return "OK done" if ok else "NO [AUTHENTICATIONFAILED] Invalid credentials"

    def on_list(self, rest: str) -> str:
        self.say('* LIST (\\HasNoChildren) "/" "INBOX"', '* LIST (\\Drafts) "/" "Drafts"')
        self.say('* LIST (\\Drafts) "/" "Entw&APw-rfe &- mehr"')
        self.say('* LIST (\\HasNoChildren \\Sent) "/" "Gesendet"')
        return "OK done"

    def on_examine(self, rest: str) -> str:
        self.folder = rest
        self.say(f"* {len(self.mails)} EXISTS")
        known = rest in ('"INBOX"', '"Gesendet"')
        return "OK [READ-ONLY] done" if known else f"NO Unknown Mailbox: {rest}"

    @property
    def mails(self) -> dict[int, tuple[bytes, str]]:
        if self.folder == '"INBOX"':
            return self.server.box.mails
        return {number: (mail, "\\Seen") for number, mail in enumerate(self.server.box.copies, 1)}

    def on_uid(self, rest: str) -> str:
        command, _, words = rest.partition(" ")
        if command == "SEARCH":
            mails = self.mails.items()
            self.say(f"* SEARCH {' '.join(str(n) for n, mail in mails if fits(mail, words))}")
            return "OK done"
        numbers, _, what = words.partition(" ")
        for number in map(int, numbers.split(",")):
            if number in self.mails:
                self.one(number, what)
        return "OK done"

    def one(self, number: int, what: str) -> None:
        data, flags = self.mails[number]
        part = re.search(r"BODY\.PEEK(\[.*\])", what)
        assert part, "mails must stay unread"
        data = data if part[1] == "[]" else data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        facts = f"UID {number} FLAGS ({flags})"
        # Real servers name these facts before or after the text.
        before, after = (facts + " ", "") if number % 2 else ("", " " + facts)
        self.wfile.write(f"* {number} FETCH ({before}BODY{part[1]} {{{len(data)}}}\r\n".encode())
        self.wfile.write(data + after.encode() + b")\r\n")

    def on_append(self, rest: str) -> str:
        size = re.search(r"\{(\d+)\}$", rest)
        assert size
        sent = rest.startswith('"Gesendet" (\\Seen)')
        drafts = rest.startswith(('"Drafts" (\\Draft)', '"Entw&APw-rfe &- mehr" (\\Draft)'))
        if not sent and not drafts:
            return "NO [TRYCREATE] no such folder"
        self.say("+ go on")
        kept = self.server.box.copies if sent else self.server.box.drafts
        kept.append(self.rfile.read(int(size[1])))
        self.rfile.readline()
        return "OK done"


def fits(mail: tuple[bytes, str], words: str) -> bool:
    text = mail[0].decode().lower()
    wanted = [word.lower() for word in re.findall(r'"([^"]*)"', words)]
    return ("UNSEEN" not in words or not mail[1]) and all(word in text for word in wanted)


class Smtp(Talk):
    def handle(self) -> None:
        self.say("220 ready")
        while row := self.rfile.readline().decode().strip():
            word = re.split(r"[ :]", row.upper())[0]
            if word == "DATA":
                self.data()
            elif word == "AUTH":
                self.say("235 fine" if row.split()[-1] == PLAIN_LOGIN else "535 5.7.8 refused")
            else:
                self.say(
                    {"EHLO": "250-here\r\n250 AUTH PLAIN", "QUIT": "221 bye"}.get(word, "250 fine")
                )
            if word == "QUIT":
                return

    def data(self) -> None:
        self.say("354 go on")
        self.server.box.sent.append(b"".join(iter(self.rfile.readline, b".\r\n")))
        self.say("250 kept")


@contextmanager
def mail_server(box: Mailbox) -> Iterator[dict[str, str]]:
    """The variables for the script, for a server that runs inside the block."""
    with Server(("127.0.0.1", 0), Imap) as imap, Server(("127.0.0.1", 0), Smtp) as smtp:
        for server in (imap, smtp):
            server.box = box
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield {
            "EMAIL_ADDRESS": "alice@example.org",
            "EMAIL_PASSWORD": PASSWORD,
            "EMAIL_TLS": "off",
            "EMAIL_IMAP_HOST": "127.0.0.1",
            "EMAIL_SMTP_HOST": "127.0.0.1",
            "EMAIL_IMAP_PORT": str(imap.server_address[1]),
            "EMAIL_SMTP_PORT": str(smtp.server_address[1]),
        }
        imap.shutdown()
        smtp.shutdown()


def main(file: str) -> None:
    with mail_server(Mailbox()) as variables:
        lines = [f"export {name}={value}\n" for name, value in variables.items()]
        Path(file).write_text("".join(lines))
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Gmail, Calendar, Drive, Docs, Sheets and contacts over REST, with the token of google_auth.py.

  google.py mail "is:unread newer_than:2d"         google.py read MESSAGE_ID
  google.py send --to a@b.org --subject S --body-file body.txt --yes
  google.py events --days 7                        google.py events --search dentist --days 90
  google.py add-event --title Lunch --start 2024-05-03T12:30:00+02:00 --minutes 60
  google.py files "offer"                          google.py export FILE_ID --out offer.txt
  google.py new-doc --title Notes --text-file n.txt
  google.py append-doc DOCUMENT_ID --text-file more.txt
  google.py replace-doc DOCUMENT_ID --find "{{date}}" --with 2024-05-03
  google.py sheet SHEET_ID "Costs!A1:D20"          google.py new-sheet --title Costs
  google.py append-rows SHEET_ID "Costs!A1" --csv rows.csv
  google.py write-cells SHEET_ID "Costs!B2" --csv cells.csv --yes
  google.py contacts ann

`send` and `write-cells` without --yes only show what they would do.
Exit code: 0 done, 1 nothing found or nothing sent, 2 an error.
"""
# ruff: noqa: T201, TID251, UP017 - prints; settings are variables; runs on older Pythons too

from __future__ import annotations

import argparse
import base64
import csv
import email
import email.policy
import http.client
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from email.message import EmailMessage
from pathlib import Path
from typing import Any

HOSTS = {
    "gmail": "https://gmail.googleapis.com/gmail/v1/users/me",
    "calendar": "https://www.googleapis.com/calendar/v3/calendars",
    "drive": "https://www.googleapis.com/drive/v3/files",
    "docs": "https://docs.googleapis.com/v1/documents",
    "sheets": "https://sheets.googleapis.com/v4/spreadsheets",
    "people": "https://people.googleapis.com/v1",
}
EXPORTS = {
    "application/vnd.google-apps.document": "text/plain",
    "application/vnd.google-apps.spreadsheet": "text/csv",
    "application/vnd.google-apps.presentation": "text/plain",
}
SECONDS = 30
MOST_BYTES = 100_000_000


class Problem(Exception):
    """Something the user has to correct, or a refusal by Google."""


class Google:
    """Calls with an access token that lives as long as this run."""

    def __init__(self, token: Path, api: str) -> None:
        self._api = api
        try:
            kept = json.loads(token.expanduser().read_text("utf-8"))
            form = {name: kept[name] for name in ("client_id", "client_secret", "refresh_token")}
            address = str(kept["token_uri"])
        except FileNotFoundError:
            raise Problem(f"there is no token in {token}: run google_auth.py once") from None
        except (ValueError, LookupError, TypeError, RecursionError):
            raise Problem(f"{token} holds no token: run google_auth.py again") from None
        data = urllib.parse.urlencode({**form, "grant_type": "refresh_token"}).encode()
        fresh = self._send(urllib.request.Request(address, data=data))
        self._access = str(json.loads(fresh)["access_token"])

    def call(
        self, service: str, path: str, body: Any = None, method: str | None = None, **query: Any
    ) -> Any:
        return json.loads(self.raw(service, path, body, method, **query))

    def raw(
        self, service: str, path: str, body: Any = None, method: str | None = None, **query: Any
    ) -> bytes:
        base = f"{self._api}/{service}" if self._api else HOSTS[service]
        values = {name: value for name, value in query.items() if value not in (None, "")}
        url = f"{base}{path}?{urllib.parse.urlencode(values, doseq=True)}"
        data = None if body is None else json.dumps(body).encode()
        heads = {"Authorization": f"Bearer {self._access}", "Content-Type": "application/json"}
        return self._send(urllib.request.Request(url, data=data, headers=heads, method=method))

    def _send(self, request: urllib.request.Request) -> bytes:
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return bytes(answer.read(MOST_BYTES))
        except urllib.error.HTTPError as error:
            raise Problem(reason(error)) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Problem(f"no answer from Google: {error}") from None


def reason(error: urllib.error.HTTPError) -> str:
    text = error.read(2000).decode("utf-8", "replace")
    try:
        found = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        found = text[:200]
    if found == "invalid_grant":
        return "the token is no longer valid: run google_auth.py again"
    words = found.get("message", "") if isinstance(found, dict) else found
    hint = " (is the API enabled in the project, the scope granted?)" if error.code == 403 else ""
    return f"Google answered {error.code}: {words}{hint}"


def mail(google: Google, options: argparse.Namespace) -> int:
    found = google.call("gmail", "/messages", q=options.query, maxResults=options.max)
    for each in found.get("messages", []):
        names = ["From", "Subject", "Date"]
        message = google.call(
            "gmail", f"/messages/{each['id']}", format="metadata", metadataHeaders=names
        )
        head = {h["name"].lower(): h["value"] for h in message["payload"]["headers"]}
        date, sender, subject = (head.get(name, "") for name in ("date", "from", "subject"))
        new = "*" if "UNREAD" in message.get("labelIds", []) else " "
        print(f"{each['id']} {new} {date}  {sender}  |  {subject}")
    return 0 if found.get("messages") else 1


def read(google: Google, options: argparse.Namespace) -> int:
    found = google.call("gmail", f"/messages/{urllib.parse.quote(options.id)}", format="raw")
    data = base64.urlsafe_b64decode(found["raw"] + "===")
    message = email.message_from_bytes(data, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    for name in ("From", "To", "Cc", "Date", "Subject"):
        if message[name]:
            print(f"{name}: {message[name]}")
    body = message.get_body(preferencelist=("plain", "html"))
    try:
        text = body.get_content() if body else ""
    except LookupError:  # an encoding that Python does not know
        text = (body.get_payload(decode=True) or b"").decode("utf-8", "replace") if body else ""
    print(f"\n{text.strip()}")
    for part in message.iter_attachments():
        print(f"attachment: {part.get_filename()}")
    return 0


def send(google: Google, options: argparse.Namespace) -> int:
    message = EmailMessage()
    message["To"], message["Subject"] = ", ".join(options.to), options.subject
    message.set_content(Path(options.body_file).read_text("utf-8"))
    print(f"To: {message['To']}\nSubject: {message['Subject']}\n\n{message.get_content()}")
    if not options.yes:
        print("not sent: show this to the user, then send with --yes")
        return 1
    raw = base64.urlsafe_b64encode(message.as_bytes()).decode()
    print(f"sent, {google.call('gmail', '/messages/send', {'raw': raw})['id']}")
    return 0


def events(google: Google, options: argparse.Namespace) -> int:
    now = datetime.now(timezone.utc)
    last = now + timedelta(days=options.days)
    found = google.call(
        "calendar",
        f"/{urllib.parse.quote(options.calendar)}/events",
        timeMin=now.isoformat(),
        timeMax=last.isoformat(),
        singleEvents="true",
        orderBy="startTime",
        q=options.search,
    ).get("items", [])
    for each in found:
        start = each["start"].get("dateTime") or each["start"].get("date", "")
        end = each["end"].get("dateTime", "")[11:16]
        place = f"  ({each['location']})" if each.get("location") else ""
        print(f"{start}{'-' + end if end else ''}  {each.get('summary', '(no title)')}{place}")
    return 0 if found else 1


def add_event(google: Google, options: argparse.Namespace) -> int:
    start = datetime.fromisoformat(options.start)
    if not start.tzinfo:
        raise Problem("--start needs its zone, such as 2024-05-03T12:30:00+02:00")
    end = start + timedelta(minutes=options.minutes)
    body = {
        "summary": options.title,
        "location": options.place,
        "start": {"dateTime": start.isoformat()},
        "end": {"dateTime": end.isoformat()},
    }
    made = google.call("calendar", f"/{urllib.parse.quote(options.calendar)}/events", body)
    print(f"{made['id']}  {made.get('htmlLink', '')}")
    return 0


def files(google: Google, options: argparse.Namespace) -> int:
    word = options.query.replace("\\", "\\\\").replace("'", "\\'")
    query = f"fullText contains '{word}' and trashed = false"
    fields = "files(id,name,mimeType,modifiedTime)"
    found = google.call("drive", "", q=query, fields=fields, pageSize=options.max).get("files", [])
    for each in found:
        kind = each["mimeType"].rpartition(".")[2]
        print(f"{each['id']}  {each.get('modifiedTime', '')[:10]}  {each['name']}  {kind}")
    return 0 if found else 1


def export(google: Google, options: argparse.Namespace) -> int:
    if options.out.exists() and not options.force:
        raise Problem(f"{options.out} is already there; use --force to replace it")
    place = f"/{urllib.parse.quote(options.id)}"
    kind = google.call("drive", place, fields="mimeType")["mimeType"]
    if kind in EXPORTS:
        data = google.raw("drive", f"{place}/export", mimeType=EXPORTS[kind])
    else:
        data = google.raw("drive", place, alt="media")
    options.out.write_bytes(data)
    print(f"{options.out}: {len(data)} bytes, {EXPORTS.get(kind, kind)}")
    return 0


def new_doc(google: Google, options: argparse.Namespace) -> int:
    made = google.call("docs", "", {"title": options.title})["documentId"]
    print(f"{made}  https://docs.google.com/document/d/{made}/edit")
    return insert(google, made, options.text_file) if options.text_file else 0


def append_doc(google: Google, options: argparse.Namespace) -> int:
    return insert(google, options.id, options.text_file)


def insert(google: Google, document: str, file: Path) -> int:
    """Append the text of a file at the end of a document."""
    text = file.read_text("utf-8-sig")
    request = {"insertText": {"endOfSegmentLocation": {}, "text": text}}
    google.call("docs", f"/{urllib.parse.quote(document)}:batchUpdate", {"requests": [request]})
    print(f"{len(text)} characters were added at the end")
    return 0


def replace_doc(google: Google, options: argparse.Namespace) -> int:
    words = {"text": options.find, "matchCase": True}
    request = {"replaceAllText": {"containsText": words, "replaceText": options.new}}
    path = f"/{urllib.parse.quote(options.id)}:batchUpdate"
    (reply,) = google.call("docs", path, {"requests": [request]})["replies"]
    times = reply.get("replaceAllText", {}).get("occurrencesChanged", 0)
    print(f"replaced {times} times")
    return 0 if times else 1


def values_of(options: argparse.Namespace) -> str:
    """The path of a range of cells."""
    return f"/{urllib.parse.quote(options.id)}/values/{urllib.parse.quote(options.range, safe='')}"


def sheet(google: Google, options: argparse.Namespace) -> int:
    rows = google.call("sheets", values_of(options)).get("values", [])
    csv.writer(sys.stdout, lineterminator="\n").writerows(rows)
    return 0 if rows else 1


def new_sheet(google: Google, options: argparse.Namespace) -> int:
    made = google.call("sheets", "", {"properties": {"title": options.title}})
    print(f"{made['spreadsheetId']}  {made.get('spreadsheetUrl', '')}")
    return 0


def rows_of(file: Path) -> list[list[str]]:
    with file.open(encoding="utf-8-sig", newline="") as opened:
        rows = list(csv.reader(opened))
    if not rows:
        raise Problem(f"{file} has no rows")
    return rows


def append_rows(google: Google, options: argparse.Namespace) -> int:
    body = {"values": rows_of(options.csv)}
    path = f"{values_of(options)}:append"
    kind = {"valueInputOption": options.input, "insertDataOption": "INSERT_ROWS"}
    done = google.call("sheets", path, body, **kind)["updates"]
    print(f"{done['updatedRows']} rows were added at {done['updatedRange']}")
    return 0


def write_cells(google: Google, options: argparse.Namespace) -> int:
    rows = rows_of(options.csv)
    if not options.yes:
        cells = sum(map(len, rows))
        print(f"would replace {cells} cells from {options.range}; these are there:", flush=True)
        sheet(google, options)
        print("not written: show this to the user, then write with --yes")
        return 1
    path = values_of(options)
    done = google.call("sheets", path, {"values": rows}, "PUT", valueInputOption=options.input)
    print(f"{done['updatedCells']} cells were written at {done['updatedRange']}")
    return 0


def contacts(google: Google, options: argparse.Namespace) -> int:
    mask = "names,emailAddresses,phoneNumbers"
    # Google's documentation asks for one empty search first: it fills the index.
    google.call("people", "/people:searchContacts", readMask=mask)
    found = google.call(
        "people", "/people:searchContacts", query=options.query, readMask=mask, pageSize=options.max
    ).get("results", [])
    for each in found:
        person = each["person"]
        name = (person.get("names") or [{}])[0].get("displayName", "(no name)")
        ways = (*person.get("emailAddresses", []), *person.get("phoneNumbers", []))
        print(f"{name}  " + ", ".join(way["value"] for way in ways))
    return 0 if found else 1


def arguments() -> argparse.Namespace:
    home = os.environ.get("HERMES_HOME") or "~/.hermes"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--token", type=Path, default=Path(home, "google_token.json"))
    parser.add_argument("--api", default="", help="another base address, for tests")
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: object, text: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=text)
        made.set_defaults(run=run)
        return made

    it = action("mail", mail, "find mails, in the words of Gmail's search")
    it.add_argument("query", nargs="?", default="in:inbox")
    it.add_argument("--max", type=int, default=10)
    action("read", read, "one mail").add_argument("id")
    it = action("send", send, "send a mail")
    it.add_argument("--to", action="append", required=True)
    it.add_argument("--subject", required=True)
    it.add_argument("--body-file", required=True)
    it.add_argument("--yes", action="store_true")
    it = action("events", events, "the next events")
    it.add_argument("--days", type=int, default=7)
    it.add_argument("--search", default="")
    it.add_argument("--calendar", default="primary")
    it = action("add-event", add_event, "a new event")
    it.add_argument("--title", required=True)
    it.add_argument("--start", required=True, help="2024-05-03T12:30:00+02:00")
    it.add_argument("--minutes", type=int, default=60)
    it.add_argument("--place", default="")
    it.add_argument("--calendar", default="primary")
    it = action("files", files, "find files by their text")
    it.add_argument("query")
    it.add_argument("--max", type=int, default=20)
    it = action("export", export, "a file as text, CSV, or as it is")
    it.add_argument("id")
    it.add_argument("--out", type=Path, required=True)
    it.add_argument("--force", action="store_true", help="replace the file if it is there")
    writing(action)
    return parser.parse_args()


def writing(action: Callable[..., argparse.ArgumentParser]) -> None:
    """Documents, tables and contacts."""
    it = action("new-doc", new_doc, "a new document")
    it.add_argument("--title", required=True)
    it.add_argument("--text-file", type=Path)
    it = action("append-doc", append_doc, "text at the end of a document")
    it.add_argument("id")
    it.add_argument("--text-file", type=Path, required=True)
    it = action("replace-doc", replace_doc, "words in a document, everywhere")
    it.add_argument("id")
    it.add_argument("--find", required=True)
    it.add_argument("--with", dest="new", required=True)
    it = action("sheet", sheet, "cells as CSV")
    it.add_argument("id")
    it.add_argument("range", help='such as "Costs!A1:D20"')
    action("new-sheet", new_sheet, "a new table").add_argument("--title", required=True)
    for name, run in (("append-rows", append_rows), ("write-cells", write_cells)):
        it = action(name, run, "from a CSV file")
        it.add_argument("id")
        it.add_argument("range", help='such as "Costs!A1"')
        it.add_argument("--csv", type=Path, required=True)
        kinds = ("USER_ENTERED", "RAW")
        it.add_argument("--input", choices=kinds, default=kinds[0], help="RAW: no formulas, dates")
        if name == "write-cells":
            it.add_argument("--yes", action="store_true")
    it = action("contacts", contacts, "people by name, address or number")
    it.add_argument("query")
    it.add_argument("--max", type=int, default=10)


def main() -> int:
    options = arguments()
    try:
        return int(options.run(Google(options.token, options.api), options))
    except BrokenPipeError:
        raise
    except (Problem, OSError, ValueError, LookupError, TypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)

"""Get a token for Google Workspace, once. Needs an OAuth client of the kind "Desktop app".

  google_auth.py --client client_secret.json
It prints an address; open it in a browser on this machine and agree. On a machine without one:
open it elsewhere, and when the browser shows that it cannot reach 127.0.0.1, copy the whole address
from its bar and give it with --answer (in a second call with the same --state-file).
Exit code: 0 the token was written, 2 an error.
"""
# ruff: noqa: T201, TID251 - prints its answer; the home of Hermes is a variable

from __future__ import annotations

import argparse
import base64
import hashlib
import http.client
import json
import os
import secrets
import sys
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

SECONDS = 300
SCOPES = {
    "gmail": "https://www.googleapis.com/auth/gmail.modify",
    "calendar": "https://www.googleapis.com/auth/calendar.events",
    "drive": "https://www.googleapis.com/auth/drive.readonly",
    "docs": "https://www.googleapis.com/auth/documents",
    "sheets": "https://www.googleapis.com/auth/spreadsheets",
    "contacts": "https://www.googleapis.com/auth/contacts.readonly",
}


class Problem(Exception):
    """Something the user has to correct."""


def client(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError):
        raise Problem(f"{file} is no JSON") from None
    if not isinstance(found, dict) or "installed" not in found:
        raise Problem(f"{file} is no OAuth client of the kind Desktop app")
    app = dict(found["installed"])
    missing = [name for name in ("client_id", "auth_uri", "token_uri") if not app.get(name)]
    if missing:
        raise Problem(f"{file} has no {', '.join(missing)}; download it again")
    return app


def consent(app: dict[str, Any], redirect: str, scopes: list[str]) -> tuple[str, dict[str, str]]:
    """The address to open, and what has to be remembered until the answer."""
    kept = {"state": secrets.token_urlsafe(24), "verifier": secrets.token_urlsafe(48)}
    digest = hashlib.sha256(kept["verifier"].encode()).digest()
    query = {
        "client_id": app["client_id"],
        "redirect_uri": redirect,
        "response_type": "code",
        "scope": " ".join(SCOPES[scope] for scope in scopes),
        "access_type": "offline",
        "prompt": "consent",
        "state": kept["state"],
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    kept["redirect"] = redirect
    return f"{app['auth_uri']}?{urllib.parse.urlencode(query)}", kept


def code_of(address: str, kept: dict[str, str]) -> str:
    values = urllib.parse.parse_qs(urllib.parse.urlsplit(address).query)
    if values.get("error"):
        raise Problem(f"Google says: {values['error'][0]}")
    if values.get("state", [""])[0] != kept["state"]:
        raise Problem("the answer belongs to another attempt; start again")
    if not values.get("code"):
        raise Problem("there is no code in the address; copy the whole of it")
    return values["code"][0]


def exchange(app: dict[str, Any], code: str, kept: dict[str, str]) -> dict[str, Any]:
    form = {
        "client_id": app["client_id"],
        "client_secret": app.get("client_secret", ""),
        "code": code,
        "code_verifier": kept["verifier"],
        "grant_type": "authorization_code",
        "redirect_uri": kept["redirect"],
    }
    data = urllib.parse.urlencode(form).encode()
    try:
        with urllib.request.urlopen(app["token_uri"], data=data, timeout=30) as answer:
            found = json.loads(answer.read())
    except urllib.error.HTTPError as error:
        reason = error.read(300).decode("utf-8", "replace")
        raise Problem(f"Google refused the code: {reason}") from None
    if not isinstance(found, dict) or "refresh_token" not in found:
        raise Problem("Google gave no lasting token; remove the app's access and try again")
    return {
        "client_id": app["client_id"],
        "client_secret": app.get("client_secret", ""),
        "token_uri": app["token_uri"],
        "refresh_token": found["refresh_token"],
        "scope": found.get("scope", ""),
    }


class Answer(BaseHTTPRequestHandler):
    """Takes the browser's visit; the address is kept on the server object."""

    def do_GET(self) -> None:
        self.server.address_seen = self.path  # type: ignore[attr-defined]  # our own mark on it
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"Thank you. You can close this page.\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base
        """No log."""


def write(file: Path, token: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        file.chmod(0o600)  # also when it was there before
        json.dump(token, out, indent=1)


def started(file: Path) -> dict[str, str]:
    """What the first call kept for the second one."""
    try:
        kept = json.loads(file.read_bytes())
    except ValueError:
        kept = None
    if not isinstance(kept, dict) or not {"state", "verifier", "redirect"} <= set(kept):
        raise Problem(f"{file} was not written by a first call; start again without --answer")
    return kept


def work(options: argparse.Namespace) -> None:
    app = client(options.client)
    if options.answer:
        kept = started(options.state_file)
        write(options.out, exchange(app, code_of(options.answer, kept), kept))
        options.state_file.unlink()
        return
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        server.timeout = options.wait
        url, kept = consent(app, f"http://127.0.0.1:{server.server_port}", options.scope)
        print(f"Open this address:\n{url}", flush=True)
        if options.state_file:
            write(options.state_file, kept)
        server.handle_request()
        seen = getattr(server, "address_seen", "")
    if not seen:
        raise Problem("no answer came; on a machine without a browser use --answer")
    write(options.out, exchange(app, code_of(seen, kept), kept))


def arguments() -> argparse.Namespace:
    home = Path(os.environ.get("HERMES_HOME") or "~/.hermes").expanduser()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--client", type=Path, required=True, help="the client's JSON file")
    parser.add_argument(
        "--out", type=Path, default=home / "google_token.json", help="where the token goes"
    )
    parser.add_argument("--scope", action="append", choices=SCOPES, help="all when left out")
    parser.add_argument("--wait", type=float, default=SECONDS, help="seconds for the answer (300)")
    parser.add_argument("--state-file", type=Path, help="remember the attempt here, for --answer")
    parser.add_argument("--answer", help="the address that the browser could not open")
    options = parser.parse_args()
    options.scope = options.scope or list(SCOPES)
    if options.answer and not options.state_file:
        parser.error("--answer needs the --state-file of the first call")
    return options


def main() -> int:
    options = arguments()
    try:
        work(options)
    except (Problem, OSError, ValueError, http.client.HTTPException) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"the token is in {options.out}")
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)

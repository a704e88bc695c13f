"""Send a notification: ntfy (to phones), or a webhook of Slack, Discord, Mattermost or Teams.

  notify.py "Backup done" --title Server --priority high --tags white_check_mark
  notify.py --kind slack "Deploy finished"            echo long text | notify.py - --kind discord
ntfy: set NTFY_TOPIC (and NTFY_SERVER, NTFY_TOKEN where needed). Others: set NOTIFY_WEBHOOK_URL.
Exit code: 0 sent, 2 an error.
"""
# ruff: noqa: T201, TID251 - prints its answer; its settings are variables of the environment

from __future__ import annotations

import argparse
import html
import http.client
import json
import os
import re
import sys
import urllib.error
import urllib.request
from typing import Any

SECONDS = 15
PRIORITIES = {"min": 1, "low": 2, "default": 3, "high": 4, "urgent": 5}
CARD = "application/vnd.microsoft.card.adaptive"
LONGEST = {"ntfy": 4000, "slack": 35000, "mattermost": 16000, "discord": 2000, "teams": 25000}


class Problem(Exception):
    """Something the user has to correct, or a service that does not answer."""


def setting(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise Problem(f"{name} is not set")
    return value


def ntfy(options: argparse.Namespace, text: str) -> tuple[str, dict[str, str], dict[str, Any]]:
    topic = setting("NTFY_TOPIC")
    if not re.fullmatch(r"[\w-]{1,64}", topic):
        raise Problem("NTFY_TOPIC may hold letters, digits, - and _ only")
    body: dict[str, Any] = {"topic": topic, "message": text}
    body["priority"] = PRIORITIES[options.priority]
    if options.title:
        body["title"] = options.title
    if options.tags:
        body["tags"] = [tag.strip() for tag in options.tags.split(",")]
    if options.link:
        body["click"] = options.link
    token = os.environ.get("NTFY_TOKEN", "")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return os.environ.get("NTFY_SERVER", "").rstrip("/") or "https://ntfy.sh", headers, body


def webhook(options: argparse.Namespace, text: str) -> tuple[str, dict[str, str], dict[str, Any]]:
    body: dict[str, Any] = {"text": text}
    if options.kind == "discord":
        body = {"content": text, "allowed_mentions": {"parse": []}}
    elif options.kind == "slack":
        body = {"text": html.escape(text, quote=False)}  # else <!channel> would call everybody
    elif options.kind == "teams":
        block = {"type": "TextBlock", "text": text, "wrap": True}
        card = {"type": "AdaptiveCard", "version": "1.4", "body": [block]}
        body = {"type": "message", "attachments": [{"contentType": CARD, "content": card}]}
    return setting("NOTIFY_WEBHOOK_URL"), {}, body


def post(url: str, headers: dict[str, str], body: dict[str, Any]) -> None:
    if not re.match(r"https?://", url):
        raise Problem("the address must start with https://")
    data = json.dumps(body).encode()
    heads = {"Content-Type": "application/json", "User-Agent": "hermes-skill-notify/1.0", **headers}
    try:
        request = urllib.request.Request(url, data=data, headers=heads)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        detail = error.read(300).decode("utf-8", "replace").strip()
        raise Problem(f"not sent: {error.code} {error.reason} {detail}".strip()) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Problem(f"not sent: {error}") from None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", help="the message; - is standard input")
    parser.add_argument("--kind", choices=LONGEST, default="ntfy")
    parser.add_argument("--title", default="")
    parser.add_argument("--priority", choices=PRIORITIES, default="default", help="ntfy only")
    parser.add_argument("--tags", default="", help="ntfy only: names of emoji, with commas")
    parser.add_argument("--link", default="", help="an address that opens when it is touched")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    stdin = options.text == "-"
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if stdin else options.text
    text = text.strip()
    try:
        if not text:
            raise Problem("there is no text to send")
        if options.kind != "ntfy":
            text = "\n".join(part for part in (options.title, text, options.link) if part)
        most = LONGEST[options.kind]
        short = text if len(text) <= most else text[: most - 2] + " …"
        make = ntfy if options.kind == "ntfy" else webhook
        post(*make(options, short))
    except Problem as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"sent, {len(short)} characters" + (" (shortened)" if short != text else ""))
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)

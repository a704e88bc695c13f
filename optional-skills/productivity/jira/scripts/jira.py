"""Search, read, create and move Jira issues over REST. Set JIRA_URL, JIRA_EMAIL and JIRA_TOKEN.

  jira.py search 'assignee = currentUser() AND statusCategory != Done ORDER BY updated DESC'
  jira.py show SHOP-12                               description and comments
  jira.py new --project SHOP --type Bug --title T --file t.md --yes
  jira.py moves SHOP-12                              where it can go
  jira.py move SHOP-12 Done --yes                    comment SHOP-12 --file c.md --yes

Jira Cloud: JIRA_URL=https://NAME.atlassian.net, an API token and its address. Data Center: leave
JIRA_EMAIL empty, JIRA_TOKEN is a personal access token. What changes something only shows it
without --yes. Exit code: 0 done, 1 nothing found or nothing changed, 2 an error.
"""
# ruff: noqa: T201, TID251 - prints its answer; its settings are variables of the environment

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

SECONDS = 30
FIELDS = ["summary", "status", "assignee", "priority", "updated", "issuetype"]


class Problem(Exception):
    """Something the user has to correct, or a refusal by Jira."""


def cloud() -> bool:
    return bool(os.environ.get("JIRA_EMAIL"))


def call(method: str, path: str, body: Any = None, **query: Any) -> Any:
    base, token = os.environ.get("JIRA_URL", "").rstrip("/"), os.environ.get("JIRA_TOKEN", "")
    if not base or not token:
        raise Problem(f"{'JIRA_TOKEN' if base else 'JIRA_URL'} is not set")
    if cloud():
        pair = f"{os.environ['JIRA_EMAIL']}:{token}".encode()
        login = f"Basic {base64.b64encode(pair).decode()}"
    else:
        login = f"Bearer {token}"
    values = f"?{urllib.parse.urlencode(query)}" if query else ""
    url = f"{base}/rest/api/{3 if cloud() else 2}{path}{values}"
    heads = {"Authorization": login, "Accept": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        heads["Content-Type"] = "application/json"
    request = urllib.request.Request(url, data=data, headers=heads, method=method)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            text = answer.read()
            return json.loads(text) if text.strip() else {}
    except urllib.error.HTTPError as error:
        raise Problem(reason(error)) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Problem(f"no answer from Jira: {error}") from None


def reason(error: urllib.error.HTTPError) -> str:
    try:
        found = json.loads(error.read(5000))
        words = [*found.get("errorMessages", [])]
        words += [f"{name}: {text}" for name, text in (found.get("errors") or {}).items()]
    except (ValueError, AttributeError, TypeError):
        words = []
    hint = {
        401: " (are JIRA_EMAIL and JIRA_TOKEN right?)",
        403: " (the account may not do that)",
        404: " (wrong key, or no right to see it)",
        429: f" (wait {error.headers.get('Retry-After', 'some')} seconds)",
    }.get(error.code, "")
    return f"Jira answered {error.code}: {'; '.join(words) or error.reason}{hint}"


def plain(node: Any) -> str:
    """The text of a document: Jira Cloud has a tree, Data Center plain text."""
    if not isinstance(node, dict):
        return str(node or "")
    kind = node.get("type")
    inner = "".join(plain(child) for child in node.get("content", []))
    if kind == "text":
        link = next((m["attrs"]["href"] for m in node.get("marks", []) if m["type"] == "link"), "")
        return node.get("text", "") + (f" ({link})" if link else "")
    if kind in ("mention", "emoji", "inlineCard", "status"):
        facts = node.get("attrs", {})
        return str(facts.get("text") or facts.get("url") or facts.get("shortName") or "")
    if kind == "hardBreak":
        return "\n"
    if kind == "listItem":
        return f"- {inner.strip()}\n"
    return f"{inner}\n" if kind in ("paragraph", "heading", "codeBlock", "blockquote") else inner


def document(text: str) -> Any:
    """Text as Jira takes it: paragraphs, headings, lists and fenced code become a tree."""
    if not cloud():
        return text
    out: list[dict[str, Any]] = []

    def words(line: str) -> list[dict[str, Any]]:
        return [{"type": "text", "text": line}] if line else []

    blocks: list[str] = []
    for part in re.split(r"(?ms)^(```.*?^```)", text.replace("\r\n", "\n").strip()):
        blocks += [part] if part.startswith("```") else re.split(r"\n\s*\n", part)
    for block in blocks:
        lines = block.strip("\n").split("\n")
        heading = re.match(r"(#{1,6}) +(.*)", lines[0])
        if block.strip().startswith("```"):
            code = "\n".join(line for line in lines if not line.startswith("```"))
            out.append({"type": "codeBlock", "content": words(code)})
        elif heading and len(lines) == 1:
            level = {"level": len(heading[1])}
            out.append({"type": "heading", "attrs": level, "content": words(heading[2])})
        elif block.strip() and all(re.match(r"\s*[-*] ", line) for line in lines):
            items = [{"type": "paragraph", "content": words(line.strip()[2:])} for line in lines]
            entries = [{"type": "listItem", "content": [item]} for item in items]
            out.append({"type": "bulletList", "content": entries})
        elif block.strip():
            parts: list[dict[str, Any]] = []
            for number, line in enumerate(lines):
                parts += [{"type": "hardBreak"}] * (number > 0) + words(line)
            out.append({"type": "paragraph", "content": parts})
    return {"type": "doc", "version": 1, "content": out}


def line(issue: dict[str, Any]) -> str:
    fields = issue["fields"]
    who = (fields.get("assignee") or {}).get("displayName", "unassigned")
    kind = (fields.get("issuetype") or {}).get("name", "")
    facts = f"{kind}, {fields['status']['name']}, {who}, {fields.get('updated', '')[:10]}"
    return f"{issue['key']}  {fields['summary']}  ({facts})"


def search(options: argparse.Namespace) -> int:
    count, token, start = 0, None, 0
    while count < options.limit:
        size = min(options.limit - count, 100)
        body: dict[str, Any] = {"jql": options.jql, "fields": FIELDS, "maxResults": size}
        if cloud():
            page = call(
                "POST", "/search/jql", {**body, **({"nextPageToken": token} if token else {})}
            )
            token = page.get("nextPageToken")
            last = page.get("isLast", not token)
        else:
            page = call("POST", "/search", {**body, "startAt": start})
            start += len(page["issues"])
            last = start >= page.get("total", 0)
        for issue in page["issues"]:
            print(line(issue))
        count += len(page["issues"])
        if last or not page["issues"]:
            break
    else:
        print(f"the first {count}; there may be more (--limit)", file=sys.stderr)
    return 0 if count else 1


def place(key: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*-\d+", key):
        raise Problem(f"{key!r} is no issue such as SHOP-12")
    return f"/issue/{key.upper()}"


def issue_of(key: str) -> dict[str, Any]:
    return dict(call("GET", place(key), fields=",".join([*FIELDS, "description", "comment"])))


def show(options: argparse.Namespace) -> int:
    issue = issue_of(options.issue)
    base = os.environ["JIRA_URL"].rstrip("/")
    print(
        f"{line(issue)}\n{base}/browse/{issue['key']}\n\n{plain(issue['fields'].get('description'))}"
    )
    comments = (issue["fields"].get("comment") or {}).get("comments", [])
    for comment_ in comments:
        who = (comment_.get("author") or {}).get("displayName", "")
        print(f"--- {comment_['created'][:16]} {who}\n{plain(comment_['body'])}")
    return 0


def agreed(options: argparse.Namespace, words: str) -> bool:
    print(words)
    if not options.yes:
        print("nothing was changed: show this to the user, then repeat with --yes")
    return bool(options.yes)


def new(options: argparse.Namespace) -> int:
    text = options.file.read_text("utf-8-sig") if options.file else ""
    if not agreed(options, f"{options.project}, {options.type}: {options.title}\n\n{text}"):
        return 1
    fields: dict[str, Any] = {
        "project": {"key": options.project.upper()},
        "issuetype": {"name": options.type},
        "summary": options.title,
    }
    if text.strip():
        fields["description"] = document(text)
    made = call("POST", "/issue", {"fields": fields})
    print(f"{made['key']}  {os.environ['JIRA_URL'].rstrip('/')}/browse/{made['key']}")
    return 0


def ways(key: str) -> list[dict[str, Any]]:
    return list(call("GET", f"{place(key)}/transitions")["transitions"])


def moves(options: argparse.Namespace) -> int:
    found = ways(options.issue)
    for each in found:
        print(f"{each['name']} -> {each['to']['name']}")
    return 0 if found else 1


def move(options: argparse.Namespace) -> int:
    found = ways(options.issue)
    wanted = options.state.lower()
    fits = [each for each in found if wanted in (each["name"].lower(), each["to"]["name"].lower())]
    if not fits:
        names = ", ".join(f"{each['name']} -> {each['to']['name']}" for each in found)
        raise Problem(f"it cannot go to {options.state!r} from here; there are: {names}")
    if not agreed(options, f"{line(issue_of(options.issue))} -> {fits[0]['to']['name']}"):
        return 1
    call("POST", f"{place(options.issue)}/transitions", {"transition": {"id": fits[0]["id"]}})
    return 0


def comment(options: argparse.Namespace) -> int:
    text = options.file.read_text("utf-8-sig").strip()
    if not agreed(options, f"{line(issue_of(options.issue))}\n\n{text}"):
        return 1
    call("POST", f"{place(options.issue)}/comment", {"body": document(text)})
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: object, text: str, changes: bool = False) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=text)
        made.set_defaults(run=run)
        if changes:
            made.add_argument("--yes", action="store_true", help="really do it")
        if name not in ("search", "new"):
            made.add_argument("issue", help="such as SHOP-12")
        return made

    it = action("search", search, "issues by JQL")
    it.add_argument("jql")
    it.add_argument("--limit", type=int, default=50)
    action("show", show, "one issue")
    it = action("new", new, "a new issue", changes=True)
    it.add_argument("--project", required=True, help="the key, such as SHOP")
    it.add_argument("--type", default="Task")
    it.add_argument("--title", required=True)
    it.add_argument("--file", type=Path, help="Markdown")
    action("moves", moves, "the states that it can go to")
    action("move", move, "into another state", changes=True).add_argument("state")
    it = action("comment", comment, "write a comment", changes=True)
    it.add_argument("--file", type=Path, required=True, help="Markdown")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return int(options.run(options))
    except BrokenPipeError:
        raise
    except (Problem, OSError, UnicodeError) as error:
        print(f"error: {error}", file=sys.stderr)
    except (KeyError, TypeError, AttributeError) as error:
        print(f"error: Jira's answer has another form than expected: {error!r}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)

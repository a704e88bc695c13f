"""List, read, create and move issues in Linear over GraphQL. Set LINEAR_API_KEY.

  linear.py teams                                    teams with their states
  linear.py issues --mine --state started            also --team ENG, --text words, --limit 50
  linear.py show ENG-123                             description and comments
  linear.py new --team ENG --title T --file t.md --priority 2 --yes
  linear.py move ENG-123 "In Progress" --yes         comment ENG-123 --file c.md --yes
  linear.py query 'query { viewer { name } }'        anything else that reads

What changes something only shows it without --yes.
Exit code: 0 done, 1 nothing found or nothing changed, 2 an error.
"""
# ruff: noqa: T201, TID251 - prints its answer; its settings are variables of the environment

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

API = "https://api.linear.app/graphql"
SECONDS = 30
PRIORITIES = {0: "none", 1: "urgent", 2: "high", 3: "medium", 4: "low"}
ROW = "identifier title priority url updatedAt state { name type } assignee { name }"


class Problem(Exception):
    """Something the user has to correct, or a refusal by Linear."""


def ask(query: str, **variables: Any) -> dict[str, Any]:
    key = os.environ.get("LINEAR_API_KEY", "")
    if not key:
        raise Problem("LINEAR_API_KEY is not set")
    body = json.dumps({"query": query, "variables": variables}).encode()
    # A personal key stands alone in this header, without the word Bearer.
    heads = {"Authorization": key, "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ.get("LINEAR_API", API), data=body, headers=heads)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            found = json.loads(answer.read())
    except urllib.error.HTTPError as error:
        raise Problem(reason(error)) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Problem(f"no answer from Linear: {error}") from None
    if not isinstance(found, dict) or found.get("errors") or not found.get("data"):
        raise Problem(words_of(found) or "Linear gave no data")
    return dict(found["data"])


def words_of(found: Any) -> str:
    errors = found.get("errors") if isinstance(found, dict) else None
    texts = [
        each.get("extensions", {}).get("userPresentableMessage") or each.get("message", "")
        for each in errors or []
    ]
    return f"Linear refused: {'; '.join(texts)}" if texts else ""


def reason(error: urllib.error.HTTPError) -> str:
    text = error.read(5000).decode("utf-8", "replace")
    try:
        words = words_of(json.loads(text))
    except ValueError:
        words = ""
    limit = "RATELIMITED" in text or error.code == 429
    hint = " (wait some minutes)" if limit else ""
    hint = " (is LINEAR_API_KEY right?)" if error.code == 401 else hint
    return (words or f"Linear answered {error.code}") + hint


def teams(_: argparse.Namespace) -> int:
    query = "query { teams { nodes { key name states { nodes { name type position } } } } }"
    for team in ask(query)["teams"]["nodes"]:
        states = sorted(team["states"]["nodes"], key=lambda state: state["position"])
        print(f"{team['key']}  {team['name']}: {', '.join(state['name'] for state in states)}")
    return 0


def line(issue: dict[str, Any]) -> str:
    who = (issue.get("assignee") or {}).get("name", "unassigned")
    priority = PRIORITIES.get(issue.get("priority", 0), "")
    facts = f"{issue['state']['name']}, {priority}, {who}, {issue['updatedAt'][:10]}"
    return f"{issue['identifier']}  {issue['title']}  ({facts})"


def issues(options: argparse.Namespace) -> int:
    wanted: dict[str, Any] = {}
    if options.mine:
        wanted["assignee"] = {"isMe": {"eq": True}}
    if options.team:
        wanted["team"] = {"key": {"eq": options.team.upper()}}
    if options.state == "open":
        wanted["state"] = {"type": {"nin": ["completed", "canceled"]}}
    elif options.state != "all":
        wanted["state"] = {"type": {"eq": options.state}}
    if options.text:
        wanted["searchableContent"] = {"contains": options.text}
    query = (
        "query($filter: IssueFilter, $first: Int, $after: String)"
        " { issues(filter: $filter, first: $first, after: $after, orderBy: updatedAt)"
        f" {{ nodes {{ {ROW} }} pageInfo {{ hasNextPage endCursor }} }} }}"
    )
    count, after = 0, None
    while count < options.limit:
        first = min(options.limit - count, 50)
        page = ask(query, filter=wanted, first=first, after=after)["issues"]
        for issue in page["nodes"]:
            print(line(issue))
        count += len(page["nodes"])
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break
    else:
        print(f"the first {count}; there may be more (--limit)", file=sys.stderr)
    return 0 if count else 1


def issue_of(name: str) -> dict[str, Any]:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*-\d+", name):
        raise Problem(f"{name!r} is no issue such as ENG-123")
    query = (
        f"query($id: String!) {{ issue(id: $id) {{ id {ROW} description"
        " team { id key states { nodes { id name } } }"
        " comments(first: 50) { nodes { body createdAt user { name } } } } }"
    )
    return dict(ask(query, id=name.upper())["issue"])


def show(options: argparse.Namespace) -> int:
    issue = issue_of(options.issue)
    print(f"{line(issue)}\n{issue['url']}\n\n{issue.get('description') or '(no description)'}")
    for comment in sorted(issue["comments"]["nodes"], key=lambda each: each["createdAt"]):
        who = (comment.get("user") or {}).get("name", "an integration")
        print(f"\n--- {comment['createdAt'][:16]} {who}\n{comment['body']}")
    return 0


def agreed(options: argparse.Namespace, words: str) -> bool:
    print(words)
    if not options.yes:
        print("nothing was changed: show this to the user, then repeat with --yes")
    return bool(options.yes)


def new(options: argparse.Namespace) -> int:
    query = "query($key: String!) { teams(filter: { key: { eq: $key } }) { nodes { id name } } }"
    found = ask(query, key=options.team.upper())["teams"]["nodes"]
    if not found:
        raise Problem(f"there is no team {options.team!r} (see: teams)")
    text = options.file.read_text("utf-8-sig") if options.file else ""
    words = f"{found[0]['name']}: {options.title} ({PRIORITIES[options.priority]})\n\n{text}"
    if not agreed(options, words):
        return 1
    query = (
        "mutation($input: IssueCreateInput!) { issueCreate(input: $input)"
        " { success issue { identifier url } } }"
    )
    values = {"teamId": found[0]["id"], "title": options.title, "priority": options.priority}
    made = ask(query, input={**values, "description": text})["issueCreate"]
    if not made["success"]:
        raise Problem("Linear did not create the issue")
    print(f"{made['issue']['identifier']}  {made['issue']['url']}")
    return 0


def move(options: argparse.Namespace) -> int:
    issue = issue_of(options.issue)
    states = {each["name"].lower(): each for each in issue["team"]["states"]["nodes"]}
    state = states.get(options.state.lower())
    if not state:
        names = ", ".join(each["name"] for each in states.values())
        raise Problem(f"there is no state {options.state!r}; there are: {names}")
    if not agreed(options, f"{line(issue)} -> {state['name']}"):
        return 1
    query = (
        "mutation($id: String!, $input: IssueUpdateInput!)"
        " { issueUpdate(id: $id, input: $input) { success } }"
    )
    done = ask(query, id=issue["id"], input={"stateId": state["id"]})["issueUpdate"]["success"]
    return 0 if done else 2


def comment(options: argparse.Namespace) -> int:
    issue = issue_of(options.issue)
    text = options.file.read_text("utf-8-sig").strip()
    if not agreed(options, f"{line(issue)}\n\n{text}"):
        return 1
    query = "mutation($input: CommentCreateInput!) { commentCreate(input: $input) { success } }"
    values = {"issueId": issue["id"], "body": text}
    return 0 if ask(query, input=values)["commentCreate"]["success"] else 2


def query(options: argparse.Namespace) -> int:
    if re.search(r"\b(mutation|subscription)\b", options.text):
        raise Problem("query only reads; use new, move or comment")
    print(json.dumps(ask(options.text), indent=1, ensure_ascii=False))
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
        return made

    action("teams", teams, "teams and their states")
    it = action("issues", issues, "find issues")
    it.add_argument("--mine", action="store_true", help="assigned to the owner of the key")
    it.add_argument("--team", help="the key, such as ENG")
    kinds = ("open", "all", "triage", "backlog", "unstarted", "started", "completed", "canceled")
    it.add_argument("--state", choices=kinds, default="open")
    it.add_argument("--text")
    it.add_argument("--limit", type=int, default=50)
    action("show", show, "one issue").add_argument("issue")
    it = action("new", new, "a new issue", changes=True)
    it.add_argument("--team", required=True)
    it.add_argument("--title", required=True)
    it.add_argument("--file", type=Path, help="Markdown")
    it.add_argument("--priority", type=int, choices=PRIORITIES, default=0, help="1 urgent, 4 low")
    it = action("move", move, "into another state", changes=True)
    it.add_argument("issue")
    it.add_argument("state")
    it = action("comment", comment, "write a comment", changes=True)
    it.add_argument("issue")
    it.add_argument("--file", type=Path, required=True, help="Markdown")
    action("query", query, "a GraphQL query").add_argument("text")
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
        print(f"error: Linear's answer has another form than expected: {error!r}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)

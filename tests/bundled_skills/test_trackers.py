"""The scripts for Notion, Linear and Jira, against servers that check the documented format."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from tests.bundled_skills.conftest import Run
from tests.bundled_skills.everyday_servers import Query, Web, served

PAGE, TABLE, SOURCE = "a" * 32, "b" * 32, "c" * 32


class Recorded(Web):
    """Keeps each call, refuses a wrong login, then answers."""

    def answer(self, path: str, query: Query, body: bytes) -> tuple[int, Any]:
        data = json.loads(body) if body else None
        self.state["calls"].append((self.command, path, query, data))
        if self.headers.get("Authorization") != self.state["login"]:
            return 401, self.refusal
        if body:
            assert self.headers["Content-Type"] == "application/json"
        return self.reply(path, query, data)

    refusal: ClassVar[dict[str, Any]] = {}

    def reply(self, path: str, query: Query, data: Any) -> tuple[int, Any]:
        raise NotImplementedError


def text(content: str, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "plain_text": content, "text": {"content": content}, **more}]


class Notion(Recorded):
    refusal: ClassVar[dict[str, Any]] = {
        "object": "error",
        "status": 401,
        "message": "API token is invalid.",
    }

    def reply(self, path: str, query: Query, data: Any) -> tuple[int, Any]:
        assert self.headers["Notion-Version"] == "2025-09-03"
        status = {"type": "status", "status": {"name": "Open"}}
        row = {"Name": {"type": "title", "title": text("Tea")}, "Status": status}
        row["Due"] = {"type": "date", "date": {"start": "2024-05-03", "end": None}}
        page = {"object": "page", "id": PAGE, "last_edited_time": "2024-05-01T", "properties": row}
        kinds = {
            "title": {},
            "status": {"options": [{"name": "Open"}, {"name": "Done"}]},
            "date": {},
        }
        names = {"Name": "title", "Status": "status", "Due": "date"}
        columns = {name: {"type": kind, kind: kinds[kind]} for name, kind in names.items()}
        known: dict[tuple[str, str], Any] = {
            ("POST", "/search"): {"results": [page], "next_cursor": None},
            ("GET", f"/pages/{PAGE}"): page,
            ("PATCH", f"/pages/{PAGE}"): page,
            ("POST", "/pages"): {"id": "new", "url": "https://notion.so/new"},
            ("GET", f"/databases/{TABLE}"): {"data_sources": [{"id": SOURCE, "name": "Tea"}]},
            ("GET", f"/data_sources/{SOURCE}"): {"properties": columns},
            ("POST", f"/data_sources/{SOURCE}/query"): {"results": [page], "next_cursor": None},
            ("PATCH", f"/blocks/{PAGE}/children"): {"results": []},
            ("PATCH", "/blocks/new/children"): {"results": []},
            ("GET", "/blocks/deep/children"): self.blocks(("paragraph", "inner")),
        }
        if path == f"/blocks/{PAGE}/children" and self.command == "GET":
            first = "start_cursor" not in query
            lines = [("heading_2", "Leaves"), ("to_do", "buy")] if first else [("paragraph", "end")]
            found = self.blocks(*lines)
            found["results"][-1].update(id="deep", has_children=not first)
            return 200, {**found, "next_cursor": "more" if first else None}
        found = known.get((self.command, path))
        missing = {"object": "error", "message": "Could not find it."}
        return (200, found) if found else (404, missing)

    @staticmethod
    def blocks(*lines: tuple[str, str]) -> dict[str, Any]:
        made = [
            {"id": f"{at}", "type": kind, kind: {"rich_text": text(words)}, "has_children": False}
            for at, (kind, words) in enumerate(lines)
        ]
        return {"results": made, "next_cursor": None}


class Linear(Recorded):
    refusal: ClassVar[dict[str, Any]] = {"errors": [{"message": "Authentication required"}]}

    def reply(self, path: str, query: Query, data: Any) -> tuple[int, Any]:
        assert path == "/graphql"
        asked, given = data["query"], data["variables"]
        states = [
            {"id": "s2", "name": "Done", "type": "completed", "position": 2},
            {"id": "s1", "name": "Todo", "type": "unstarted", "position": 1},
        ]
        issue = {
            "id": "uuid", "identifier": "ENG-1", "title": "Tea is cold", "priority": 2,
            "url": "https://linear.app/ENG-1", "updatedAt": "2024-05-01T10:00:00Z",
            "state": states[1], "assignee": None, "description": "Brrr",
            "team": {"id": "t", "key": "ENG", "states": {"nodes": states}},
            "comments": {"nodes": [{"body": "Me too", "createdAt": "2024-05-02T10", "user": None}]},
        }  # fmt: skip
        name = re.search(r"\{\s*(\w+)", asked)
        assert name
        if name[1] == "issues":
            assert given["filter"]["assignee"] == {"isMe": {"eq": True}}
            last = given["after"] == "cursor"
            info = {"hasNextPage": not last, "endCursor": "cursor"}
            return 200, {"data": {"issues": {"nodes": [issue], "pageInfo": info}}}
        if name[1] == "issue" and given["id"] == "ENG-9":
            error = {"message": "Entity not found", "extensions": {}}
            return 200, {"errors": [error], "data": None}
        found = {
            "teams": {
                "nodes": [{"id": "t", "key": "ENG", "name": "Core", "states": {"nodes": states}}]
            },
            "issue": issue,
            "issueCreate": {
                "success": True,
                "issue": {"identifier": "ENG-2", "url": "https://l/2"},
            },
            "issueUpdate": {"success": True},
            "commentCreate": {"success": True},
            "viewer": {"name": "Ann"},
        }
        return 200, {"data": {name[1]: found[name[1]]}}


class Jira(Recorded):
    refusal: ClassVar[dict[str, Any]] = {"errorMessages": ["Client must be authenticated"]}

    def reply(self, path: str, query: Query, data: Any) -> tuple[int, Any]:
        cloud = self.headers["Authorization"].startswith("Basic")
        assert path.startswith("/rest/api/3/" if cloud else "/rest/api/2/")
        words = [{"type": "text", "text": "Brrr"}]
        body = {"type": "doc", "version": 1, "content": [{"type": "paragraph", "content": words}]}
        fields = {
            "summary": "Tea is cold", "status": {"name": "Open"},
            "assignee": {"displayName": "Ann"},
            "issuetype": {"name": "Bug"}, "updated": "2024-05-01T10:00:00.000+0000",
            "description": body if cloud else "Brrr",
            "comment": {"comments": [{"created": "2024-05-02T10", "author": None, "body": body}]},
        }  # fmt: skip
        issue = {"key": "SHOP-1", "fields": fields}
        transitions = [{"id": "31", "name": "Close", "to": {"name": "Done"}}]
        place = path.partition("/rest/api/")[2][2:]
        if place == "search/jql":
            last = data.get("nextPageToken") == "more"
            return 200, {
                "issues": [issue],
                "isLast": last,
                **({} if last else {"nextPageToken": "more"}),
            }
        if place == "issue" and data["fields"]["issuetype"]["name"] == "Epic":
            return 400, {"errorMessages": [], "errors": {"customfield_1": "Epic Name is required."}}
        known: dict[tuple[str, str], tuple[int, Any]] = {
            ("POST", "search"): (200, {"issues": [issue], "total": 1}),
            ("GET", "issue/SHOP-1"): (200, issue),
            ("POST", "issue"): (201, {"key": "SHOP-2"}),
            ("GET", "issue/SHOP-1/transitions"): (200, {"transitions": transitions}),
            ("POST", "issue/SHOP-1/transitions"): (204, ""),
            ("POST", "issue/SHOP-1/comment"): (201, {"id": "7"}),
        }
        return known.get((self.command, place), (404, {"errorMessages": ["Issue does not exist"]}))


Tracker = Callable[..., tuple[str, str]]


@pytest.fixture
def tracker(run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Tracker]]:
    """`tracker(Notion, "notion", login, NOTION_TOKEN="t")` starts a server and calls the script."""
    servers = []

    def start(kind: type[Recorded], skill: str, login: str, **variables: str) -> Tracker:
        state: dict[str, Any] = {"calls": [], "login": login}
        server = served(kind, state)
        url = server.__enter__()
        servers.append(server)
        for name, value in variables.items():
            monkeypatch.setenv(name, value.replace("URL", url))

        def ask(*arguments: object, code: int = 0) -> tuple[str, str]:
            state["calls"].clear()
            done = run(f"{skill}/{skill}.py", *arguments)
            assert done.returncode == code, done.stderr
            return done.stdout, done.stderr

        ask.calls = state["calls"]  # type: ignore[attr-defined]
        return ask

    yield start
    for server in servers:
        server.__exit__(None, None, None)


def test_notion_is_searched_read_and_written(tracker, tmp_path, monkeypatch):
    notion = tracker(Notion, "notion", "Bearer secret", NOTION_TOKEN="secret", NOTION_API="URL")
    assert notion("search", "tea")[0] == f"{PAGE}  page  2024-05-01  Tea\n"
    read, _ = notion("read", f"https://www.notion.so/Tea-{PAGE}?pvs=4")
    assert read == "# Tea\n\nStatus: Open\nDue: 2024-05-03\n## Leaves\n- [ ] buy\nend\n  inner\n"
    assert notion("columns", TABLE)[0] == "Name (title)\nStatus (status): Open, Done\nDue (date)\n"
    rows, _ = notion("rows", TABLE, "--where", "Status=Open", "--where", "Name=Te")
    assert json.loads(rows) == {"id": PAGE, "Name": "Tea", "Status": "Open", "Due": "2024-05-03"}
    assert notion.calls[-1][3] == {
        "filter": {"and": [
            {"property": "Status", "status": {"equals": "Open"}},
            {"property": "Name", "title": {"contains": "Te"}},
        ]},
        "page_size": 100,
    }  # fmt: skip
    (tmp_path / "t.md").write_text("# A\n- [x] b **c**\n```python\nx = 1\n```\n" + "line\n" * 120)
    shown, _ = notion("append", PAGE, "--file", "t.md", code=1)
    assert "nothing was changed" in shown
    assert all(call[0] == "GET" for call in notion.calls)
    notion("append", PAGE, "--file", "t.md", "--yes")
    first, second = (call[3]["children"] for call in notion.calls if call[0] == "PATCH")
    assert (len(first), len(second)) == (100, 23)
    assert first[1]["to_do"] == {
        "rich_text": [
            {"type": "text", "text": {"content": "b "}},
            {"type": "text", "text": {"content": "c"}, "annotations": {"bold": True}},
        ],
        "checked": True,
    }
    assert first[2]["code"]["language"] == "python"
    values = ("--set", "Status=Done", "--set", "Due=2024-06-01")
    notion("new", TABLE, "--row", "--title", "Cup", *values, "--yes")
    assert notion.calls[-1][3] == {
        "parent": {"type": "data_source_id", "data_source_id": SOURCE},
        "properties": {
            "Name": {"title": [{"type": "text", "text": {"content": "Cup"}}]},
            "Status": {"status": {"name": "Done"}},
            "Due": {"date": {"start": "2024-06-01"}},
        },
        "children": [],
    }
    notion("set", PAGE, "Status=Done", "--yes")
    assert notion.calls[-1][::3] == (
        "PATCH",
        {"properties": {"Status": {"status": {"name": "Done"}}}},
    )
    assert "there are: Name, Status, Due" in notion("set", PAGE, "X=1", code=2)[1]
    assert "share the page with the integration" in notion("read", "d" * 32, code=2)[1]
    assert "holds no id" in notion("read", "tea", code=2)[1]
    monkeypatch.setenv("NOTION_TOKEN", "wrong")
    assert "is NOTION_TOKEN right?" in notion("search", code=2)[1]


def test_linear_issues_are_found_and_moved(tracker, tmp_path, monkeypatch):
    linear = tracker(Linear, "linear", "key", LINEAR_API_KEY="key", LINEAR_API="URL/graphql")
    assert linear("teams")[0] == "ENG  Core: Todo, Done\n"
    found, _ = linear("issues", "--mine", "--team", "eng")
    line = "ENG-1  Tea is cold  (Todo, high, unassigned, 2024-05-01)\n"
    assert found == 2 * line
    assert linear.calls[0][3]["variables"] == {
        "filter": {
            "assignee": {"isMe": {"eq": True}},
            "team": {"key": {"eq": "ENG"}},
            "state": {"type": {"nin": ["completed", "canceled"]}},
        },
        "first": 50,
        "after": None,
    }
    assert "may be more" in linear("issues", "--mine", "--limit", 1)[1]
    assert "Brrr\n\n--- 2024-05-02T10 an integration\nMe too\n" in linear("show", "eng-1")[0]
    (tmp_path / "t.md").write_text("Steps")
    new = ("new", "--team", "ENG", "--title", "T", "--file", "t.md", "--priority", 1)
    assert "(urgent)" in linear(*new, code=1)[0]
    assert linear(*new, "--yes")[0].endswith("ENG-2  https://l/2\n")
    assert linear.calls[-1][3]["variables"]["input"] == {
        "teamId": "t", "title": "T", "priority": 1, "description": "Steps",
    }  # fmt: skip
    linear("move", "ENG-1", "done", "--yes")
    assert linear.calls[-1][3]["variables"] == {"id": "uuid", "input": {"stateId": "s2"}}
    assert "there are: Done, Todo" in linear("move", "ENG-1", "x", code=2)[1]
    linear("comment", "ENG-1", "--file", "t.md", "--yes")
    assert linear.calls[-1][3]["variables"]["input"] == {"issueId": "uuid", "body": "Steps"}
    assert json.loads(linear("query", "query { viewer { name } }")[0]) == {
        "viewer": {"name": "Ann"}
    }
    assert "only reads" in linear("query", "mutation { x }", code=2)[1]
    assert "Entity not found" in linear("show", "ENG-9", code=2)[1]
    monkeypatch.setenv("LINEAR_API_KEY", "Bearer key")
    assert "is LINEAR_API_KEY right?" in linear("teams", code=2)[1]


def test_jira_issues_are_found_and_moved(tracker, tmp_path, monkeypatch):
    login = "Basic " + base64.b64encode(b"ann@example.org:token").decode()
    jira = tracker(
        Jira, "jira", login, JIRA_URL="URL/", JIRA_EMAIL="ann@example.org", JIRA_TOKEN="token"
    )
    found, _ = jira("search", "project = SHOP")
    assert found == 2 * "SHOP-1  Tea is cold  (Bug, Open, Ann, 2024-05-01)\n"
    assert jira.calls[1][3]["nextPageToken"] == "more"
    assert "/browse/SHOP-1\n\nBrrr\n" in jira("show", "shop-1")[0]
    (tmp_path / "t.md").write_text("# Steps\n\n- one\n- two\n\na\nb\n\n```\nx = 1\n\ny\n```\n")
    new = ("new", "--project", "shop", "--type", "Bug", "--title", "T", "--file", "t.md")
    assert "nothing was changed" in jira(*new, code=1)[0]
    assert jira.calls == []
    assert "SHOP-2" in jira(*new, "--yes")[0]
    fields = jira.calls[0][3]["fields"]
    assert (fields["project"], fields["issuetype"]) == ({"key": "SHOP"}, {"name": "Bug"})
    kinds = [node["type"] for node in fields["description"]["content"]]
    assert kinds == ["heading", "bulletList", "paragraph", "codeBlock"]
    assert fields["description"]["content"][3]["content"][0]["text"] == "x = 1\n\ny"
    assert jira("moves", "SHOP-1")[0] == "Close -> Done\n"
    jira("move", "SHOP-1", "done", "--yes")
    assert jira.calls[-1][3] == {"transition": {"id": "31"}}
    assert "there are: Close -> Done" in jira("move", "SHOP-1", "Open", code=2)[1]
    jira("comment", "SHOP-1", "--file", "t.md", "--yes")
    assert jira.calls[-1][3]["body"]["type"] == "doc"
    epic = ("new", "--project", "SHOP", "--type", "Epic", "--title", "T", "--yes")
    assert "customfield_1: Epic Name is required." in jira(*epic, code=2)[1]
    assert "no right to see it" in jira("show", "SHOP-9", code=2)[1]
    assert "no issue such as" in jira("show", "../x", code=2)[1]
    monkeypatch.setenv("JIRA_TOKEN", "wrong")
    assert "JIRA_TOKEN right?" in jira("show", "SHOP-1", code=2)[1]


def test_jira_data_center_has_another_login_and_plain_text(tracker, tmp_path):
    jira = tracker(Jira, "jira", "Bearer pat", JIRA_URL="URL", JIRA_EMAIL="", JIRA_TOKEN="pat")
    assert jira("search", "project = SHOP")[0].count("SHOP-1") == 1
    assert jira.calls[0][3]["startAt"] == 0
    assert "\n\nBrrr\n" in jira("show", "SHOP-1")[0]
    (tmp_path / "t.md").write_text("Plain")
    jira("comment", "SHOP-1", "--file", "t.md", "--yes")
    assert jira.calls[-1][3] == {"body": "Plain"}

"""Search, read and write Notion pages and tables over its REST interface. Set NOTION_TOKEN.

  notion.py search "meeting"                       pages and tables that the integration may see
  notion.py read PAGE_ID                           a page as Markdown
  notion.py rows TABLE_ID --where Status=Open --limit 50     a table as JSON Lines
  notion.py columns TABLE_ID                       names, kinds and options of the columns
  notion.py append PAGE_ID --file more.md --yes    Markdown at the end of a page
  notion.py new PARENT_ID --title T --file t.md --yes        below a page, or as a row of a table
  notion.py set PAGE_ID Status=Done Due=2024-05-03 --yes     columns of a row

An id may also be the address of the page. What changes something only shows it without --yes.
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
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

API = "https://api.notion.com/v1"
VERSION = "2025-09-03"
SECONDS = 30
MOST_TEXT, MOST_BLOCKS = 2000, 100
"""Characters of one piece of text, and blocks of one call: limits of Notion."""
PREFIXES = {
    "heading_1": "# ", "heading_2": "## ", "heading_3": "### ", "bulleted_list_item": "- ",
    "numbered_list_item": "1. ", "quote": "> ", "toggle": "- ", "callout": "> ",
}  # fmt: skip
INLINE = re.compile(
    r"\*\*(?P<bold>[^*]+)\*\*|`(?P<code>[^`]+)`|\[(?P<label>[^\]]+)\]\((?P<url>[^)\s]+)\)"
)


class Problem(Exception):
    """Something the user has to correct, or a refusal by Notion."""


def call(method: str, path: str, body: Any = None, **query: Any) -> Any:
    token = os.environ.get("NOTION_TOKEN", "")
    if not token:
        raise Problem("NOTION_TOKEN is not set")
    base = os.environ.get("NOTION_API", API)
    values = {name: value for name, value in query.items() if value}
    url = f"{base}{path}" + (f"?{urllib.parse.urlencode(values)}" if values else "")
    heads = {"Authorization": f"Bearer {token}", "Notion-Version": VERSION}
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        heads["Content-Type"] = "application/json"
    request = urllib.request.Request(url, data=data, headers=heads, method=method)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        raise Problem(reason(error)) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Problem(f"no answer from Notion: {error}") from None


def reason(error: urllib.error.HTTPError) -> str:
    try:
        words = json.loads(error.read(5000))["message"]
    except (ValueError, KeyError, TypeError):
        words = str(error.reason)
    hint = {
        401: " (is NOTION_TOKEN right?)",
        404: " (share the page with the integration: … menu, Connections)",
        429: f" (wait {error.headers.get('Retry-After', 'some')} seconds)",
    }.get(error.code, "")
    return f"Notion answered {error.code}: {words}{hint}"


def pages(method: str, path: str, body: dict[str, Any] | None, limit: int) -> Iterator[Any]:
    """The results of all answers, until `limit`."""
    cursor, count = "", 0
    while True:
        size = min(limit - count, 100)
        if method == "GET":
            found = call(method, path, page_size=size, start_cursor=cursor)
        else:
            more = {"start_cursor": cursor} if cursor else {}
            found = call(method, path, {**(body or {}), "page_size": size, **more})
        yield from found.get("results", [])[: limit - count]
        count += len(found.get("results", []))
        cursor = found.get("next_cursor") or ""
        if not cursor or count >= limit:
            return


def ident(text: str) -> str:
    """The id in an address, or the id itself."""
    path = urllib.parse.urlsplit(text).path.rstrip("/").replace("-", "").lower()
    found = re.search(r"[0-9a-f]{32}$", path)
    if not found:
        raise Problem(f"{text!r} holds no id: 32 digits and letters at the end of the address")
    return found[0]


def plain(rich: list[Any]) -> str:
    return "".join(part.get("plain_text", "") for part in rich or [])


def markdown(rich: list[Any]) -> str:
    out = ""
    for part in rich or []:
        text, look = part.get("plain_text", ""), part.get("annotations", {})
        text = f"`{text}`" if look.get("code") else text
        text = f"**{text}**" if look.get("bold") else text
        out += f"[{text}]({part['href']})" if part.get("href") else text
    return out


def title(entry: dict[str, Any]) -> str:
    if "title" in entry:
        return plain(entry["title"])
    named = [each for each in entry.get("properties", {}).values() if each.get("type") == "title"]
    return plain(named[0]["title"]) if named else "(no title)"


def value(column: dict[str, Any]) -> Any:
    """What a column of a row holds, as plain JSON."""
    kind = column["type"]
    found = column.get(kind)
    if kind in ("title", "rich_text"):
        return plain(found)
    if kind in ("select", "status"):
        return found["name"] if found else None
    if kind in ("multi_select", "people", "files"):
        return [each.get("name") or each.get("id") for each in found or []]
    if kind == "relation":
        return [each["id"] for each in found or []]
    if kind == "date":
        return " to ".join(filter(None, (found["start"], found.get("end")))) if found else None
    if kind in ("formula", "rollup", "unique_id") and isinstance(found, dict):
        return found.get(found.get("type", ""), found.get("number"))
    return found


def search(options: argparse.Namespace) -> int:
    found = list(pages("POST", "/search", {"query": options.words}, options.limit))
    for each in found:
        kind = "table" if each["object"] in ("data_source", "database") else "page"
        print(f"{each['id']}  {kind}  {each.get('last_edited_time', '')[:10]}  {title(each)}")
    return 0 if found else 1


def blocks(parent: str, depth: int = 0) -> Iterator[str]:
    number = 0
    for each in pages("GET", f"/blocks/{parent}/children", None, 10_000):
        kind = each["type"]
        data = each.get(kind) or {}
        text = markdown(data.get("rich_text", []))
        number = number + 1 if kind == "numbered_list_item" else 0
        prefix = f"{number}. " if number else PREFIXES.get(kind, "")
        if kind == "to_do":
            prefix = "- [x] " if data.get("checked") else "- [ ] "
        if kind == "code":
            text = f"```{data.get('language', '')}\n{plain(data.get('rich_text', []))}\n```"
        elif kind == "divider":
            text = "---"
        elif kind == "table_row":
            text = "| " + " | ".join(markdown(cell) for cell in data.get("cells", [])) + " |"
        elif kind in ("child_page", "child_database"):
            text = f"[{kind[6:]} {each['id']}] {data.get('title', '')}"
        elif not text and kind not in ("paragraph", "table", "column_list", "column"):
            text = f"[{kind}]"
        indent = "  " * depth
        if kind not in ("table", "column_list", "column"):
            yield "\n".join(f"{indent}{line}" for line in f"{prefix}{text}".split("\n"))
        if each.get("has_children") and not kind.startswith("child_"):
            yield from blocks(each["id"], depth + (kind not in ("table", "column_list", "column")))


def read(options: argparse.Namespace) -> int:
    page = call("GET", f"/pages/{ident(options.id)}")
    print(f"# {title(page)}\n")
    for name, column in page.get("properties", {}).items():
        if column["type"] != "title" and value(column) not in (None, "", []):
            print(f"{name}: {value(column)}")
    for line in blocks(ident(options.id)):
        print(line)
    return 0


def source(table: str) -> str:
    """The data source of a table; its id may be that of the database around it."""
    try:
        found = call("GET", f"/databases/{table}")
    except Problem as problem:
        if "404" in str(problem) or "400" in str(problem):
            return table
        raise
    sources = found.get("data_sources", [])
    if len(sources) > 1:
        names = ", ".join(f"{each['id']} {each.get('name', '')}" for each in sources)
        raise Problem(f"the database has several tables, name one: {names}")
    return str(sources[0]["id"]) if sources else table


def columns_of(table: str) -> dict[str, Any]:
    return dict(call("GET", f"/data_sources/{table}").get("properties", {}))


def columns(options: argparse.Namespace) -> int:
    for name, column in columns_of(source(ident(options.id))).items():
        kind = column["type"]
        choices = (column.get(kind) or {}).get("options", [])
        names = ": " + ", ".join(each["name"] for each in choices) if choices else ""
        print(f"{name} ({kind}){names}")
    return 0


def condition(table: dict[str, Any], pair: str) -> dict[str, Any]:
    name, text = pair_of(pair)
    kind = kind_of(table, name)
    if kind in ("title", "rich_text", "url", "email", "phone_number"):
        return {"property": name, kind: {"contains": text}}
    if kind == "multi_select":
        return {"property": name, kind: {"contains": text}}
    return {"property": name, kind: {"equals": written(kind, text, raw=True)}}


def pair_of(text: str) -> tuple[str, str]:
    name, sign, found = text.partition("=")
    if not sign:
        raise Problem(f"write NAME=VALUE, not {text!r}")
    return name.strip(), found.strip()


def kind_of(table: dict[str, Any], name: str) -> str:
    if name not in table:
        raise Problem(f"there is no column {name!r}; there are: {', '.join(table)}")
    return str(table[name]["type"])


def written(kind: str, text: str, raw: bool = False) -> Any:
    """A value as Notion takes it, for a condition (`raw`) or for a row."""
    if kind == "number":
        try:
            return float(text)
        except ValueError:
            raise Problem(f"{text!r} is no number") from None
    if kind == "checkbox":
        return text.lower() in ("true", "yes", "x", "1")
    if raw or kind in ("url", "email", "phone_number"):
        return text or None
    if kind in ("title", "rich_text"):
        return rich(text)
    if kind in ("select", "status"):
        return {"name": text} if text else None
    if kind == "multi_select":
        return [{"name": part.strip()} for part in text.split(",") if part.strip()]
    if kind == "date":
        return {"start": text} if text else None
    raise Problem(f"a column of the kind {kind} cannot be set here")


def rows(options: argparse.Namespace) -> int:
    table = source(ident(options.id))
    known = columns_of(table) if options.where else {}
    wanted = [condition(known, pair) for pair in options.where]
    body = {"filter": {"and": wanted}} if wanted else {}
    found = list(pages("POST", f"/data_sources/{table}/query", body, options.limit))
    for each in found:
        row = {"id": each["id"], **{k: value(v) for k, v in each["properties"].items()}}
        print(json.dumps(row, ensure_ascii=False))
    return 0 if found else 1


def rich(text: str) -> list[dict[str, Any]]:
    """Text with its marks in pieces that Notion accepts."""
    out: list[dict[str, Any]] = []

    def add(words: str, url: str = "", **look: bool) -> None:
        for at in range(0, len(words), MOST_TEXT):
            content: dict[str, Any] = {"content": words[at : at + MOST_TEXT]}
            if url:
                content["link"] = {"url": url}
            out.append({"type": "text", "text": content, **({"annotations": look} if look else {})})

    last = 0
    for found in INLINE.finditer(text):
        add(text[last : found.start()])
        if found["bold"]:
            add(found["bold"], bold=True)
        elif found["code"]:
            add(found["code"], code=True)
        else:
            add(found["label"], found["url"])
        last = found.end()
    add(text[last:])
    return out


LINES = (
    ("heading_1", r"# +(.*)"),
    ("heading_2", r"## +(.*)"),
    ("heading_3", r"###+ +(.*)"),
    ("to_do", r"[-*] \[([ xX])\] +(.*)"),
    ("bulleted_list_item", r"[-*+] +(.*)"),
    ("numbered_list_item", r"\d+[.)] +(.*)"),
    ("quote", r"> ?(.*)"),
    ("divider", r"---"),
    ("paragraph", r"(.+)"),
)


def block(line: str) -> dict[str, Any]:
    """One line of Markdown as a block."""
    for kind, pattern in LINES:
        found = re.fullmatch(pattern, line)
        if found and kind == "divider":
            return {"object": "block", "type": kind, kind: {}}
        if found:
            data: dict[str, Any] = {"rich_text": rich(found.groups()[-1])}
            if kind == "to_do":
                data["checked"] = found[1] != " "
            return {"object": "block", "type": kind, kind: data}
    raise AssertionError("a line that is not empty is a paragraph")


def from_markdown(text: str) -> list[dict[str, Any]]:
    """One block for each line; fenced code is one block."""
    out: list[dict[str, Any]] = []
    lines = text.replace("\r\n", "\n").split("\n")
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        at += 1
        if line.startswith("```"):
            end = next((n for n in range(at, len(lines)) if lines[n].startswith("```")), len(lines))
            words = {"type": "text", "text": {"content": "\n".join(lines[at:end])[:MOST_TEXT]}}
            code = {"rich_text": [words], "language": line[3:].strip() or "plain text"}
            out.append({"object": "block", "type": "code", "code": code})
            at = end + 1
        elif line:
            out.append(block(line))
    return out


def agreed(options: argparse.Namespace, words: str) -> bool:
    print(words)
    if not options.yes:
        print("nothing was changed: show this to the user, then repeat with --yes")
    return bool(options.yes)


def content(options: argparse.Namespace) -> list[dict[str, Any]]:
    if not options.file:
        return []
    return from_markdown(options.file.read_text("utf-8-sig"))


def append(options: argparse.Namespace) -> int:
    made = content(options)
    page = call("GET", f"/pages/{ident(options.id)}")
    if not agreed(options, f"{len(made)} blocks at the end of {title(page)!r}"):
        return 1
    for at in range(0, len(made), MOST_BLOCKS):
        part = {"children": made[at : at + MOST_BLOCKS]}
        call("PATCH", f"/blocks/{ident(options.id)}/children", part)
    return 0


def new(options: argparse.Namespace) -> int:
    made, parent = content(options), ident(options.id)
    table = source(parent) if options.row else ""
    if table:
        known = columns_of(table)
        name = next(key for key, column in known.items() if column["type"] == "title")
        properties = {name: {"title": rich(options.title)}, **changes(known, options.values)}
        where: dict[str, Any] = {"type": "data_source_id", "data_source_id": table}
    else:
        properties = {"title": {"title": rich(options.title)}}
        where = {"type": "page_id", "page_id": parent}
    words = f"a new {'row' if table else 'page'} {options.title!r} with {len(made)} blocks"
    if not agreed(options, words):
        return 1
    body = {"parent": where, "properties": properties, "children": made[:MOST_BLOCKS]}
    page = call("POST", "/pages", body)
    for at in range(MOST_BLOCKS, len(made), MOST_BLOCKS):
        part = {"children": made[at : at + MOST_BLOCKS]}
        call("PATCH", f"/blocks/{page['id']}/children", part)
    print(f"{page['id']}  {page.get('url', '')}")
    return 0


def changes(known: dict[str, Any], pairs: list[str]) -> dict[str, Any]:
    out = {}
    for name, text in map(pair_of, pairs):
        kind = kind_of(known, name)
        out[name] = {kind: written(kind, text)}
    return out


def change(options: argparse.Namespace) -> int:
    page = call("GET", f"/pages/{ident(options.id)}")
    made = changes(page["properties"], options.values)
    old = {name: value(page["properties"][name]) for name in made}
    if not agreed(options, f"{title(page)!r}: {old} -> {dict(map(pair_of, options.values))}"):
        return 1
    call("PATCH", f"/pages/{ident(options.id)}", {"properties": made})
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: object, text: str, changes: bool = False) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=text)
        made.set_defaults(run=run)
        if name != "search":
            made.add_argument("id", help="an id or an address")
        if changes:
            made.add_argument("--yes", action="store_true", help="really do it")
        return made

    it = action("search", search, "find pages and tables")
    it.add_argument("words", nargs="?", default="")
    it.add_argument("--limit", type=int, default=20)
    action("read", read, "a page as Markdown")
    action("columns", columns, "the columns of a table")
    it = action("rows", rows, "the rows of a table")
    it.add_argument("--where", action="append", default=[], metavar="COLUMN=VALUE")
    it.add_argument("--limit", type=int, default=100)
    action("append", append, "Markdown at the end", changes=True).add_argument(
        "--file", type=Path, required=True
    )
    it = action("new", new, "a page, or a row with --row", changes=True)
    it.add_argument("--set", dest="values", action="append", default=[], metavar="COLUMN=VALUE")
    it.add_argument("--row", action="store_true", help="the parent is a table")
    it.add_argument("--title", required=True)
    it.add_argument("--file", type=Path)
    it = action("set", change, "columns of a row", changes=True)
    it.add_argument("values", nargs="+", metavar="COLUMN=VALUE")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return int(options.run(options))
    except BrokenPipeError:
        raise
    except (Problem, OSError, UnicodeError) as error:
        print(f"error: {error}", file=sys.stderr)
    except (KeyError, TypeError, StopIteration, AttributeError) as error:
        print(f"error: Notion's answer has another form than expected: {error!r}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)

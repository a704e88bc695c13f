"""An MCP server over standard input and output: notes in a folder. Needs: pip install "mcp>=2".

NOTES=/path/to/notes python3 server.py
"""
# ruff: noqa: TID251 - its one setting is a variable of the environment

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

FOLDER = Path(os.environ.get("NOTES", "notes")).resolve()
MOST_CHARACTERS = 20_000

server = MCPServer("notes", instructions="Notes of the user. Search before you add one.")


def note(name: str) -> Path:
    """The file of a note. A name never leads out of the folder."""
    if not re.fullmatch(r"[\w -]{1,80}", name):
        raise ToolError(f"{name!r} is no name: use letters, digits, blanks and hyphens")
    return FOLDER / f"{name}.md"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def search_notes(
    words: Annotated[str, Field(description="Words that must all be in the note", min_length=1)],
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
) -> list[str]:
    """Find notes; returns their names, the newest first. Read one with read_note."""
    wanted = words.lower().split()
    files = sorted(FOLDER.glob("*.md"), key=lambda file: file.stat().st_mtime, reverse=True)
    found = [
        file.stem for file in files if all(w in file.read_text("utf-8").lower() for w in wanted)
    ]
    return found[:limit]


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read_note(name: str) -> str:
    """Return the text of a note."""
    file = note(name)
    if not file.exists():
        raise ToolError(f"there is no note {name!r}; search_notes lists them")
    return file.read_text("utf-8")[:MOST_CHARACTERS]


@server.tool(annotations=ToolAnnotations(destructive_hint=False, idempotent_hint=False))
def add_note(
    name: str, text: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
) -> str:
    """Add a note. Refuses to replace one."""
    file = note(name)
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise ToolError(f"there is a note {name!r} already; choose another name") from None
    return f"added {name}"


if __name__ == "__main__":
    server.run()

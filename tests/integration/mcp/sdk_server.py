"""An MCP server of the official SDK, which speaks both kinds of revisions: `sdk_server.py [PORT]`.

Without a port it uses its standard streams. It logs the methods it is asked for to $HEARD.
"""

import os
import sys
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.caching import CacheHint
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListRootsRequest,
    RequestParams,
)
from pydantic import Field


class TaskParams(RequestParams):
    task_id: str = Field(alias="taskId")
    input_responses: dict[str, Any] | None = Field(default=None, alias="inputResponses")


class Tasks(Extension):
    """Runs `research` as a task: it needs one answer and ends at the third look."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.looks, self.topic = 0, ""

    def task(self, status: str, **fields: Any) -> dict[str, Any]:
        times = {"createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z"}
        kept = {"ttlMs": 60_000, "pollIntervalMs": 10, "resultType": "complete"}
        return {"taskId": "tâche 1", "status": status, **times, **kept, **fields}

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
        if params.name == "research":
            return self.task("working", statusMessage="reading", resultType="task")
        return await call_next(ctx)

    async def get(self, _ctx: Any, _params: TaskParams) -> dict[str, Any]:
        self.looks += 1
        if not self.topic:
            schema = {"type": "object", "properties": {"topic": {"type": "string"}}}
            asked = {"mode": "form", "message": "About what?", "requestedSchema": schema}
            question = {"method": "elicitation/create", "params": asked}
            return self.task("input_required", inputRequests={"q": question})
        if self.looks < 3:
            return self.task("working", statusMessage="writing")
        content = [{"type": "text", "text": f"all about {self.topic}"}]
        return self.task("completed", result={"content": content})

    async def update(self, _ctx: Any, params: TaskParams) -> dict[str, Any]:
        self.topic = (params.input_responses or {})["q"]["content"]["topic"]
        return {"resultType": "complete"}

    async def cancel(self, _ctx: Any, _params: TaskParams) -> dict[str, Any]:
        return {"resultType": "complete"}

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self.get),
            MethodBinding("tasks/update", TaskParams, self.update),
            MethodBinding("tasks/cancel", TaskParams, self.cancel),
        ]


def record(method: str) -> None:
    if path := os.environ.get("HEARD"):
        with Path(path).open("a") as file:
            file.write(f'{{"method": "{method}"}}\n')


async def middleware(ctx: Any, call_next: Any) -> Any:
    record(ctx.method)
    return await call_next(ctx)


server = MCPServer(
    "both",
    version="3.1",
    instructions="Adds numbers.",
    extensions=[Tasks()],
    middleware=[middleware],
    cache_hints={"tools/list": CacheHint(int(os.environ.get("TTL", "0")))},
    log_level="ERROR",
)


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(name="grüße")
def greet() -> str:
    """Greet."""
    return "hi"


@server.tool()
def research() -> str:
    """Find out about something."""
    raise NotImplementedError


@server.tool()
async def grow(ctx: Context) -> str:
    """Add a tool."""
    server.add_tool(lambda: "new", name="sprout", description="Is new")
    await ctx.notify_tools_changed()
    return "grown"


@server.tool(structured_output=False)
async def ask(ctx: Context) -> Any:
    """Ask the user for a colour, and the client for its roots."""
    answers = ctx.input_responses or {}
    if "colour" not in answers:
        schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
        form = ElicitRequestFormParams(message="Which?", requested_schema=schema)
        questions = {"colour": ElicitRequest(params=form), "roots": ListRootsRequest()}
        return InputRequiredResult(input_requests=questions, request_state="kept")
    colour, roots = answers["colour"], answers["roots"]
    return f"{colour.action} {colour.content} {len(roots.roots)} {ctx.request_state}"


@server.resource("note://one")
def note() -> str:
    return "a note"


if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run("stdio")

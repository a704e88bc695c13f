"""The tool `delegate_task`: give work to subagents. Also what subagents may use and report."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec

from hermes.config.settings import DelegationSettings
from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.core.events import (
    Event,
    ModelCalled,
    SubagentProgress,
    TextFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from hermes.core.messages import SUBAGENT_NEWS, Message, ToolCall, ToolResult, User
from hermes.core.model import FellBack, Retrying, TextDelta
from hermes.core.ports import ChildResult, ChildTask
from hermes.core.tool import Effect, ToolContext, no_concern
from hermes.tools.registry import ToolDeps, require, tool
from hermes.util.text import cut_middle, visible

Role = Literal["leaf", "orchestrator"]

NAME = "delegate_task"
CHILD_DENIED_TOOLS = frozenset({NAME, "clarify", "memory", "send_message", "execute_code"})
"""Tools that subagents do not get; an orchestrator gets `delegate_task` back."""
MAX_DEPTH = 3
MAX_SUMMARY_CHARS = 20_000  #: For all summaries of a call together.
CHILD_INSTRUCTIONS = (
    "You work alone: no one can answer questions, and only your last message is read. End with a "
    "summary: what you did and found, which files changed (paths), what is still open."
)

_TASK: dict[str, Any] = {
    "goal": {"type": "string"},
    "context": {"type": "string"},
    "toolsets": {"type": "array", "items": {"type": "string"}},
    "role": {"type": "string", "enum": ["leaf", "orchestrator"]},
}


_PARAMETERS = {
    "type": "object",
    "properties": {
        "goal": {**_TASK["goal"], "description": "one task"},
        "context": {**_TASK["context"], "description": "facts, paths, limits"},
        "toolsets": {**_TASK["toolsets"], "description": "default: yours"},
        "role": {**_TASK["role"], "description": "an orchestrator can delegate too"},
        "tasks": {
            "type": "array",
            "items": {"type": "object", "properties": _TASK, "required": ["goal"]},
            "description": "several tasks instead of goal",
        },
        "max_iterations": {"type": "integer", "minimum": 1},
        "background": {"type": "boolean", "description": "do not wait; reports arrive later"},
    },
}


class _TaskArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    goal: str
    context: str = ""
    toolsets: tuple[str, ...] = ()
    role: Role | None = None


class _Arguments(msgspec.Struct, frozen=True):
    goal: str | None = None
    context: str = ""
    toolsets: tuple[str, ...] = ()
    role: Role = "leaf"
    tasks: tuple[_TaskArguments, ...] = ()
    max_iterations: int | None = None
    background: bool = False


@tool(
    toolset="delegation",
    effect=Effect.EXECUTE,
    description="Give tasks to subagents. They run in parallel in their own conversations and "
    "return summaries. Use it for research and for separate work with much output. They do not see "
    "this conversation: tell them everything they need.",
    parameters=_PARAMETERS,
    # Delegating needs no approval: each call of a subagent is judged by itself.
    examine=lambda _deps, arguments: no_concern(arguments),
    unavailable=lambda deps: "" if deps.services.spawner else "this session cannot start subagents",
    emoji="👥",
)
async def delegate_task(deps: ToolDeps, call: ToolContext, **arguments: Any) -> str:
    tasks = _parse_tasks(arguments, deps.settings.delegation)
    spawner = require(deps.services.spawner)
    if not arguments.get("background"):
        return _results_json(await spawner.run(tasks, call))
    ids = spawner.start(tasks, call)
    started = [
        StartedSubagent(run_id, task.goal[:GOAL_CHARS])
        for run_id, task in zip(ids, tasks, strict=True)
    ]
    return msgspec.json.encode(StartedSubagents(started)).decode()


GOAL_CHARS = 200  #: Part of a goal that names a subagent.


class StartedSubagent(msgspec.Struct, frozen=True):
    id: str
    goal: str


class StartedSubagents(msgspec.Struct, frozen=True):
    """The result of a call with `background`."""

    started: list[StartedSubagent]
    note: str = "Continue, or end your turn: each report arrives as a message."


def background_report(run_id: str, goal: str, result: ChildResult) -> str:
    """Return the message with the report of a subagent in the background."""
    head = f"{SUBAGENT_NEWS}{run_id} ({goal[:GOAL_CHARS]}): {result.status}]"
    facts = f"session {result.session_id}" if result.session_id else ""
    error = f"error: {result.error}" if result.error else ""
    parts = (head, facts, error, cut_middle(result.summary, MAX_SUMMARY_CHARS))
    return "\n".join(part for part in parts if part)


def lost_reports(history: Sequence[Message]) -> list[str]:
    """Return a report for each subagent in the background that a conversation started and that
    never reported, because the program ended."""
    started: dict[str, str] = {}
    for message in history:
        if isinstance(message, ToolResult) and message.name == NAME and not message.failed:
            with suppress(msgspec.DecodeError):
                found = msgspec.json.decode(message.text, type=StartedSubagents)
                started |= {each.id: each.goal for each in found.started}
        elif isinstance(message, User):
            for run_id in [each for each in started if f"{SUBAGENT_NEWS}{each} " in message.text]:
                del started[run_id]
    lost = ChildResult("interrupted", "It was at work when the program ended; its work is lost.")
    return [background_report(run_id, goal, lost) for run_id, goal in started.items()]


def allowed_tools(
    names: Sequence[str], role: Role, depth: int, max_depth: int, orchestrator_enabled: bool
) -> list[str]:
    """Return those of `names` that a subagent may use, in their order.

    An orchestrator can delegate whatever toolsets it was given, unless it is at the maximum depth.
    `depth` is 1 for subagents of the main agent. `max_depth` is `delegation.max_spawn_depth`,
    limited to 1 to 3.
    """
    allowed = [name for name in names if name not in CHILD_DENIED_TOOLS]
    may_delegate = orchestrator_enabled and depth < min(max(max_depth, 1), MAX_DEPTH)
    return [*allowed, NAME] if role == "orchestrator" and may_delegate else allowed


def child_prompt(task: ChildTask) -> str:
    """Return the first message of a subagent."""
    parts = (task.goal, task.context and f"Context:\n{task.context}", CHILD_INSTRUCTIONS)
    return "\n\n".join(part for part in parts if part)


def _parse_tasks(arguments: dict[str, Any], options: DelegationSettings) -> list[ChildTask]:
    try:
        asked = msgspec.convert(arguments, _Arguments)
    except msgspec.ValidationError as error:
        raise ToolArgumentsInvalid(
            f"the tasks are wrong: {error}",
            hint="a task has goal, context, toolsets and role, which is leaf or orchestrator",
        ) from error
    if asked.tasks and asked.goal and asked.goal.strip():
        raise ToolArgumentsInvalid(
            "both goal and tasks are given", hint="put the goal into tasks, or leave tasks out"
        )
    if not asked.tasks and asked.goal is None:
        raise ToolArgumentsInvalid("there is no task", hint="give goal, or tasks for several")
    tasks = [
        ChildTask(
            goal=task.goal.strip(),
            context="\n\n".join(filter(None, (asked.context.strip(), task.context.strip()))),
            toolsets=task.toolsets or asked.toolsets,
            role=task.role or asked.role,
            max_iterations=asked.max_iterations,
        )
        for task in asked.tasks or (_TaskArguments(asked.goal or ""),)
    ]
    if len(tasks) > options.max_concurrent_children:
        raise ToolArgumentsInvalid(
            f"{len(tasks)} tasks are too many, the limit is {options.max_concurrent_children}",
            hint="put small tasks together, or delegate the rest in a later call",
        )
    for number, task in enumerate(tasks, 1):
        if not task.goal:
            raise ToolArgumentsInvalid(
                f"the goal of task {number} is empty",
                hint="say what is to be done and what should come back",
            )
        if task.role == "orchestrator" and not options.orchestrator_enabled:
            raise ToolError(
                "orchestrators are turned off (delegation.orchestrator_enabled)",
                hint="use the role leaf, and split the work yourself",
            )
    return tasks


def _results_json(results: Sequence[ChildResult]) -> str:
    """Return the results as JSON for the model, in the order of the tasks."""
    room = MAX_SUMMARY_CHARS // max(len(results), 1)
    shown = [
        {
            "task": number,
            "status": result.status,
            "summary": cut_middle(result.summary, room),
            "api_calls": result.api_calls,
            "seconds": round(result.seconds, 1),
            "session_id": result.session_id,
            **({"error": result.error} if result.error else {}),
        }
        for number, result in enumerate(results)
    ]
    return msgspec.json.encode({"results": shown}).decode()


LINE_WIDTH = 100
MAX_LISTED_CALLS = 40  #: Finished calls that are listed when a subagent ends without a summary.
MAX_QUOTED_RESULTS = 5  #: Last results that are quoted then.
QUOTED_CHARS, QUOTED_LINES = 500, 8  #: How much of each is quoted.

StopReason = Literal["interrupted", "timeout"]
ChildStatus = Literal["completed", "failed", "interrupted", "timeout"]


class ChildReport:
    """Collects the events of one turn of a subagent: a line for each step, a result at the end."""

    def __init__(self) -> None:
        self.error = ""
        """A failure outside of the turn: the subagent did not start, or was aborted."""
        self._end: TurnFinished | None = None
        self._api_calls = self._done = 0
        self._text = ""
        self._unfinished: list[str] = []
        self._running: dict[str, str] = {}
        self._calls: deque[str] = deque(maxlen=MAX_LISTED_CALLS)
        self._results: deque[str] = deque(maxlen=MAX_QUOTED_RESULTS)

    def see(self, event: Event) -> str:
        """Record an event; return a line of progress to show, or ""."""
        match event:
            case ModelCalled() | Retrying() | FellBack():
                self._api_calls += isinstance(event, ModelCalled)
                self._unfinished.clear()
            case TextDelta():
                self._unfinished.append(event.text)
            case TextFinished():
                self._text = event.text
                self._unfinished.clear()
                return _one_line(event.text)
            case ToolStarted(call=call):
                self._running[call.id] = line = _call_line(call)
                return line
            case ToolFinished():
                self._done += 1
                line = self._running.pop(event.call_id, event.name)
                self._calls.append(f"{line} (failed)" if event.failed else line)
                if not event.failed and (text := _excerpt(event.result)):
                    self._results.append(f"[{line}]\n{text}")
            case SubagentProgress():
                return event.text
            case TurnFinished():
                self._end = event
        return ""

    def result(self, session_id: str, seconds: float, stopped: StopReason | None) -> ChildResult:
        """Return the result. `stopped` is why it was stopped; the turn may have ended before."""
        status, end = self._status(stopped), self._end
        if end is None:
            return ChildResult(
                status, self._partial_summary(), session_id, self._api_calls, seconds, self.error
            )
        hinted = f"{end.error} ({end.hint})" if end.error and end.hint else end.error
        error = self.error or hinted or f"it ended early: {end.exit_reason}"
        return ChildResult(
            status,
            self._partial_summary() if end.error or end.exit_reason == "empty" else end.text,
            session_id,
            end.api_calls,
            seconds,
            "" if status == "completed" else error,
        )

    def _status(self, stopped: StopReason | None) -> ChildStatus:
        if self._end is not None and self._end.completed:
            return "completed"
        if stopped is None and self._end is not None and self._end.interrupted:
            return "interrupted"
        return stopped or "failed"

    def _partial_summary(self) -> str:
        """Return the last text, the finished calls and parts of the last results, for a subagent
        without a summary."""
        texts = (self._text.strip(), "".join(self._unfinished).strip())
        parts = [text for text in texts if text]
        if self._calls:
            last = f", the last {len(self._calls)}" if self._done > len(self._calls) else ""
            parts.append("\n- ".join([f"Finished calls ({self._done}{last}):", *self._calls]))
        if self._results:
            parts.append("\n".join(["The last results begin so:", *self._results]))
        return "\n\n".join(parts)


def _excerpt(result: str) -> str:
    """Return the first lines of a tool result, indented."""
    lines = visible(result[:QUOTED_CHARS]).strip().splitlines()
    more = len(result) > QUOTED_CHARS or len(lines) > QUOTED_LINES
    return "\n".join([*(f"  {line}" for line in lines[:QUOTED_LINES]), *(["  …"] if more else [])])


def _call_line(call: ToolCall) -> str:
    """Return the tool and its first text argument, usually a path, a command or a question."""
    try:
        given = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        given = None
    values = given.values() if isinstance(given, dict) else ()
    return _one_line(f"{call.name} {next((each for each in values if isinstance(each, str)), '')}")


def _one_line(text: str) -> str:
    line = " ".join(visible(text[: 10 * LINE_WIDTH]).split())
    return line if len(line) <= LINE_WIDTH else line[: LINE_WIDTH - 1] + "…"

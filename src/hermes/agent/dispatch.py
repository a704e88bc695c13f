"""Running the tool calls of one reply."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

import msgspec

from hermes.agent.turn import Turn
from hermes.core.errors import Interrupted, ToolError, ToolUnknown
from hermes.core.events import Event, ToolFinished, ToolOutput, ToolStarted
from hermes.core.hooks import HookName, Hooks
from hermes.core.messages import INTERRUPTED_RESULT, ToolCall, ToolResult
from hermes.core.ports import Clock, SessionLog
from hermes.core.tool import Tool, ToolBox, ToolContext
from hermes.util.log_context import in_session

logger = logging.getLogger(__name__)

Announce = Callable[[Event], None]


class Policy(Protocol):
    """The one point that says whether a call may run."""

    async def permit(
        self, tool: Tool, arguments: dict[str, Any], call_id: str, announce: Announce
    ) -> None:
        """Returns when the call may run; raises `ToolDenied` when it may not."""
        ...


class Dispatcher:
    """Runs calls side by side, except where a tool must run alone. Results keep call order."""

    def __init__(
        self,
        tools: ToolBox,
        policy: Policy,
        log: SessionLog,
        hooks: Hooks,
        clock: Clock,
    ) -> None:
        self._tools, self._policy, self._log = tools, policy, log
        self._hooks, self._clock = hooks, clock

    async def run(self, turn: Turn) -> AsyncGenerator[Event, None]:
        """Events of all the calls as they happen. Each result is stored as soon as it is there."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        work = asyncio.ensure_future(self._run_all(turn, events.put_nowait))
        work.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
        finally:
            if not work.done():
                turn.cancel.cancel("the turn was abandoned")
            results = await work
            turn.add_results(results)
        turn.cancel.check()

    async def _run_all(self, turn: Turn, announce: Announce) -> list[ToolResult]:
        """Groups of concurrent calls; a serial tool is a group of its own."""
        results: list[ToolResult] = []
        for group in self._groups(turn.calls):
            work = (self._run_one(turn, call, announce) for call in group)
            for outcome in await asyncio.gather(*work, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome  # the result could not be stored: nothing may go on
                results.append(outcome)
        return results

    def _groups(self, calls: tuple[ToolCall, ...]) -> list[list[ToolCall]]:
        groups: list[list[ToolCall]] = [[]]
        for call in calls:
            tool = self._tools.get(call.name)
            if tool is not None and tool.serial:
                groups += [[call], []]
            else:
                groups[-1].append(call)
        return [group for group in groups if group]

    async def _run_one(self, turn: Turn, call: ToolCall, announce: Announce) -> ToolResult:
        announce(ToolStarted(call))
        began = self._clock.monotonic()
        try:
            text, failed = await self._answer(turn, call, announce), False
        except Interrupted:
            text, failed = INTERRUPTED_RESULT, True
        except ToolError as error:
            text, failed = _error(f"{error} ({error.hint})" if error.hint else str(error)), True
        except Exception as error:  # a tool's bug is the model's problem to work around
            logger.exception("tool %s failed", call.name)
            problem = f"Error executing {call.name}: {type(error).__name__}: {error}"
            text, failed = _error(problem), True
        if failed:  # an error may quote what the tool saw
            text = self._tools.fit(call.name, call.id, text)
        result = ToolResult(call.id, call.name, text, failed)
        await self._log.append(turn.session_id, result)
        seconds = round(self._clock.monotonic() - began, 3)
        with in_session(turn.session_id):
            outcome = "failed" if failed else "ok"
            logger.info("%s: %s in %.3f s, %d characters", call.name, outcome, seconds, len(text))
        announce(ToolFinished(call.id, call.name, text, failed, seconds))
        return result

    async def _answer(self, turn: Turn, call: ToolCall, announce: Announce) -> str:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(spec.name for spec in self._tools.specs)
            raise ToolUnknown(f"there is no tool {call.name!r}; the tools are: {known}")
        arguments = self._tools.decode(tool, call.arguments)
        details = {"tool_name": tool.name, "args": arguments, "task_id": turn.session_id}
        for answer in await self._hooks.fire(HookName.PRE_TOOL_CALL, **details):
            if isinstance(answer, dict) and answer.get("action") == "block":
                raise ToolError(f"blocked: {answer.get('message') or 'by a hook'}")
        context = ToolContext(
            session_id=turn.session_id,
            call_id=call.id,
            cancel=turn.cancel,
            output=lambda text: announce(ToolOutput(call.id, text)),
        )
        with turn.cancel.scope():
            await self._policy.permit(tool, arguments, call.id, announce)
            result = await tool.handler(context, arguments)
        result = self._tools.fit(call.name, call.id, result)
        await self._hooks.fire(HookName.POST_TOOL_CALL, result=result, **details)
        return result


def _error(message: str) -> str:
    return msgspec.json.encode({"error": message}).decode()

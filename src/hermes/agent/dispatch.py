"""Running the tool calls of one reply."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

import msgspec

from hermes.agent.turn import Turn
from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolArgumentsInvalid, ToolError, ToolUnknown
from hermes.core.events import Event, ToolFinished, ToolOutput, ToolStarted
from hermes.core.hooks import HookName, Hooks
from hermes.core.messages import INTERRUPTED_RESULT, ToolCall, ToolResult
from hermes.core.ports import Clock, SessionLog, Workspace
from hermes.core.tool import Concern, Effect, Tool, ToolBox, ToolContext
from hermes.util.log_context import in_session
from hermes.util.pieces import WholeLines

logger = logging.getLogger(__name__)

Announce = Callable[[Event], None]
T = TypeVar("T")

PATIENCE = 0.8
"""Seconds a stopped call has to clean up before the turn goes on without it."""


class Policy(Protocol):
    """The one point that says whether a call may run."""

    async def permit(
        self, tool: Tool, arguments: dict[str, Any], call_id: str, announce: Announce
    ) -> None:
        """Returns when the call may run; raises `ToolDenied` when it may not."""
        ...

    async def consent(
        self, tool_name: str, concern: Concern, call_id: str, announce: Announce
    ) -> None:
        """The same, for an effect that shows only while a call runs."""
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
        workspace: Workspace | None = None,
        hints: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        """`hints` tells what belongs to the places in a call's arguments, such as instructions
        kept in a subfolder; it is added to the result."""
        self._tools, self._policy, self._log, self._hints = tools, policy, log, hints
        self._hooks, self._clock, self._workspace = hooks, clock, workspace
        self._stragglers: set[asyncio.Future[Any]] = set()

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
        text, failed = await self._outcome(turn, call, announce)
        result = ToolResult(call.id, call.name, text, failed)
        await self._log.append(turn.session_id, result)
        seconds = round(self._clock.monotonic() - began, 3)
        with in_session(turn.session_id):
            outcome = "failed" if failed else "ok"
            logger.info("%s: %s in %.3f s, %d characters", call.name, outcome, seconds, len(text))
        announce(ToolFinished(call.id, call.name, text, failed, seconds))
        return result

    async def _outcome(self, turn: Turn, call: ToolCall, announce: Announce) -> tuple[str, bool]:
        """What the model is told, and whether it is a failure. Nothing a tool does escapes."""
        tool = self._tools.get(call.name)
        again = "" if tool is not None and tool.repeatable else turn.repeats.refuses(call)
        if again:
            hint = "do something else, or tell the user what is in the way"
            return _error(f"{again} ({hint})"), True
        ran: dict[str, Any] = {}
        try:
            text, failed = await self._answer(turn, tool, call, announce, ran), False
        except Interrupted:
            return INTERRUPTED_RESULT, True
        except ToolError as error:
            if isinstance(error, ToolUnknown | ToolArgumentsInvalid):
                turn.repeats.note_unusable()
            text, failed = _error(f"{error} ({error.hint})" if error.hint else str(error)), True
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            text, failed = _bug(call, error), True  # the tool's own doing: nobody stopped it
        except Exception as error:  # noqa: BLE001 - a tool's bug is the model's problem
            text, failed = _bug(call, error), True
        if failed:  # an error may quote what the tool saw
            text = await self._tools.fit(call.name, call.id, text)
            text = await self._told(turn, call, ran, text) if ran else text
        changes = tool is not None and tool.effect not in (Effect.READ, Effect.NETWORK)
        turn.repeats.note(call, ToolResult(call.id, call.name, text, failed), changes=changes)
        return text, failed

    async def _answer(
        self,
        turn: Turn,
        tool: Tool | None,
        call: ToolCall,
        announce: Announce,
        ran: dict[str, Any],
    ) -> str:
        """What the tool says. Once it runs, what listeners hear of it is in `ran`."""
        if tool is None:
            known = ", ".join(spec.name for spec in self._tools.specs)
            raise ToolUnknown(f"there is no tool {call.name!r}; the tools are: {known}")
        arguments = self._tools.decode(tool, call.arguments)
        details: dict[str, Any] = {
            "tool_name": tool.name,
            "args": arguments,
            "task_id": turn.session_id,
        }
        for answer in await self._heard(turn, HookName.PRE_TOOL_CALL, details):
            if isinstance(answer, dict) and answer.get("action") == "block":
                raise ToolError(f"blocked: {answer.get('message') or 'by a hook'}")
        shown = WholeLines(lambda text: announce(ToolOutput(call.id, self._tools.redact(text))))
        context = self._context(turn, tool, call, announce, shown.add)
        with turn.cancel.scope():
            await self._policy.permit(tool, arguments, call.id, announce)
            if self._workspace is not None and tool.may_change(arguments):
                await self._workspace.before_change(context)
        ran |= details
        result = await self._until_stopped(tool.handler(context, arguments), turn.cancel)
        shown.flush()
        result = await self._tools.fit(call.name, call.id, result)
        result = await self._told(turn, call, details, result)
        more = self._hints(arguments) if self._hints is not None else ""
        return f"{result}\n\n{more}" if more else result

    async def _told(self, turn: Turn, call: ToolCall, details: dict[str, Any], result: str) -> str:
        """The result, after the listeners have heard of it and changed it."""
        details = {**details, "result": result}
        await self._heard(turn, HookName.POST_TOOL_CALL, details)
        for changed in await self._heard(turn, HookName.TRANSFORM_TOOL_RESULT, details):
            if isinstance(changed, str):
                result = await self._tools.fit(call.name, call.id, changed)
        return result

    async def _heard(self, turn: Turn, name: HookName, details: dict[str, Any]) -> list[Any]:
        """What the listeners say; nobody waits for them once the turn is stopped. No call runs
        then either: `permit` comes after the last listener and looks."""
        try:
            return await turn.cancel.guard(self._hooks.fire(name, **details))
        except Interrupted:
            return []

    def _context(
        self,
        turn: Turn,
        tool: Tool,
        call: ToolCall,
        announce: Announce,
        output: Callable[[str], None],
    ) -> ToolContext:
        async def consent(concern: Concern) -> None:
            await self._policy.consent(tool.name, concern, call.id, announce)

        async def invoke(name: str, arguments: dict[str, Any]) -> str:
            other = self._tools.get(name)
            if other is tool:
                raise ToolError(f"{name} cannot call itself")
            text = msgspec.json.encode(arguments).decode()
            return await self._answer(turn, other, ToolCall(call.id, name, text), announce, {})

        return ToolContext(
            session_id=turn.session_id,
            call_id=call.id,
            cancel=turn.cancel,
            output=output,
            announce=announce,
            consent=consent,
            invoke=invoke,
        )

    async def _until_stopped(self, work: Awaitable[T], cancel: CancelToken) -> T:
        """The result of `work`. Once `cancel` is set it has a moment to clean up, or to give what
        it has, and no more."""
        task = asyncio.ensure_future(work)
        try:
            with cancel.scope():
                return await asyncio.shield(task)
        except (Interrupted, asyncio.CancelledError):
            task.cancel()
            await asyncio.wait({task}, timeout=PATIENCE)
            if not task.done():
                logger.warning("a stopped tool call goes on cleaning up")
                self._stragglers.add(task)
                task.add_done_callback(self._stragglers.discard)
            elif not task.cancelled():
                if task.exception() is None:
                    return task.result()  # what it had by then
                logger.info("a stopped tool call ended with %r", task.exception())
            raise

    async def close(self) -> None:
        """Waits for what stopped calls still clean up."""
        if self._stragglers:
            await asyncio.wait(set(self._stragglers), timeout=10 * PATIENCE)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and bool(task.cancelling())


def _bug(call: ToolCall, error: BaseException) -> str:
    logger.error("tool %s failed", call.name, exc_info=error)
    return _error(f"Error executing {call.name}: {type(error).__name__}: {error}")


def _error(message: str) -> str:
    return msgspec.json.encode({"error": message}).decode()

"""Run the tool calls of one reply: hooks, approval, the handler, and the stored result."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from hermes.agent.turn import Turn
from hermes.config.own_files import OwnFiles
from hermes.core.cancel import CancelToken
from hermes.core.errors import (
    Interrupted,
    ToolArgumentsInvalid,
    ToolError,
    ToolTimedOut,
    ToolUnknown,
)
from hermes.core.events import Emit, Notice, ToolFinished, ToolOutput, ToolStarted
from hermes.core.messages import INTERRUPTED_RESULT, ToolCall, ToolResult
from hermes.core.ports import Clock, HookName, Hooks
from hermes.core.tool import Concern, Effect, StructuredText, Tool, ToolContext
from hermes.security import EgressPolicy
from hermes.store import SessionStore
from hermes.tools import MCP_TOOLSET_PREFIX, Toolbox
from hermes.tools.checkpoints import TurnCheckpoints
from hermes.util.concurrency import in_session
from hermes.util.text import LineBuffer

logger = logging.getLogger(__name__)

T = TypeVar("T")

STOP_GRACE_SECONDS = 0.8
TOOL_BUG = "Error executing"  #: Begins the result of a tool with an unexpected exception.
"""Time a stopped call has to clean up before the turn continues without it."""


class ToolPolicy(Protocol):
    """Decides whether a call may run. All calls pass it."""

    async def permit(
        self,
        tool: Tool,
        arguments: dict[str, Any],
        call_id: str,
        emit: Emit,
        leaving: Concern | None = None,
    ) -> None:
        """Return when the call may run. Raise `ToolDenied` when it may not. `leaving` is the
        concern about what the call sends."""

    async def require_approval(
        self, tool_name: str, concern: Concern, call_id: str, emit: Emit
    ) -> None:
        """Do the same for an effect that becomes known only while the call runs."""


class ToolDispatcher:
    """Runs calls concurrently, except for serial tools. Results keep the order of the calls."""

    def __init__(
        self,
        tools: Toolbox,
        policy: ToolPolicy,
        log: SessionStore | None,
        hooks: Hooks,
        clock: Clock,
        workspace: TurnCheckpoints | None = None,
        hints: Callable[[dict[str, Any]], str] | None = None,
        own_files: OwnFiles | None = None,
        egress: EgressPolicy | None = None,
        sees_images: Callable[[], bool] = lambda: False,
        on_call: Callable[[Tool], None] = lambda _tool: None,
    ) -> None:
        """Without `log`, results are not stored. `hints` returns text for the paths in a call's
        arguments, such as the instructions of a subfolder; it is appended to the result.
        `own_files` are checked around calls that may change them. `sees_images` returns whether the
        model accepts images, and `on_call` is called before each call."""
        self._own_files = own_files
        self._tools, self._policy, self._log, self._hints = tools, policy, log, hints
        self._hooks, self._clock, self._workspace = hooks, clock, workspace
        self._egress, self._sees_images, self._on_call = egress, sees_images, on_call
        self._stragglers: set[asyncio.Future[Any]] = set()

    async def run(self, turn: Turn, emit: Emit) -> None:
        """Run the calls of the last reply. Each result is stored at once."""
        work = asyncio.ensure_future(self._run_all(turn, emit))
        try:
            await asyncio.shield(work)
        finally:
            if not work.done():
                turn.cancel.cancel("the turn was abandoned")
            turn.add_results(await work)  # each call has a stored result, also after a stop
        turn.cancel.check()

    def check_own_files(self, emit: Emit) -> None:
        """Undo changes of Hermes' own files that a process of an earlier turn made."""
        for text in self._own_files.check_idle() if self._own_files is not None else ():
            emit(Notice(text))

    @contextmanager
    def _guard_own_files(self, tool: Tool, emit: Emit) -> Iterator[None]:
        """Undo changes that the call makes to Hermes' own files, and report them."""
        harmless = tool.effect in (Effect.READ, Effect.NETWORK)
        if self._own_files is None or (
            harmless and not tool.toolset.startswith(MCP_TOOLSET_PREFIX)
        ):
            yield
            return
        for text in self._own_files.begin_call():
            emit(Notice(text))
        try:
            yield
        finally:
            for text in self._own_files.end_call():
                emit(Notice(text))

    async def _run_all(self, turn: Turn, emit: Emit) -> list[ToolResult]:
        """Run groups of concurrent calls; a call of a serial tool is a group of its own."""
        results: list[ToolResult] = []
        for group in self._groups(turn.calls):
            work = (self._run_one(turn, call, emit) for call in group)
            for outcome in await asyncio.gather(*work, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome  # the result could not be stored, so the turn must not continue
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

    async def _run_one(self, turn: Turn, call: ToolCall, emit: Emit) -> ToolResult:
        emit(ToolStarted(call))
        began = self._clock.monotonic()
        text, failed = await self._outcome(turn, call, emit)
        result = ToolResult(call.id, call.name, text, failed)
        if self._log is not None:
            await self._log.append(turn.session_id, result)
        seconds = round(self._clock.monotonic() - began, 3)
        with in_session(turn.session_id):
            outcome = "failed" if failed else "ok"
            logger.info("%s: %s in %.3f s, %d characters", call.name, outcome, seconds, len(text))
        emit(ToolFinished(call.id, call.name, text, failed, seconds))
        return result

    async def _outcome(self, turn: Turn, call: ToolCall, emit: Emit) -> tuple[str, bool]:
        """Return the result for the model and whether the call failed; tool errors are results."""
        tool = self._tools.get(call.name)
        repeatable = tool is not None and tool.repeatable
        if refusal := "" if repeatable else turn.repeat_guard.refusal_reason(call):
            hint = "try something else, or tell the user what blocks you"
            return _error(f"{refusal} ({hint})"), True
        permitted: _PermittedCall | None = None
        try:
            permitted = await self._prepare(turn, tool, call, emit)
            text, failed = str(await self._execute(turn, call, permitted)), False
        except Interrupted:
            return INTERRUPTED_RESULT, True
        except ToolError as error:
            if isinstance(error, ToolUnknown | ToolArgumentsInvalid):
                turn.repeat_guard.record_unusable()
            text, failed = _error(f"{error} ({error.hint})" if error.hint else str(error)), True
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            text, failed = _bug(call, error), True  # raised by the tool itself, not by a stop
        except Exception as error:  # noqa: BLE001 - a bug in a tool is a failed call
            text, failed = _bug(call, error), True
        if failed:  # the error may quote long output
            text = await self._tools.fit(call.name, call.id, text)
            text = await self._after_hooks(turn, call, permitted, text) if permitted else text
        changes = tool is not None and tool.effect not in (Effect.READ, Effect.NETWORK)
        turn.repeat_guard.record(
            call, ToolResult(call.id, call.name, text, failed), changes=changes
        )
        return text, failed

    async def _prepare(
        self, turn: Turn, tool: Tool | None, call: ToolCall, emit: Emit
    ) -> "_PermittedCall":
        """Check the arguments, fire the hooks before a call, and ask the policy."""
        if tool is None:
            known = ", ".join(spec.name for spec in self._tools.specs)
            raise ToolUnknown(f"there is no tool {call.name!r}; the tools are: {known}")
        arguments = self._tools.decode(tool, call.arguments)
        details = {"tool_name": tool.name, "args": arguments, "task_id": turn.session_id}
        for answer in await self._fire(turn, HookName.PRE_TOOL_CALL, details):
            if isinstance(answer, dict) and answer.get("action") == "block":
                raise ToolError(f"blocked: {answer.get('message') or 'by a hook'}")
        output = LineBuffer(lambda text: emit(ToolOutput(call.id, self._tools.redact(text))))
        context = self._tool_context(turn, tool, call, emit, output.add)
        with turn.cancel.scope():
            leaving = await self._egress.examine(tool, arguments) if self._egress else None
            await self._policy.permit(tool, arguments, call.id, emit, leaving)
            if self._egress is not None:
                self._egress.observe(tool, arguments)
            if self._workspace is not None and tool.may_change(arguments):
                await self._workspace.before_change(context)
        return _PermittedCall(tool, arguments, context, output, details)

    async def _execute(self, turn: Turn, call: ToolCall, permitted: "_PermittedCall") -> str:
        """Run the tool and return its result, as the hooks after a call changed it."""
        arguments, tool, emit = permitted.arguments, permitted.tool, permitted.context.announce
        with self._guard_own_files(tool, emit):
            self._on_call(tool)
            work = _call_handler(tool, permitted.context, arguments)
            result = await self._run_until_cancelled(work, turn.cancel)
        permitted.output.flush()
        if self._egress is not None:
            self._egress.observe_result(permitted.tool, result)
        result = await self._tools.fit(call.name, call.id, result)
        result = await self._after_hooks(turn, call, permitted, result)
        hint = self._hints(arguments) if self._hints is not None else ""
        if not hint:
            return result
        text = f"{result}\n\n{hint}"
        return StructuredText(text, **result.data) if isinstance(result, StructuredText) else text

    async def _after_hooks(
        self, turn: Turn, call: ToolCall, permitted: "_PermittedCall", result: str
    ) -> str:
        """Fire the hooks for a result and return it as they changed it."""
        details = {**permitted.details, "result": result}
        await self._fire(turn, HookName.POST_TOOL_CALL, details)
        for changed in await self._fire(turn, HookName.TRANSFORM_TOOL_RESULT, details):
            if isinstance(changed, str):
                result = await self._tools.fit(call.name, call.id, changed)
        return result

    async def _fire(self, turn: Turn, name: HookName, details: dict[str, Any]) -> list[Any]:
        """Return the answers of the hooks, or none once the turn is stopped.

        No call runs after a stop: `permit` follows the last hook and checks for it.
        """
        try:
            return await turn.cancel.guard(self._hooks.fire(name, **details))
        except Interrupted:
            return []

    def _tool_context(
        self, turn: Turn, tool: Tool, call: ToolCall, emit: Emit, output: Callable[[str], None]
    ) -> ToolContext:
        async def require_approval(concern: Concern) -> None:
            await self._policy.require_approval(tool.name, concern, call.id, emit)

        async def invoke(name: str, arguments: dict[str, Any]) -> str:
            other = self._tools.get(name)
            if other is tool:
                raise ToolError(f"{name} cannot call itself")
            inner = ToolCall(call.id, name, msgspec.json.encode(arguments).decode())
            return await self._execute(turn, inner, await self._prepare(turn, other, inner, emit))

        return ToolContext(
            session_id=turn.session_id,
            call_id=call.id,
            cancel=turn.cancel,
            output=output,
            announce=emit,
            require_approval=require_approval,
            add_image=lambda image: self._sees_images() and turn.add_image(image),
            invoke=invoke,
        )

    async def _run_until_cancelled(self, work: Awaitable[T], cancel: CancelToken) -> T:
        """Return the result of `work`. Once `cancel` is set, `work` has `STOP_GRACE_SECONDS` to
        clean up or to return what it has."""
        task = asyncio.ensure_future(work)
        try:
            with cancel.scope():
                return await asyncio.shield(task)
        except (Interrupted, asyncio.CancelledError):
            task.cancel()
            await asyncio.wait({task}, timeout=STOP_GRACE_SECONDS)
            if not task.done():
                logger.warning("a stopped tool call is still cleaning up")
                self._stragglers.add(task)
                task.add_done_callback(self._stragglers.discard)
            elif not task.cancelled():
                if task.exception() is None:
                    return task.result()  # a partial result
                logger.info("a stopped tool call ended with %r", task.exception())
            raise

    async def close(self) -> None:
        """Wait for stopped calls that still clean up."""
        if self._stragglers:
            await asyncio.wait(set(self._stragglers), timeout=10 * STOP_GRACE_SECONDS)


class _PermittedCall(NamedTuple):
    """A call that may run."""

    tool: Tool
    arguments: dict[str, Any]
    context: ToolContext
    output: LineBuffer
    details: dict[str, Any]  #: What hooks are called with.


async def run_permitted(
    policy: ToolPolicy, tool: Tool, context: ToolContext, arguments: dict[str, Any]
) -> str:
    """Run a single call outside of a turn, if the policy permits it. Raises `ToolError`.

    Only this module calls handlers, so no call gets around the policy.
    """
    await policy.permit(tool, arguments, context.call_id, context.announce)
    return await _call_handler(tool, context, arguments)


async def _call_handler(tool: Tool, context: ToolContext, arguments: dict[str, Any]) -> str:
    """Return the result of the handler. Raises `ToolTimedOut` after the timeout of the tool."""
    if not tool.timeout:
        return await tool.handler(context, arguments)
    # Not `asyncio.timeout`: the tool may raise a TimeoutError of its own.
    task = asyncio.ensure_future(tool.handler(context, arguments))
    try:
        await asyncio.wait({task}, timeout=tool.timeout)
        if task.done():
            return task.result()
    finally:
        task.cancel()
    raise ToolTimedOut(
        f"{tool.name} did not end within {tool.timeout:g} seconds",
        hint="continue without it; the setting plugins.tool_timeout allows more",
    )


def _bug(call: ToolCall, error: BaseException) -> str:
    logger.error("tool %s failed", call.name, exc_info=error)
    return _error(f"{TOOL_BUG} {call.name}: {type(error).__name__}: {error}")


def _error(message: str) -> str:
    return msgspec.json.encode({"error": message}).decode()

"""Tools without a conversation: each task has its own place, under the policy of the settings."""

import logging
import uuid
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from hermes.app.documented.process import Process, process
from hermes.app.providers import stored_secrets
from hermes.app.request import SessionRequest
from hermes.app.tools import (
    Toolsets,
    Workbench,
    build_approvals,
    build_toolbox,
    find_toolsets,
    idle_services,
)
from hermes.app.workspace import make_place
from hermes.core.cancel import CancelToken
from hermes.core.errors import HermesError, ToolError, ToolUnknown
from hermes.core.hooks import HookName, Hooks, NoHooks
from hermes.core.tool import Concern, Tool, ToolContext
from hermes.security import Redactor
from hermes.tools import Assembled, ToolRegistry, assemble

log = logging.getLogger(__name__)

AGENT_TOOLS = frozenset({"todo", "memory", "session_search", "delegate_task", "clarify"})
"""They belong to a conversation."""


class Workshop:
    """The tools of a process, by the task they work for."""

    def __init__(self, shared: Process) -> None:
        self._shared = shared
        self._tasks: dict[str, Workbench] = {}
        self.mcp_tools: tuple[Tool, ...] = ()
        loaded, home = shared.loaded, shared.home
        self._redact = Redactor(loaded.secrets() | stored_secrets(home)).redact
        self._approvals = build_approvals(loaded, home, None, None, shared.extensions.hooks)
        shared.at_end.append(self._close)

    @property
    def toolsets(self) -> Toolsets:
        """Every tool there is now, those of plugins among them."""
        return find_toolsets(self._shared.loaded, self.mcp_tools)

    def make(self, names: Iterable[str], registry: ToolRegistry | None = None) -> Assembled:
        """Only to be looked at. `registry` is that of a script, instead of the common one."""
        found = self.toolsets
        return assemble(names, self._bench("").bench, registry or found.registry, found.known)

    def find(self, name: str, task_id: str = "") -> Tool:
        """One tool; raises `ToolUnknown`, or `ToolError` when it cannot be used here."""
        entry = self.toolsets.registry.get(name)
        if entry is None:
            raise ToolUnknown(f"there is no tool {name!r}")
        names = self.toolsets.names("cli", ("all",)) if entry.needs_others else [name]
        made = self.toolsets.make(names, self._bench(task_id).bench)
        if name in made.unavailable:
            raise ToolError(f"{name} cannot be used here: {made.unavailable[name]}")
        return next(tool for tool in (*made.tools, *made.rare) if tool.name == name)

    def call(self, name: str, args: dict[str, Any], task_id: str = "", *, hooked: bool) -> str:
        """The result of a call as JSON; never raises because of a tool."""
        cancel = CancelToken()
        hooks = self._shared.extensions.hooks if hooked else NoHooks()
        work = _Call(self, task_id, cancel, hooks).result(name, args)
        return self._shared.run(work, lambda: cancel.cancel("stopped by Ctrl-C"))

    async def perform(self, tool: Tool, args: dict[str, Any], context: ToolContext) -> str:
        """Run it, if the policy allows that."""
        await self._approvals.permit(tool, args, context.call_id, context.announce)
        return await tool.handler(context, args)

    async def consent(self, tool: Tool, concern: Concern, call_id: str) -> None:
        await self._approvals.consent(tool.name, concern, call_id, lambda _event: None)

    def toolbox(self, tool: Tool, task_id: str) -> Any:
        """What checks the arguments of `tool` and cuts its results."""
        bench = self._bench(task_id).bench
        return build_toolbox(Assembled((tool,), (), {}), bench, self._shared.home, self._redact)

    def _bench(self, task_id: str) -> Workbench:
        if task_id not in self._tasks:
            loaded, home, folder = self._shared.loaded, self._shared.home, Path.cwd()
            place = make_place(loaded, home, folder, log.info)
            services = idle_services(loaded, home, place, SessionRequest(folder))
            hooks = self._shared.extensions.hooks
            self._tasks[task_id] = Workbench(loaded, home, place, hooks=hooks, services=services)
        return self._tasks[task_id]

    async def _close(self) -> None:
        for bench in self._tasks.values():
            await bench.close()


class _Call:
    """One call from outside, and the calls a script of `execute_code` makes in it."""

    def __init__(self, shop: Workshop, task_id: str, cancel: CancelToken, hooks: Hooks) -> None:
        self._shop, self._task_id, self._cancel, self._hooks = shop, task_id, cancel, hooks
        self._id = f"call_{uuid.uuid4().hex[:12]}"

    async def result(self, name: str, args: dict[str, Any]) -> str:
        try:
            return as_json(await self._answer(name, args))
        except HermesError as error:
            return error_json(f"{error} ({error.hint})" if error.hint else str(error))
        except Exception as error:  # whatever a tool raises is its result
            log.error("tool %s failed", name, exc_info=error)
            return error_json(f"Error executing {name}: {type(error).__name__}: {error}")

    async def _answer(self, name: str, args: dict[str, Any]) -> str:
        tool = self._shop.find(name, self._task_id)
        toolbox = self._shop.toolbox(tool, self._task_id)
        arguments = toolbox.decode(tool, msgspec.json.encode(args).decode())
        heard: dict[str, Any] = {"tool_name": name, "args": arguments, "task_id": self._task_id}
        for answer in await self._hooks.fire(HookName.PRE_TOOL_CALL, **heard):
            if isinstance(answer, dict) and answer.get("action") == "block":
                raise ToolError(f"blocked: {answer.get('message') or 'by a hook'}")
        if name in AGENT_TOOLS:
            raise ToolError(f"{name} must be handled by the agent loop: run an AIAgent")
        text = await self._shop.perform(tool, arguments, self._context(tool))
        heard["result"] = result = await toolbox.fit(name, self._id, text)
        await self._hooks.fire(HookName.POST_TOOL_CALL, **heard)
        for changed in await self._hooks.fire(HookName.TRANSFORM_TOOL_RESULT, **heard):
            if isinstance(changed, str):
                result = await toolbox.fit(name, self._id, changed)
        return str(result)

    def _context(self, tool: Tool) -> ToolContext:
        async def consent(concern: Concern) -> None:
            await self._shop.consent(tool, concern, self._id)

        async def invoke(name: str, arguments: dict[str, Any]) -> str:
            if name == tool.name:
                raise ToolError(f"{name} cannot call itself")
            return await self._answer(name, arguments)

        return ToolContext(
            session_id=self._task_id,
            call_id=self._id,
            cancel=self._cancel,
            output=lambda _text: None,
            consent=consent,
            invoke=invoke,
        )


def as_json(text: str) -> str:
    """`text` if it is a JSON object or list, else the same in one."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            msgspec.json.decode(text)
        except msgspec.DecodeError:
            return msgspec.json.encode({"result": text}).decode()
        return text
    return msgspec.json.encode({"result": text}).decode()


def error_json(message: str) -> str:
    return msgspec.json.encode({"error": message}).decode()


def workshop() -> Workshop:
    """That of the home in force."""
    return _of(process())


@cache
def _of(shared: Process) -> Workshop:
    return Workshop(shared)

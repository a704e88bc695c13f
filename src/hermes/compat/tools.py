"""Tools without a conversation: `model_tools`, `toolsets` and the modules of `tools`."""

import ast
import inspect
import logging
import re
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from hermes.agent import run_permitted
from hermes.app import (
    SessionRequest,
    SessionTools,
    ToolSelection,
    build_approvals,
    build_toolbox,
    find_toolsets,
    make_hub,
    make_workspace,
    opened_store,
    stored_secrets,
    unbound_services,
)
from hermes.compat.runtime import ScriptRuntime, script_runtime, tell
from hermes.config.home import current_home
from hermes.config.loader import load
from hermes.core.cancel import CancelToken
from hermes.core.errors import HermesError, ToolError, ToolTimedOut, ToolUnknown
from hermes.core.model import ToolSpec
from hermes.core.ports import HookName, Hooks, NoHooks
from hermes.core.tool import Concern, Effect, StructuredText, Tool, ToolContext
from hermes.cron import JobService
from hermes.memory import BuiltinMemory, MemoryOptions, MemoryScope, apply_action, open_memory
from hermes.security import (
    BROKEN_RULES,
    TEXT_RULES,
    PathGuard,
    Redactor,
    examine_command,
    examine_input,
)
from hermes.tools import (
    ALL_TOOLS,
    PRESETS,
    Assembled,
    Toolset,
    assemble,
    coerce_arguments,
    discover_builtin,
    expand,
)
from hermes.tools import TOOLSETS as SHIPPED
from hermes.tools import ToolRegistry as BuiltinRegistry
from hermes.tools import registry as ours
from hermes.util.concurrency import SystemClock, in_thread

# Tools without a conversation: each task has its own place, under the policy of the settings.

log = logging.getLogger(__name__)

AGENT_TOOLS = frozenset({"todo", "memory", "session_search", "delegate_task", "clarify"})
"""Tools that need a conversation."""
STORE_TOOLS = frozenset({"cronjob", "send_message"})  #: Tools that need the store of the home.
FAILED: dict[str, dict[str, Any]] = {
    "terminal": {"output": "", "exit_code": -1},
    "write_file": {"success": False},
    "patch": {"success": False},
}
"""Documented fields of the result of a call that failed, in addition to `error`."""
TOOL_FILES = "hermes_tool_files"  #: Package name of the modules of `discover_builtin_tools`.
TIMED_OUT = 124  #: Exit code of a command that was stopped after its timeout.
CONSENT = {"approvals.mode": "off", "approvals.headless": "allow"}


class StandaloneTools:
    """The tools of a process, by the task they work for."""

    def __init__(self, runtime: ScriptRuntime) -> None:
        self._shared = runtime
        self._tasks: dict[str, SessionTools] = {}
        self.mcp_tools: tuple[Tool, ...] = ()
        self._rollout_settings: dict[str, Any] = {}
        loaded, home = runtime.loaded, runtime.home
        self._redact = Redactor(loaded.secrets() | stored_secrets(home)).redact
        self.approvals = build_approvals(loaded, home, runtime.extensions.hooks)
        runtime.on_close.append(self._close)

    @property
    def toolsets(self) -> ToolSelection:
        """All present tools, including those of plugins."""
        return find_toolsets(self._shared.loaded, self.mcp_tools)

    def make(self, names: Iterable[str], registry: BuiltinRegistry | None = None) -> Assembled:
        """Assemble tools to list them. `registry` is the one of a script."""
        found = self.toolsets
        return assemble(names, self.session_tools("").deps, registry or found.registry, found.known)

    def find(self, name: str, task_id: str = "", **services: Any) -> Tool:
        """Return a tool; `services` are bound to it (`SessionServices`). Raises `ToolUnknown`, or
        `ToolError` if it cannot be used here."""
        entry = self.toolsets.registry.get(name)
        if entry is None:
            raise ToolUnknown(f"there is no tool {name!r}")
        names = self.toolsets.names("cli", ("all",)) if entry.needs_others else [name]
        deps = self.session_tools(task_id).deps
        bound = msgspec.structs.replace(deps.services, **services)
        made = self.toolsets.make(names, msgspec.structs.replace(deps, services=bound))
        if name in made.unavailable:
            raise ToolError(f"{name} cannot be used here: {made.unavailable[name]}")
        return next(tool for tool in (*made.tools, *made.rare) if tool.name == name)

    @asynccontextmanager
    async def services(self, name: str) -> AsyncIterator[dict[str, Any]]:
        """Open what a call of the tool needs of the home, and is not needed to list it."""
        runtime = self._shared
        if name in SHIPPED["rl"].tools:
            from hermes.envs import TrainingService  # few scripts train models

            yield {"trainer": TrainingService(runtime.home, runtime.loaded)}
            return
        if name not in STORE_TOOLS:
            yield {}
            return
        from hermes.compat.gateway import home_outbox  # slow to load, for one tool

        home, loaded = runtime.home, runtime.loaded
        async with opened_store(home, loaded.settings.store.url, tell) as store:
            jobs = JobService.for_home(home, loaded, store.runs, SystemClock())
            yield {"scheduler": jobs, "outbox": home_outbox(runtime, store)}

    def call(self, name: str, args: dict[str, Any], task_id: str = "", *, hooked: bool) -> str:
        """Return the result of a call as JSON, also for a tool that fails."""
        cancel = CancelToken()
        work = self.result(name, args, task_id, cancel, hooked=hooked)
        return self._shared.run(work, lambda: cancel.cancel("stopped by Ctrl-C"))

    async def result(
        self, name: str, args: dict[str, Any], task_id: str, cancel: CancelToken, *, hooked: bool
    ) -> str:
        """Like `call`, for the event loop of the runtime."""
        hooks = self._shared.extensions.hooks if hooked else NoHooks()
        return await _Call(self, task_id, cancel, hooks).result(name, args)

    def toolbox(self, tool: Tool, task_id: str) -> Any:
        """Return a toolbox of one tool, which checks its arguments and cuts its results."""
        deps = self.session_tools(task_id).deps
        return build_toolbox(Assembled((tool,), (), {}), deps, self._shared.home, self._redact)

    def session_tools(self, task_id: str) -> SessionTools:
        """Return what the calls for a task share."""
        if task_id not in self._tasks:
            loaded, home, folder = self._shared.loaded, self._shared.home, Path.cwd()
            place = make_workspace(loaded, home, folder, log.info)
            request = SessionRequest(folder)
            services = unbound_services(loaded, home, place, request)
            hooks = self._shared.extensions.hooks
            self._tasks[task_id] = SessionTools(loaded, home, place, request, services, hooks=hooks)
        return self._tasks[task_id]

    def adopt(self, task_id: str, tools: SessionTools) -> None:
        """Let calls for a task use the tools of an open session, until `release`."""
        self._tasks[task_id] = tools

    def release(self, task_id: str) -> SessionTools | None:
        """Forget a task and return what its calls shared, which is not closed."""
        return self._tasks.pop(task_id, None)

    def allow_rollouts(self, settings: Mapping[str, Any]) -> None:
        """Take a rollout of the script as the consent to what it does, with further `settings`.
        Commands that are always refused stay refused."""
        runtime = self._shared
        self._rollout_settings = {**CONSENT, **self._rollout_settings, **settings}
        runtime.loaded = load(runtime.home, self._rollout_settings)
        self.approvals = build_approvals(runtime.loaded, runtime.home, runtime.extensions.hooks)

    async def _close(self) -> int:
        """Close what the tasks use, which is made again for the next call; return their number."""
        tasks, self._tasks = self._tasks, {}
        for tools in tasks.values():
            await tools.close()
        return len(tasks)

    def close_places(self) -> int:
        return self._shared.run(self._close())


class _Call:
    """One call, with the calls that a script of `execute_code` makes in it."""

    def __init__(
        self, tools: StandaloneTools, task_id: str, cancel: CancelToken, hooks: Hooks
    ) -> None:
        self._tools, self._task_id, self._cancel, self._hooks = tools, task_id, cancel, hooks
        self._id = f"call_{uuid.uuid4().hex[:12]}"

    async def result(self, name: str, args: dict[str, Any]) -> str:
        """Return the result as JSON. The file and terminal tools have the documented fields, also
        in an error."""
        try:
            async with self._tools.services(name) as services:
                answer = await self._answer(name, args, services)
            if isinstance(answer, StructuredText):
                return msgspec.json.encode(answer.data).decode()
            return as_json(answer)
        except HermesError as error:
            message = f"{error} ({error.hint})" if error.hint else str(error)
            fields = dict(FAILED.get(name, {}))
            if isinstance(error, ToolTimedOut) and "exit_code" in fields:
                fields["exit_code"] = TIMED_OUT
            return msgspec.json.encode({**fields, "error": message}).decode()
        except Exception as error:  # whatever a tool raises is its result
            log.error("tool %s failed", name, exc_info=error)
            message = f"Error executing {name}: {type(error).__name__}: {error}"
            return msgspec.json.encode({**FAILED.get(name, {}), "error": message}).decode()

    async def _answer(self, name: str, args: dict[str, Any], services: dict[str, Any]) -> str:
        tool = self._tools.find(name, self._task_id, **services)
        toolbox = self._tools.toolbox(tool, self._task_id)
        arguments = toolbox.decode(tool, msgspec.json.encode(args).decode())
        heard: dict[str, Any] = {"tool_name": name, "args": arguments, "task_id": self._task_id}
        for answer in await self._hooks.fire(HookName.PRE_TOOL_CALL, **heard):
            if isinstance(answer, dict) and answer.get("action") == "block":
                raise ToolError(f"blocked: {answer.get('message') or 'by a hook'}")
        if name in AGENT_TOOLS:
            raise ToolError(f"{name} must be handled by the agent loop: run an AIAgent")
        context = self._context(tool)
        text = await run_permitted(self._tools.approvals, tool, context, arguments)
        result: str = await toolbox.fit(name, self._id, text)
        heard["result"] = result
        await self._hooks.fire(HookName.POST_TOOL_CALL, **heard)
        for changed in await self._hooks.fire(HookName.TRANSFORM_TOOL_RESULT, **heard):
            if isinstance(changed, str):
                result = await toolbox.fit(name, self._id, changed)
        return result

    def _context(self, tool: Tool) -> ToolContext:
        async def require_approval(concern: Concern) -> None:
            approvals = self._tools.approvals
            await approvals.require_approval(tool.name, concern, self._id, lambda _event: None)

        async def invoke(name: str, arguments: dict[str, Any]) -> str:
            if name == tool.name:
                raise ToolError(f"{name} cannot call itself")
            return await self._answer(name, arguments, {})

        return ToolContext(
            session_id=self._task_id,
            call_id=self._id,
            cancel=self._cancel,
            output=lambda _text: None,
            require_approval=require_approval,
            invoke=invoke,
        )


def as_json(text: str) -> str:
    """Return `text` if it is a JSON object or list, else wrapped in an object."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            msgspec.json.decode(text)
        except msgspec.DecodeError:
            return msgspec.json.encode({"result": text}).decode()
        return text
    return msgspec.json.encode({"result": text}).decode()


def error_json(message: str) -> str:
    return msgspec.json.encode({"error": message}).decode()


_standalone = cache(StandaloneTools)


def standalone_tools() -> StandaloneTools:
    """Return the tools of the current home."""
    return _standalone(script_runtime())


Dict = dict[str, Any]
Handler = Callable[..., Any]


class ScriptToolRegistry:
    """A registry over one of ours; by default over a new one, whose tools only it can call."""

    def __init__(self, inner: ours.ToolRegistry | None = None) -> None:
        self._inner = inner or ours.ToolRegistry()
        self._handlers: dict[str, Handler] = {}

    def register(
        self,
        name: str,
        toolset: str,
        schema: Dict,
        handler: Handler,
        check_fn: Callable[[], bool] | None = None,
        requires_env: Iterable[str] | None = None,
        is_async: bool = False,
        description: str = "",
        emoji: str = "",
    ) -> None:
        """Register a tool, or replace it. `handler(args, **kwargs)` returns a JSON string."""
        self._inner.register(
            name, toolset, schema, handler, check_fn, requires_env, is_async, description, emoji
        )
        if (entry := self._inner.get(name)) is None or not entry.builtin:
            self._handlers[name] = handler

    def dispatch(self, name: str, args: Dict, **kwargs: Any) -> str:
        """Return the result as a JSON string; a failure is `{"error": …}`. No hooks are called.

        A handler registered here is called with `kwargs`. Each call is under the policy of the
        settings, in which a handler of the script itself counts as a tool that only reads.
        """
        if name in self._handlers:
            return script_runtime().run(_run_own(name, self._handlers[name], args, kwargs))
        if self._inner is not ours.registry:
            return error_json(f"there is no tool {name!r}")
        return standalone_tools().call(name, args, str(kwargs.get("task_id") or ""), hooked=False)

    def get_definitions(self, tool_names: Iterable[str], quiet: bool = False) -> list[Dict]:  # noqa: ARG002 - documented
        """Return the schemas of usable tools among `tool_names`, in the form of OpenAI's API."""
        wanted = sorted(set(tool_names))
        made = standalone_tools().make(wanted, self._inner)
        specs = {tool.name: tool.spec for tool in (*made.tools, *made.rare)}
        return [
            {"type": "function", "function": msgspec.to_builtins(specs[name])}
            for name in wanted
            if name in specs
        ]

    def is_toolset_available(self, toolset: str) -> bool:
        """Whether at least one tool of it can be used here."""
        names = {entry.name for entry in self._inner.entries if entry.toolset == toolset}
        return bool(self.get_definitions(names))


async def _run_own(
    name: str, handler: Handler, args: Dict, kwargs: Dict, effect: Effect = Effect.READ
) -> str:
    """Run a handler of the script itself, or one of ours, under the policy of the settings."""

    async def run(_context: ToolContext, arguments: Dict) -> str:
        return await _result(handler, arguments, kwargs)

    tool = Tool(ToolSpec(name, "", {}), run, effect=effect)
    context = ToolContext("", f"call_{uuid.uuid4().hex[:12]}", CancelToken(), lambda _text: None)
    try:
        return await run_permitted(standalone_tools().approvals, tool, context, args)
    except HermesError as error:
        return error_json(f"{error} ({error.hint})" if error.hint else str(error))


async def _result(handler: Handler, args: Dict, kwargs: Dict) -> str:
    try:
        if inspect.iscoroutinefunction(handler):
            answer = await handler(args, **kwargs)
        else:
            answer = await in_thread(handler, args, **kwargs)
            if inspect.isawaitable(answer):
                answer = await answer
        text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
    except HermesError as error:
        return error_json(str(error))
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its result
        return error_json(f"Tool execution failed: {type(error).__name__}: {error}")
    return as_json(text)


registry = ScriptToolRegistry(ours.registry)  #: The registry of all conversations.


def discover_builtin_tools(tools_dir: str | Path | None = None) -> list[str]:
    """Register the built-in tools and return the names of all registered tools.

    With `tools_dir`, the modules of that folder that call `registry.register(…)` at their top level
    are imported too, in the order of their names. One that cannot be imported is logged.
    """
    discover_builtin(ours.registry)
    for file in sorted(Path(tools_dir).glob("*.py")) if tools_dir is not None else ():
        try:
            if _registers(file):
                spec = spec_from_file_location(f"{TOOL_FILES}.{file.stem}", file)
                assert spec is not None and spec.loader is not None  # it is a Python file
                sys.modules[spec.name] = module = module_from_spec(spec)
                spec.loader.exec_module(module)
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            log.warning("the tools of %s are not available: %s", file, error)
    return [entry.name for entry in ours.registry.entries]


def _registers(file: Path) -> bool:
    """Return whether a module calls `registry.register` at its top level; it is not imported."""
    calls = (
        node.value.func
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    )
    return any(ast.unparse(call) == "registry.register" for call in calls)


# `model_tools`: the schemas of tools, and calls of them, for programs with a loop of their own.


def get_tool_definitions(
    enabled_toolsets: Sequence[str] | None = None,
    disabled_toolsets: Sequence[str] | None = None,
    quiet_mode: bool = False,
) -> list[Dict]:
    """Return the usable tools in the form of OpenAI's API: those of the enabled toolsets, or all,
    without those of the disabled ones. Unless quiet, standard error lists them and what is
    missing. Raises `UsageError` for an unknown toolset."""
    tools = standalone_tools()
    wanted = [*(enabled_toolsets or ("all",)), *(f"-{name}" for name in disabled_toolsets or ())]
    made = tools.make(expand(wanted, tools.toolsets.known))
    given = {tool.name: tool.spec for tool in (*made.tools, *made.rare)}
    given.pop("tool_search", None)  # it looks for what is in the list already
    if not quiet_mode:
        tell(f"tools: {', '.join(sorted(given)) or 'none'}")
        for name, reason in sorted(made.unavailable.items()):
            tell(f"  without {name}: {reason}")
    return [
        {"type": "function", "function": msgspec.to_builtins(given[name])} for name in sorted(given)
    ]


def handle_function_call(
    name: str,
    args: Mapping[str, Any] | None = None,
    task_id: str | None = None,
    user_task: str | None = None,  # noqa: ARG001 - documented; no tool of ours needs it
) -> str:
    """Return the result as a JSON string; a failure is `{"error": …}`.

    Calls with one `task_id` share a working folder, exported variables and background processes.
    Plugin hooks are called. A call that needs approval is refused unless the settings allow it.
    """
    return standalone_tools().call(name, dict(args or {}), task_id or "", hooked=True)


def coerce_tool_args(tool_name: str, args: Mapping[str, Any]) -> Dict:
    """Return `args` converted to the types of the tool's schema ("42" to 42) where possible."""
    return coerce_arguments(dict(args), standalone_tools().find(tool_name).spec.parameters)


class _ToolsetOfTool(Mapping[str, str]):
    """A view of the registry, so it includes what plugins register later."""

    def _now(self) -> dict[str, str]:
        return {entry.name: entry.toolset for entry in standalone_tools().toolsets.registry.entries}

    def __getitem__(self, name: str) -> str:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


TOOL_TO_TOOLSET_MAP: Mapping[str, str] = _ToolsetOfTool()


# `tools.terminal_tool` and `tools.delegate_tool`: tools as functions.


def terminal_tool(
    command: str,
    background: bool = False,
    timeout: int | None = None,
    task_id: str | None = None,
    workdir: str = "",
    pty: bool = False,
    notify_on_complete: bool = False,
    watch_patterns: Sequence[str] = (),
) -> str:
    """Run a command in the configured terminal; the result is that of `handle_function_call`."""
    given = locals()  # the parameters are those of the tool
    given["watch_patterns"] = list(watch_patterns)
    given.pop("task_id")
    return handle_function_call("terminal", {k: v for k, v in given.items() if v}, task_id)


def delegate_task(
    goal: str = "",
    context: str = "",
    toolsets: Sequence[str] = (),
    tasks: Sequence[dict[str, Any]] = (),
    **more: Any,
) -> str:
    """Return an error: subagents need a conversation. To delegate work, run an `AIAgent`."""
    given = {"goal": goal, "context": context, "toolsets": list(toolsets), "tasks": list(tasks)}
    return handle_function_call("delegate_task", {k: v for k, v in (given | more).items() if v})


# `toolsets`: the named groups of tools, as dicts.


def _as_dict(toolset: Toolset) -> Dict:
    return {
        "description": toolset.description,
        "tools": list(toolset.tools),
        "includes": list(toolset.includes),
    }


TOOLSETS: dict[str, Dict] = {name: _as_dict(each) for name, each in (SHIPPED | PRESETS).items()}
"""The built-in toolsets; `get_all_toolsets` includes the others."""


def get_toolset(name: str) -> Dict | None:
    """Return `description`, `tools` and `includes`; None for an unknown toolset."""
    found = standalone_tools().toolsets.known.get(name)
    return _as_dict(found) if found else None


def get_all_toolsets() -> dict[str, Dict]:
    """Return the toolsets that are built in, of plugins and of the settings."""
    return {name: _as_dict(each) for name, each in standalone_tools().toolsets.known.items()}


def validate_toolset(name: str) -> bool:
    return name in ALL_TOOLS or name in standalone_tools().toolsets.known


def resolve_toolset(name: str) -> list[str]:
    """Return the tools of a toolset, with those of included ones. Raises `UsageError`."""
    return expand([name], standalone_tools().toolsets.known)


# `tools.mcp_tool`: the tools of MCP servers.


def discover_mcp_tools() -> list[str]:
    """Add the tools of `mcp_servers` to `model_tools` and return their names.

    A server that does not answer is reported on standard error.
    """
    tools, runtime = standalone_tools(), script_runtime()
    if not tools.mcp_tools and runtime.loaded.settings.mcp_servers:
        hub = make_hub(runtime.home, runtime.loaded, tell)
        runtime.on_close.append(hub.close)
        tools.mcp_tools = tuple(runtime.run(hub.tools()))
    return [tool.name for tool in tools.mcp_tools]


# `tools.memory_tool`: the notes of the built-in memory.


class MemoryStore:
    """MEMORY.md (`memory`) and USER.md (`user`) of the current home. Methods that write return a
    dict with `success`, and `error` if nothing was saved."""

    def __init__(self, memory_char_limit: int = 2200, user_char_limit: int = 1375) -> None:
        options = MemoryOptions(
            memory_char_limit=memory_char_limit, user_char_limit=user_char_limit
        )
        folder = current_home().memories
        self._memory: BuiltinMemory = open_memory(folder, MemoryScope(), options)

    def entries(self, target: str = "memory") -> list[str]:
        return list(self._memory.notebook(target).entries())

    def add(self, target: str, content: str) -> Dict:
        return self.change("add", target, content)

    def replace(self, target: str, old_text: str, new_content: str) -> Dict:
        """Replace the one entry that contains `old_text`."""
        return self.change("replace", target, new_content, old_text)

    def remove(self, target: str, old_text: str) -> Dict:
        return self.change("remove", target, "", old_text)

    def change(self, action: str, target: str, content: str = "", old_text: str = "") -> Dict:
        try:
            change = apply_action(self._memory.notebook(target), action, content, old_text)
            entries = self.entries(target)
        except ToolError as error:
            reason = f"{error} ({error.hint})" if error.hint else str(error)
            return {"success": False, "error": reason}
        return {
            "success": True,
            "target": target,
            "changed": change.changed,
            "entries": entries,
            "message": change.report,
        }

    def snapshot(self) -> str:
        """Return the notes as in the prompt of a new conversation."""
        found = self._memory.snapshot()
        return "\n\n".join(filter(None, (found.memory, found.user)))


def memory_tool(
    action: str,
    target: str = "memory",
    content: str | None = None,
    old_text: str | None = None,
    store: MemoryStore | None = None,
) -> str:
    """Call the `memory` tool: `action` is add, replace or remove. The result is JSON.

    Without a `store` of the script, the call needs approval like that of an agent.
    """

    def change(arguments: Dict) -> str:
        done = (store or MemoryStore()).change(**arguments)
        return msgspec.json.encode(done).decode() if done["success"] else error_json(done["error"])

    given = {
        "action": action,
        "target": target,
        "content": content or "",
        "old_text": old_text or "",
    }
    if store is not None:
        return change(given)
    return script_runtime().run(_run_own("memory", change, given, {}, Effect.PERSIST))


# `tools.approval`: whether a command is dangerous.

_FLAGS = {re.IGNORECASE: "i", re.DOTALL: "s", re.MULTILINE: "m", re.VERBOSE: "x"}


_DESCRIPTIONS = (
    ("recursive delete", r"", "recursive delete"),
    ("disk wipe", r"\brm\b", "delete at root"),
    ("world-writable", r"", "world-writable chmod"),
    ("owner sweep", r"\bchown\b.*\broot\b", "recursive chown to root"),
    ("disk wipe", r"\bmkfs\b", "mkfs"),
    ("disk wipe", r"\bdd\b.*\bif=", "dd if="),
    ("disk wipe", r">\s*/dev/", "write to /dev/sd*"),
    ("destructive SQL", r"\bdrop\s", "SQL DROP TABLE/DATABASE"),
    ("destructive SQL", r"\btruncate\s", "SQL TRUNCATE TABLE"),
    ("destructive SQL", r"\bdelete\s", "SQL DELETE without WHERE"),
    ("system files", r"\bsed\b", "sed -i on /etc"),
    ("system files", r"\b(cp|mv|install)\b", "cp/mv/install into /etc"),
    ("system files", r"\btee\b|>", "overwrite in /etc"),
    ("service control", r"\bsystemctl\b", "systemctl stop/disable/mask"),
    ("mass kill", r"\bkill\b", "kill -9 -1"),
    ("mass kill", r"\bpkill\b", "pkill -9"),
    ("fork bomb", r"", "fork bomb"),
    ("remote code", r"<\(", "shell over process substitution of curl/wget"),
    ("remote code", r"\b(curl|wget)\b", "curl/wget piped to a shell"),
    ("start-up and key files", r"\.ssh\b", "write into ~/.ssh"),
    ("own policy", r"\.env\b", "write to ~/.hermes/.env"),
    ("bulk delete", r"\bxargs\b", "xargs rm"),
    ("bulk delete", r"\bfind\b.*-exec", "find -exec rm"),
    ("bulk delete", r"\bfind\b.*-delete", "find -delete"),
    ("stops hermes", r"", "pkill/killall of hermes or gateway"),
    ("detached gateway", r"", "starting gateway run detached"),
)
"""The documented descriptions: class, a pattern in the command, text."""


def detect_dangerous_command(command: str) -> tuple[bool, str | None, str | None]:
    """Return whether the command needs approval here, the class of danger as in
    `command_allowlist`, and a description; (False, None, None) for a harmless command. The text may
    also be SQL for a database client."""
    home, folder = current_home(), Path.cwd()
    own = tuple(dict.fromkeys((home.root, home.default_root)))
    guard = PathGuard(Path.home(), (folder,), own)
    # Text that is not a command may be what a database client gets.
    found = examine_command(command, guard, str(folder)) or examine_input(
        "", command, guard, str(folder)
    )
    if not found:
        return False, None, None
    kind = found[0].kind
    described = (
        text
        for each, pattern, text in _DESCRIPTIONS
        if kind == each and re.search(pattern, command, re.IGNORECASE)
    )
    return True, kind, next(described, found[0].reason)


def _with_flags(pattern: re.Pattern[str]) -> str:
    flags = "".join(letter for flag, letter in _FLAGS.items() if pattern.flags & flag)
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern


DANGEROUS_PATTERNS: list[tuple[str, str]] = [
    (_with_flags(rule.pattern), rule.reason) for rule in (*TEXT_RULES, *BROKEN_RULES)
]
"""Regular expressions and their meaning. Most rules of `detect_dangerous_command` use the syntax of
the command; these are the rules on text alone."""


# `tools.environments`: the places commands run in, for programs that want one of their own.


class Environment:
    """A shell that keeps its folder and exported variables. Commands run without approval.
    `settings` are those of `terminal`, such as `docker_image`; the home has the defaults."""

    backend: ClassVar[str] = ""  #: `terminal.backend`; "" is that of the settings.

    def __init__(self, cwd: str | Path = "", timeout: float = 60, **settings: Any) -> None:
        self.timeout = timeout
        given = {f"terminal.{name}": value for name, value in settings.items()}
        if self.backend:
            given["terminal.backend"] = self.backend
        if cwd:
            given["terminal.cwd"] = str(cwd)
        self._process = script_runtime()
        home = self._process.home
        self._shell = make_workspace(load(home, given), home, Path.cwd(), tell).workplace.shell
        self._process.on_close.append(self._shell.close)
        _open_environments.append(self)

    @property
    def cwd(self) -> str:
        """The folder the next command starts in."""
        return self._shell.cwd

    def execute(self, command: str, cwd: str = "", timeout: float | None = None) -> dict[str, Any]:
        """Return `output` and `returncode` (124 after the timeout). `cwd` is for this command only.
        Raises `BackendUnavailable`."""
        cancel = CancelToken()
        work = self._shell.run(
            command,
            timeout=timeout or self.timeout,
            cwd=cwd or None,
            on_output=lambda _text: None,
            cancel=cancel,
        )
        done = self._process.run(work, lambda: cancel.cancel("stopped by Ctrl-C"))
        return {"output": done.output, "returncode": done.exit_code}

    def cleanup(self) -> None:
        """End the programs that still run in it."""
        self._process.run(self._shell.close())
        if self in _open_environments:
            _open_environments.remove(self)


_open_environments: list[Environment] = []


def cleanup_all_environments() -> int:
    """Close the environments of this process, also those of `handle_function_call`; return their
    number."""
    environments = [*_open_environments]
    for each in environments:
        each.cleanup()
    return len(environments) + standalone_tools().close_places()


def _environment(name: str, backend: str) -> type[Environment]:
    return type(name, (Environment,), {"backend": backend, "__module__": __name__})


LocalEnvironment = _environment("LocalEnvironment", "local")
SandboxEnvironment = _environment("SandboxEnvironment", "sandbox")
DockerEnvironment = _environment("DockerEnvironment", "docker")
SSHEnvironment = _environment("SSHEnvironment", "ssh")
SingularityEnvironment = _environment("SingularityEnvironment", "singularity")
ModalEnvironment = _environment("ModalEnvironment", "modal")
DaytonaEnvironment = _environment("DaytonaEnvironment", "daytona")

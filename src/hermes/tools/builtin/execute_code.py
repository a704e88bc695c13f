"""The tool `execute_code`: run a Python script that can call other tools."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from hermes.core.errors import Interrupted, ToolDenied, ToolError
from hermes.core.model import ToolSpec
from hermes.core.tool import Concern, Effect, Tool, ToolContext, no_concern
from hermes.security import PathGuard
from hermes.terminal import Shell
from hermes.tools.code.script import (
    CALLABLE,
    OMITTED_PARAMETERS,
    SERIAL_TOOLS,
    STDOUT_LIMIT,
    Mode,
    ScriptOutcome,
    ScriptRun,
    effect_concern,
    prepare_launch,
)
from hermes.tools.registry import ToolDeps, ToolEntry


class CodeOptions(msgspec.Struct, frozen=True):
    mode: Mode = "project"
    """`code_execution.mode`. "project": the working folder and the Python of the project.
    "strict": an empty folder and a plain Python."""
    timeout: float = 300
    """`code_execution.timeout`: seconds for one script, including its tool calls."""
    max_tool_calls: int = 50  #: `code_execution.max_tool_calls`
    passthrough: Callable[[], tuple[str, ...]] = tuple
    """Returns the variables that the script gets although their names look like secrets:
    `terminal.env_passthrough`, and what loaded skills need."""
    python: str = ""
    """The Python to use when the shell finds none; `sys.executable` on the local backend."""
    isolated: bool = False
    """`Workplace.isolated`: the backend is the boundary, so nothing is asked about."""


def callable_specs(specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the specs of the tools that a script may call, without omitted parameters."""
    known, found = {spec.name: spec for spec in specs}, []
    for spec in (known[name] for name in CALLABLE if name in known):
        left_out = OMITTED_PARAMETERS.get(spec.name, ())
        properties = spec.parameters.get("properties", {})
        kept = {name: schema for name, schema in properties.items() if name not in left_out}
        whole = {**spec.parameters, "properties": kept}
        found.append(msgspec.structs.replace(spec, parameters=whole) if left_out else spec)
    return tuple(found)


def execute_code_tool(
    shell: Shell, tools: Sequence[ToolSpec], options: CodeOptions, guard: PathGuard
) -> Tool:
    """Make the tool. `tools` are those of the session, of which scripts may call some."""
    specs = callable_specs(tools)

    async def handler(call: ToolContext, arguments: dict[str, Any]) -> str:
        prepared = prepare_launch(
            str(arguments["code"]),
            specs,
            guard,
            options.mode,
            options.python,
            options.passthrough(),
        )
        run = ScriptRun(call.output)
        answers = ScriptRequests(call, specs, guard, options, run.paused)
        with call.cancel.scope():
            outcome = await run.run(shell, prepared, options.timeout, answers.answer)
        return format_outcome(outcome, answers.calls, options.timeout)

    return Tool(
        spec=_spec(specs, options),
        handler=handler,
        effect=Effect.EXECUTE,
        examine=no_concern,  # the script is judged by what it does, when it does it
        serial=True,
        toolset="code_execution",
    )


class ScriptRequests:
    """Answers the requests of one script: tool calls, and approval of its effects."""

    def __init__(
        self,
        call: ToolContext,
        specs: Sequence[ToolSpec],
        guard: PathGuard,
        options: CodeOptions,
        paused: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._call, self._guard, self._options = call, guard, options
        self._names = [spec.name for spec in specs]
        self._paused = paused
        self._denied: set[str] = set()
        self._changing = asyncio.Lock()
        self.calls = 0

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            if request.get("kind") == "tool":
                arguments = dict(request["arguments"])
                return {"result": await self._call_tool(str(request["name"]), arguments)}
            await self._require_approval(effect_concern(request, self._guard))
        except ToolDenied as error:
            return {"denied": str(error), "error": _error_text(error)}
        except ToolError as error:
            return {"error": _error_text(error)}
        except Interrupted:
            return {"error": "interrupted"}  # the whole script ends now
        return {}

    async def _call_tool(self, name: str, arguments: dict[str, Any]) -> str:
        if name not in self._names:
            raise ToolError(f"a script cannot call {name!r}; it can call: {', '.join(self._names)}")
        if unfit := OMITTED_PARAMETERS.get(name, frozenset()) & {
            key for key, on in arguments.items() if on
        }:
            raise ToolError(f"{name} in a script has no {', '.join(sorted(unfit))}")
        if self.calls >= self._options.max_tool_calls:
            raise ToolError(
                f"the script has made all of its {self._options.max_tool_calls} tool calls",
                hint="print what you have and go on with another script",
            )
        if not _is_valid_text(arguments):
            raise ToolError(f"an argument of {name} is not valid text: it holds lone surrogates")
        self.calls += 1
        if name not in SERIAL_TOOLS:
            return await self._call.invoke(name, arguments)
        async with self._changing:
            return await self._call.invoke(name, arguments)

    async def _require_approval(self, concern: Concern | None) -> None:
        """Ask for approval where it is needed; a denial holds for the rest of the script."""
        if concern is None or (self._options.isolated and not concern.refused):
            return
        if concern.refused:
            raise ToolDenied(f"refused: {concern.reason}")
        if concern.kind in self._denied:
            raise ToolDenied(f"not allowed, as before: {concern.reason}")
        try:
            with self._paused():
                await self._call.require_approval(concern)
        except ToolDenied:
            self._denied.add(concern.kind)
            raise


def format_outcome(outcome: ScriptOutcome, calls: int, timeout: float) -> str:
    """Return the result as JSON for the model."""
    status = "timeout" if outcome.timed_out else "error" if outcome.code else "success"
    output, errors = outcome.stdout.rstrip(), outcome.stderr.rstrip()
    result: dict[str, Any] = {"status": status, "output": output}
    if status == "success":
        result["output"] = f"{output}\n[stderr]\n{errors}".lstrip() if errors else output
    else:
        reason = f"stopped after {timeout:g} s" if outcome.timed_out else _exit_note(outcome.code)
        result["error"] = "\n".join(filter(None, (errors, reason)))
    result["tool_calls_made"] = calls
    result["duration_seconds"] = round(outcome.seconds, 2)
    return msgspec.json.encode(result).decode()


def _exit_note(code: int | None) -> str:
    """Return a note on the exit code, or "" when stderr says enough."""
    if code is None or code == 1:
        return ""
    if code > 0:
        return f"[exit code {code}]"
    known = {number.value: number.name for number in signal.Signals}
    return f"[ended by {known.get(-code, f'signal {-code}')}]"


def _is_valid_text(arguments: dict[str, Any]) -> bool:
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _error_text(error: ToolError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


def _spec(specs: Sequence[ToolSpec], options: CodeOptions) -> ToolSpec:
    names = ", ".join(spec.name for spec in specs)
    tools = (
        f" `from hermes_tools import {names}`: tools with the same parameters that return text and "
        "raise ToolError. Use it for loops over tool calls and to filter their results."
        if specs
        else ""
    )
    description = (
        f"Run a Python script; what it prints comes back.{tools} Limits: {options.timeout:g} s, "
        f"{options.max_tool_calls} tool calls, {STDOUT_LIMIT // 1000} KB of output."
    )
    parameters = {
        "type": "object",
        "properties": {"code": {"type": "string"}},
        "required": ["code"],
    }
    return ToolSpec("execute_code", description, parameters)


def make(deps: ToolDeps) -> Tool:
    settings = deps.settings.code_execution
    always = deps.settings.terminal.env_passthrough
    options = CodeOptions(
        settings.mode,
        settings.timeout,
        settings.max_tool_calls,
        lambda: (*always, *deps.place.exported_names()),
        sys.executable if deps.place.name == "local" else "",
        isolated=deps.place.isolated,
    )
    return execute_code_tool(deps.place.shell, deps.others, options, deps.guard)


ENTRY = ToolEntry("execute_code", "code_execution", make, needs_others=True, emoji="🐍")

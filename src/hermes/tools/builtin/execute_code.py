"""The tool `execute_code`: run a Python script that can call other tools.

The effects of a script follow the rules of the tools: a command is examined like one of `terminal`,
a path like one of the file tools. `hermes.tools.code` has the programs around the script.
"""

import asyncio
import contextlib
import json
import keyword
import secrets
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import Interrupted, ToolDenied, ToolError
from hermes.core.model import ToolSpec
from hermes.core.tool import Concern, Effect, ToolContext, result_data
from hermes.security import (
    CREDENTIAL_STORES,
    PROGRAM_FOLDERS,
    RUNS_LATER_HOME,
    RUNS_LATER_PATTERN,
    STARTUP_FILES,
    SYSTEM_CREDENTIALS,
    PathGuard,
    examine_command,
    is_below,
    merge_concerns,
)
from hermes.security.egress import OPEN_FOLDERS, OWN_OPEN_FOLDERS, TOOL_FOLDERS
from hermes.terminal import Running, Shell
from hermes.tools.builtin.terminal import unprotected_concern
from hermes.tools.editing.files import display_path
from hermes.tools.registry import ToolDeps, tool

SHELL = ("/bin/sh", "-c")
"""How Python starts a shell command; the next word is examined as the command."""

ScriptEffect = dict[str, Any]


def protected_places(guard: PathGuard) -> list[str]:
    """Return the paths that a script must ask about, even to read them in the workspace."""
    names = (*CREDENTIAL_STORES, *STARTUP_FILES, *RUNS_LATER_HOME, *PROGRAM_FOLDERS)
    in_home = [str(guard.home / name) for name in names]
    return [*map(str, guard.own), *in_home, *SYSTEM_CREDENTIALS]


def open_places(guard: PathGuard) -> dict[str, Any]:
    """Return the home, and the places in it and elsewhere that hold no private files."""
    home = guard.resolve(str(guard.home), "/")
    roots = [guard.resolve(str(root), "/") for root in guard.own]
    own = [f"{root}/{name}" for root in roots for name in OWN_OPEN_FOLDERS]
    in_home = [*(f"{home}/{name}" for name in TOOL_FOLDERS), *own]
    return {"home": home, "in_home": in_home, "elsewhere": [*OPEN_FOLDERS, *own]}


def effect_concern(effect: ScriptEffect, guard: PathGuard) -> Concern | None:
    """Return why an effect needs approval, or None."""
    judge = _JUDGES.get(str(effect.get("effect")))
    if judge is None:
        return Concern("unknown effect", str(effect.get("effect")), "it cannot be judged")
    concern = judge(effect, guard)
    if concern is None:
        return None
    return msgspec.structs.replace(
        concern, subject=display_path(concern.subject), reason=display_path(concern.reason)
    )


def _command_text(effect: ScriptEffect) -> str:
    words = [str(word) for word in effect["words"]]
    text = str(effect["text"])
    if words:
        text = words[2] if tuple(words[:2]) == SHELL and len(words) > 2 else shlex.join(words)
    return text


def _command_concern(effect: ScriptEffect, guard: PathGuard) -> Concern | None:
    return merge_concerns(examine_command(_command_text(effect), guard, str(effect["folder"])))


def _write_concern(effect: ScriptEffect, guard: PathGuard) -> Concern | None:
    path, real = str(effect["path"]), str(effect["real"])
    if effect["device"]:
        return Concern("disk wipe", path, f"{real} is a device", refused=True)
    if effect["goes"] and _contains_own_files(real, guard):
        return Concern("protected file", path, f"{real} holds Hermes' own files", refused=True)
    return guard.check_write(path, real)


def _tree_concern(effect: ScriptEffect, guard: PathGuard) -> Concern | None:
    path, real = str(effect["path"]), str(effect["real"])
    if _contains_own_files(real, guard):
        return Concern("protected file", path, f"{real} holds Hermes' own files", refused=True)
    concerns = examine_command(shlex.join(["rm", "-rf", "--", real]), guard, "/")
    written = guard.check_write(path, real)
    concerns += [written] if written else []
    return merge_concerns(sorted(concerns, key=lambda concern: not concern.refused))


def _contains_own_files(real: str, guard: PathGuard) -> bool:
    return any(is_below(guard.resolve(str(root), "/"), real) for root in guard.own)


_JUDGES: dict[str, Callable[[ScriptEffect, PathGuard], Concern | None]] = {
    "command": _command_concern,
    "write": _write_concern,
    "tree": _tree_concern,
    "outside": lambda _effect, _guard: None,
    "connect": lambda _effect, _guard: None,
    "read": lambda effect, guard: guard.check_read(str(effect["path"]), str(effect["real"])),
    "memory": lambda effect, _guard: Concern(
        "credential access",
        str(effect["path"]),
        f"{effect['path']} holds what another program keeps to itself",
    ),
    "native": lambda effect, _guard: Concern(
        "native code",
        str(effect["what"]),
        f"the script uses {effect['what']}; what that does cannot be seen",
    ),
    "hook": lambda _effect, _guard: Concern(
        "native code", "sys.addaudithook", "the script adds an audit hook of its own"
    ),
}


CALLABLE = (
    "web_search", "web_extract", "read_file", "write_file", "search_files", "patch", "terminal",
)  # fmt: skip
"""Tools that scripts may call, if the session has them."""
SERIAL_TOOLS = frozenset({"write_file", "patch", "terminal"})
"""Tools that run one at a time, even when threads of the script call them in parallel."""
OMITTED_PARAMETERS = {
    "terminal": frozenset({"background", "notify_on_complete", "watch_patterns", "pty"})
}
"""Parameters that scripts do not have: their commands run in the foreground."""
LAST_PARAMETERS = frozenset({("patch", "mode")})
"""Parameters that a call by position reaches last: `patch(path, old_string, new_string)`."""
RESULT_KEYS = {
    "read_file": "content, total_lines",
    "search_files": "matches, files, total_count",
    "patch": "diff",
    "terminal": "output, exit_code",
}
"""The most useful keys of the results that are more than a text."""
PYTHON_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}


def callable_specs(specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the specs of the tools that a script may call, without omitted parameters."""
    known = {spec.name: spec for spec in specs}
    found = [known[name] for name in CALLABLE if name in known]
    for index, spec in enumerate(found):
        if left_out := OMITTED_PARAMETERS.get(spec.name):
            properties = spec.parameters.get("properties", {}).items()
            kept = {name: schema for name, schema in properties if name not in left_out}
            parameters = {**spec.parameters, "properties": kept}
            found[index] = msgspec.structs.replace(spec, parameters=parameters)
    return tuple(found)


def stub_source(client: str, specs: Iterable[ToolSpec]) -> str:
    """Return the source of the module `hermes_tools`: the client, then a function per tool."""
    return "\n\n".join([client.rstrip(), *map(_stub_function, specs)]) + "\n"


def _stub_function(spec: ToolSpec) -> str:
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    names = [name for name in properties if name.isidentifier() and not keyword.iskeyword(name)]
    required = [name for name in names if name in spec.parameters.get("required", ())]
    optional = [name for name in names if name not in required]
    optional.sort(key=lambda name: (spec.name, name) in LAST_PARAMETERS)
    signature = [
        f"{name}: {_python_type(properties[name])}"
        + ("" if name in required else f" = {properties[name].get('default')!r}")
        for name in (*required, *optional)
    ]
    passed = "".join(f", {name}={name}" for name in names)
    return (
        f"def {spec.name}({', '.join(signature)}) -> dict:\n"
        f"    {spec.description!r}\n"
        f"    return _call({spec.name!r}{passed})"
    )


def _python_type(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    return PYTHON_TYPES.get(kind, "object") if isinstance(kind, str) else "object"


STDOUT_LIMIT = 50_000
STDERR_LIMIT = 10_000  #: Bytes of each stream that are kept.
TOO_OLD_EXIT = 97  #: Exit code of a remote Python that is too old for the runner.
NOT_FOUND_EXIT = 127

PROJECT_PYTHONS = (
    '${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin/python"}',
    ".venv/bin/python",
    "venv/bin/python",
)
PLAIN_PYTHONS = ("python3", "python")

# The source is sent over standard input, because command lines are limited in length. `-I` prevents
# files of the project from shadowing modules of the standard library.
START_COMMAND = """\
for python in {pythons}; do
  command -v "$python" >/dev/null 2>&1 || continue
  "$python" -I -u -c {boot}
  code=$?
  [ "$code" -eq {too_old} ] || exit "$code"
done
exit {not_found}"""
BOOT_SOURCE = """\
import sys
if sys.version_info < (3, 8):
    sys.exit({too_old})
import json, os
setup = json.loads(sys.stdin.buffer.readline() or sys.exit(1))
names = {{"__name__": "runner"}}
exec(compile(setup["runner"], "runner.py", "exec"), names)
names["main"](setup, dict(os.environ))"""


class ScriptLaunch(msgspec.Struct, frozen=True):
    """A command and its input that run one script."""

    command: str  #: The shell command.
    setup: bytes  #: The first line of its input, as JSON.
    mark: bytes  #: The prefix of its messages.


def prepare_launch(code: str, specs: Sequence[ToolSpec], deps: ToolDeps) -> ScriptLaunch:
    strict = deps.settings.code_execution.mode == "strict"
    mark = f"\x1e{secrets.token_hex(8)} "
    client = _remote_source("client.py")
    setup: dict[str, Any] = {
        "runner": _remote_source("runner.py"),
        "mark": mark,
        "strict": strict,
        # Variables that the script gets although their names look like secrets.
        "passthrough": [*deps.settings.terminal.env_passthrough, *deps.place.exported_names()],
        "limits": {"stdout": STDOUT_LIMIT, "stderr": STDERR_LIMIT},
        "roots": [str(root) for root in deps.guard.workspace],
        "protected": protected_places(deps.guard),
        "runs_later": RUNS_LATER_PATTERN,
        "places": open_places(deps.guard),
        "files": {
            "boot.py": _remote_source("boot.py"),
            "client.py": client,
            "hook.py": _remote_source("hook.py"),
            "hermes_tools.py": stub_source(client, specs),
            "script.py": code,
        },
    }
    pythons = [*(() if strict else PROJECT_PYTHONS), *PLAIN_PYTHONS]
    if deps.place.name == "local":  # for a shell that finds none
        pythons.append(shlex.quote(sys.executable))
    command = START_COMMAND.format(
        pythons=" ".join(pythons),
        boot=shlex.quote(BOOT_SOURCE.format(too_old=TOO_OLD_EXIT)),
        too_old=TOO_OLD_EXIT,
        not_found=NOT_FOUND_EXIT,
    )
    return ScriptLaunch(command, json.dumps(setup).encode() + b"\n", mark.encode())


def _remote_source(name: str) -> str:
    return (Path(__file__).parent.with_name("code") / name).read_text("utf-8")


STOP_GRACE = 5.0  #: Seconds between SIGTERM and SIGKILL when the time is up.
STOP_WAIT = 5.0  #: Seconds after that to wait for the report of the runner.
MAX_NOISE_CHARS = 2_000
"""For other output: messages of the shell, or of a Python that cannot start."""

AnswerRequest = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class ScriptOutcome(msgspec.Struct, frozen=True):
    code: int | None  #: Like `Popen.returncode`; None when it is not known.
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False


class ScriptRun:
    """One run of a script. `show` gets what the script prints, as it arrives."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._messages: asyncio.Queue[dict[str, Any] | BaseException | None] = asyncio.Queue()
        self._answering: set[asyncio.Task[None]] = set()
        self._rest = b""
        self._noise = ""
        self._mark = b""
        self._folder = ""
        self._clock: asyncio.Timeout | None = None
        self._questions = 0
        self._left = 0.0

    async def run(
        self, shell: Shell, launch: ScriptLaunch, seconds: float, answer: AnswerRequest
    ) -> ScriptOutcome:
        """Run the script; `answer` handles its requests.

        Every process that the script started has ended when this returns or raises.
        """
        self._mark, self._answer = launch.mark, answer
        loop = asyncio.get_running_loop()
        began = loop.time()
        running = await shell.start(launch.command, on_output=self._feed)
        watching = asyncio.ensure_future(self._watch(running))
        ended: dict[str, Any] | None = None
        timed_out = False
        try:
            # A process that has ended takes no input; its exit code says why.
            with contextlib.suppress(ToolError):
                await running.write(launch.setup)
            try:
                ended = await self._handle_with_timeout(running, seconds)
            except TimeoutError:
                timed_out = True
                ended = await self._stop(running)
        finally:
            watching.cancel()
            await self._cancel_answers()
            await running.stop()
        if ended is None and not timed_out:
            raise self._start_error(running.exit_code)
        ended = ended or {}
        return ScriptOutcome(
            code=ended.get("code"),
            stdout=self._strip_folder(ended.get("stdout", "")),
            stderr=self._strip_folder(ended.get("stderr", "")),
            seconds=loop.time() - began,
            timed_out=timed_out,
        )

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock of the script while the user is being asked."""
        now = asyncio.get_running_loop().time
        self._questions += 1
        if self._clock is not None and (when := self._clock.when()) is not None:
            self._left = when - now()
            self._clock.reschedule(None)
        try:
            yield
        finally:
            self._questions -= 1
            if self._clock is not None and not self._questions:
                self._clock.reschedule(now() + self._left)

    async def _handle_with_timeout(self, running: Running, seconds: float) -> dict[str, Any] | None:
        try:
            async with asyncio.timeout(seconds) as self._clock:
                return await self._handle_messages(running)
        finally:
            self._clock = None

    async def _handle_messages(self, running: Running) -> dict[str, Any] | None:
        """Handle messages until the end; return the report of the runner, None if it is lost."""
        while (message := await self._messages.get()) is not None:
            if isinstance(message, BaseException):
                raise message
            match message["type"]:
                case "started":
                    self._folder = message["folder"]
                case "output":
                    self._show(message["text"])
                case "request":
                    task = asyncio.ensure_future(self._reply(running, message))
                    self._answering.add(task)
                    task.add_done_callback(self._on_answer_done)
                case "ended":
                    return message
                case "failed":
                    raise ToolError(f"the script cannot be started: {message['reason']}")
        return None

    async def _stop(self, running: Running) -> dict[str, Any] | None:
        """Stop the script after its timeout; return the report of the runner, if it comes."""
        await self._cancel_answers()
        try:
            async with asyncio.timeout(STOP_GRACE + STOP_WAIT):
                await _send(running, type="stop", grace=STOP_GRACE)
                return await self._handle_messages(running)
        except TimeoutError:
            return None

    async def _reply(self, running: Running, message: dict[str, Any]) -> None:
        reply = await self._answer(message["request"])
        await _send(running, type="reply", id=message["id"], reply=reply)

    def _on_answer_done(self, task: asyncio.Task[None]) -> None:
        """Pass on the exception of a failed answer, or the script would wait for ever."""
        self._answering.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._messages.put_nowait(error)

    async def _cancel_answers(self) -> None:
        tasks = [*self._answering]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, running: Running) -> None:
        await running.wait()
        self._messages.put_nowait(None)

    def _feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            before, mark, text = line.partition(self._mark)
            if mark:
                self._messages.put_nowait(json.loads(text))
            if before or not mark:
                noise = f"{self._noise}{before.decode('utf-8', 'replace')}\n"
                self._noise = noise[-MAX_NOISE_CHARS:]

    def _strip_folder(self, text: str) -> str:
        """Remove the temporary folder from paths in tracebacks."""
        return text.replace(f"{self._folder}/", "") if self._folder else text

    def _start_error(self, exit_code: int | None) -> ToolError:
        if exit_code in (NOT_FOUND_EXIT, TOO_OLD_EXIT):
            return ToolError(
                "there is no Python 3.8 or newer where commands run",
                hint="install python3 there, or do it with the terminal tool",
            )
        noise = (self._noise + self._rest.decode("utf-8", "replace")).strip()
        return ToolError(
            f"the script was lost (exit code {exit_code}): {noise or 'no reason given'}"
        )


async def _send(running: Running, **message: Any) -> None:
    # A runner that has ended takes no input; `_watch` reports it.
    with contextlib.suppress(ToolError):
        await running.write(json.dumps(message).encode() + b"\n")


class ScriptRequests:
    """Answers the requests of one script: tool calls, and approval of its effects."""

    def __init__(
        self,
        call: ToolContext,
        specs: Sequence[ToolSpec],
        deps: ToolDeps,
        paused: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._call, self._deps = call, deps
        self._names = [spec.name for spec in specs]
        self._paused = paused
        self._denied: set[str] = set()
        self._connections: dict[tuple[str, int], None] = {}  #: Those that were allowed.
        self._changing = asyncio.Lock()
        self.calls = 0

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            if request.get("kind") == "tool":
                arguments = dict(request["arguments"])
                result = await self._call_tool(str(request["name"]), arguments)
                return {"result": result_data(result)}
            concerns = [effect_concern(request, self._deps.guard), await self._leaving(request)]
            await self._require_approval(merge_concerns([each for each in concerns if each]))
            self._record(request)
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
        most = self._deps.settings.code_execution.max_tool_calls
        if self.calls >= most:
            raise ToolError(
                f"the script has made all of its {most} tool calls",
                hint="print what you have and continue with another script",
            )
        try:
            json.dumps(arguments, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            message = f"an argument of {name} is not valid text: it holds lone surrogates"
            raise ToolError(message) from error
        self.calls += 1
        if name not in SERIAL_TOOLS:
            return await self._call.invoke(name, arguments)
        async with self._changing:
            return await self._call.invoke(name, arguments)

    async def _leaving(self, effect: ScriptEffect) -> Concern | None:
        """Return why the effect may carry data away that must not leave."""
        egress = self._deps.egress
        if egress is None or self._deps.place.isolated:
            return None
        match effect.get("effect"):
            case "command":
                return await egress.examine_command(_command_text(effect), str(effect["folder"]))
            case "connect":
                return await egress.examine_connection(str(effect["host"]), int(effect["port"]))
            case "outside" | "read":
                # What is read now could be sent over a connection that is open already.
                egress.observe_path(str(effect["real"]))
                for host, port in self._connections:
                    if concern := await egress.examine_connection(host, port):
                        return concern
        return None

    def _record(self, effect: ScriptEffect) -> None:
        """Record an effect that may happen now."""
        if effect.get("effect") == "connect":
            self._connections[str(effect["host"]), int(effect["port"])] = None
        elif effect.get("effect") == "command" and self._deps.egress is not None:
            self._deps.egress.observe_command(_command_text(effect), str(effect["folder"]))

    async def _require_approval(self, concern: Concern | None) -> None:
        """Ask for approval where it is needed; a denial holds for the rest of the script."""
        if concern is None or (self._deps.place.isolated and not concern.refused):
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


def _error_text(error: ToolError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


def _describe(deps: ToolDeps, spec: ToolSpec) -> ToolSpec:
    settings = deps.settings.code_execution
    names = [each.name for each in callable_specs(deps.others)]
    keys = "; ".join(f"{name}: {RESULT_KEYS[name]}" for name in names if name in RESULT_KEYS)
    tools = (
        f" `from hermes_tools import {', '.join(names)}`: the same tools and parameters; they raise"
        f" ToolError and return a dict with `result`{keys and f', or {keys}'}. Use it for loops"
        " over tool calls and to filter their results."
        if names
        else ""
    )
    description = (
        f"Run a Python script and return what it prints.{tools} Limits: {settings.timeout:g} s, "
        f"{settings.max_tool_calls} tool calls, {STDOUT_LIMIT // 1000} KB of output."
    )
    return msgspec.structs.replace(spec, description=description)


async def _examine(deps: ToolDeps, arguments: dict[str, Any]) -> Concern | None:
    """The script is judged by what it does, when it does it."""
    if deps.place.isolated:
        return None
    return unprotected_concern(deps, "execute_code", str(arguments.get("code", "")))


@tool(
    toolset="code_execution",
    effect=Effect.EXECUTE,
    adapt=_describe,
    examine=_examine,
    needs_others=True,
    serial=True,
    emoji="🐍",
)
async def execute_code(deps: ToolDeps, call: ToolContext, code: str) -> str:
    timeout, specs = deps.settings.code_execution.timeout, callable_specs(deps.others)
    launch, run = prepare_launch(code, specs, deps), ScriptRun(call.output)
    answers = ScriptRequests(call, specs, deps, run.paused)
    with call.cancel.scope():
        outcome = await run.run(deps.place.shell, launch, timeout, answers.answer)
    return format_outcome(outcome, answers.calls, timeout)

"""What stands against something a running script is about to do.

The same rules as for the tools: a command line is examined as the terminal's, a path as that of a
file tool.
"""

import asyncio
import contextlib
import json
import keyword
import secrets
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from importlib import resources
from typing import Any, Literal

import msgspec

from hermes.core.errors import ToolError
from hermes.core.model import ToolSpec
from hermes.core.tool import Concern
from hermes.security import examine_command, one_concern
from hermes.security.paths import CREDENTIAL_STORES, STARTUP_FILES, SYSTEM_CREDENTIALS, Guard, below
from hermes.terminal import Running, Shell

SHELL = ("/bin/sh", "-c")
"""How Python starts a command line: what follows is judged as one."""

Effect = dict[str, Any]


def protected_places(guard: Guard) -> list[str]:
    """Where a script must ask also inside of the workspace, and before it reads."""
    in_home = [str(guard.home / name) for name in (*CREDENTIAL_STORES, *STARTUP_FILES)]
    return [*map(str, guard.own), *in_home, *SYSTEM_CREDENTIALS]


def effect_concern(effect: Effect, guard: Guard) -> Concern | None:
    """None when it may happen."""
    judge = _JUDGES.get(str(effect.get("effect")))
    if judge is None:
        return Concern("unknown effect", str(effect.get("effect")), "it cannot be judged")
    concern = judge(effect, guard)
    if concern is None:
        return None
    return msgspec.structs.replace(
        concern, subject=_printable(concern.subject), reason=_printable(concern.reason)
    )


def _printable(text: str) -> str:
    """Names of files may hold bytes that are no text; people and events need text."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _command_concern(effect: Effect, guard: Guard) -> Concern | None:
    words = [str(word) for word in effect["words"]]
    text = str(effect["text"])
    if words:
        text = words[2] if tuple(words[:2]) == SHELL and len(words) > 2 else shlex.join(words)
    return one_concern(examine_command(text, guard, str(effect["folder"])))


def _write_concern(effect: Effect, guard: Guard) -> Concern | None:
    path, real = str(effect["path"]), str(effect["real"])
    if effect["device"]:
        return Concern("disk wipe", path, f"{real} is a device", refused=True)
    if effect["goes"] and _contains_own_files(real, guard):
        return Concern("protected file", path, f"{real} holds Hermes' own files", refused=True)
    return guard.writing(path, real)


def _tree_concern(effect: Effect, guard: Guard) -> Concern | None:
    path, real = str(effect["path"]), str(effect["real"])
    if _contains_own_files(real, guard):
        return Concern("protected file", path, f"{real} holds Hermes' own files", refused=True)
    concerns = examine_command(shlex.join(["rm", "-rf", "--", real]), guard, "/")
    written = guard.writing(path, real)
    concerns += [written] if written else []
    return one_concern(sorted(concerns, key=lambda concern: not concern.refused))


def _read_concern(effect: Effect, guard: Guard) -> Concern | None:
    return guard.reading(str(effect["path"]), str(effect["real"]))


def _memory_concern(effect: Effect, _guard: Guard) -> Concern | None:
    path = str(effect["path"])
    return Concern("credential access", path, f"{path} holds what another program keeps to itself")


def _native_concern(effect: Effect, _guard: Guard) -> Concern | None:
    what = str(effect["what"])
    return Concern("native code", what, f"the script uses {what}; what that does cannot be seen")


def _hook_concern(_effect: Effect, _guard: Guard) -> Concern | None:
    return Concern("native code", "sys.addaudithook", "the script adds an audit hook of its own")


def _contains_own_files(real: str, guard: Guard) -> bool:
    return any(below(guard.real(str(root), "/"), real) for root in guard.own)


_JUDGES: dict[str, Callable[[Effect, Guard], Concern | None]] = {
    "command": _command_concern,
    "write": _write_concern,
    "tree": _tree_concern,
    "read": _read_concern,
    "memory": _memory_concern,
    "native": _native_concern,
    "hook": _hook_concern,
}


# The module `hermes_tools` of a script: a function for each tool it may call.

CALLABLE = (
    "web_search", "web_extract", "read_file", "write_file", "search_files", "patch", "terminal",
)  # fmt: skip
"""The tools a script may call, where the session has them."""
SERIAL_TOOLS = frozenset({"write_file", "patch", "terminal"})
"""Those that run one at a time, also when threads of the script call them at once."""
OMITTED_PARAMETERS = {
    "terminal": frozenset({"background", "notify_on_complete", "watch_patterns", "pty"}),
}
"""Parameters that make no sense in a script: its commands run in the foreground."""
PYTHON_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}


def callable_specs(specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Those of the tools that a script may call, as it may call them."""
    known = {spec.name: spec for spec in specs}
    return tuple(_omit_parameters(known[name]) for name in CALLABLE if name in known)


def stub_source(client: str, specs: Iterable[ToolSpec]) -> str:
    """The source of `hermes_tools`: what talks with us, then the functions."""
    return "\n\n".join([client.rstrip(), *map(_stub_function, specs)]) + "\n"


def _omit_parameters(spec: ToolSpec) -> ToolSpec:
    left_out = OMITTED_PARAMETERS.get(spec.name)
    if left_out is None:
        return spec
    properties = spec.parameters.get("properties", {})
    kept = {name: schema for name, schema in properties.items() if name not in left_out}
    return msgspec.structs.replace(spec, parameters={**spec.parameters, "properties": kept})


def _stub_function(spec: ToolSpec) -> str:
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    names = [name for name in properties if name.isidentifier() and not keyword.iskeyword(name)]
    required = [name for name in names if name in spec.parameters.get("required", ())]
    optional = [name for name in names if name not in required]
    signature = [
        *(f"{name}: {_python_type(properties[name])}" for name in required),
        *(
            f"{name}: {_python_type(properties[name])} = {properties[name].get('default')!r}"
            for name in optional
        ),
    ]
    passed = "".join(f", {name}={name}" for name in names)
    return (
        f"def {spec.name}({', '.join(signature)}) -> str:\n"
        f"    {spec.description!r}\n"
        f"    return _call({spec.name!r}{passed})"
    )


def _python_type(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    return PYTHON_TYPES.get(kind, "object") if isinstance(kind, str) else "object"


# How a script gets to where the shell is, and which Python runs it there.

Mode = Literal["project", "strict"]

STDOUT_LIMIT = 50_000
STDERR_LIMIT = 10_000
"""Bytes of each that are kept."""
TOO_OLD_EXIT = 97
"""What the Python over there ends with when it cannot run our part."""
NOT_FOUND_EXIT = 127

PROJECT_PYTHONS = (
    '${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin/python"}',
    ".venv/bin/python",
    "venv/bin/python",
)
PLAIN_PYTHONS = ("python3", "python")

# The source comes over standard input, so that it meets no limit on a command line. `-I` keeps the
# files of the project from standing in for modules of the standard library.
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
    """All that is needed to run one script."""

    command: str
    """For the shell."""
    setup: bytes
    """The first line it reads."""
    mark: bytes
    """What its messages begin with."""


def prepare_launch(
    code: str, specs: Sequence[ToolSpec], guard: Guard, mode: Mode, python: str, let: Sequence[str]
) -> ScriptLaunch:
    """`let` are the variables given although their names look secret."""
    mark = f"\x1e{secrets.token_hex(8)} "
    client = _remote_source("client.py")
    setup: dict[str, Any] = {
        "runner": _remote_source("runner.py"),
        "mark": mark,
        "strict": mode == "strict",
        "passthrough": list(let),
        "limits": {"stdout": STDOUT_LIMIT, "stderr": STDERR_LIMIT},
        "roots": [str(root) for root in guard.workspace],
        "protected": protected_places(guard),
        "files": {
            "boot.py": _remote_source("boot.py"),
            "client.py": client,
            "hook.py": _remote_source("hook.py"),
            "hermes_tools.py": stub_source(client, specs),
            "script.py": code,
        },
    }
    return ScriptLaunch(
        _launch_command(mode, python), json.dumps(setup).encode() + b"\n", mark.encode()
    )


def _launch_command(mode: Mode, python: str) -> str:
    pythons = [*(PROJECT_PYTHONS if mode == "project" else ()), *PLAIN_PYTHONS]
    if python:
        pythons.append(shlex.quote(python))
    boot = shlex.quote(BOOT_SOURCE.format(too_old=TOO_OLD_EXIT))
    return START_COMMAND.format(
        pythons=" ".join(pythons), boot=boot, too_old=TOO_OLD_EXIT, not_found=NOT_FOUND_EXIT
    )


def _remote_source(name: str) -> str:
    return resources.files("hermes.tools.code.remote").joinpath(name).read_text("utf-8")


# One run of a script: the talk with its runner, its time, and its certain end.

STOP_GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL when the time is up."""
STOP_WAIT = 5.0
"""Seconds after that until we stop waiting to be told of the end."""
MAX_NOISE_CHARS = 2_000
"""Characters kept of what is not ours: messages of a shell, or of a Python that cannot start."""

AnswerRequest = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class ScriptOutcome(msgspec.Struct, frozen=True):
    code: int | None
    """As Python's `returncode`; None when it is not known."""
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False


class ScriptRun:
    """`show` is given what the script prints, as it comes."""

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
        """`answer` is given what the script asks for.

        Everything the script started is gone when this returns, or raises.
        """
        self._mark, self._answer = launch.mark, answer
        loop = asyncio.get_running_loop()
        began = loop.time()
        running = await shell.start(launch.command, on_output=self._feed)
        watching = asyncio.ensure_future(self._watch(running))
        ended: dict[str, Any] | None = None
        timed_out = False
        try:
            # One that has ended already takes no input; its exit code says why.
            with contextlib.suppress(ToolError):
                await running.write(launch.setup)
            try:
                ended = await self._in_time(running, seconds)
            except TimeoutError:
                timed_out = True
                ended = await self._end(running)
        finally:
            watching.cancel()
            await self._drop_answers()
            await running.stop()
        if ended is None and not timed_out:
            raise self._cannot_start(running.exit_code)
        ended = ended or {}
        return ScriptOutcome(
            code=ended.get("code"),
            stdout=self._plain(ended.get("stdout", "")),
            stderr=self._plain(ended.get("stderr", "")),
            seconds=loop.time() - began,
            timed_out=timed_out,
        )

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Within it the time of the script stands still: a person is being asked."""
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

    async def _in_time(self, running: Running, seconds: float) -> dict[str, Any] | None:
        try:
            async with asyncio.timeout(seconds) as self._clock:
                return await self._converse(running)
        finally:
            self._clock = None

    async def _converse(self, running: Running) -> dict[str, Any] | None:
        """Until the runner tells of the end, or has ended itself."""
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
                    task.add_done_callback(self._answered)
                case "ended":
                    return message
                case "failed":
                    raise ToolError(f"the script cannot be started: {message['reason']}")
        return None

    async def _end(self, running: Running) -> dict[str, Any] | None:
        """The time is up."""
        await self._drop_answers()
        try:
            async with asyncio.timeout(STOP_GRACE + STOP_WAIT):
                await _send(running, type="stop", grace=STOP_GRACE)
                return await self._converse(running)
        except TimeoutError:
            return None

    async def _reply(self, running: Running, message: dict[str, Any]) -> None:
        reply = await self._answer(message["request"])
        await _send(running, type="reply", id=message["id"], reply=reply)

    def _answered(self, task: asyncio.Task[None]) -> None:
        """A tool that broke must not keep the script waiting."""
        self._answering.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._messages.put_nowait(error)

    async def _drop_answers(self) -> None:
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
                self._noise = (self._noise + before.decode("utf-8", "replace") + "\n")[
                    -MAX_NOISE_CHARS:
                ]

    def _plain(self, text: str) -> str:
        """The script by its name alone."""
        return text.replace(f"{self._folder}/", "") if self._folder else text

    def _cannot_start(self, exit_code: int | None) -> ToolError:
        if exit_code in (NOT_FOUND_EXIT, TOO_OLD_EXIT):
            return ToolError(
                "there is no Python 3.8 or newer where commands run",
                hint="install python3 there, or do it with the terminal tool",
            )
        noise = (self._noise + self._rest.decode("utf-8", "replace")).strip()
        return ToolError(
            f"the script was lost (exit code {exit_code}): {noise or 'no reason told'}"
        )


async def _send(running: Running, **message: Any) -> None:
    # A runner that has gone takes nothing; `_watch` tells of it.
    with contextlib.suppress(ToolError):
        await running.write(json.dumps(message).encode() + b"\n")

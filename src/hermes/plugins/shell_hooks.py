"""Commands of the user that run at events of the agent (the setting `hooks`)."""

import asyncio
import contextlib
import logging
import os
import re
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.config import policy
from hermes.config.home import change_lock, tilde, unusable
from hermes.config.own_files import write_own
from hermes.config.settings import ShellHook
from hermes.core.errors import ConfigError, ToolError
from hermes.core.ports import HookName
from hermes.plugins.hooks import (
    ALLOWING,
    VETOES,
    block_answer,
    decision_words,
    parse_event,
    veto_in,
)
from hermes.plugins.isolation import ProblemReporter

# One run of a shell hook: its input, its answer, and its time limit.

MAX_OUTPUT_BYTES = 1_048_576  #: Bytes of output that are read; a hook that writes more has failed.
MAX_ERROR_BYTES = 4_096
_SEPARATE_FIELDS = frozenset({"tool_name", "args", "session_id", "task_id", "parent_session_id"})
"""Arguments that have their own field in the input of a hook."""


class HookRun(msgspec.Struct, frozen=True):
    """The result of one run of a hook."""

    exit_code: int | None  #: None if it was stopped or could not be started.
    output: str = ""
    errors: str = ""
    seconds: float = 0.0
    failure: str = ""  #: Why it failed; empty if it succeeded.


def payload(name: HookName, details: Mapping[str, Any], folder: str) -> bytes:
    """Return the JSON for a hook's standard input."""
    session = (details.get(key) for key in ("session_id", "task_id", "parent_session_id"))
    said = {
        "hook_event_name": str(name),
        "tool_name": details.get("tool_name"),
        "tool_input": details.get("args"),
        "session_id": next((each for each in session if each), ""),
        "cwd": folder,
        "extra": {key: held for key, held in details.items() if key not in _SEPARATE_FIELDS},
    }
    return msgspec.json.encode(said, enc_hook=lambda thing: f"<{type(thing).__name__}>")


def split_command(command: str) -> list[str]:
    """Split a command into program and arguments as a shell does, with `~/` expanded.

    Raises `ValueError`.
    """
    split = shlex.split(command)
    if not split:
        raise ValueError("it is empty")
    return [str(Path(word).expanduser()) if word.startswith("~/") else word for word in split]


async def run_command(command: str, data: bytes, seconds: float, **place: Any) -> HookRun:
    """Run a command until it ends or the time is up, then stop all its processes. `place` has the
    `environment`, `cwd` and `lifeline` of `spawn`."""
    try:
        argv = split_command(command)
    except ValueError as error:
        return HookRun(None, failure=f"its command cannot be understood: {error}")
    # Unix only, and needed only where there are hooks.
    from hermes.terminal import spawn

    output, errors = _Bounded(MAX_OUTPUT_BYTES), _Bounded(MAX_ERROR_BYTES)
    began = time.monotonic()
    try:
        process = await spawn(argv, on_output=output.add, on_error=errors.add, **place)
    except ToolError as error:
        return HookRun(None, failure=str(error))
    code, failure = None, ""
    feeding = asyncio.ensure_future(_feed(process, data))
    try:
        async with asyncio.timeout(seconds):
            code = await process.wait()
    except TimeoutError:
        failure = f"it took longer than {seconds:g} seconds"
    finally:
        feeding.cancel()
        await process.stop()
    took = time.monotonic() - began
    said, complaint = output.text(), errors.text().strip()
    if not failure and code:
        failure = complaint or f"exit code {code}"
    if not failure and output.full:
        failure = f"it wrote more than {MAX_OUTPUT_BYTES} bytes"
    return HookRun(code, said, complaint, took, failure)


async def _feed(process: Any, data: bytes) -> None:
    """Write the input of a hook, which may exit without reading it."""
    with contextlib.suppress(ToolError, OSError):
        await process.write(data)
        await process.close_input()


def parse_answer(name: HookName, output: str) -> tuple[Any, str]:
    """Return a hook's answer in the form of a plugin's, or None, and what is wrong with it.

    At an event that can be vetoed, everything but an approval or no output blocks.
    """
    text = output.strip()
    if not text:
        return None, ""
    try:
        said = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        problem = f"its output is not JSON ({error})"
        return (block_answer(problem) if name in VETOES else None), problem
    strange = [word for word in decision_words(said) if word not in (*ALLOWING, "block")]
    if name in VETOES and (veto := veto_in(said)) is not None:
        if not decision_words(said):
            return veto, veto["message"]
        return veto, f"{strange[0]!r} is taken for `block`" if strange else ""
    match said:
        case {"context": str(context)}:
            return {"context": context}, ""
        case {"decision": _} | {"action": _}:
            return None, "" if veto_in(said) is None else f"{name} cannot forbid anything"
        case {} if not said:
            return None, ""
        case _:
            return None, "its output is none of the documented answers"


def find_program(command: str, search_path: str) -> tuple[Path | None, str]:
    """Return the program file of a command, and what is wrong with it."""
    try:
        first = split_command(command)[0]
    except ValueError as error:
        return None, f"cannot be understood: {error}"
    folders = [Path()] if os.sep in first else [Path(p) for p in search_path.split(os.pathsep)]
    found = [folder / first for folder in folders if (folder / first).is_file()]
    if not found:
        return None, f"there is no program {first}"
    usable = next((path for path in found if os.access(path, os.X_OK)), None)
    if usable is None:
        return found[0], f"{first} is not executable (chmod +x)"
    return usable, ""


def hook_files(command: str, program: Path) -> list[Path]:
    """Return the program of a hook and the files among its arguments, such as a script."""
    return [program, *(path for path in map(Path, split_command(command)[1:]) if path.is_file())]


class _Bounded:
    """Collects the first bytes of a stream; `full` says that there were more."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, bytearray()
        self.full = False

    def add(self, data: bytes) -> None:
        room = self._most - len(self._bytes)
        self.full = self.full or len(data) > room
        self._bytes += data[:room]

    def text(self) -> str:
        return self._bytes.decode("utf-8", "replace")


log = logging.getLogger(__name__)

FILE = "shell-hooks-allowlist.json"
LOCK_SECONDS = 10


class HookApproval(msgspec.Struct, frozen=True):
    event: str
    command: str
    given_at: float = 0.0

    @property
    def name(self) -> str:
        """The event and the command, as the confirmed policy stores them."""
        return f"{self.event}: {self.command}"


class _File(msgspec.Struct, frozen=True):
    allowed: tuple[HookApproval, ...] = ()


class HookApprovals:
    """The approved (event, command) pairs, stored in `<home>/shell-hooks-allowlist.json`.

    A changed command needs a new approval. A file that cannot be read approves nothing.
    """

    def __init__(self, root: Path) -> None:
        self._root, self._path = root, root / FILE

    def find(self, event: str, command: str) -> HookApproval | None:
        """Return the approval, if it is part of the confirmed policy."""
        try:
            held = self.all()
        except ConfigError as error:
            log.warning("no shell hook is allowed: %s", error)
            return None
        found = (one for one in held if (one.event, one.command) == (event, command))
        given = next(found, None)
        return given if given and policy.is_confirmed_hook(self._root, given.name) else None

    def allow(self, event: str, command: str) -> None:
        """Store the approval that a person gave."""
        given = HookApproval(event, command, time.time())
        policy.confirm_entry(self._root, policy.HOOKS, given.name)
        self._change(
            lambda held: (
                *(one for one in held if (one.event, one.command) != (event, command)),
                given,
            )
        )

    def revoke(self, command: str) -> int:
        """Revoke the approvals of a command and return their number. Raises `ConfigError`."""
        count = sum(each.command == command for each in self.all())
        if count:
            self._change(lambda held: tuple(each for each in held if each.command != command))
        return count

    def all(self) -> tuple[HookApproval, ...]:
        """Return all approvals. Raises `ConfigError` if the file cannot be read."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_File).allowed
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise unusable(self._path, error) from error
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"cannot be read: {error}",
                where=tilde(self._path),
                hint="delete the file; each hook is asked about again",
            ) from error

    def _change(
        self, change: Callable[[tuple[HookApproval, ...]], tuple[HookApproval, ...]]
    ) -> None:
        with change_lock(Path(f"{self._path}.lock"), LOCK_SECONDS, tilde(self._path)):
            after = _File(change(self.all()))
            encoded = msgspec.json.format(msgspec.json.encode(after), indent=2)
            try:
                write_own(self._root, self._path, encoded + b"\n", mode=0o600)
            except OSError as error:
                raise unusable(self._path, error) from error


Ask = Callable[[str, str], Awaitable[bool]]  #: Asks the user to approve a command for an event.
LONGEST = 300.0  #: Time limit in seconds for a hook whose setting has no limit (0).
ACCEPTING = "`hermes --accept-hooks …` or `hooks_auto_accept: true` lets hooks run unasked"


class HookOptions(msgspec.Struct, frozen=True, kw_only=True):
    environment: Mapping[str, str]
    """The environment of hooks: `config.environment.child_environment()`, without secrets."""
    folder: Callable[[], str]  #: Returns the working folder at the time a hook runs.
    ask: Ask | None = None  #: None if no user can answer.
    auto_accept: bool = False  #: `hooks_auto_accept`, `--accept-hooks`: no approval is needed.
    boundary: Any = None  #: The `hermes.terminal.Boundary` that keeps hooks from Hermes' own files.


class HookSpec(msgspec.Struct, frozen=True):
    """One entry of the setting `hooks`."""

    event: HookName
    command: str
    timeout: float
    pattern: re.Pattern[str] | None = None  #: The tools it applies to; None for all.

    def is_for(self, tool_name: object) -> bool:
        if self.pattern is None or not isinstance(tool_name, str):
            return True
        return self.pattern.fullmatch(tool_name) is not None


def parse_hooks(
    setting: Mapping[str, Sequence[ShellHook]], reports: ProblemReporter
) -> tuple[HookSpec, ...]:
    """Return the hooks of the setting, in its order, and report invalid entries.

    A hook with an invalid matcher applies to all tools, since it may exist to block something.
    """
    found: list[HookSpec] = []
    for key, entries in setting.items():
        try:
            event = parse_event(key)
        except ValueError as error:
            reports.report(("hooks", key), f"hooks.{key}: {error}")
            continue
        for entry in entries:
            pattern = _pattern(entry.matcher, key, reports)
            found.append(HookSpec(event, entry.command, entry.timeout or LONGEST, pattern))
    return tuple(found)


def _pattern(matcher: str, key: str, reports: ProblemReporter) -> re.Pattern[str] | None:
    try:
        return re.compile(matcher) if matcher else None
    except re.error as error:
        text = f"matcher {matcher!r} is not a pattern ({error}); the hook is for all tools"
        reports.report(("hooks", key, matcher), f"hooks.{key}: {text}")
        return None


class ShellHooks:
    """Runs the user's commands at events of the agent, in the order of the settings.

    A command runs only with the user's approval. At an event that can be vetoed, a hook blocks if
    it fails, takes too long, or lacks an approval that no user can give. A declined hook is
    skipped.
    """

    def __init__(
        self,
        hooks: Sequence[HookSpec],
        approvals: HookApprovals,
        options: HookOptions,
        reports: ProblemReporter,
    ) -> None:
        self._hooks: dict[HookName, list[HookSpec]] = {}
        for hook in hooks:
            self._hooks.setdefault(hook.event, []).append(hook)
        self._approvals, self._options, self._reports = approvals, options, reports
        self._decided: dict[tuple[str, str], bool] = {}
        self._asking = asyncio.Lock()
        self._lifeline: Any = None

    def listens(self, name: HookName) -> bool:
        return name in self._hooks

    async def settle(self) -> None:
        """Ask now for all missing approvals, rather than in the middle of a turn."""
        for hooks in self._hooks.values():
            for hook in hooks:
                await self._is_approved(hook)

    async def run(self, name: HookName, details: Mapping[str, Any]) -> list[Any]:
        answers: list[Any] = []
        for hook in self._hooks.get(name, ()):
            if not hook.is_for(details.get("tool_name")):
                continue
            answer = await self._answer(hook, details)
            if answer is None:
                continue
            answers.append(answer)
            if name in VETOES and decision_words(answer):
                break
        return answers

    async def _answer(self, hook: HookSpec, details: Mapping[str, Any]) -> Any:
        approved = await self._is_approved(hook)
        if approved is None:
            return self._failed(
                hook, f"it is not approved yet, and no person can be asked; {ACCEPTING}"
            )
        if not approved:
            return None
        ran = await self.run_one(hook, details)
        if ran.failure:
            return self._failed(hook, ran.failure)
        answer, problem = parse_answer(hook.event, ran.output)
        if problem:
            log.warning("shell hook %r for %s: %s", hook.command, hook.event, problem)
        return answer

    async def run_one(self, hook: HookSpec, details: Mapping[str, Any]) -> HookRun:
        """Run a hook without asking for approval."""
        if self._lifeline is None:  # starts a process, so only when a hook runs
            from hermes.terminal import Lifeline

            self._lifeline = Lifeline(self._options.boundary)
        folder = self._options.folder()
        return await run_command(
            hook.command,
            payload(hook.event, details, folder),
            hook.timeout,
            environment=self._options.environment,
            cwd=folder,
            lifeline=self._lifeline,
        )

    async def _is_approved(self, hook: HookSpec) -> bool | None:
        """Return the user's decision, or None if no user can be asked."""
        key = (str(hook.event), hook.command)
        async with self._asking:
            if self._options.auto_accept or self._approvals.find(*key) is not None:
                return True
            if key not in self._decided:
                if self._options.ask is None:
                    return None
                self._decided[key] = await self._options.ask(*key)
                if self._decided[key]:
                    self._remember(*key)
                elif hook.event in VETOES:
                    text = f"the check {hook.command!r} is left out in this session: you declined"
                    self._reports.report((*key, "declined"), text)
            return self._decided[key]

    def _remember(self, event: str, command: str) -> None:
        try:
            self._approvals.allow(event, command)
        except ConfigError as error:
            text = f"your approval is valid only until the program exits: {error}"
            self._reports.report("consents", f"{text} ({error.hint})" if error.hint else text)

    def _failed(self, hook: HookSpec, why: str) -> Any:
        text = f"shell hook {hook.command!r} for {hook.event} failed: {why}"
        self._reports.report((hook.event, hook.command), text)
        return block_answer(text) if hook.event in VETOES else None

    async def close(self) -> None:
        """Stop the processes that hooks left running."""
        if self._lifeline is not None:
            await self._lifeline.close()
            self._lifeline = None

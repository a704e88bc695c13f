"""Commands of the user that run at events of the agent (the setting `hooks`)."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import msgspec

from hermes.config.settings.abilities import ShellHook
from hermes.core.errors import ConfigError
from hermes.core.hooks import HookName
from hermes.plugins.consents import Consents
from hermes.plugins.events import VETOES, block, event_named, words_of
from hermes.plugins.hook_command import Ran, Where, answer_of, payload, run_command
from hermes.plugins.reports import Reports

log = logging.getLogger(__name__)

Ask = Callable[[str, str], Awaitable[bool]]
"""Asks the user whether a command may run at an event."""
LONGEST = 300.0
"""Seconds a hook may run when the setting gives no limit (0)."""
ACCEPTING = "`hermes --accept-hooks …` or `hooks_auto_accept: true` lets hooks run unasked"


class HookOptions(msgspec.Struct, frozen=True, kw_only=True):
    environment: Mapping[str, str]
    """All that hooks get of it: `config.environment.child_environment()`, without secrets."""
    folder: Callable[[], str]
    """The working folder, as it is when a hook runs."""
    ask: Ask | None = None
    """None when nobody is there."""
    auto_accept: bool = False
    """`hooks_auto_accept`, `--accept-hooks`: no consent is needed."""


class Hook(msgspec.Struct, frozen=True):
    """One entry of the setting."""

    event: HookName
    command: str
    timeout: float
    pattern: re.Pattern[str] | None = None
    """Which tools it is for; None is all."""

    def is_for(self, tool_name: object) -> bool:
        if self.pattern is None or not isinstance(tool_name, str):
            return True
        return self.pattern.fullmatch(tool_name) is not None


def hooks_of(setting: Mapping[str, Sequence[ShellHook]], reports: Reports) -> tuple[Hook, ...]:
    """The hooks of the setting, in its order. What is wrong is reported; a hook whose matcher is
    no pattern is for all tools, since it may be there to forbid something."""
    found: list[Hook] = []
    for key, entries in setting.items():
        try:
            event = event_named(key)
        except ValueError as error:
            reports.once(("hooks", key), f"hooks.{key}: {error}")
            continue
        for entry in entries:
            pattern = _pattern(entry.matcher, key, reports)
            found.append(Hook(event, entry.command, entry.timeout or LONGEST, pattern))
    return tuple(found)


def _pattern(matcher: str, key: str, reports: Reports) -> re.Pattern[str] | None:
    try:
        return re.compile(matcher) if matcher else None
    except re.error as error:
        text = (
            f"hooks.{key}: matcher {matcher!r} is no pattern ({error}); the hook is for all tools"
        )
        reports.once(("hooks", key, matcher), text)
        return None


class ShellHooks:
    """Runs the hooks of an event one after another, in the order of the settings.

    None runs without consent. At an event that can be vetoed, a hook that fails, takes too long,
    or waits for a consent that nobody can give, forbids; one that the user declined is left out.
    """

    def __init__(
        self, hooks: Sequence[Hook], consents: Consents, options: HookOptions, reports: Reports
    ) -> None:
        self._hooks: dict[HookName, list[Hook]] = {}
        for hook in hooks:
            self._hooks.setdefault(hook.event, []).append(hook)
        self._consents, self._options, self._reports = consents, options, reports
        self._decided: dict[tuple[str, str], bool] = {}
        self._asking = asyncio.Lock()
        self._lifeline: Any = None

    def listens(self, name: HookName) -> bool:
        return name in self._hooks

    async def settle(self) -> None:
        """Ask now about every hook that needs consent, rather than in the middle of a turn."""
        for hooks in self._hooks.values():
            for hook in hooks:
                await self._consent(hook)

    async def run(self, name: HookName, details: Mapping[str, Any]) -> list[Any]:
        answers: list[Any] = []
        for hook in self._hooks.get(name, ()):
            if not hook.is_for(details.get("tool_name")):
                continue
            answer = await self._answer(hook, details)
            if answer is None:
                continue
            answers.append(answer)
            if name in VETOES and words_of(answer):
                break
        return answers

    async def _answer(self, hook: Hook, details: Mapping[str, Any]) -> Any:
        consent = await self._consent(hook)
        if consent is None:
            return self._failed(
                hook, f"it has no consent yet, and nobody can be asked; {ACCEPTING}"
            )
        if not consent:
            return None
        ran = await self.run_one(hook, details)
        if ran.failure:
            return self._failed(hook, ran.failure)
        answer, problem = answer_of(hook.event, ran.output)
        if problem:
            log.warning("shell hook %r for %s: %s", hook.command, hook.event, problem)
        return answer

    async def run_one(self, hook: Hook, details: Mapping[str, Any]) -> Ran:
        """Runs a hook without asking."""
        if self._lifeline is None:  # starts a process: only when a hook really runs
            self._lifeline = import_module("hermes.terminal.local.lifeline").Lifeline()
        folder = self._options.folder()
        where = Where(folder, self._options.environment, self._lifeline)
        data = payload(hook.event, details, folder)
        return await run_command(hook.command, data, hook.timeout, where)

    async def _consent(self, hook: Hook) -> bool | None:
        """True or False as the user decided; None when nobody decided."""
        key = (str(hook.event), hook.command)
        async with self._asking:
            if self._options.auto_accept or self._consents.find(*key) is not None:
                return True
            if key not in self._decided:
                if self._options.ask is None:
                    return None
                self._decided[key] = await self._options.ask(*key)
                if self._decided[key]:
                    self._remember(*key)
                elif hook.event in VETOES:
                    text = f"the check {hook.command!r} is left out in this session: you declined"
                    self._reports.once((*key, "declined"), text)
            return self._decided[key]

    def _remember(self, event: str, command: str) -> None:
        try:
            self._consents.allow(event, command)
        except ConfigError as error:
            text = f"your consent holds only until the program ends: {error}"
            self._reports.once("consents", f"{text} ({error.hint})" if error.hint else text)

    def _failed(self, hook: Hook, why: str) -> Any:
        text = f"shell hook {hook.command!r} for {hook.event} failed: {why}"
        self._reports.once((hook.event, hook.command), text)
        return block(text) if hook.event in VETOES else None

    async def close(self) -> None:
        """Ends what hooks left running."""
        if self._lifeline is not None:
            await self._lifeline.close()
            self._lifeline = None

"""Call the hooks of plugins, then the shell hooks, at the events of `HookName`."""

import asyncio
import copy
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Protocol

from hermes.core.ports import HookName
from hermes.plugins.isolation import AcceptedArguments, ProblemReporter, call_plugin, describe_error
from hermes.util.text import cut_middle

# The arguments of each hook and the meaning of its answers.
#
# The first ten rows are documented interfaces; the others are extensions.

_CALL = ("tool_name", "args", "task_id")
_REQUEST = ("session_id", "model", "provider")
_TALK = ("conversation_history", "model", "platform")

ARGUMENTS: Mapping[HookName, tuple[str, ...]] = {
    HookName.PRE_TOOL_CALL: _CALL,
    HookName.POST_TOOL_CALL: (*_CALL, "result"),
    HookName.PRE_LLM_CALL: ("session_id", "user_message", "is_first_turn", *_TALK),
    HookName.POST_LLM_CALL: ("session_id", "user_message", "assistant_response", *_TALK),
    HookName.ON_SESSION_START: ("session_id", "model", "platform"),
    HookName.ON_SESSION_END: ("session_id", "completed", "interrupted", "model", "platform"),
    HookName.ON_SESSION_FINALIZE: ("session_id", "platform"),
    HookName.ON_SESSION_RESET: ("session_id", "platform"),
    HookName.SUBAGENT_STOP: (
        "parent_session_id", "child_role", "child_summary", "child_status", "duration_ms",
    ),
    HookName.PRE_GATEWAY_DISPATCH: ("event", "gateway", "session_store"),
    HookName.TRANSFORM_TOOL_RESULT: (*_CALL, "result"),
    HookName.TRANSFORM_TERMINAL_OUTPUT: ("output",),
    HookName.PRE_API_REQUEST: (*_REQUEST, "message_count", "tool_count"),
    HookName.POST_API_REQUEST: (*_REQUEST, "usage", "finish_reason", "duration_ms"),
    HookName.PRE_APPROVAL: ("tool_name", "command", "kind"),
    HookName.POST_APPROVAL: ("tool_name", "command", "kind", "answer"),
}  # fmt: skip
"""Keyword arguments of every hook."""

VETOES = frozenset({HookName.PRE_TOOL_CALL})
"""Hooks that may block what is about to happen. One that fails blocks it, too."""

ALLOWING = ("", "allow", "approve", "continue")  #: Decisions in an answer that block nothing.
NO_ANSWER = "is neither an approval nor None, so it blocks"

MAX_TEXT_CHARS = 50_000  #: Characters of context or of a reason that a hook can return.

CHAINED = {HookName.TRANSFORM_TOOL_RESULT: "result", HookName.TRANSFORM_TERMINAL_OUTPUT: "output"}
"""Hooks that change a text, by the argument that passes it from one hook to the next."""


def parse_event(name: str) -> HookName:
    """Return the event of this name. Raises `ValueError` with a suggestion."""
    try:
        return HookName(name)
    except ValueError:
        close = get_close_matches(str(name), list(HookName), n=1)
        guess = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(HookName)}"
        raise ValueError(f"there is no hook {str(name)!r}{guess}") from None


def argument_mismatch(name: HookName, details: Mapping[str, Any]) -> str:
    """Return how the arguments of a call differ from the table, or ""."""
    expected = set(ARGUMENTS[name])
    missing, unknown = expected - details.keys(), details.keys() - expected
    parts = [
        f"{what}: {', '.join(sorted(names))}"
        for what, names in (("missing", missing), ("not in the table", unknown))
        if names
    ]
    return "; ".join(parts)


def block_answer(message: str) -> dict[str, str]:
    """Return the answer that blocks a call."""
    return {"action": "block", "message": cut_middle(message, MAX_TEXT_CHARS)}


def decision_words(answer: Any) -> list[Any]:
    """Return the decisions in an answer, such as `block` or `allow`; mostly none."""
    if not isinstance(answer, Mapping):
        return []
    return [answer[key] for key in ("action", "decision") if answer.get(key) is not None]


def veto_in(answer: Any, source: str = "a hook") -> dict[str, str] | None:
    """Return the block that an answer to an event of `VETOES` means, or None.

    Only None, True, an empty dict, an allowing word and a dict with one (or with nothing but the
    context of another event) block nothing. Anything else may mean `deny`, such as False.
    """
    words = decision_words(answer)
    if not words:
        word = isinstance(answer, str) and bool(answer) and answer in ALLOWING
        silent = isinstance(answer, Mapping) and set(answer) <= {"context"}
        if answer is None or answer is True or word or silent:
            return None
        return block_answer(f"the answer {cut_middle(repr(answer), 200)} of {source} {NO_ANSWER}")
    if all(word in ALLOWING for word in words):
        return None
    reasons = (answer.get(key) for key in ("message", "reason"))
    return block_answer(
        next((each for each in reasons if each and isinstance(each, str)), "by a hook")
    )


def shorten_context(answer: Any) -> Any:
    """Limit the context that an answer to `pre_llm_call` adds to the request."""
    if isinstance(answer, dict) and isinstance(answer.get("context"), str):
        return {**answer, "context": cut_middle(answer["context"], MAX_TEXT_CHARS)}
    return cut_middle(answer, MAX_TEXT_CHARS) if isinstance(answer, str) else answer


log = logging.getLogger(__name__)

MAX_HANGS = 3
"""A listener that hangs so often in a row is not called any more, nor are the others of a plugin
whose hooks did nothing else so often. What may veto is still asked: without it nothing may run."""


class ShellHookRunner(Protocol):
    """The part of `ShellHooks` that `HookRunner` uses."""

    def listens(self, name: HookName) -> bool: ...

    async def run(self, name: HookName, details: Mapping[str, Any]) -> list[Any]: ...


class HookListener:
    """One function of a plugin that is called at an event."""

    def __init__(self, plugin: str, callback: Callable[..., Any]) -> None:
        self.plugin, self._callback = plugin, callback
        self._known = AcceptedArguments(callback)
        self.hangs = 0  #: Consecutive calls that did not return in time.

    def start(self, details: Mapping[str, Any]) -> "asyncio.Task[Any]":
        given = {name: _own(value) for name, value in self._known.select(details).items()}
        return asyncio.ensure_future(call_plugin(self._callback, **given))


class HookRunner:
    """Implements `core.hooks.Hooks`.

    Listeners run one after another, in the order of registration, each for at most `timeout`
    seconds (`plugins.hook_timeout`; 0 means no limit). A failure is shown to the user once per
    plugin and logged once per event. A failing listener of an event that can be vetoed is a veto.
    """

    def __init__(
        self, *, timeout: float, reports: ProblemReporter, shell: ShellHookRunner | None = None
    ) -> None:
        self._timeout, self._reports, self._shell = timeout, reports, shell
        self._listeners: dict[HookName, list[HookListener]] = {}
        self._stragglers: set[asyncio.Task[Any]] = set()
        self._hangs: Counter[str] = Counter()  #: Consecutive timeouts of all hooks of a plugin.
        self._deviant: set[HookName] = set()
        self._active = {name for name in HookName if shell is not None and shell.listens(name)}

    def add(self, plugin: str, name: HookName, callback: Callable[..., Any]) -> None:
        self._listeners.setdefault(name, []).append(HookListener(plugin, callback))
        self._active.add(name)

    def listens(self, name: HookName) -> bool:
        """Return whether the event has listeners; otherwise its arguments need not be prepared."""
        return name in self._active

    def listeners(self) -> dict[HookName, list[str]]:
        """Return the names of the plugins that listen, by event."""
        return {name: [each.plugin for each in held] for name, held in self._listeners.items()}

    async def fire(self, name: HookName, **details: Any) -> list[Any]:
        if name not in self._active:
            return []
        odd = argument_mismatch(name, details)
        if odd and name not in self._deviant:
            self._deviant.add(name)
            log.error("hook %s is called with other arguments than documented: %s", name, odd)
        answers: list[Any] = []
        for listener in self._listeners.get(name, ()):
            answer = await self._answer(name, listener, details)
            if answer is None:
                continue
            if name in VETOES:
                veto = veto_in(answer, f"plugin {listener.plugin}")
                if veto is not None and not decision_words(answer):
                    text = f"plugin {listener.plugin}: its hook {name} {veto['message']}"
                    self._reports.report((listener.plugin, name, "shape"), text)
                if veto is not None:
                    return [*answers, veto]
            answers.append(answer)
            if name in CHAINED and isinstance(answer, str):
                details[CHAINED[name]] = answer
        if self._shell is not None and self._shell.listens(name):
            answers += await self._shell.run(name, details)
        return [*map(shorten_context, answers)] if name is HookName.PRE_LLM_CALL else answers

    async def _answer(self, name: HookName, listener: HookListener, details: dict[str, Any]) -> Any:
        """Return the answer of a listener; None, or a veto where possible, if it failed."""
        hangs = max(listener.hangs, 0 if name in VETOES else self._hangs[listener.plugin])
        if hangs >= MAX_HANGS:
            return self._failed(name, listener, "it hangs and is not called any more")
        task = listener.start(details)
        try:
            await asyncio.wait({task}, timeout=self._timeout or None)
        except asyncio.CancelledError:
            self._leave(task)
            raise
        if not task.done():
            self._leave(task)
            listener.hangs += 1
            self._hangs[listener.plugin] += 1
            return self._failed(name, listener, f"it took longer than {self._timeout:g} seconds")
        listener.hangs = self._hangs[listener.plugin] = 0
        if task.cancelled():
            return self._failed(name, listener, "it was cancelled")
        if (failure := task.exception()) is not None:
            return self._failed(name, listener, describe_error(failure), failure)
        return task.result()

    def _failed(
        self, name: HookName, listener: HookListener, why: str, cause: BaseException | None = None
    ) -> Any:
        plugin = listener.plugin
        text = f"plugin {plugin}: its hook {name} failed: {why}"
        self._reports.report((plugin, name), text, cause, series=(plugin, "hooks"))
        if name not in VETOES:
            return None
        advice = f"`hermes plugins disable {plugin}` switches the plugin off"
        return block_answer(f"{text}; what it should have checked is not done ({advice})")

    def _leave(self, task: asyncio.Task[Any]) -> None:
        """Cancel a call without waiting for it. A thread cannot be stopped and keeps running."""
        task.cancel()
        self._stragglers.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._stragglers.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it


def _own(value: Any) -> Any:
    """Return a copy, so that a listener cannot change the arguments of a tool call."""
    return copy.deepcopy(value) if isinstance(value, dict | list) else value

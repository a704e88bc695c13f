"""The context engine of a session: which one, its thread, and the models it may ask."""

import asyncio
import copy
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from hermes.app.providers import AuxiliaryModels
from hermes.config.home import Home
from hermes.config.settings import Settings
from hermes.context import (
    CompressionOptions,
    ContextCompressor,
    ContextEngine,
    Dicts,
    SummaryAnswer,
    SummaryModel,
    find_engine,
)
from hermes.core.errors import ConfigError, HermesError, Interrupted
from hermes.core.messages import Message, from_dict, to_dict
from hermes.core.model import ModelRequest, ToolSpec
from hermes.core.tool import Tool, ToolContext
from hermes.providers import Target
from hermes.store import LoggedMessage, SessionStore
from hermes.tools import result_text
from hermes.util.concurrency import in_thread

log = logging.getLogger(__name__)

TASK = "compression"
STOPPED = "the compaction was stopped"
_QUICK_STARTS = (ContextEngine.on_session_start, ContextCompressor.on_session_start)
"""Methods `on_session_start` that read and wait for nothing."""
T = TypeVar("T")


def make_engine(
    settings: Settings,
    home: Home,
    target: Target,
    registered: Sequence[ContextEngine] = (),
    tell: Callable[[str], None] = log.warning,
) -> ContextEngine:
    """Return the engine that `context.engine` names; `registered` are engines of plugins. `tell`
    gets a warning if there is no such engine."""
    given = settings.compression
    engine = find_engine(
        settings.context.engine,
        [engine_folder(home)],
        registered=registered,
        context_length=target.profile.context_length,
        compression=CompressionOptions(
            threshold=given.threshold,
            target_ratio=given.target_ratio,
            protect_last_n=given.protect_last_n,
        ),
        tell=tell,
    )
    if engine not in registered:
        return engine
    try:
        return copy.deepcopy(engine)  # each conversation needs its own
    except TypeError as error:
        raise ConfigError(
            f"the context engine {engine.name} cannot be used in several conversations: {error}",
            hint="it must be possible to copy it; or put it into plugins/context_engine/",
        ) from error


def engine_folder(home: Home) -> Path:
    return home.root / "plugins" / "context_engine"


class LazySummaryModels(Sequence[SummaryModel]):
    """Resolved at the first access, because few conversations are ever compacted."""

    def __init__(self, find: Callable[[], list[SummaryModel]]) -> None:
        self._find = cache(find)

    def __getitem__(self, index: Any) -> Any:
        return self._find()[index]

    def __len__(self) -> int:
        return len(self._find())


class EngineTask:
    """The model requests of one call of an engine, which end when the caller stops waiting."""

    def __init__(self) -> None:
        self._asking: set[asyncio.Task[Any] | None] = set()
        self._over = False

    def end(self) -> None:
        """Cancel the requests and refuse further ones."""
        self._over = True
        self.interrupt()

    def interrupt(self) -> None:
        for task in self._asking:
            if task is not None:
                task.cancel()

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        if self._over:
            work.close()
            raise Interrupted(STOPPED)
        task = asyncio.current_task()
        self._asking.add(task)
        try:
            return await work
        except asyncio.CancelledError:
            raise Interrupted(STOPPED) from None
        finally:
            self._asking.discard(task)


_engine_task: ContextVar[EngineTask] = ContextVar("engine_task")  #: Set in an engine's thread.


class ContextEngineRunner:
    """One engine and what it may use from its thread: models and the log."""

    def __init__(
        self,
        engine: ContextEngine,
        auxiliary: AuxiliaryModels,
        store: SessionStore,
        timeout: float = 0.0,
    ) -> None:
        """`timeout` is `context.timeout`, for engines of plugins; the requests of the built-in ones
        have limits of their own."""
        self.engine, self._auxiliary, self._store = engine, auxiliary, store
        self._timeout = 0.0 if isinstance(engine, ContextCompressor) else timeout
        self._hangs = False  #: An engine that did not return is not called again.
        self._loop = asyncio.get_running_loop()
        self._stray = EngineTask()  #: For threads that the engine itself starts.

    async def begin(self, session_id: str, home: Home, platform: str, parent: str = "") -> None:
        """Inform the engine about its conversation.

        The engine of a plugin is called in a thread, because it may read the history. The built-in
        engines only store what they are given, and a thread for that would cost each session more
        than the call.
        """
        engine, inform = self.engine, self.engine.on_session_start
        try:
            details = {
                "hermes_home": str(home.root),
                "platform": platform,
                "model": self._auxiliary.main.model,
                "context_length": engine.context_length,
                "summarisers": self.summarisers(),
                "history": lambda: self._wait(self.history(session_id)),
                **({"parent_session_id": parent} if parent else {}),
            }
            if type(engine).on_session_start in _QUICK_STARTS:
                inform(session_id, **details)
            else:
                await in_thread(inform, session_id, **details)
        except Exception as error:  # an engine may be a plugin
            raise _unusable(engine, "cannot begin", error) from error

    async def end(self, session_id: str, messages: Sequence[Message]) -> None:
        """Inform the engine that the session was closed. A failure is logged."""
        if type(self.engine).on_session_end is not ContextEngine.on_session_end:
            said = [to_dict(message) for message in messages]
            await self._call_logged(self.engine.on_session_end, session_id, said)

    async def reset(self) -> None:
        """Inform the engine that the user started a new conversation. A failure is logged."""
        await self._call_logged(self.engine.on_session_reset)

    async def _call_logged(self, method: Callable[..., None], *details: Any) -> None:
        try:
            await in_thread(method, *details)
        except Exception:  # an engine may be a plugin
            log.exception("the context engine failed at the end of its conversation")

    def summarisers(self) -> Sequence[SummaryModel]:
        """Return the models of the task, followed by that of the conversation.

        A model that the settings name is checked now; otherwise they are resolved when needed.
        """
        found = LazySummaryModels(self._find_summarisers)
        return found if self._auxiliary.is_auto(TASK) else list(found)

    def _find_summarisers(self) -> list[SummaryModel]:
        targets = self._auxiliary.targets(TASK)
        found = [self._summariser(targets)]
        main = self._auxiliary.main
        key = attrgetter("provider", "model", "base_url")
        if all(key(target) != key(main) for target in targets):
            found.append(self._summariser((main,)))
        return found

    def _summariser(self, targets: Sequence[Target]) -> SummaryModel:
        def ask(messages: Dicts, max_tokens: int) -> SummaryAnswer:
            request = ModelRequest(tuple(map(from_dict, messages)), max_tokens=max_tokens)
            reply = self._wait(self._auxiliary.ask_one_of(targets, TASK, request))
            return SummaryAnswer(reply.message.text, reply.model)

        return SummaryModel(ask, targets[0].profile.context_length)

    async def history(self, session_id: str) -> Dicts:
        """Return all messages of the session and of those it continues after compactions."""
        line = [session_id]
        for info in await self._store.ancestors(session_id):
            if info.end_reason != "compression":
                break
            line.append(info.id)
        seen: set[object] = set()
        found: list[Message] = []
        for one in reversed(line):
            for entry in await self._store.entries(one):
                key = entry.id if isinstance(entry, LoggedMessage) else str(to_dict(entry))
                if key not in seen:
                    found.append(entry.message if isinstance(entry, LoggedMessage) else entry)
                    seen.add(key)
        return [to_dict(message) for message in found]

    async def run(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run `work` of the engine in a thread. Cancellation ends its model requests.

        Raises `HermesError` if it takes longer than the timeout, and at each later call.
        """
        if self._hangs:
            raise self._timed_out()
        task = EngineTask()

        def begin() -> T:
            _engine_task.set(task)
            return work(*args, **kwargs)

        call = asyncio.ensure_future(in_thread(begin))
        try:
            await asyncio.wait({call}, timeout=self._timeout or None)
            if call.done():
                return call.result()
        except asyncio.CancelledError:
            self._leave(task, call)
            raise
        self._leave(task, call)
        self._hangs = True
        raise self._timed_out()

    def _leave(self, task: EngineTask, call: "asyncio.Future[Any]") -> None:
        call.cancel()
        task.end()
        self._stray.interrupt()

    def _timed_out(self) -> HermesError:
        return HermesError(
            f"the context engine {self.engine.name} did not end within {self._timeout:g} seconds "
            "and is not called again in this conversation",
            hint="another one: hermes config set context.engine compressor",
        )

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait in a thread for `work`, which runs in the event loop."""
        task = _engine_task.get(self._stray)
        return asyncio.run_coroutine_threadsafe(task.ask(work), self._loop).result()


def engine_tools(engine: ContextEngine) -> list[Tool]:
    """Return the tools of the engine."""
    try:
        return [_engine_tool(engine, schema) for schema in engine.get_tool_schemas()]
    except Exception as error:  # an engine may be a plugin
        raise _unusable(engine, "has tools that cannot be used", error) from error


def _unusable(engine: ContextEngine, why: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"the context engine {engine.name} {why}: {type(error).__name__}: {error}",
        hint="correct the plugin, or set context.engine to another one",
    )


def _engine_tool(engine: ContextEngine, schema: dict[str, Any]) -> Tool:
    spec = ToolSpec(schema["name"], schema.get("description", ""), schema["parameters"])

    async def handler(call: ToolContext, arguments: dict[str, Any]) -> str:
        session = call.session_id
        return result_text(
            await in_thread(engine.handle_tool_call, spec.name, arguments, session_id=session)
        )

    return Tool(spec, handler, toolset="context_engine")

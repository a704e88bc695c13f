"""The external memory provider of a session, as the agent meets it."""

from collections.abc import Sequence
from typing import Any

from hermes.agent import Agent
from hermes.app.extensions import Extensions
from hermes.app.last_turn import question_of
from hermes.app.request import SessionRequest
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.errors import ConfigError
from hermes.core.events import TurnFinished
from hermes.core.messages import Message, User
from hermes.core.openai_format import to_dict
from hermes.core.ports import ChildResult, ChildTask, Spawner
from hermes.core.tool import Tool, ToolContext
from hermes.memory import OnWrite
from hermes.util.threads import in_thread


class Remembering:
    """Over a `MemoryManager`, whose calls may wait and never raise. Those that wait run in a
    thread."""

    def __init__(self, manager: Any, tools: tuple[Tool, ...], block: str) -> None:
        """`tools` and `block`, the text for the system prompt, are as they were at the start."""
        self._manager, self.tools, self.block = manager, tools, block

    @property
    def on_write(self) -> OnWrite:
        """Hears of what the agent writes into its notes."""
        told: OnWrite = self._manager.on_memory_write
        return told

    async def recall(self, _history: Sequence[Message], question: User) -> str:
        """What is known that belongs to the user's message."""
        found: str = await in_thread(self._manager.prefetch_all, question.text)
        return found

    async def ended(self, agent: Agent, end: TurnFinished) -> None:
        """A turn is over; what was said is remembered if it was answered."""
        if end.completed:
            session, asked = agent.session_id, question_of(agent.history)
            self._manager.sync_all(asked, end.text, session_id=session)
            self._manager.queue_prefetch_all(asked, session_id=session)

    async def shortened(self, messages: Sequence[Message]) -> None:
        """The conversation is about to be compacted."""
        self._manager.on_pre_compress([to_dict(message) for message in messages])

    def spawner(self, inner: Spawner) -> Spawner:
        """`inner`, with what subagents were asked and answered told to the provider."""
        return _Heard(inner, self._manager)

    async def close(self, messages: Sequence[Message]) -> None:
        if messages:
            said = [to_dict(message) for message in messages]
            await in_thread(self._manager.on_session_end, said)
        await in_thread(self._manager.shutdown_all)


class _Heard:
    def __init__(self, inner: Spawner, manager: Any) -> None:
        self._inner, self._manager = inner, manager

    async def run(self, tasks: Sequence[ChildTask], call: ToolContext) -> list[ChildResult]:
        results = await self._inner.run(tasks, call)
        for task, result in zip(tasks, results, strict=True):
            child = result.session_id
            self._manager.on_delegation(task.goal, result.summary, child_session_id=child)
        return results


async def start_remembering(
    loaded: Loaded,
    home: Home,
    request: SessionRequest,
    extensions: Extensions,
    session_id: str,
    tell: Any,
) -> Remembering | None:
    """None without a provider, or when the request says so. One that cannot be used is told, and
    the conversation goes on without it."""
    settings = loaded.settings.memory
    if not settings.provider or request.skip_memory:
        return None
    # Imported here: only sessions with a provider need this code.
    from hermes.memory import (
        ManagerOptions,
        MemoryManager,
        ProviderLimits,
        load_provider,
        provider_tools,
    )

    try:
        provider = await in_thread(
            load_provider,
            settings.provider,
            home,
            loaded.variable,
            tuple(extensions.memory_providers.values()),
            disabled=loaded.settings.plugins.disabled,
            tell=tell,
        )
    except ConfigError as error:
        tell(f"memory: {error}" + (f" ({error.hint})" if error.hint else ""))
        return None
    limits = ProviderLimits(turn=settings.provider_timeout)
    manager = MemoryManager(tell=tell, options=ManagerOptions(limits=limits))
    manager.add_provider(provider)
    await in_thread(
        manager.initialize_all,
        session_id,
        platform=request.source,
        hermes_home=str(home.root),
        user_id=request.scope.user,
        chat_id=request.scope.chat,
    )
    block = await in_thread(manager.build_system_prompt)
    return Remembering(manager, provider_tools(manager), block)

"""The moments of a session and of its turns, told to plugins and shell hooks."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from hermes.agent import Agent
from hermes.app.last_turn import question_of
from hermes.core.events import TurnFinished
from hermes.core.hooks import HookName, Hooks
from hermes.core.messages import Message, User
from hermes.core.model import Model, ModelEvent, ModelRequest, ModelSource, Reply
from hermes.core.openai_format import to_dict
from hermes.providers.policy import ModelWrapper


class HookedSession:
    """What listeners hear of one session. Each moment costs nothing when nobody listens."""

    def __init__(
        self,
        hooks: Hooks,
        session_id: Callable[[], str],
        model: Callable[[], str],
        platform: str,
        *,
        new: bool,
    ) -> None:
        """`session_id` and `model` are those of the moment: a compaction moves on to another
        session, and the user may change the model."""
        self._hooks, self._session_id, self._new = hooks, session_id, new
        self._model, self._platform = model, platform

    async def opening(self, history: Sequence[Message], question: User) -> str:
        """What listeners want to be said beside the user's message."""
        if self._new:
            self._new = False
            await self._tell(HookName.ON_SESSION_START, model=self._model())
        if not self._hooks.listens(HookName.PRE_LLM_CALL):
            return ""
        answers = await self._hooks.fire(
            HookName.PRE_LLM_CALL,
            session_id=self._session_id(),
            user_message=question.text,
            conversation_history=[to_dict(message) for message in history],
            is_first_turn=not history,
            model=self._model(),
            platform=self._platform,
        )
        return "\n\n".join(filter(None, map(_context, answers)))

    async def ended(self, agent: Agent, end: TurnFinished) -> None:
        """A turn is over, however it went."""
        if end.completed and self._hooks.listens(HookName.POST_LLM_CALL):
            await self._tell(
                HookName.POST_LLM_CALL,
                user_message=question_of(agent.history),
                assistant_response=end.text,
                conversation_history=[to_dict(message) for message in agent.history],
                model=self._model(),
            )
        await self._tell(
            HookName.ON_SESSION_END,
            completed=end.completed,
            interrupted=end.interrupted,
            model=self._model(),
        )

    async def left(self) -> None:
        """Nobody goes on with it in this process."""
        await self._tell(HookName.ON_SESSION_FINALIZE)

    async def _tell(self, name: HookName, **details: Any) -> None:
        if self._hooks.listens(name):
            session = self._session_id()
            await self._hooks.fire(name, session_id=session, platform=self._platform, **details)

    def models(self, source: ModelSource) -> ModelSource:
        """`source`, with each of its calls told."""
        names = (HookName.PRE_API_REQUEST, HookName.POST_API_REQUEST)
        if not any(map(self._hooks.listens, names)):
            return source
        return HookedModels(source, self._hooks, self._session_id)


def _context(answer: Any) -> str:
    if isinstance(answer, dict):
        answer = answer.get("context")
    return answer.strip() if isinstance(answer, str) else ""


class HookedModels:
    """A `ModelSource` whose models tell of their calls."""

    def __init__(self, inner: ModelSource, hooks: Hooks, session_id: Callable[[], str]) -> None:
        self._inner, self._hooks, self._session_id = inner, hooks, session_id

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def provider(self) -> str:
        return self._inner.provider

    def for_turn(self) -> Model:
        return _HookedModel(self._inner.for_turn(), self._hooks, self._session_id)


class _HookedModel(ModelWrapper):
    def __init__(self, inner: Model, hooks: Hooks, session_id: Callable[[], str]) -> None:
        super().__init__(inner)
        self._hooks, self._session_id = hooks, session_id

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        details = {"session_id": self._session_id(), "provider": self.provider}
        began = asyncio.get_running_loop().time()
        await self._hooks.fire(
            HookName.PRE_API_REQUEST,
            model=self.name,
            message_count=len(request.messages),
            tool_count=len(request.tools),
            **details,
        )
        async with aclosing(self._inner.stream(request)) as events:
            async for event in events:
                if isinstance(event, Reply):
                    seconds = asyncio.get_running_loop().time() - began
                    await self._hooks.fire(
                        HookName.POST_API_REQUEST,
                        model=event.model or self.name,
                        usage=msgspec.structs.asdict(event.usage),
                        finish_reason=event.message.finish_reason,
                        duration_ms=round(seconds * 1000),
                        **details,
                    )
                yield event

"""`run_agent.AIAgent`: a synchronous agent for scripts."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from hermes.agent import Agent
from hermes.app import App, SessionRequest
from hermes.compat.runtime import TextProgress, tell
from hermes.compat.sessions import SessionDB
from hermes.config.home import current_home
from hermes.config.loader import Loaded, load
from hermes.core.errors import UsageError
from hermes.core.events import Event, Notice, QuestionAsked, ToolFinished, ToolStarted, TurnFinished
from hermes.core.messages import Message, User, from_dict, to_dict
from hermes.core.model import ReasoningDelta, TextDelta
from hermes.core.ports import Clarifier
from hermes.tools import selected_toolsets
from hermes.util.concurrency import LoopThread
from hermes.util.text import new_session_id, visible

if TYPE_CHECKING:
    from hermes.compat.models import LoadedPool

LONGEST = 100  #: Characters of a call's arguments in a line about it.


class Callbacks(msgspec.Struct, frozen=True):
    """Each is called in the agent's thread and must be quick; `on_question` may take its time."""

    on_event: Callable[[Event], None] | None = None  #: Every event; see `hermes.core.events`.
    on_text: Callable[[str], None] | None = None  #: The answer, piece by piece.
    on_reasoning: Callable[[str], None] | None = None
    on_tool: Callable[[str, str], None] | None = None
    """The name and the arguments (JSON) of each tool that starts."""
    on_question: Callable[[str, Sequence[str]], str] | None = None
    """Answers what the agent asks, given the choices it offers."""
    quiet: bool = True  #: False: standard error tells what the agent does.

    @property
    def clarifier(self) -> Clarifier | None:
        return None if self.on_question is None else _Asking(self.on_question)

    def see(self, event: Event) -> None:
        if self.on_event is not None:
            self.on_event(event)
        match event:
            case TextDelta() if self.on_text is not None:
                self.on_text(event.text)
            case ReasoningDelta() if self.on_reasoning is not None:
                self.on_reasoning(event.text)
            case ToolStarted() if self.on_tool is not None:
                self.on_tool(event.call.name, event.call.arguments)
            case _:
                pass
        if not self.quiet and (line := _line(event)):
            tell(line)

    @property
    def progress(self) -> TextProgress:
        return TextProgress(str if self.quiet else tell)


class _Asking:
    def __init__(self, answer: Callable[[str, Sequence[str]], str]) -> None:
        self._answer = answer

    async def clarify(self, question: QuestionAsked) -> str:
        return await asyncio.to_thread(self._answer, question.question, question.choices)


def _line(event: Event) -> str:
    match event:
        case ToolStarted():
            return visible(f"· {event.call.name} {event.call.arguments[:LONGEST]}")
        case ToolFinished() if event.failed:
            return f"  {event.name} failed: {event.result[:LONGEST]}"
        case Notice():
            return event.text
        case TurnFinished() if event.error:
            return f"{event.exit_reason}: {event.error}"
        case _:
            return ""


Dict = dict[str, Any]
Fallback = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


class AIAgent:
    """One conversation. The defaults are the settings of the current home.

    `fallback_model` is a dict with `provider` and `model`, or a list of such. `credential_pool` is
    one of `agent.credential_pool.load_pool`: its keys are sent to its provider. An existing
    `session_id` is continued. `request_overrides` are fields of each request of the conversation,
    such as `temperature`. Without `quiet_mode`, standard error shows what the agent does.
    Errors of a turn are in its result; only wrong use and wrong settings raise.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str | None = None,
        model: str = "",
        max_iterations: int | None = None,
        enabled_toolsets: Sequence[str] | None = None,
        disabled_toolsets: Sequence[str] | None = None,
        quiet_mode: bool = False,
        save_trajectories: bool = False,
        session_id: str | None = None,
        session_db: SessionDB | None = None,
        platform: str | None = None,
        user_id: str | None = None,
        skip_context_files: bool = False,
        skip_memory: bool = False,
        ephemeral_system_prompt: str | None = None,
        prefill_messages: Sequence[Dict] | None = None,
        fallback_model: Fallback = None,
        credential_pool: "LoadedPool | None" = None,
        max_tokens: int | None = None,
        reasoning_effort: str | None = None,
        request_overrides: Mapping[str, Any] | None = None,
        working_folder: str | Path | None = None,
        callbacks: Callbacks | None = None,
    ) -> None:
        if credential_pool is not None and provider not in (None, credential_pool.provider):
            raise UsageError(
                f"the credential pool is that of {credential_pool.provider}, not of {provider}",
                hint=f"pass load_pool({provider!r}), or no provider",
            )
        provider = provider or (credential_pool.provider if credential_pool is not None else None)
        overrides = {
            "model.default": model or None,
            "model.provider": provider or ("custom" if base_url else None),
            "model.base_url": base_url,
            "model.api_key": api_key,
            "model.max_tokens": max_tokens,
            "agent.max_turns": max_iterations,
            "agent.reasoning_effort": reasoning_effort,
            "agent.save_trajectories": save_trajectories or None,
            "fallback_providers": _chain(fallback_model),
        }
        self._home = current_home()
        given = {key: value for key, value in overrides.items() if value is not None}
        self._loaded: Loaded = load(self._home, given)
        self._state_db = session_db.db_path if session_db is not None else None
        self._callbacks = callbacks or Callbacks(quiet=quiet_mode)
        self.platform = platform or "cli"
        toolsets = [*(enabled_toolsets or ()), *(f"-{name}" for name in disabled_toolsets or ())]
        if disabled_toolsets and not enabled_toolsets:
            toolsets = [*selected_toolsets(self._loaded.settings, self.platform), *toolsets]
        self._request = SessionRequest(
            Path(working_folder or Path.cwd()),
            session_id=session_id or "",
            source=self.platform,
            user_id=user_id or "",
            clarifier=self._callbacks.clarifier,
            toolsets=tuple(toolsets),
            ephemeral_system_prompt=ephemeral_system_prompt or "",
            prefill=_messages(prefill_messages),
            skip_context_files=skip_context_files,
            skip_memory=skip_memory,
        )
        self._request_overrides = dict(request_overrides or {})
        self._loop = LoopThread("hermes-agent")
        self._app: App | None = None
        self._agent: Agent | None = None

    @property
    def session_id(self) -> str:
        """The current session; a compaction continues in another one."""
        return self._agent.session_id if self._agent else self._request.session_id

    @property
    def model(self) -> str:
        return self._agent.models.name if self._agent else self._loaded.settings.model.default

    @property
    def provider(self) -> str:
        return self._agent.models.provider if self._agent else self._loaded.settings.model.provider

    def run_conversation(
        self,
        user_message: str,
        system_message: str | None = None,
        conversation_history: Sequence[Dict] | None = None,
        task_id: str | None = None,
    ) -> Dict:
        """Run a turn and return its result. `system_message`, `conversation_history` (OpenAI-format
        dicts) and `task_id`, its session id, are for the first turn of a new conversation."""
        if not user_message.strip():
            raise UsageError("the message is empty")
        history = _messages(conversation_history)
        work = self._turn(user_message, system_message, history, task_id)
        return self._loop.run(work, lambda: self.interrupt("stopped by Ctrl-C"))

    def chat(self, message: str) -> str:
        """Run a turn and return the answer."""
        return str(self.run_conversation(message)["final_response"])

    def interrupt(self, message: str | None = None) -> None:
        """Stop the running turn, from any thread."""
        if self._agent is not None:
            agent, reason = self._agent, message or "stopped by the user"
            self._loop.call_soon(lambda: agent.interrupt(reason))

    def steer(self, text: str) -> None:
        """Send a message into the running turn, from any thread."""
        if self._agent is not None:
            agent = self._agent
            self._loop.call_soon(lambda: agent.steer(text))

    def close(self) -> None:
        """Close the session. Nothing is lost without it."""
        if self._app is not None:
            self._loop.run(self._app.__aexit__(None, None, None))
            self._app = self._agent = None
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def _turn(
        self,
        text: str,
        system_message: str | None,
        history: tuple[Message, ...],
        task_id: str | None,
    ) -> Dict:
        agent = self._agent or await self._begin(system_message or "", history, task_id or "")
        end: TurnFinished | None = None
        async for event in agent.run(User.say(text)):
            self._callbacks.see(event)
            if isinstance(event, TurnFinished):
                end = event
        assert end is not None  # every turn ends with it
        return _result(agent, end)

    async def _begin(self, system: str, history: tuple[Message, ...], task_id: str) -> Agent:
        request = self._request
        self._app = App(
            self._home, self._loaded, self._callbacks.progress, tell, state_db=self._state_db
        )
        self._agent = await self._app.agent(
            msgspec.structs.replace(
                request,
                session_id=request.session_id or task_id,
                system_message=system,
                history=history,
            )
        )
        if self._request_overrides:
            models = self._app.session(self._agent).models
            profile = models.main.profile
            body = {**profile.extra_body, **self._request_overrides}
            profile = msgspec.structs.replace(profile, extra_body=body)
            models.main = msgspec.structs.replace(models.main, profile=profile)
        return self._agent


def _result(agent: Agent, end: TurnFinished) -> Dict:
    usage = end.usage
    return {
        "final_response": end.text,
        "messages": [to_dict(message) for message in agent.history],
        "api_calls": end.api_calls,
        "completed": end.completed,
        "partial": end.partial,
        "failed": end.failed,
        "interrupted": end.interrupted,
        "error": end.error or None,
        "hint": end.hint,
        "exit_reason": end.exit_reason,
        "session_id": end.session_id,
        "model": agent.models.name,
        "provider": agent.models.provider,
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "reasoning_tokens": usage.reasoning,
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "estimated_cost_usd": end.cost_usd,
    }


def _messages(given: Sequence[Dict] | None) -> tuple[Message, ...]:
    """Convert messages; system messages are left out, since the conversation has its own."""
    return tuple(from_dict(each) for each in given or () if each.get("role") != "system")


def _chain(fallback: Fallback) -> list[Dict] | None:
    """Return the entries with a provider and a model; None without an argument."""
    if fallback is None:
        return None
    entries = [fallback] if isinstance(fallback, Mapping) else list(fallback)
    return [dict(entry) for entry in entries if entry.get("provider") and entry.get("model")]


class AcpSessionState:
    """A conversation of `acp_adapter.session.SessionManager`."""

    def __init__(self, agent: AIAgent, cwd: str) -> None:
        self.agent, self.cwd = agent, cwd
        self.history: list[Dict] = []
        self.cancel_event = threading.Event()
        self._has_run = False

    @property
    def session_id(self) -> str:
        return self.agent.session_id

    @property
    def model(self) -> str:
        return self.agent.model

    def prompt(self, text: str) -> Dict:
        """Run a turn and keep its messages in `history`."""
        self.cancel_event.clear()
        before = None if self._has_run else self.history
        self._has_run = True
        result = self.agent.run_conversation(text, conversation_history=before)
        self.history = list(result["messages"])
        return result

    def cancel(self) -> None:
        self.cancel_event.set()
        self.agent.interrupt()


class SessionManager:
    """The conversations of a script with several working folders; `hermes acp` serves editors."""

    def __init__(self) -> None:
        self._sessions: dict[str, AcpSessionState] = {}

    def create_session(self, cwd: str = ".") -> AcpSessionState:
        folder = str(Path(cwd).absolute())
        name = new_session_id(datetime.now().astimezone())
        agent = AIAgent(session_id=name, platform="acp", quiet_mode=True, working_folder=folder)
        state = AcpSessionState(agent, folder)
        self._sessions[state.session_id] = state
        return state

    def get_session(self, session_id: str) -> AcpSessionState | None:
        return self._sessions.get(session_id)

    def fork_session(self, session_id: str, cwd: str = "") -> AcpSessionState | None:
        """Return a new conversation with the history of another one, or None if there is none."""
        old = self._sessions.get(session_id)
        if old is None:
            return None
        new = self.create_session(cwd or old.cwd)
        new.history = list(old.history)
        return new

    def list_sessions(self) -> list[AcpSessionState]:
        return list(self._sessions.values())

    def remove_session(self, session_id: str) -> bool:
        state = self._sessions.pop(session_id, None)
        if state is not None:
            state.agent.close()
        return state is not None

    def cleanup(self) -> None:
        for session_id in tuple(self._sessions):
            self.remove_session(session_id)

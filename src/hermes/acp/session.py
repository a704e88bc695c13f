"""One conversation with an editor: its agent, its prompt in progress, questions and options."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from hermes.acp.content import (
    KINDS,
    TurnUpdates,
    Update,
    call_locations,
    message_chunk,
    parse_arguments,
    plan_update,
    replay,
    usage_update,
    user_message,
    without_overlap,
)
from hermes.agent import Agent
from hermes.app import App, Commands, Surface, commands_in, parse_choice
from hermes.app.command_handlers import EFFORTS, HANDLERS
from hermes.config.settings import PermissionMode
from hermes.core.approval_text import fenced, render_approval
from hermes.core.errors import UsageError
from hermes.core.events import (
    ApprovalAsked,
    Event,
    QuestionAsked,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    UsageReported,
)
from hermes.core.messages import Message, User
from hermes.core.model import Usage
from hermes.core.ports import ApprovalAnswer
from hermes.tools import PERMISSION_MODES
from hermes.util.jsonrpc import INTERNAL_ERROR, RpcError

STOP_REASONS = {
    "answered": "end_turn",
    "empty": "end_turn",
    "repeating": "end_turn",
    "truncated": "max_tokens",
    "max_iterations": "max_turn_requests",
    "iteration_budget": "max_turn_requests",
    "interrupted": "cancelled",
}
"""The stop reason of a prompt by the exit reason of its turn; the others are errors."""
MAX_MODELS = 200
ANSWER = "answer"  #: The field of an elicitation that has the user's answer.


class Client(Protocol):
    """The editor, as far as a session needs it."""

    def update(self, session_id: str, update: Update) -> None:
        """Send a session update; it does not block."""

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Return the result of a request to the editor. Raises `RpcError`."""

    @property
    def has_forms(self) -> bool:
        """Whether the editor can ask the user with a form (`elicitation`)."""


class EditorQuestions:
    """Asks the user in the editor: an `Approver` and a `Clarifier` of one session."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client, self.session_id = client, session_id
        self.folder = ""
        self.calls: dict[str, str] = {}  #: The arguments of the running calls, by id.

    async def ask(self, question: ApprovalAsked) -> ApprovalAnswer:
        """Only the answer of the user counts: a failing or cancelled request denies the call."""
        options = _permission_options(question)
        text = render_approval(question)
        arguments = parse_arguments(self.calls.get(question.call_id, "{}"))
        shown = f"{text.title}\n\n{fenced(text.subject)}\n\n" + "\n".join(text.facts)
        call = {
            "toolCallId": question.call_id,
            "title": text.title,
            "kind": KINDS.get(question.tool, "other"),
            "status": "pending",
            "content": [{"type": "content", "content": {"type": "text", "text": shown}}],
            "locations": call_locations(arguments, self.folder),
            "rawInput": arguments,
        }
        offered = [
            {"optionId": name, "name": label, "kind": kind} for name, label, kind, _ in options
        ]
        params = {"sessionId": self.session_id, "toolCall": call, "options": offered}
        try:
            result = await self._client.request("session/request_permission", params)
        except RpcError:
            return ApprovalAnswer.DENY
        outcome = result.get("outcome") if isinstance(result, dict) else None
        chosen = outcome.get("optionId") if isinstance(outcome, dict) else None
        answers = {name: answer for name, _label, _kind, answer in options}
        return answers.get(str(chosen), ApprovalAnswer.DENY)

    def show_terminal(self, command: str, terminal: str) -> None:
        """Show a terminal of the editor in the running call of a command."""
        for call, arguments in self.calls.items():
            if parse_arguments(arguments).get("command") == command:
                content = [{"type": "terminal", "terminalId": terminal}]
                update = {"sessionUpdate": "tool_call_update", "toolCallId": call}
                self._client.update(self.session_id, {**update, "content": content})

    async def clarify(self, question: QuestionAsked) -> str:
        """Return "" if the user declines."""
        field: dict[str, Any] = {"type": "string", "title": "Answer"}
        if question.choices:
            field["description"] = "One of: " + "; ".join(question.choices)
        schema = {"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]}
        params = {
            "sessionId": self.session_id,
            "mode": "form",
            "message": question.question,
            "requestedSchema": schema,
        }
        try:
            result = await self._client.request("elicitation/create", params)
        except RpcError:
            return ""
        content = result.get("content") if isinstance(result, dict) else None
        if not isinstance(content, dict) or result.get("action") != "accept":
            return ""
        return str(content.get(ANSWER, ""))


def _permission_options(question: ApprovalAsked) -> list[tuple[str, str, str, ApprovalAnswer]]:
    """Return id, label, kind and meaning of each answer. A scope that needs a second confirmation
    is not offered: the protocol has none."""
    options = [("once", "Allow once", "allow_once", ApprovalAnswer.ONCE)]
    for scope in question.scopes:
        if scope.confirm:
            continue
        session = ApprovalAnswer("session", scope.value)
        options.append(
            ("session", f"Allow in this session: {scope.label}", "allow_always", session)
        )
        always = ApprovalAnswer("always", scope.value)
        options.append(("always", f"Always allow: {scope.label}", "allow_always", always))
        break  # the narrowest
    return [*options, ("deny", "Deny", "reject_once", ApprovalAnswer.DENY)]


class AcpSession:
    """A conversation and a `CommandContext`. The id stays the same after a compaction."""

    place = Surface.CHATS

    def __init__(
        self, session_id: str, app: App, client: Client, questions: EditorQuestions
    ) -> None:
        self.id, self.app, self._client, self.questions = session_id, app, client, questions
        self._agent: Agent | None = None
        self._updates = TurnUpdates("", here=False)
        self._prompt: asyncio.Task[None] | None = None
        self._end: TurnFinished | None = None
        self._used = Usage()
        self._cancelled = False
        self._title = ""
        self.cost_usd: float | None = None  #: Of all prompts, as far as prices are known.
        self._commands = Commands(self)
        self._shown_options: list[dict[str, Any]] = []

    # The parts that slash commands use

    @property
    def agent(self) -> Agent:
        if self._agent is None:
            raise UsageError("the session is not open")
        return self._agent

    @property
    def busy(self) -> bool:
        return self._agent is not None and self._agent.running

    async def continue_with(self, agent: Agent) -> None:
        self.attach(agent)

    def later(self, text: str) -> None:
        self.show(f"`{text}` was not run: wait for the end of the turn.")

    def show(self, markdown: str) -> None:
        self._client.update(self.id, message_chunk(f"{markdown}\n\n"))

    async def ask(self, message: User) -> None:
        """Run a turn."""
        if not self._cancelled:
            await self.agent.turn(message, self._emit)

    # Opening and closing

    def attach(self, agent: Agent) -> None:
        """Use `agent` from now on."""
        self._agent = agent
        place = self.app.session(agent).place
        self.questions.folder = place.folder
        self._updates = TurnUpdates(place.folder, here=place.here)

    async def replay(self) -> None:
        """Send the whole conversation, also what was compacted."""
        store, session = self.app.store, self.agent.session_id
        history: list[Message] = []
        before = [each for each in await store.ancestors(session) if each.end_reason]
        chain = [each.id for each in before if each.end_reason == "compression"]
        for each in (*reversed(chain), session):
            history += without_overlap(history, await store.messages(each))
        for update in replay(history, self.questions.folder):
            self._client.update(self.id, update)
        self._show_plan()

    async def close(self) -> None:
        """Stop the prompt and close the agent. The session stays in the store."""
        self.cancel()
        if self._prompt is not None:
            await asyncio.wait({self._prompt})
        if self._agent is not None:
            await self.app.leave(self._agent)
            self._agent = None

    # Prompts

    async def prompt(self, blocks: list[Any]) -> dict[str, Any]:
        """Run a turn or a command and return the result of `session/prompt`. Raises `RpcError`."""
        if self._prompt is not None:
            raise UsageError("a prompt of this session is still running", hint="cancel it first")
        message = user_message(blocks)
        self._end, self._cancelled, self._used = None, False, Usage()
        self._prompt = asyncio.ensure_future(self._run(message))
        try:
            await asyncio.shield(self._prompt)
        except asyncio.CancelledError:  # the editor withdrew the request
            self.cancel()
            await asyncio.wait({self._prompt})
        finally:
            self._prompt = None
        await self._after_prompt()
        return self._result()

    def cancel(self) -> None:
        self._cancelled = True
        if self._agent is not None:
            self._agent.interrupt("cancelled in the editor")

    async def _run(self, message: User) -> None:
        text = message.text
        is_command = text.startswith("/") and len(message.parts) == 1
        if not (is_command and await self._commands.run(text)):
            await self.ask(message)

    def _emit(self, event: Event) -> None:
        match event:
            case ToolStarted():
                self.questions.calls[event.call.id] = event.call.arguments
            case ToolFinished():
                self.questions.calls.pop(event.call_id, None)
            case UsageReported():
                self._used += event.usage
                context = self.app.session(self.agent).target.profile.context_length
                if event.cost_usd is not None:
                    self.cost_usd = (self.cost_usd or 0.0) + event.cost_usd
                self._client.update(self.id, usage_update(event, context or 0, self.cost_usd))
            case TurnFinished():
                self._end = event
            case _:
                pass
        for update in self._updates.see(event):
            self._client.update(self.id, update)
        if isinstance(event, ToolFinished) and event.name == "todo":
            self._show_plan()

    def _show_plan(self) -> None:
        items = self.app.session(self.agent).session_tools.deps.todos.items
        if items:
            plan = plan_update((item.content, item.status) for item in items)
            self._client.update(self.id, plan)

    def _result(self) -> dict[str, Any]:
        end = self._end
        if end is None or self._cancelled:
            return {"stopReason": "cancelled" if self._cancelled else "end_turn"}
        reason = STOP_REASONS.get(end.exit_reason)
        if reason is None:
            text = end.error or end.exit_reason
            raise RpcError(f"{text}\n{end.hint}" if end.hint else text, INTERNAL_ERROR)
        used = self._used
        usage = {
            "totalTokens": used.total,
            "inputTokens": used.input,
            "outputTokens": used.output,
            "thoughtTokens": used.reasoning,
            "cachedReadTokens": used.cache_read,
            "cachedWriteTokens": used.cache_write,
        }
        return {"stopReason": reason, "usage": usage}

    async def _after_prompt(self) -> None:
        """Send what the turn or command may have changed: title and options."""
        if self._agent is None:
            return
        info = await self.app.store.info(self.agent.session_id)
        if info.title and info.title != self._title:
            self._title = info.title
            update = {"sessionUpdate": "session_info_update", "title": info.title}
            self._client.update(self.id, update)
        if (options := self.options()) != self._shown_options:
            self._shown_options = options
            changed: Update = {"sessionUpdate": "config_option_update", "configOptions": options}
            self._client.update(self.id, changed)

    # Commands, modes and options

    def send_commands(self) -> None:
        settings = self.app.loaded.settings
        offered = [
            {
                "name": each.name,
                "description": each.summary,
                **({"input": {"hint": each.usage}} if each.usage else {}),
            }
            for each in commands_in(self.place, settings)
            if each.name in HANDLERS
        ]
        update = {"sessionUpdate": "available_commands_update", "availableCommands": offered}
        self._client.update(self.id, update)

    def state(self) -> dict[str, Any]:
        """Return the modes and options, for the answers that open a session."""
        self._shown_options = self.options()
        modes = [
            {"id": name, "name": name, "description": text}
            for name, text in PERMISSION_MODES.items()
        ]
        current = self.app.session(self.agent).approvals.permission_mode
        return {
            "modes": {"currentModeId": current, "availableModes": modes},
            "configOptions": self._shown_options,
        }

    def options(self) -> list[dict[str, Any]]:
        session = self.app.session(self.agent)
        target = session.target
        model = f"{target.provider}:{target.model}"
        listed = self.app.providers.known.cached_list(target.base_url)
        models = [f"{target.provider}:{each.id}" for each in listed.models] if listed else []
        names = dict.fromkeys((model, *self.app.loaded.settings.model_aliases, *models))
        effort = self.agent.base_request.reasoning_effort or EFFORTS[0]
        return [
            _select(
                "mode", "Permissions", "mode", session.approvals.permission_mode, PERMISSION_MODES
            ),
            _select("model", "Model", "model", model, dict.fromkeys(list(names)[:MAX_MODELS], "")),
            _select("effort", "Reasoning", "thought_level", effort, dict.fromkeys(EFFORTS, "")),
        ]

    async def set_option(self, name: str, value: str) -> None:
        """Raises `UsageError`, or the `HermesError` of a model that cannot be used."""
        setters: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "mode": self.set_mode,
            "model": self._set_model,
            "effort": self._set_effort,
        }
        setter = setters.get(name)
        if setter is None:
            known = ", ".join(setters)
            raise UsageError(f"there is no option {name[:50]!r}", hint=f"there are: {known}")
        await setter(value)
        self._shown_options = self.options()

    async def set_mode(self, mode: str) -> None:
        names: dict[str, PermissionMode] = {name: name for name in PERMISSION_MODES}
        if mode not in names:
            known = ", ".join(names)
            raise UsageError(f"there is no mode {mode[:50]!r}", hint=f"there are: {known}")
        self.app.session(self.agent).approvals.set_permission_mode(names[mode])
        update = {"sessionUpdate": "current_mode_update", "currentModeId": mode}
        self._client.update(self.id, update)

    async def _set_model(self, wanted: str) -> None:
        session = self.app.session(self.agent)
        choice = parse_choice(wanted, self.app.loaded, session.target)
        await session.switch(await self.app.providers.ready(choice))

    async def _set_effort(self, effort: str) -> None:
        if effort not in EFFORTS:
            hint = f"there are: {', '.join(EFFORTS)}"
            raise UsageError(f"there is no effort {effort[:50]!r}", hint=hint)
        request = self.agent.base_request
        self.agent.base_request = msgspec.structs.replace(request, reasoning_effort=effort)


def _select(
    name: str, label: str, category: str, current: str, options: Mapping[Any, str]
) -> dict[str, Any]:
    return {
        "id": name,
        "name": label,
        "category": category,
        "type": "select",
        "currentValue": current,
        "options": [
            {"value": value, "name": value, **({"description": text} if text else {})}
            for value, text in options.items()
        ],
    }


def working_folder(cwd: str) -> Path:
    """Return the folder of a session. Raises `UsageError`."""
    folder = Path(cwd)
    if not folder.is_absolute() or "\0" in cwd:
        raise UsageError(f"cwd must be an absolute path, not {cwd[:200]!r}")
    if not folder.is_dir():
        raise UsageError(f"there is no folder {cwd[:200]}", hint="create it, or open another one")
    return folder

"""The spans of tool calls, side by side, with what was asked and started on their way."""

from opentelemetry.trace import Span

from hermes.app.telemetry import attributes as names
from hermes.app.telemetry.scene import Handlers, Scene, end
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    SubagentFinished,
    SubagentStarted,
    ToolFinished,
    ToolStarted,
)

DELEGATE = "delegate_task"


class ToolSpans:
    """By the id of the call, which repeats within a session but not within a reply."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._open: dict[str, Span] = {}
        self._delegations: set[str] = set()
        self.handlers: Handlers = {
            ToolStarted: self._started,
            ToolFinished: self._finished,
            ApprovalAsked: self._asked,
            ApprovalAnswered: self._answered,
            SubagentStarted: self._child_started,
            SubagentFinished: self._child_finished,
        }

    @property
    def delegation(self) -> Span | None:
        """The call subagents work for, when there can be no doubt."""
        running = [self._open[call_id] for call_id in self._delegations]
        return running[0] if len(running) == 1 else None

    def close(self, error: str) -> None:
        """End the calls that never finished."""
        for span in self._open.values():
            end(span, error)
        self._open.clear()
        self._delegations.clear()

    def _started(self, event: ToolStarted) -> None:
        call, content = event.call, self._scene.content
        name = content.safe(call.name)
        end(self._take(call.id), names.UNFINISHED)
        about = {
            names.OPERATION_NAME: names.EXECUTE_TOOL,
            names.TOOL_NAME: name,
            names.TOOL_TYPE: "function",
            names.TOOL_CALL_ID: call.id,
            **content.told(names.TOOL_ARGUMENTS, call.arguments),
        }
        self._open[call.id] = self._scene.start(f"{names.EXECUTE_TOOL} {name}", about)
        if call.name == DELEGATE:
            self._delegations.add(call.id)

    def _finished(self, event: ToolFinished) -> None:
        span = self._take(event.call_id)
        if span is not None:
            span.set_attributes(self._scene.content.told(names.TOOL_RESULT, event.result))
        end(span, names.TOOL_FAILED if event.failed else "")

    def _take(self, call_id: str) -> Span | None:
        self._delegations.discard(call_id)
        return self._open.pop(call_id, None)

    def _asked(self, event: ApprovalAsked) -> None:
        content = self._scene.content
        about = {names.APPROVAL_REASON: content.safe(event.reason)}
        about |= content.told(names.APPROVAL_SUBJECT, event.subject)
        self._scene.note(self._open.get(event.call_id), names.APPROVAL_ASKED, about)

    def _answered(self, event: ApprovalAnswered) -> None:
        about = {names.APPROVAL_ANSWER: event.answer}
        self._scene.note(self._open.get(event.call_id), names.APPROVAL_ANSWERED, about)

    def _child_started(self, event: SubagentStarted) -> None:
        about = {
            names.SUBAGENT: event.child,
            names.SUBAGENT_SESSION: event.session_id,
            **self._scene.content.told(names.SUBAGENT_GOAL, event.goal),
        }
        self._scene.note(self._open.get(event.call_id), names.SUBAGENT_STARTED, about)

    def _child_finished(self, event: SubagentFinished) -> None:
        about = {
            names.SUBAGENT: event.child,
            names.SUBAGENT_STATUS: event.status,
            names.SECONDS: event.seconds,
            names.API_CALLS: event.api_calls,
        }
        self._scene.note(self._open.get(event.call_id), names.SUBAGENT_FINISHED, about)

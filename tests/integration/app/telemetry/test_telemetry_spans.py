"""What a collector gets to see of a turn."""

import json
from pathlib import Path

import pytest

from hermes.app.extensions import telemetry_of
from hermes.config.settings import TelemetrySettings
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Compacted,
    CompactionStarted,
    ModelCalled,
    SubagentFinished,
    SubagentStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    UsageReported,
    from_json,
)
from hermes.core.messages import ToolCall
from hermes.core.model import FellBack, Retrying, TextDelta, Usage
from hermes.security import Redactor
from tests.cases import cases

SECRET = "hunter2-the-long-password"
USAGE = Usage(input=10, output=5, cache_read=80, cache_write=9, reasoning=2)
STARTED = TurnStarted("s1", "model-a", "gemini")
INTERNAL, CLIENT = 1, 3
EXPECTED = cases(__file__)


@pytest.fixture
def watch(collector):
    """Shows events to the observer of one agent and sends what came of them."""

    def watch(*events, capture=False):
        settings = TelemetrySettings(
            enabled=True, endpoint=collector.endpoint, capture_content=capture
        )
        telemetry = telemetry_of(settings, Redactor([SECRET]).redact)
        observer = telemetry.observer()
        for event in events:
            observer.see(event)
        telemetry.close()
        return collector

    return watch


def answered(**fields):
    about = {"text": "done", "usage": USAGE, "api_calls": 2, **fields}
    return TurnFinished("s1", about.pop("exit_reason", "answered"), **about)


def call(call_id, name="terminal", arguments="{}"):
    return ToolStarted(ToolCall(call_id, name, arguments))


def finished(call_id, *, name="terminal", result="ok", failed=False):
    return ToolFinished(call_id, name, result, failed, 0.1)


TURN = list(map(from_json, Path(__file__).with_name("turn.jsonl").read_bytes().splitlines()))


def test_a_turn_is_a_tree_of_spans(watch):
    collector = watch(*TURN)
    turn = collector.named("invoke_agent hermes")
    assert [(span.name, span.parent) for span in collector.spans] == [
        ("chat model-a", turn.id),
        ("execute_tool terminal", turn.id),
        ("chat model-a", turn.id),
        ("invoke_agent hermes", b""),
    ]
    assert {span.trace for span in collector.spans} == {turn.trace}
    assert {span.error for span in collector.spans} == {None}
    assert [span.kind for span in collector.spans] == [CLIENT, INTERNAL, CLIENT, INTERNAL]
    for span in collector.spans:
        assert turn.start <= span.start <= span.end <= turn.end
    assert turn.attributes == EXPECTED["turn"]


def test_a_model_call_has_its_model_and_its_usage(watch):
    first, _, second, _ = watch(*TURN).spans
    assert first.attributes.pop("gen_ai.response.time_to_first_chunk") >= 0
    assert first.attributes == EXPECTED["chat"]
    assert "hermes.cost_usd" not in second.attributes
    assert "gen_ai.response.time_to_first_chunk" not in second.attributes


def test_a_tool_call_has_its_name_and_no_content(watch):
    collector = watch(*TURN)
    assert collector.named("execute_tool terminal").attributes == EXPECTED["tool"]
    sent = b"".join(request.raw for request in collector.requests)
    for said in (SECRET, "echo", "I look", "it is"):
        assert said.encode() not in sent


def test_content_is_sent_when_that_is_wanted_but_never_secrets(watch):
    collector = watch(*TURN, capture=True)
    chat, tool, _, turn = collector.spans
    assert json.loads(chat.attributes["gen_ai.output.messages"]) == [EXPECTED["message"]]
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"])["command"].startswith("echo ")
    assert tool.attributes["gen_ai.tool.call.result"].startswith("it is ")
    assert "done" in turn.attributes["gen_ai.output.messages"]
    assert SECRET.encode() not in b"".join(request.raw for request in collector.requests)


def test_calls_that_run_side_by_side_have_spans_side_by_side(watch):
    collector = watch(
        STARTED,
        call("a", "read_file"),
        call("b", "web_search"),
        finished("b", name="web_search"),
        call("c", "todo"),
        finished("a", name="read_file", failed=True, result="private"),
        finished("c", name="todo"),
        answered(),
    )
    turn = collector.named("invoke_agent hermes")
    tools = collector.spans[:3]
    assert [span.attributes["gen_ai.tool.call.id"] for span in tools] == ["b", "a", "c"]
    assert {span.parent for span in tools} == {turn.id}
    read, search = (collector.named(f"execute_tool {n}") for n in ("read_file", "web_search"))
    assert read.start <= search.start <= search.end <= read.end
    assert [span.error for span in tools] == [None, "tool_failed", None]
    assert read.attributes["error.type"] == "tool_failed"
    assert b"private" not in collector.requests[0].raw


def test_retries_and_fallbacks_are_recorded_in_the_call_span(watch):
    collector = watch(
        STARTED,
        ModelCalled(1),
        Retrying(f"503 for {SECRET}", 1, 2.5),
        FellBack("xai", "model-b", "503 again"),
        UsageReported(USAGE, None, "model-b", "xai", "stop"),
        ModelCalled(2),
        UsageReported(USAGE, None, "model-b", "xai", "stop"),
        answered(),
    )
    first, second, turn = collector.spans
    assert (first.name, second.name) == ("chat model-a", "chat model-b")
    assert first.attributes["gen_ai.response.model"] == "model-b"
    assert first.attributes["gen_ai.provider.name"] == "x_ai"
    assert first.events == EXPECTED["retry and fallback"]
    assert turn.attributes["gen_ai.request.model"] == "model-a"


def test_unfinished_spans_at_the_end_of_a_turn_are_errors(watch):
    collector = watch(
        STARTED,
        call("a", "read_file"),
        CompactionStarted(900, 800),
        ModelCalled(1),
        answered(exit_reason="failed", error=f"no model answers to {SECRET}"),
    )
    assert {span.name: span.error for span in collector.spans} == {
        "hermes.compact": None,
        "chat model-a": "unfinished",
        "execute_tool read_file": "unfinished",
        "invoke_agent hermes": "no model answers to …[redacted]",
    }
    assert collector.named("invoke_agent hermes").attributes["error.type"] == "failed"
    assert collector.named("chat model-a").attributes["error.type"] == "unfinished"


def test_an_interrupted_turn_is_not_an_error_but_its_call_is(watch):
    collector = watch(
        STARTED, ModelCalled(1), answered(exit_reason="interrupted", error="stopped by the user")
    )
    chat, turn = collector.spans
    assert chat.error == "unfinished"
    assert turn.error is None
    assert turn.attributes["hermes.exit_reason"] == "interrupted"


def test_a_turn_that_is_left_ends_with_the_next_or_with_the_program(watch):
    collector = watch(STARTED, call("a"), STARTED, ModelCalled(1))
    assert [(span.name, span.error) for span in collector.spans] == [
        ("execute_tool terminal", "unfinished"),
        ("invoke_agent hermes", "unfinished"),
        ("chat model-a", "unfinished"),
        ("invoke_agent hermes", "unfinished"),
    ]


def test_a_compaction_has_its_numbers_and_moves_the_conversation(watch):
    collector = watch(
        STARTED,
        ModelCalled(1),
        CompactionStarted(900, 800),
        Compacted("s2", 40, 12, 910, 300, 1.5, "model-s"),
        ModelCalled(1),
        UsageReported(USAGE),
        answered(),
    )
    refused, compaction, chat, turn = collector.spans
    assert refused.error == "no_reply"
    assert compaction.name == "hermes.compact"
    assert compaction.parent == turn.id
    assert compaction.attributes == EXPECTED["compaction"]
    assert chat.attributes["gen_ai.conversation.id"] == "s2"


def test_background_compaction_span_has_its_duration(watch):
    collector = watch(Compacted("s2", 40, 12, 910, 300, 1.5, ""))
    [compaction] = collector.spans
    assert compaction.parent == b""
    assert 1.5e9 <= compaction.end - compaction.start < 60e9


def test_compaction_without_effect_is_marked_as_not_done(watch):
    collector = watch(
        STARTED, CompactionStarted(900, 800), ModelCalled(1), UsageReported(USAGE), answered()
    )
    compaction = collector.named("hermes.compact")
    assert compaction.attributes["hermes.compaction.done"] is False
    assert compaction.error is None


@pytest.mark.parametrize("capture", [False, True])
def test_approvals_are_recorded_in_the_tool_span(watch, capture):
    collector = watch(
        STARTED,
        call("a"),
        ApprovalAsked("a", "terminal", f"rm {SECRET}", "deletes files"),
        ApprovalAnswered("a", "deny"),
        finished("a", failed=True),
        answered(),
        capture=capture,
    )
    subject = {"hermes.approval.subject": "rm …[redacted]"} if capture else {}
    assert collector.named("execute_tool terminal").events == {
        "hermes.approval.asked": {"hermes.approval.reason": "deletes files", **subject},
        "hermes.approval.answered": {"hermes.approval.answer": "deny"},
    }


def test_the_turns_of_subagents_belong_to_the_delegation(collector):
    telemetry = telemetry_of(TelemetrySettings(enabled=True, endpoint=collector.endpoint), str)
    parent = telemetry.observer()
    parent.see(STARTED)
    parent.see(call("d", "delegate_task"))
    parent.see(SubagentStarted("d", 0, "s9", "find it"))
    child = telemetry.observer(parent)
    child.see(TurnStarted("s9", "model-b", "openai"))
    child.see(ModelCalled(1))
    child.see(UsageReported(USAGE))
    child.see(TurnFinished("s9", "answered", "found", USAGE, 1))
    parent.see(SubagentFinished("d", 0, "completed", 1.5, 1))
    parent.see(finished("d", name="delegate_task"))
    grandchild = telemetry.observer(parent)
    grandchild.see(TurnStarted("s10", "model-b", "openai"))
    parent.see(answered())
    telemetry.close()
    by_session = {
        (span.name, span.attributes["gen_ai.conversation.id"]): span for span in collector.spans
    }
    turn = by_session["invoke_agent hermes", "s1"]
    delegation = by_session["execute_tool delegate_task", "s1"]
    child_turn = by_session["invoke_agent hermes", "s9"]
    assert delegation.parent == turn.id
    assert child_turn.parent == delegation.id
    assert by_session["chat model-b", "s9"].parent == child_turn.id
    assert by_session["invoke_agent hermes", "s10"].parent == turn.id
    assert len({span.trace for span in collector.spans}) == 1
    assert delegation.events == EXPECTED["subagent"]


def test_text_that_cannot_be_encoded_costs_no_span(watch):
    collector = watch(
        STARTED,
        call("a", "odd\ud800tool", '"\ud800"'),
        finished("a", result="\udfff" + "x" * 100_000),
        answered(text="\ud83d"),
        capture=True,
    )
    tool = collector.named("execute_tool oddtool")
    assert len(tool.attributes["gen_ai.tool.call.result"]) < 33_000
    assert "invoke_agent hermes" in {span.name for span in collector.spans}


def test_events_out_of_place_leave_no_trace(watch):
    collector = watch(
        finished("nobody"),
        UsageReported(USAGE),
        TextDelta("x"),
        Retrying("e", 1, 1.0),
        SubagentFinished("d", 0, "completed", 1.5, 1),
        answered(),
    )
    assert collector.requests == []

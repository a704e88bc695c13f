"""The event stream as JSON lines."""

import json

import pytest
from hypothesis import given

from hermes.core import events
from hermes.core.messages import ToolCall
from hermes.core.model import ReasoningDelta, TextDelta, Usage
from tests.unit.core import strategies

EXAMPLES = [
    events.TurnStarted("s1", "m", "p"),
    events.ModelCalled(1),
    TextDelta("hé"),
    ReasoningDelta("hm"),
    events.TextFinished("hé"),
    events.ToolStarted(ToolCall("c1", "ls", "{}", extra={"k": [1]})),
    events.ToolOutput("c1", "line\n"),
    events.ToolFinished("c1", "ls", "done", failed=True, seconds=0.5),
    events.ApprovalAsked("c1", "terminal", "rm -rf x", "deletes files"),
    events.ApprovalAnswered("c1", "deny"),
    events.QuestionAsked("c1", "which?", ("a", "b")),
    events.QuestionAnswered("c1", "a"),
    events.Retrying("rate limited", 2, 1.5),
    events.FellBack("other", "m2", "down"),
    events.CompactionStarted(9000, 8000),
    events.Compacted("s2", 40, 5, 9000, 800, 2.0, "small"),
    events.SubagentStarted("c1", 0, "s3", "count files"),
    events.SubagentProgress("c1", 0, "terminal ls"),
    events.SubagentFinished("c1", 0, "completed", 1.5, 3),
    events.UsageReported(Usage(1, 2, 3, 4, 1), 0.25, "m", "p", "stop", 0.5),
    events.UsageReported(Usage(1, 2)),
    events.Notice("note"),
    events.TurnFinished("s1", "stop", "hé", Usage(1, 2), 1, None, "", "", 0),
]


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_an_event_survives_json(event):
    assert events.from_json(events.to_json(event)) == event


def test_every_kind_of_event_has_an_example_here():
    assert {type(event) for event in EXAMPLES} == set(events.Event.__args__)


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_an_event_is_one_json_line_with_its_type(event):
    line = events.to_json(event)
    assert b"\n" not in line
    assert json.loads(line)["type"] == type(event).__struct_config__.tag


def test_no_two_events_share_a_type():
    tags = [kind.__struct_config__.tag for kind in events.Event.__args__]
    assert len(tags) == len(set(tags))


@given(strategies.calls)
def test_any_tool_call_survives_json(call):
    started = events.ToolStarted(call)
    assert events.from_json(events.to_json(started)) == started


def test_a_field_of_the_future_is_ignored():
    assert events.from_json(b'{"type":"notice","text":"x","new":1}') == events.Notice("x")

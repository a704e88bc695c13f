"""The event stream as JSON lines."""

import json
from pathlib import Path

from hypothesis import given

from hermes.core import events
from tests.unit.core import strategies

EXAMPLES = Path(__file__).with_name("events.jsonl").read_bytes().splitlines()


def test_every_event_is_one_json_line_and_survives_it():
    found = [events.from_json(line) for line in EXAMPLES]
    assert [events.to_json(event) for event in found] == EXAMPLES
    kinds = {
        type(event): json.loads(line)["type"] for event, line in zip(found, EXAMPLES, strict=True)
    }
    assert kinds == {kind: kind.__struct_config__.tag for kind in events.Event.__args__}
    assert len(set(kinds.values())) == len(kinds)


@given(strategies.calls)
def test_any_tool_call_survives_json(call):
    started = events.ToolStarted(call)
    assert events.from_json(events.to_json(started)) == started


def test_a_field_of_the_future_is_ignored():
    assert events.from_json(b'{"type":"notice","text":"x","new":1}') == events.Notice("x")

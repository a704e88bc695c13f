from hermes.ops.transcripts import outline
from tests.unit.ops.transcripts.samples import PICTURE, call, message, record, with_tools


def entries(exported):
    return [entry for turn in outline(exported).turns for entry in turn.entries]


def test_results_stand_with_their_calls_in_the_order_of_the_calls():
    asked, reply, answer = entries(with_tools())
    assert [(c.name, c.result, c.failed) for c in reply.calls] == [
        ("terminal", "one\ntwo", False),
        ("read_file", "no such file", True),
    ]
    assert (asked.role, answer.text, reply.reasoning) == ("user", "There are two.", "hm </details>")


def test_a_turn_begins_with_what_the_user_says():
    exported = record(
        message(1, "assistant", "hello"),
        message(2, "user", "one"),
        message(3, "assistant", "1"),
        message(4, "user", "two"),
    )
    turns = outline(exported).turns
    assert [(turn.number, len(turn.entries)) for turn in turns] == [(0, 1), (1, 2), (2, 1)]


def test_an_id_that_is_used_again_later_is_another_call():
    again = [
        row
        for number in (1, 3)
        for row in (
            message(number, "assistant", "", tool_calls=[call("call_0", "terminal", "{}")]),
            message(number + 1, "tool", f"r{number}", tool_call_id="call_0", tool_name="terminal"),
        )
    ]
    assert [entry.calls[0].result for entry in entries(record(*again))] == ["r1", "r3"]


def test_a_call_may_have_no_result_and_a_result_no_call():
    exported = record(
        message(1, "tool", "lost", tool_call_id="z", tool_name="terminal"),
        message(2, "assistant", "", tool_calls=[call("a", "terminal", "{broken")]),
    )
    lost, open_call = entries(exported)
    assert (lost.role, lost.calls[0].result) == ("tool", "lost")
    assert (open_call.calls[0].arguments, open_call.calls[0].result) == ("{broken", None)


def test_pictures_are_kept_apart_from_the_text():
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
    ]
    (said,) = entries(record(message(1, "user", parts)))
    assert (said.text, said.images) == ("see", (PICTURE,))


def test_what_was_undone_or_compacted_is_left_out():
    rows = [message(n, "user", f"m{n}") for n in range(1, 6)]
    summary = {"role": "user", "content": "summary"}
    exported = record(*rows)
    span = [exported["id"], 2, 3]
    exported["projection"] = {"after_id": 4, "basis": [summary, span]}
    assert [entry.text for entry in entries(exported)] == ["summary", "m2", "m3", "m5"]
    assert outline(exported).message_count == 4


def test_a_session_is_named_by_its_title_or_by_what_was_said_first():
    assert outline(record(title="the\x1b[31m plan")).name == "the plan"
    long = outline(record(message(1, "user", "word " * 50))).name
    assert long.endswith("…")
    assert len(long) == 64
    assert outline(record()).name == "20260131_140000_1a2b3c4d"


def test_a_row_that_is_no_message_does_not_stop_the_rest():
    exported = record(message(1, "session_meta", "?"), message(2, "user", "hello"))
    assert [entry.text for entry in entries(exported)] == ["hello"]

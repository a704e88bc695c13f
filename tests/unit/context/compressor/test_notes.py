"""The notes: read in whatever form a model writes them, and cut to size."""

import pytest

from hermes.context.conversation import MARKS, newest_todo_list, todo_list_in
from hermes.context.notes import (
    ACTIONS,
    CONSTRAINTS,
    CRITICAL,
    END,
    GOAL,
    IN_TAIL,
    INTRO,
    NEXT,
    PROGRESS,
    SECTIONS,
    SUMMARY_PREFIX,
    Summary,
    SummaryNotes,
    is_summary,
    merge_summaries,
    parse_notes,
    read_summary,
    write_summary,
)
from hermes.context.summary import UnusableReply, parse_reply
from hermes.core.messages import from_dict, to_dict
from hermes.core.model import text_tokens
from hermes.tools.builtin.todo import MARKS as TOOL_MARKS
from hermes.tools.builtin.todo import TodoList
from tests.cases import table_test
from tests.unit.context.compressor.talking import GOOD, SYSTEM, asks, call, result, says, user


def test_notes_are_read_back_as_they_were_written():
    notes = parse_notes(GOOD)
    assert len(notes.sections) == 9
    assert parse_notes(notes.text()) == notes


@table_test
def test_headings_come_in_many_forms(form: str):
    assert parse_notes(form).sections == {GOAL: "win", NEXT: "move"}


def test_a_sentence_that_begins_like_a_heading_is_none():
    text = "## Goal\nProgress is slow.\nGoal posts were moved\nNext Steps are unclear"
    assert list(parse_notes(text).sections) == [GOAL]


def test_states_stand_under_progress_also_as_headings_of_their_own():
    notes = parse_notes("## Done\n- a\n## In Progress\n- b\n## Constraints and Preferences\n- c")
    assert notes[PROGRESS] == "### Done\n- a\n### In Progress\n- b"
    assert notes[CONSTRAINTS] == "- c"


def test_too_long_notes_lose_the_ends_of_their_longest_sections():
    many = "\n".join(f"- step {n}: something was done" for n in range(400))
    notes = SummaryNotes({GOAL: "win", ACTIONS: many, CRITICAL: many})
    small = notes.fitted(600)
    assert text_tokens(small.text()) <= 600
    assert small[GOAL] == "win"
    assert small[ACTIONS].endswith("- step 399: something was done")
    assert small[ACTIONS].startswith("…\n- step")
    assert small[CRITICAL].startswith("- step 0: something was done\n")
    assert small[CRITICAL].endswith("done\n…")


def test_notes_that_fit_are_left_alone():
    notes = parse_notes(GOOD)
    assert notes.fitted(5_000) is notes


def test_a_good_reply_is_taken_without_what_is_around_it():
    wrapped = f"<think>## Goal\nhm</think>\nHere are the notes:\n\n{GOOD}"
    assert parse_reply(wrapped, 2_000, 9_000) == parse_reply(GOOD, 2_000, 9_000)
    fenced = f"```markdown\n{GOOD}\n```"
    assert parse_reply(fenced, 2_000, 9_000) == parse_reply(GOOD, 2_000, 9_000)


def test_a_reply_that_is_too_long_is_cut_not_refused():
    long = GOOD + "\n".join(f"- value {n} is {n * 7919}" for n in range(900))
    notes = parse_reply(long, 500, 9_000)
    assert text_tokens(notes.text()) <= 500
    assert notes[NEXT] == "1. write the statement parser"


TEMPLATE = "\n".join(
    f"## {name}\n- none"
    for name in ("Active Task", "Goal", "Progress", "Next Steps", "Key Decisions")
)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "empty"),
        ("  \n ", "empty"),
        ("<think>never ends", "empty"),
        ("The user and the assistant worked on a parser. It went well." * 5, "sections"),
        ("I'm sorry, but I can't help with that.", "refusal"),
        ("I cannot summarise this.\n" + GOOD, "refusal"),
        ("As an AI language model I have no opinion", "refusal"),
        (TEMPLATE, "too little"),
        ("## Goal\nwin\n## Progress\n- some\n## Next Steps\n- more", "too little"),
        ("I will now write the notes. " * 300, "repeats"),
        (GOOD + "the same again " * 600, "repeats"),
        (GOOD.splitlines()[0] + "\n" + "word " * 200, "repeats"),
    ],
)
def test_unusable_reply_is_refused_with_a_reason(reply: str, why: str):
    with pytest.raises(UnusableReply, match=why):
        parse_reply(reply, 2_000, 40_000)


def test_a_short_reply_is_enough_if_it_is_complete_or_the_text_is_short():
    names = list(SECTIONS)
    complete = "\n".join(f"## {name}\n- convert table {n}" for n, name in enumerate(names))
    assert len(parse_reply(complete, 800, 40_000).sections) == len(names)
    sparse = "\n".join(f"## {name}\n- none" for name in names[3:])
    sparse = (
        f"## {names[0]}\n- convert it\n## {names[1]}\n- all tables\n## {names[2]}\n- fast\n{sparse}"
    )
    assert len(parse_reply(sparse, 800, 900).sections) == 3
    with pytest.raises(UnusableReply, match="too little"):
        parse_reply(sparse, 800, 40_000)


TODO = "Todo list: 3 tasks\n[x] 1: read\n[>] 2: write\n[ ] 3: test"
PARTS = Summary(parse_notes(GOOD), ("first\n\n## Goal\nnot a section", "second"), TODO)


def test_summary_is_marked_as_reference_material():
    message = write_summary(PARTS)
    assert message["role"] == "user"
    assert message["content"].startswith(f"{SUMMARY_PREFIX} ")
    assert "reference material" in INTRO
    assert "only what follows" in INTRO


def test_written_summary_reads_back_unchanged():
    message = write_summary(PARTS)
    assert is_summary(message)
    assert read_summary(message) == PARTS


def test_also_after_the_store():
    message = to_dict(from_dict(write_summary(PARTS)))
    assert read_summary(message) == PARTS


def test_a_request_joined_to_it_is_kept_word_for_word():
    request = "Do this:\n\n## Goal\n  indented\n[CONTEXT COMPACTION] quoted\n"
    message = write_summary(Summary(parse_notes(GOOD), request=request))
    assert message["content"].endswith(request)
    again = read_summary(to_dict(from_dict(message)))
    assert again.request == request
    assert again.notes == parse_notes(GOOD)


def test_a_request_with_an_image_keeps_it():
    blocks = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    message = write_summary(Summary(parse_notes(GOOD), request=blocks))
    again = read_summary(to_dict(from_dict(message)))
    assert again.request == blocks
    assert again.notes == parse_notes(GOOD)


def test_pointer_to_the_request_is_not_part_of_the_notes():
    notes = SummaryNotes({"Active Task": f"port it\n{IN_TAIL}", GOAL: "win"})
    assert read_summary(write_summary(Summary(notes))).notes["Active Task"] == "port it"


def test_summaries_of_other_programs_are_known_too():
    text = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted.\n\n## Goal\nwin"
    message = says(text)
    assert is_summary(message)
    assert read_summary(message) == Summary(SummaryNotes({GOAL: "win"}), foreign=True)
    plain = read_summary(user("[CONTEXT COMPACTION] We ported the lexer."))
    assert plain.notes.sections == {CRITICAL: "We ported the lexer."}


def test_a_message_that_only_talks_about_it_is_none():
    assert not is_summary(user(f"what does {SUMMARY_PREFIX} mean?"))
    assert not is_summary(result(1, "read_file", f"{SUMMARY_PREFIX} in a file"))
    assert not is_summary({"role": "system", "content": "[CONTEXT COMPACTION] old note"})


def test_several_are_one():
    one = Summary(SummaryNotes({GOAL: "a", "Active Task": "x"}), ("u1",), TODO)
    two = Summary(SummaryNotes({GOAL: "a\nb", "Active Task": "y"}), ("u1", "u2"))
    both = merge_summaries([one, two])
    assert both.notes.sections == {GOAL: "a\nb", "Active Task": "y"}
    assert both.users == ("u1", "u2")
    assert both.todo == TODO
    assert merge_summaries([]) == Summary()


def test_the_todo_list_has_the_form_of_its_tool():
    assert {mark.strip() for mark in MARKS} == set(TOOL_MARKS.values())


def test_the_tool_finds_its_list_in_the_summary():
    notes = SummaryNotes({GOAL: "Todo list: 1 task\n[ ] 9: invented by the model"})
    for todo, count in ((TODO, 3), ("", 0)):
        message = write_summary(Summary(notes, (), todo, "Todo list: of the user"))
        todos = TodoList()
        todos.restore([from_dict(message)])
        assert len(todos.items) == count
    todos.restore([from_dict(write_summary(PARTS))])
    assert todos.text().splitlines()[1:] == TODO.splitlines()[1:]


def test_the_newest_list_is_found_wherever_it_stands():
    group = [asks(call(1, "todo")), result(1, "todo", f"{TODO}\n[2 tasks are in progress]")]
    failed = [asks(call(2, "todo")), result(2, "todo", '{"error": "Todo list: no"}')]
    quoted = [asks(call(3, "read_file")), result(3, "read_file", TODO.replace("3", "4"))]
    messages = [SYSTEM, *group, *failed, *quoted, user("my Todo list: a, b"), user("Todo list: x")]
    assert newest_todo_list(messages) == (TODO, 2)
    assert newest_todo_list([SYSTEM, write_summary(PARTS)]).text == TODO
    assert todo_list_in(user(f"see {TODO}")) == ""
    nameless = {**group[1]}
    del nameless["name"]
    assert newest_todo_list([SYSTEM, group[0], nameless]).place == 2


def test_the_end_mark_is_there_only_with_a_request():
    assert END not in write_summary(PARTS)["content"]

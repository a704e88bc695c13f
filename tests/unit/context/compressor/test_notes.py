"""The notes: read in whatever form a model writes them, and cut to size."""

import pytest

from hermes.context.notes import (
    ACTIONS,
    CONSTRAINTS,
    CRITICAL,
    GOAL,
    NEXT,
    PROGRESS,
    SummaryNotes,
    parse_notes,
)
from hermes.context.summary import UnusableReply, parse_reply
from hermes.core.tokens import text_tokens
from tests.unit.context.compressor.talking import GOOD


def test_notes_are_read_back_as_they_were_written():
    notes = parse_notes(GOOD)
    assert len(notes.sections) == 9
    assert parse_notes(notes.text()) == notes


@pytest.mark.parametrize(
    "form",
    [
        "# Goal\nwin\n# Next Steps\nmove",
        "**Goal**\nwin\n\n**Next Steps:**\nmove",
        "Goal: win\nNext steps: move",
        "1. **Goal**: win\n2. **Next Steps**: move",
        "### goal:\nwin\n### NEXT STEPS\nmove",
    ],
)
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
    assert parse_reply(wrapped, 2_000) == parse_reply(GOOD, 2_000)
    assert parse_reply(f"```markdown\n{GOOD}\n```", 2_000) == parse_reply(GOOD, 2_000)


def test_a_reply_that_is_too_long_is_cut_not_refused():
    long = GOOD + "\n".join(f"- value {n} is {n * 7919}" for n in range(900))
    notes = parse_reply(long, 500)
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
def test_what_cannot_serve_is_refused_with_a_reason(reply: str, why: str):
    with pytest.raises(UnusableReply, match=why):
        parse_reply(reply, 2_000)

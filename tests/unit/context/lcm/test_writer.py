"""Which model writes the notes, and the fallback when none can."""

import json
from typing import Any

import pytest

from hermes.context.engine import SummaryAnswer, SummaryModel
from hermes.context.summary import UnusableReply
from hermes.core.errors import BudgetSpent, ModelNotFound
from hermes.core.messages import Message
from hermes.core.model import text_tokens
from hermes_plugins.context.lcm.notes import NoteNode
from hermes_plugins.context.lcm.writer import NoteWriter, check_reply, files_in, fit, transcript
from tests.unit.context.lcm.conversations import answered, failing, reply, summariser, user

PARAGRAPH = "The parser of the configuration drops comments; we keep the order of all keys. "
SPAN: list[Message] = [
    user(f"Please mend the parser in src/parser.py. {PARAGRAPH * 8}"),
    *answered("1", "read_file", '{"path": "src/parser.py"}', "def parse():\n" * 100),
    *answered("2", "terminal", '{"command": "pytest tests/test_parser.py\\nls"}', "1 failed"),
    reply("One test fails."),
    user("Then mend that first, never delete tests."),
]
GOOD = "The user wants the parser of the configuration mended; comments must stay where they are."


def recording(
    answer: str, window: int = 100_000
) -> tuple[SummaryModel, list[list[dict[str, Any]]]]:
    asked: list[list[dict[str, Any]]] = []

    def ask(messages: list[dict[str, Any]], most: int) -> SummaryAnswer:
        asked.append(messages)
        return SummaryAnswer(answer, "scripted")

    return SummaryModel(ask, window), asked


def test_the_model_gets_the_whole_span_and_its_notes_are_taken() -> None:
    model, asked = recording(GOOD)
    writer = NoteWriter([model])
    text = writer.leaf(SPAN, 400)
    assert text.startswith(GOOD)
    assert writer.model == "scripted"
    (question,) = asked
    assert question[0]["role"] == "system"
    assert "never delete tests" in question[1]["content"]
    assert "-> terminal" in question[1]["content"]


def test_files_the_model_forgot_are_named() -> None:
    text = NoteWriter([summariser(lambda _: GOOD)]).leaf(SPAN, 400)
    assert text.endswith("Files: tests/test_parser.py, src/parser.py")


def test_names_in_the_contents_of_files_are_not_files() -> None:
    code = "row = client.get(url)\nif row.stale: return self.db\n"
    written = json.dumps({"path": "src/rows.py", "content": code * 20})
    span = [*SPAN, *answered("3", "write_file", written, "ok"), *answered("4", "x", "{}", code)]
    text = NoteWriter(()).leaf(span, 400)
    assert "Files: src/rows.py, src/parser.py, tests/test_parser.py" in text


def test_a_value_the_model_forgot_is_noted() -> None:
    span = [*SPAN, reply("The limit is 4,096 bytes. Nothing else is known.\nBuild 77ab21 has it.")]
    text = NoteWriter([summariser(lambda _: f"{GOOD} See build 77ab21.")]).leaf(span, 400)
    assert "\n- The limit is 4,096 bytes.\nFiles: " in text
    assert "Nothing else" not in text
    assert text.count("77ab21") == 1


def test_the_next_model_is_asked_when_one_fails_and_the_failed_one_is_left_alone() -> None:
    calls: list[str] = []

    def ask(messages: list[dict[str, Any]], most: int) -> SummaryAnswer:
        calls.append("first")
        raise ModelNotFound("gone")

    good, asked = recording(GOOD)
    writer = NoteWriter([SummaryModel(ask, 9000), good])
    for _ in range(3):
        assert writer.leaf(SPAN, 400).startswith(GOOD)
    assert (len(calls), len(asked)) == (1, 3)


@pytest.mark.parametrize(
    "summarisers",
    [
        (),
        (failing(), failing()),
        (summariser(lambda _: ""),),
        (summariser(lambda _: "a a a a a a a a " * 50),),
        (summariser(lambda _: "Lorem ipsum dolor sit amet consectetur adipiscing"),),
        (summariser(window=300),),
        (summariser(lambda _: "I'm sorry, but I can't help with that. " * 3),),
        (summariser(lambda asked: asked),),
        (summariser(lambda asked: asked[:600]),),
        (summariser(lambda _: "The user and the assistant worked on things. It went well."),),
    ],
    ids=[
        *("none", "failing", "empty", "repeating", "rubbish", "too small"),
        *("refusal", "echo", "short echo", "lazy"),
    ],
)
def test_without_a_model_the_notes_still_say_what_matters(summarisers):
    writer = NoteWriter(summarisers)
    text = writer.leaf(SPAN, 400)
    assert "- user: Please mend the parser in src/parser.py." in text
    assert "- user: Then mend that first, never delete tests." in text
    assert "- last answer: One test fails." in text
    assert "Tools: read_file ×1, terminal ×1" in text
    assert "tests/test_parser.py" in text
    assert writer.model == ""
    assert text == NoteWriter(()).leaf(SPAN, 400)
    assert text_tokens(text) <= 400


def test_spent_budget_loses_no_constraint() -> None:
    def ask(messages: list[dict[str, Any]], most: int) -> SummaryAnswer:
        raise BudgetSpent("no money")

    assert "never delete tests" in NoteWriter([SummaryModel(ask, 9000)]).leaf(SPAN, 400)


def test_a_small_window_gets_a_shorter_text() -> None:
    model, asked = recording(GOOD, window=1500)
    long_span = [*SPAN, *answered("3", "terminal", "{}", "x" * 50_000)]
    assert NoteWriter([model]).leaf(long_span, 200).startswith(GOOD)
    question = "".join(message["content"] for message in asked[0])
    assert text_tokens(question) + 200 <= 1500
    assert "never delete tests" in question


def test_text_of_many_bytes_is_cut_by_bytes() -> None:
    text = transcript([user("文" * 10_000)], 3000)
    assert len(text.encode()) <= 3200


def test_older_notes_become_one_with_or_without_a_model() -> None:
    nodes = [NoteNode(f"0000000{n}", f"Part {n}. {PARAGRAPH * 4}", runs=()) for n in range(3)]
    assert NoteWriter([summariser(lambda _: GOOD)]).inner(nodes, 100) == GOOD
    text = NoteWriter(()).inner(nodes, 100)
    assert [line[:8] for line in text.splitlines()] == ["- Part 0", "- Part 1", "- Part 2"]
    assert text_tokens(text) <= 100


@pytest.mark.parametrize("text", ["short", "word " * 500, "文" * 500, "[lcm:" * 300])
def test_no_note_is_longer_than_it_may_be(text: str) -> None:
    assert text_tokens(fit(text, 60)) <= 60


def test_almost_any_words_will_do_for_a_short_span() -> None:
    assert check_reply("ok", "hello") == "ok"
    for text in (" ", "<think>they said hello</think>", "I cannot do that."):
        with pytest.raises(UnusableReply):
            check_reply(text, "hello")


def test_notes_may_quote_and_are_taken_without_thoughts_and_fences() -> None:
    source = transcript(SPAN, 100_000)
    assert check_reply(f"<think>well</think>\n```\n{GOOD}\n```", source) == GOOD
    quoted = f"Asked for: “{PARAGRAPH}”\nDone: the parser was read.\nOpen: never delete tests."
    assert check_reply(quoted, source) == quoted


def test_files_are_distinguished_from_other_words() -> None:
    said = "see src/a.py, ~/notes/b.md, ./run.sh and setup.cfg; version 1.2.3, e.g. 3/4 of x.com"
    assert set(files_in([user(said)])) == {"src/a.py", "~/notes/b.md", "./run.sh", "setup.cfg"}

"""The archive of compacted messages and the tools that look into it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.messages import Image, Message, Text, User, to_dict
from hermes_plugins.context.lcm import LcmEngine, LcmOptions
from hermes_plugins.context.lcm.archive import MessageArchive, align, search_for
from hermes_plugins.context.lcm.notes import LogRun
from tests.cases import table_test
from tests.unit.context.lcm.conversations import (
    SMALL,
    WINDOW,
    Conversation,
    answered,
    reply,
    summariser,
    user,
)

WORDS = st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=9)


def said(*texts: str) -> list[Message]:
    return [User.say(text) for text in texts]


def archive(*texts: str, aside: tuple[Message, ...] = ()) -> MessageArchive:
    return MessageArchive(lambda: [to_dict(message) for message in said(*texts)], aside)


def texts(held: MessageArchive, run: LogRun) -> list[str] | None:
    found = held.read(run)
    return None if found is None else [each.message.text for each in found]


def longest(these: list[bytes], log: list[bytes]) -> int:
    if not these or not log:
        return 0
    if these[-1] == log[-1]:
        return 1 + longest(these[:-1], log[:-1])
    return max(longest(these[:-1], log), longest(these, log[:-1]))


@given(WORDS, WORDS)
def test_as_many_as_possible_are_placed_in_order(these: list[bytes], log: list[bytes]) -> None:
    placed = align(these, log)
    found = [place for place in placed if place is not None]
    assert found == sorted(set(found))
    assert all(log[p] == this for this, p in zip(these, placed, strict=True) if p is not None)
    assert len(found) == longest(these, log)


def test_the_latest_of_equal_messages_is_meant() -> None:
    assert align([b"a", b"b"], [b"a", b"b", b"x", b"a", b"b"]) == [3, 4]
    assert align([b"a", b"new"], [b"a", b"x", b"a", b"x"]) == [2, None]


def test_a_message_that_was_only_shown_does_not_throw_the_others_off() -> None:
    log = [b"go on", b"1", b"2", b"3", b"4"]
    assert align([b"1", b"2", b"go on", b"3", b"4"], log) == [1, 2, None, 3, 4]


def test_messages_are_kept_by_their_places_and_others_aside() -> None:
    held = archive("a", "b", "c", "d")
    one, other = held.keep(said("b", "c"), [1, 2])[0], held.keep(said("x", "d"), [None, 3])
    assert (one.first, one.last, one.aside) == (1, 2, False)
    assert [(run.first, run.last, run.aside) for run in other] == [(0, 0, True), (3, 3, False)]
    assert [texts(held, run) for run in (one, *other)] == [["b", "c"], ["x"], ["d"]]


def test_messages_are_found_where_they_went() -> None:
    (run,) = archive("a", "b", "c").keep(said("b", "c"), [1, 2])
    assert texts(archive("new", "a", "b", "c", "d"), run) == ["b", "c"]
    (copied,) = archive().keep(said("b", "c"), [None, None])
    assert texts(archive("a", "b", "c"), copied) == ["b", "c"]


def test_another_message_is_never_taken_for_the_one_that_was_there() -> None:
    (run,) = archive("a", "b", "c").keep(said("b"), [1])
    assert texts(archive("a", "B", "c"), run) is None
    assert texts(archive("a"), run) is None
    assert texts(MessageArchive(None), run) is None


@pytest.fixture
def talk() -> Conversation:
    made = Conversation(LcmEngine(WINDOW, SMALL), (summariser(),))
    made.say(user("Hello"), reply("Hi."))
    made.say(user("The password of the Staging server is in vault/staging.txt."), reply("Noted."))
    made.say(*answered("c1", "read_file", '{"path": "src/app.py"}', "first\nError 4711: no\nlast"))
    made.say(*answered("c2", "terminal", '{"command": "make"}', "out " * 1000), reply("Built."))
    for number in range(20):
        made.say(user(f"question {number} {'why ' * 60}"), reply(f"answer {number} {'so ' * 60}"))
    made.compact()
    return made


def test_the_tools_are_few_words() -> None:
    schemas = LcmEngine(1000).get_tool_schemas()
    assert [each["name"] for each in schemas] == ["lcm_grep", "lcm_describe", "lcm_expand"]
    assert len(json.dumps(schemas)) < 1400


@pytest.mark.parametrize(
    "query",
    ["staging PASSWORD", "server is in", r"vault/\w+\.txt", "stag(ing|e) server", "^the password"],
)
def test_grep_finds_words_and_patterns(talk: Conversation, query: str) -> None:
    (line,) = talk.call("lcm_grep", query=query).splitlines()
    assert line.startswith(f"{talk.ids()[0]} offset 0, user: ")
    assert "The password of the Staging server" in line


def test_a_hit_leads_to_its_message(talk: Conversation) -> None:
    (line,) = talk.call("lcm_grep", query=r"Error \d+").splitlines()
    node, _, offset = line.partition(",")[0].split(" ")
    assert line.endswith(", tool read_file: Error 4711: no")
    page = talk.call("lcm_expand", id=node, offset=int(offset), limit=1)
    assert page.startswith(f"--- {offset} tool read_file\nfirst\nError 4711: no\nlast\n")


def test_grep_finds_what_tools_were_called_with(talk: Conversation) -> None:
    assert '-> read_file {"path": "src/app.py"}' in talk.call("lcm_grep", query="src/app.py")


def test_grep_finds_nothing_in_messages_that_stayed(talk: Conversation) -> None:
    last = talk.context[-1]["content"].split(" so")[0]
    assert last == "answer 19"
    assert talk.call("lcm_grep", query=last).startswith("No hits in ")


def test_grep_says_how_much_more_there_is(talk: Conversation) -> None:
    *hits, more = talk.call("lcm_grep", query="question", limit=3).splitlines()
    assert len(hits) == 3
    total = len(talk.call("lcm_grep", query="question", limit=50).splitlines())
    assert more == f"[{total - 3} more: narrow the query or raise limit]"


@pytest.mark.parametrize("query", ["(", "[a", "*"])
def test_a_pattern_that_is_none_is_searched_as_words(query: str) -> None:
    assert search_for(query)(f"so {query} there") == f"so {query} there"
    assert search_for(query)("nothing") is None


def test_code_is_found_as_it_stands() -> None:
    assert search_for("parse(line)")("x = Parse(Line)") == "x = Parse(Line)"


def test_broken_text_is_searched_too() -> None:
    assert search_for(r"a\d")("\udc80 a1") == "a1"


def test_no_pattern_takes_for_ever() -> None:
    assert search_for("(a+)+$")("a" * 100_000 + "!") is None


def test_a_pattern_is_found_far_out_in_a_long_line() -> None:
    line = "x" * 5000 + " needle 42 " + "y" * 5000
    assert "needle 42" in (search_for(r"needle \d+")(line) or "")
    assert "needle 42" in (search_for("NEEDLE")(line) or "")


def test_describe_says_what_a_note_covers(talk: Conversation) -> None:
    node = talk.ids()[0]
    text = talk.call("lcm_describe", id=node)
    count = len(talk.expanded(node))
    assert text.startswith(f"{node}: notes on {count} messages, ")
    assert "2 tool messages" in text
    assert "Log: 2-" in text
    assert "Tools: read_file ×1, terminal ×1" in text
    assert "vault/staging.txt" in text
    assert "src/app.py" in text
    assert "Notes:\nThey spoke of" in text


@pytest.mark.parametrize("form", ["{}", "lcm:{}", "[lcm:{} 2-30/abcdef]", " {} "])
def test_an_id_is_understood_as_it_stands_in_the_notes(talk: Conversation, form: str) -> None:
    node = talk.ids()[0]
    assert talk.call("lcm_describe", id=form.format(node)).startswith(node)


def test_expand_gives_pages_and_says_how_to_go_on(talk: Conversation) -> None:
    node = talk.ids()[0]
    page = talk.call("lcm_expand", id=node, limit=2)
    assert page.splitlines()[-1] == f'[more: lcm_expand(id="{node}", offset=2)]'
    assert page.startswith("--- 0 user\nThe password")
    assert "--- 1 assistant\nNoted." in page


def test_a_long_message_comes_in_pieces(talk: Conversation) -> None:
    node = talk.ids()[0]
    offset = talk.expanded(node).index("out " * 1000)
    page = talk.call("lcm_expand", id=node, offset=offset)
    assert len(page) < SMALL.page_chars + 200
    assert page.endswith(f'[more: lcm_expand(id="{node}", offset={offset}, from_char=2000)]')
    page = talk.call("lcm_expand", id=node, offset=offset, from_char=2000)
    assert page.startswith(f"--- {offset} tool terminal, from character 2000\nout ")


@pytest.mark.parametrize("options", [SMALL, LcmOptions(protect_last_n=4, page_chars=100)])
def test_pages_put_together_are_the_originals(talk: Conversation, options: LcmOptions) -> None:
    talk.restart(options)
    assert talk.originals() == talk.compacted


def test_images_are_named_not_spelled_out() -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL))
    talk.say(user("Hello"), reply("Hi."))
    talk.say(User((Text("Look:"), Image(f"data:image/png;base64,{'A' * 90_000}"))), reply("A cat."))
    for number in range(20):
        talk.say(user(f"question {number} {'why ' * 60}"), reply("so"))
    talk.compact()
    page = talk.call("lcm_expand", id=talk.ids()[0], limit=1)
    assert "Look:\n[image data:image/png;base64, 90,022 characters]" in page
    assert "AAAA" not in page


@table_test
def test_invalid_call_returns_the_reason(talk, tool, args, said):
    assert said in json.loads(talk.call(tool, **args))["error"]


def test_offset_past_the_end_is_an_error(talk: Conversation) -> None:
    error = json.loads(talk.call("lcm_expand", id=talk.ids()[0], offset=999))["error"]
    assert "the first is offset 0" in error


@pytest.mark.parametrize("limit", ["3", "many", None, -5, 10**9])
def test_odd_numbers_are_taken_as_well_as_can_be(talk: Conversation, limit: object) -> None:
    assert talk.call("lcm_expand", id=talk.ids()[0], limit=limit).startswith("--- 0 user")


def test_before_anything_was_compacted_the_tools_say_so() -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL))
    assert "nothing was compacted yet" in talk.call("lcm_describe", id="x")
    assert talk.call("lcm_grep", query="x").startswith("No hits in 0 compacted messages")

"""Sessions as Markdown and HTML."""

import re
from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes.core.ports import SessionInfo
from hermes.ops.transcripts import PAGE_END, outline, page_start, session_section, to_markdown
from hermes.util.text import plain

STARTED = 1_769_868_000.0
PICTURE = "data:image/png;base64,iVBORw0KGgo="


def message(number: int, role: str, content: Any, **columns: Any) -> dict[str, Any]:
    return {
        "id": number,
        "role": role,
        "content": content,
        "timestamp": STARTED + number,
        **columns,
    }


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def record(*messages: dict[str, Any], **columns: Any) -> dict[str, Any]:
    return {
        "id": "20260131_140000_1a2b3c4d",
        "source": "cli",
        "model": "m",
        "started_at": STARTED,
        "messages": list(messages),
        "model_calls": [],
        "projection": None,
        **columns,
    }


def with_tools() -> dict[str, Any]:
    """A question, two calls (one fails), an answer."""
    calls = [call("a", "terminal", '{"command": "ls"}'), call("b", "read_file", '{"path": "x"}')]
    return record(
        message(1, "user", "list the\nfiles"),
        message(2, "assistant", "I look.", tool_calls=calls, reasoning="hm </details>"),
        message(3, "tool", "no such file", tool_call_id="b", tool_name="read_file",
                finish_reason="error"),
        message(4, "tool", "one\ntwo", tool_call_id="a", tool_name="terminal"),
        message(5, "assistant", "There are two."),
    )  # fmt: skip


def entries(exported):
    return outline(exported).entries


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
    assert [entry.turn for entry in entries(exported)] == [0, 1, 0, 2]


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


def test_undone_and_compacted_messages_are_left_out():
    rows = [message(n, "user", f"m{n}") for n in range(1, 6)]
    summary = {"role": "user", "content": "summary"}
    exported = record(*rows)
    span = [exported["id"], 2, 3]
    exported["projection"] = {"after_id": 4, "basis": [summary, span]}
    assert [entry.text for entry in entries(exported)] == ["summary", "m2", "m3", "m5"]
    assert outline(exported).message_count == 4


def test_session_is_named_by_its_title_or_its_first_message():
    assert outline(record(title="the\x1b[31m plan")).name == "the plan"
    long = outline(record(message(1, "user", "word " * 50))).name
    assert long.endswith("…")
    assert len(long) == 64
    assert outline(record()).name == "20260131_140000_1a2b3c4d"


def test_invalid_row_does_not_stop_the_rest():
    exported = record(message(1, "session_meta", "?"), message(2, "user", "hello"))
    assert [entry.text for entry in entries(exported)] == ["hello"]


def markdown(*messages, **columns):
    return to_markdown(outline(record(*messages, **columns)))


def test_a_conversation_reads_from_top_to_bottom():
    text = to_markdown(outline(with_tools()))
    assert text.startswith("# list the files\n\n- Session: `20260131_140000_1a2b3c4d`\n")
    places = [
        text.index(piece)
        for piece in (
            "## Turn 1, 2026-01-31",
            "**User**\n\nlist the\nfiles",
            "**Assistant**\n\n<details>\n<summary>Reasoning</summary>\n\nhm &lt;/details>",
            "I look.",
            '▸ **terminal** `{"command": "ls"}`\n\n```text\none\ntwo\n```',
            '✗ **read\\_file** `{"path": "x"}`\n\n```text\nno such file\n```',
            "There are two.\n",
        )
    ]
    assert places == sorted(places)
    assert text.count("**Assistant**") == 1


def test_long_results_are_cut_with_a_note():
    calls = [call("a", "terminal", '{"command": "' + "y" * 1000 + '"}')]
    text = markdown(
        message(1, "assistant", "", tool_calls=calls),
        message(2, "tool", "x" * 5000, tool_call_id="a", tool_name="terminal"),
    )
    assert "x" * 2000 in text
    assert "x" * 2001 not in text
    assert "*(3,000 more characters are not shown)*" in text
    assert "y" * 300 not in text


def test_code_fences_cannot_swallow_what_follows():
    calls = [call("a", "terminal", "`` ` ``")]
    text = markdown(
        message(1, "user", "look:\n```python\nx = 1"),
        message(2, "assistant", "", tool_calls=calls),
        message(3, "tool", "```\ninner\n```", tool_call_id="a", tool_name="terminal"),
    )
    assert "```python\nx = 1\n```\n" in text
    assert "````text\n```\ninner\n```\n````" in text
    assert "**terminal** ``` `` ` `` ```" in text


def test_tags_are_text_except_where_code_shows_them():
    text = markdown(message(1, "user", "<script>x</script> `<b>`\n```\n<i>\n```"))
    assert "&lt;script>x&lt;/script> `<b>`\n```\n<i>\n```" in text


def test_headings_of_a_message_stay_below_those_of_the_page():
    text = markdown(message(1, "assistant", "# Big\n## Less\n###### Least\n#hashtag"))
    assert "### Big\n#### Less\n###### Least\n#hashtag" in text


def test_titles_are_text():
    assert markdown(title="a *b* [c](d) `e`").startswith(r"# a \*b\* \[c\](d) \`e\`")


def test_escape_sequences_are_gone():
    assert "\x1b" not in markdown(message(1, "user", "\x1b[31mred"), title="\x1b]0;x\x07t")


OURS = frozenset(
    re.findall(
        r"\w+",
        "html head meta title style body article h1 h2 h3 bdi dl div dt dd time section p details "
        "summary pre code strong b span footer img nav ol li a small",
    )
)


class Reader(HTMLParser):
    """The tags, attributes and text of a page, as a browser finds them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.said = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data):
        self.said.append(data)

    @property
    def text(self):
        return "".join(self.said)


def page(*records):
    infos = [
        SessionInfo(one["id"], one["source"], one["model"], 0.0, title=one.get("title") or "")
        for one in records
    ]
    several = len(records) != 1
    lines = [
        f"{line}\n"
        for number, one in enumerate(records, start=1)
        for line in session_section(outline(one), number, several=several)
    ]
    return page_start(infos) + "".join(lines) + PAGE_END


def test_a_conversation_is_all_there_with_calls_folded_away():
    html = page(with_tools())
    text = Reader(html).text
    for piece in ("list the\nfiles", "I look.", "one\ntwo", "no such file", "There are two."):
        assert piece in text
    assert html.count("<details>") == 3
    assert '<summary class="bad"><b>read_file</b>' in html


def test_several_sessions_have_a_list_on_top():
    html = page(record(title="first"), {**record(title="second"), "id": "other"})
    assert "<h1>2 sessions</h1>" in html
    assert html.index('<a href="#session-2"><bdi>second') < html.index('<article id="session-1">')
    assert "<nav>" not in page(record())


def test_a_page_needs_nothing_from_outside():
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in (
        PICTURE, "https://tracker.invalid/x.png", "data:image/svg+xml;base64,PHN2Zz4=",
        'data:image/png;base64,"onerror=alert(1)',
    )]  # fmt: skip
    said = message(1, "user", [{"type": "text", "text": "![x](https://y.invalid/z.png)"}, *parts])
    reader = Reader(page(record(said)))
    assert [value for _, name, value in reader.attributes if name == "src"] == [PICTURE]
    links = [value for _, name, value in reader.attributes if name == "href"]
    assert all(link.startswith("#") for link in links)
    assert "script" not in reader.tags
    assert "https://tracker.invalid/x.png" in reader.text
    policy = [value for tag, _, value in reader.attributes if tag == "meta" and "default" in value]
    assert policy[0].startswith("default-src 'none'")


hostile = st.text() | st.sampled_from(
    ["</pre><script>alert(1)</script>", "<img src=x onerror=alert(1)>", '"><svg onload=x>', "&lt;"]
)


@given(hostile, hostile, hostile)
def test_message_text_never_becomes_markup(said, argument, result):
    exported = record(
        message(1, "user", said),
        message(2, "assistant", said, reasoning=said, tool_calls=[call("a", result, argument)]),
        message(3, "tool", result, tool_call_id="a", tool_name=argument),
        title=said,
        model=result,
        source=argument,
    )
    html = page(exported)
    reader = Reader(html)
    assert set(reader.tags) <= OURS
    assert not [name for _, name, _ in reader.attributes if name.startswith("on")]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", html)
    assert plain(result).strip() in reader.text


def test_markdown_is_rendered_as_html():
    html = page(record(message(1, "assistant", "# T\n**b** `<c>`\n```py\n<x>\n```\nend")))
    assert "<strong>T</strong>" in html
    assert "<strong>b</strong> <code>&lt;c&gt;</code>" in html
    assert (
        '<p class="note">py</p><pre dir="auto">&lt;x&gt;</pre><div class="text" dir="auto">end'
        in html
    )


def test_large_messages_are_written_in_linear_time():
    """Patterns that try again at every character would take hours for these."""
    size = 3_000_000
    texts = ["`" * size, "**" * (size // 2), "~" * size + "`", "# " * (size // 2), "\x1b]" * size]
    html = page(record(*[message(n, "user", text) for n, text in enumerate(texts)]))
    assert len(html) > 4 * size


def test_long_results_are_cut_on_a_page():
    calls = [call("a", "terminal", "{}")]
    html = page(
        record(
            message(1, "assistant", "", tool_calls=calls),
            message(2, "tool", "x" * 30_000, tool_call_id="a", tool_name="terminal"),
        )
    )
    assert "10,000 more characters are not shown." in html

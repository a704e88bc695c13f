import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from hermes.core.ports import SessionInfo
from hermes.ops.transcripts import PAGE_END, outline, page_start, session_section
from hermes.util.text import plain
from tests.unit.ops.transcripts.samples import PICTURE, call, message, record, with_tools

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
    sections = [
        session_section(outline(one), number, several=several)
        for number, one in enumerate(records, start=1)
    ]
    return page_start(infos) + "".join(sections) + PAGE_END


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
def test_nothing_that_was_said_becomes_markup(said, argument, result):
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


def test_what_looks_like_markdown_is_dressed():
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


def test_long_results_are_cut_with_a_note():
    calls = [call("a", "terminal", "{}")]
    html = page(
        record(
            message(1, "assistant", "", tool_calls=calls),
            message(2, "tool", "x" * 30_000, tool_call_id="a", tool_name="terminal"),
        )
    )
    assert "10,000 more characters are not shown." in html

"""Thinking between tags never reaches the reader of the answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.providers.wire.codec import ThinkTagSplitter

CASES = [
    ("<think>hm</think>yes", "yes", ["hm"]),
    ("<think>\nhm\n</think>\n\nyes", "yes", ["\nhm\n"]),
    ("<REASONING_SCRATCHPAD>hm</REASONING_SCRATCHPAD>yes", "yes", ["hm"]),
    ("a<think>b</think>c", "ac", ["b"]),
    ("one\n<think>b</think>two<think>c</think>", "one\ntwo", ["b", "c"]),
    ("<think>never closed", "", ["never closed"]),
    ("<think>x</thi", "", ["x</thi"]),
    ("if a <think> then b", "if a <think> then b", []),
    ("use `<think>` and `</think>` tags", "use `<think>` and `</think>` tags", []),
    ("a < b <thin", "a < b <thin", []),
    ("<b>bold</b>", "<b>bold</b>", []),
    ("<think></think>", "", [""]),
    ("", "", []),
]


@pytest.mark.parametrize(("text", "said", "thought"), CASES)
@given(data=st.data())
def test_tags_are_found_however_the_text_is_torn(data, text, said, thought):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    tags, shown = ThinkTagSplitter(), ""
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        shown += tags.feed(text[start:end])[0]
    shown += tags.end()
    assert shown == "".join(tags.visible) == said
    assert tags.thinking == thought


def test_thinking_streams_while_it_comes():
    tags = ThinkTagSplitter()
    pieces = [tags.feed(piece) for piece in ("<th", "ink>fir", "st</", "think>", "\n\nthen")]
    assert pieces == [("", ""), ("", "fir"), ("", "st"), ("", ""), ("then", "")]

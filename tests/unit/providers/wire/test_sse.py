"""Server-sent events survive any way the bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.providers.wire.model import SseSplitter, looks_like_sse, split_sse


def split(data: bytes, sizes: list[int]) -> list[bytes]:
    splitter, events = SseSplitter(), []
    for size in sizes:
        events += splitter.feed(data[:size])
        data = data[size:]
    events += splitter.feed(data)
    assert splitter.end() == b""
    return events


def test_comments_and_names_are_left_out():
    stream = b": hello\n\nevent: ping\ndata: {}\n\ndata: one\ndata: two\n\nid: 7\ndata:three\n\n"
    assert split(stream, []) == [b"{}", b"one\ntwo", b"three"]


def test_an_event_without_data_is_none():
    assert split(b"event: ping\n\n\n\nretry: 3\n\ndata:\n\n", []) == []


def test_unfinished_rest_is_returned_at_the_end():
    splitter = SseSplitter()
    assert splitter.feed(b'data: 1\n\n{"whole":') == [b"1"]
    assert splitter.feed(b"true}") == []
    assert splitter.end() == b'{"whole":true}'


def test_a_body_of_events_needs_no_blank_line_at_its_end():
    assert split_sse(b"data: a\n\ndata: last") == [b"a", b"last"]


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: 1", True),
        (b"\nevent: x\n", True),
        (b": wait\n\ndata: 1", True),
        (b'{"data": 1}', False),
        (b"<html>", False),
        (b"", False),
    ],
)
def test_a_body_of_events_is_recognised(body, events):
    assert looks_like_sse(body) is events


@pytest.mark.parametrize("separator", [b"\n", b"\r\n"])
@given(sizes=st.lists(st.integers(0, 7), max_size=60))
def test_the_borders_of_chunks_mean_nothing(sizes: list[int], separator: bytes):
    text = 'data: {"t":"grüße 你好"}\n\n: keep-alive\n\nevent: x\ndata: 2\n\ndata: a\ndata: b\n\n'
    stream = text.encode().replace(b"\n", separator)
    assert split(stream, sizes) == ['{"t":"grüße 你好"}'.encode(), b"2", b"a\nb"]

"""Server-sent events survive any way the bytes are cut."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.providers.wire.sse import server_events


async def _chunks(data: bytes, sizes: list[int]) -> AsyncIterator[bytes]:
    for size in sizes:
        yield data[:size]
        data = data[size:]
    yield data


async def _read(data: bytes, sizes: list[int] | None = None) -> list[tuple[bytes, bytes]]:
    return [tuple(event) async for event in server_events(_chunks(data, sizes or []))]


async def test_named_and_plain_events_come_in_order():
    stream = b": hello\n\nevent: ping\ndata: {}\n\ndata: one\ndata: two\n\n"
    assert await _read(stream) == [(b"ping", b"{}"), (b"", b"one\ntwo")]


async def test_an_event_without_a_closing_blank_line_is_not_lost():
    assert await _read(b"data: last") == [(b"", b"last")]


async def test_carriage_returns_do_not_matter():
    assert await _read(b"data: a\r\n\r\ndata: b\r\n\r\n") == [(b"", b"a"), (b"", b"b")]


@pytest.mark.parametrize("separator", [b"\n", b"\r\n"])
@given(sizes=st.lists(st.integers(0, 7), max_size=40))
async def test_the_borders_of_chunks_mean_nothing(sizes: list[int], separator: bytes):
    text = 'data: {"t":"grüße 你好"}\n\n: keep-alive\n\nevent: x\ndata: 2\n\n'
    stream = text.encode().replace(b"\n", separator)
    assert await _read(stream, sizes) == await _read(stream)

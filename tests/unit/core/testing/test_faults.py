"""Each fault is seen by a raw client. Without its fault every one of these tests fails."""

import gzip
import http.client
import json
import socket
import threading
import time
import zlib

import msgspec
import pytest

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import (
    CallIds,
    Cut,
    ErrorEvent,
    Gzip,
    Headers,
    Interleave,
    KeepAlive,
    Malformed,
    ModelServer,
    Redirect,
    Refuse,
    ScriptError,
    Slow,
    SplitBytes,
    Stall,
    Step,
)
from hermes.core.testing.script import REFUSALS
from tests.cases import cases

SAID = Text("twenty characters ok")
DELTAS = 3
CALLS = (
    ToolCall("call_1", "read_file", '{"path": "a.txt"}'),
    ToolCall("call_2", "terminal", '{"command": "ls -l"}'),
)
DELTA_TYPES = ("content_block_delta", "response.output_text.delta")


def words(events):
    """The pieces of text in a stream, on any wire."""
    found = []
    for event in events:
        if event == "[DONE]":
            continue
        if event.get("type") in DELTA_TYPES:
            delta = event["delta"]
            found.append(delta["text"] if isinstance(delta, dict) else delta)
        elif event.get("choices"):
            found.append(event["choices"][0]["delta"].get("content") or "")
    return [word for word in found if word]


def finished(raw):
    return any(end in raw for end in (b"[DONE]", b"message_stop", b"response.completed"))


EXPECTED = cases(__file__)["refusals"]


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_refusal_has_the_status_and_the_body_of_its_wire(post, path, kind):
    status, code, anthropic_type = EXPECTED[kind]
    with ModelServer([Refuse(kind)]) as server:
        answered = post(server, path, stream=True)
    assert answered.status == status
    assert answered.headers["content-type"] == "application/json"
    error = answered.json["error"]
    assert error["message"]
    if path == "/v1/messages":
        assert answered.json["type"] == "error"
        assert answered.json["request_id"]
        assert error["type"] == anthropic_type
        assert answered.headers["request-id"]
    else:
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] == code


def test_every_refusal_is_checked_here():
    assert set(EXPECTED) | {"html", "empty"} == set(REFUSALS)


def test_a_rate_limit_says_when_to_come_back(post, path):
    with ModelServer([Refuse("rate_limited", retry_after=1.5)]) as server:
        assert post(server, path).headers["retry-after"] == "1.5"


def test_a_gateway_answers_with_an_html_page_or_with_nothing(post, path, stream):
    with ModelServer([Refuse("html"), Refuse("empty")]) as server:
        page, empty = (post(server, path, stream=stream) for _ in range(2))
    assert (page.status, page.headers["content-type"]) == (502, "text/html")
    assert page.raw.startswith(b"<html>")
    assert (empty.status, empty.raw) == (200, b"")


def test_a_body_is_not_json(post, path):
    with ModelServer([Step((SAID,), faults=(Malformed(),))]) as server:
        answered = post(server, path)
    assert answered.status == 200
    with pytest.raises(json.JSONDecodeError):
        json.loads(answered.raw)


def test_one_event_of_a_stream_is_not_json(post, path):
    with ModelServer([Step((SAID,), faults=(Malformed(after=2),))]) as server:
        answered = post(server, path, stream=True)
    with pytest.raises(json.JSONDecodeError):
        _ = answered.events
    before, torn, after = answered.raw.partition(b'data: {"id":"torn","choices"')
    assert torn
    assert b"twenty c" in before
    assert b"haracter" in before
    assert b"s ok" not in before
    assert finished(after)


@pytest.mark.parametrize("after", range(DELTAS + 1))
def test_a_stream_is_cut_after_so_many_deltas(post, path, after):
    with ModelServer([Step((SAID,), faults=(Cut(after),))]) as server:
        with pytest.raises(http.client.IncompleteRead) as cut:
            post(server, path, stream=True)
        received = cut.value.partial
        assert not finished(received)
        seen = [word for word in (b"twenty c", b"haracter", b"s ok") if word in received]
        assert len(seen) == after


def test_a_body_is_cut_in_the_middle(post, path):
    incomplete = pytest.raises(http.client.IncompleteRead)
    with ModelServer([Step((SAID,), faults=(Cut(),))]) as server, incomplete as cut:
        post(server, path)
    assert cut.value.partial
    assert cut.value.expected, "bytes that were promised and did not come"


def open_stream(server, path, **body):
    """A connection on which a streamed reply has begun."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    whole = {"model": "m", "stream": True, "max_tokens": 9, "messages": [], "input": [], **body}
    connection.request("POST", path, json.dumps(whole).encode())
    return connection, connection.getresponse()


def read_until(response, mark):
    data = b""
    while mark not in data:
        data += response.read1(65536)
    return data


def test_a_stalled_stream_sends_nothing_more_and_the_server_sees_the_client_leave(path):
    with ModelServer([Step((SAID,), faults=(Stall(after=1),))]) as server:
        connection, response = open_stream(server, path)
        assert not finished(read_until(response, b"twenty c"))
        connection.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            response.read1(65536)
        assert server.hangups == 0
        response.close()
        connection.close()
        deadline = time.monotonic() + 10
        while not server.hangups and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.hangups == 1


@pytest.mark.parametrize("fault", [Stall(after=1, seconds=0.05), Slow(0.001), SplitBytes(1)])
def test_a_late_or_torn_reply_arrives_whole(ask, path, stream, fault):
    text = "twenty 日本語 🙂 characters"
    with ModelServer([Step((Text(text),), faults=(fault,))]) as server:
        assert ask(server, path, stream=stream).text == text


def test_a_body_stalls_before_it_comes(path):
    with ModelServer([Step((SAID,), faults=(Stall(),))]) as server:
        connection, response = open_stream(server, path, stream=False)
        connection.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            response.read1(10)
        connection.close()


def test_leaving_the_server_ends_a_stall():
    with ModelServer([Step((SAID,), faults=(Stall(after=1),))]) as server:
        connection, response = open_stream(server, "/v1/responses")
        read_until(response, b"twenty c")
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        response.read()
    connection.close()
    assert not [t for t in threading.enumerate() if t.name == "loopback-server"]


def test_slow_events_come_with_pauses_between_them(path):
    """With pauses of 5 s only the headers can be there after a short wait."""
    with ModelServer([Step((SAID,), faults=(Slow(5.0),))]) as server:
        connection, response = open_stream(server, path)
        connection.sock.settimeout(0.2)
        assert response.status == 200
        with pytest.raises(TimeoutError):
            response.read1(10)
        connection.close()


@pytest.mark.parametrize(("fault", "expected"), [("duplicate", "call_1"), ("missing", None)])
def test_calls_share_one_id_or_have_none(ask, path, stream, fault, expected):
    with ModelServer([Step(CALLS, faults=(CallIds(fault),))]) as server:
        calls = [call[:2] for call in ask(server, path, stream=stream).calls]
    assert calls == [(expected, "read_file"), (expected, "terminal")]


def owners(events):
    """Which call each piece of arguments belongs to, in order of arrival."""
    found = []
    for event in events:
        if event == "[DONE]":
            continue
        if event.get("type") in ("content_block_delta", "response.function_call_arguments.delta"):
            found.append(event.get("index", event.get("output_index")))
        for choice in event.get("choices", ()):
            pieces = choice["delta"].get("tool_calls", ())
            found += [piece["index"] for piece in pieces if "type" not in piece]
    return found


def test_arguments_of_parallel_calls_arrive_in_turns(post, path):
    with ModelServer([CALLS, Step(CALLS, faults=(Interleave(),))]) as server:
        plain = post(server, path, stream=True).events
        mixed = post(server, path, stream=True).events
    assert owners(plain) == [0, 0, 0, 1, 1, 1]
    assert owners(mixed) == [0, 1, 0, 1, 0, 1]


def test_interleaved_calls_still_add_up(ask, path):
    step = Step((Text("both:"), *CALLS), faults=(Interleave(),))
    with ModelServer([step]) as server:
        reply = ask(server, path, stream=True)
    assert reply.text == "both:"
    arguments = [call[2] for call in reply.calls]
    assert arguments == ['{"path":"a.txt"}', '{"command":"ls -l"}']


def test_an_error_arrives_in_the_stream_after_the_first_token(post, path):
    with ModelServer([Step((SAID,), faults=(ErrorEvent(after=1),))]) as server:
        answered = post(server, path, stream=True)
    assert answered.status == 200
    assert not finished(answered.raw)
    *before, error = answered.events
    assert words(before) == ["twenty c"]
    if path == "/v1/responses":
        found = (error["type"], error["code"], error["sequence_number"])
        assert found == ("error", "overloaded", len(before))
    else:
        assert error["error"]["type"] == "overloaded_error"
        overloaded = {"type": "overloaded_error", "message": "Overloaded"}
        assert path != "/v1/messages" or error == {"type": "error", "error": overloaded}


def test_comments_keep_the_connection_alive(post, ask, path):
    step = Step((SAID,), faults=(KeepAlive(),))
    with ModelServer([step, step]) as server:
        answered = post(server, path, stream=True)
        assert answered.raw.count(b": keep-alive\n\n") == len(answered.events)
        assert ask(server, path, stream=True).text == SAID.text


def chunk_sizes(server, path):
    """The sizes of the HTTP chunks of a streamed reply, read from the bare socket."""
    body = {"model": "m", "stream": True, "max_tokens": 9, "messages": [], "input": []}
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(head.encode() + data)
        raw = b"".join(iter(lambda: connection.recv(65536), b""))
    rest, chunks = raw.partition(b"\r\n\r\n")[2], []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        chunks.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return chunks[:-1]


def test_characters_are_torn_apart_between_chunks(path):
    with ModelServer([Step((Text("日本"),), faults=(SplitBytes(2),))]) as server:
        chunks = chunk_sizes(server, path)
    assert max(len(chunk) for chunk in chunks) == 2
    torn = 0
    for chunk in chunks:
        try:
            chunk.decode()
        except UnicodeDecodeError:
            torn += 1
    assert torn > 0
    assert "日本" in b"".join(chunks).decode()


def test_a_compressed_reply_says_the_same(post, path, stream):
    with ModelServer([[SAID], Step((SAID,), faults=(Gzip(),))]) as server:
        plain = post(server, path, stream=stream)
        packed = post(server, path, stream=stream)
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    unpacked = packed._replace(raw=gzip.decompress(packed.raw))
    whole = unpacked.events if stream else [unpacked.json]
    assert len(whole) == len(plain.events if stream else [plain.json])


def test_compressed_events_arrive_one_by_one(path):
    """The first delta can be read although the stream never ends."""
    with ModelServer([Step((SAID,), faults=(Gzip(), Stall(after=1)))]) as server:
        connection, response = open_stream(server, path)
        unpack, text = zlib.decompressobj(wbits=31), b""
        while b"twenty c" not in text:
            text += unpack.decompress(response.read1(65536))
        assert b"haracter" not in text
        connection.close()


def test_a_compressed_stream_with_an_error_in_it_is_a_complete_file(post, path):
    with ModelServer([Step((SAID,), faults=(Gzip(), ErrorEvent(after=1)))]) as server:
        raw = post(server, path, stream=True).raw
    assert b"error" in gzip.decompress(raw)


def test_a_compressed_reply_is_cut_or_refused(post, path):
    refused = Step(faults=(Refuse("quota"), Gzip()))
    with ModelServer([Step((SAID,), faults=(Gzip(), Cut(after=1))), refused]) as server:
        with pytest.raises(http.client.IncompleteRead) as cut:
            post(server, path, stream=True)
        answered = post(server, path)
    assert b"twenty c" in zlib.decompressobj(wbits=31).decompress(cut.value.partial)
    assert answered.status == 429
    assert b"error" in gzip.decompress(answered.raw)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_names_another_place(post, path, stream, status):
    with ModelServer([Redirect("https://elsewhere.example/v1", status)]) as server:
        answered = post(server, path, stream=stream)
        assert len(server.calls) == 1
    assert (answered.status, answered.raw) == (status, b"")
    assert answered.headers["location"] == "https://elsewhere.example/v1"


@pytest.mark.parametrize("fault", [None, Refuse("rate_limited"), Redirect("/there")])
def test_headers_come_with_whatever_is_sent(post, path, fault):
    extra = Headers({"x-ratelimit-remaining-requests": "0", "content-type": "text/plain"})
    step = Step((SAID,), faults=(extra, *([fault] if fault else [])))
    with ModelServer([step]) as server:
        headers = post(server, path).headers
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert headers.get_all("content-type") == ["text/plain"], "replaced, not sent twice"


def test_faults_can_be_combined(post, path):
    faults = (KeepAlive(), SplitBytes(3), Cut(after=2))
    incomplete = pytest.raises(http.client.IncompleteRead)
    with ModelServer([Step((SAID,), faults=faults)]) as server, incomplete as cut:
        post(server, path, stream=True)
    assert b": keep-alive" in cut.value.partial
    assert b"haracter" in cut.value.partial


@pytest.mark.parametrize(
    ("step", "stream", "complaint"),
    [
        (Step((SAID,), faults=(Cut(after=DELTAS + 1),)), True, "3 deltas, too few"),
        (Step((SAID,), faults=(CallIds("missing"),)), False, "0 tool calls, too few"),
        (Step(CALLS[:1], faults=(CallIds("duplicate"),)), True, "1 tool calls, too few"),
        (Step(CALLS[:1], faults=(Interleave(),)), True, "1 tool calls, too few"),
        (Step((SAID,), faults=(KeepAlive(),)), False, "needs a request with stream: true"),
        (Step((SAID,), faults=(ErrorEvent(),)), False, "needs a request with stream: true"),
        (Step(CALLS, faults=(Interleave(),)), False, "needs a request with stream: true"),
    ],
)
def test_a_fault_that_cannot_strike_fails_the_test(post, path, step, stream, complaint):
    with pytest.raises(ScriptError, match=complaint), ModelServer([step]) as server:
        answered = post(server, path, stream=stream)
        assert answered.status == 400
        assert complaint in answered.json["error"]["message"]


def test_a_mistyped_refusal_in_a_script_file_is_refused():
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value 'nope'"):
        msgspec.convert({"type": "refuse", "kind": "nope"}, Refuse)

"""What an edit leaves alone: line ends, the byte order mark, odd bytes."""

from hypothesis import given
from hypothesis import strategies as some

from hermes.tools.editing.document import Document, Edit, TextLines


def edited(data: bytes, old: str, new: str) -> bytes:
    document = Document(data)
    start = document.text.index(old)
    return document.apply([Edit(start, start + len(old), new)])


def test_crlf_and_mark() -> None:
    data = b"\xef\xbb\xbfone\r\ntwo\r\nthree"
    assert edited(data, "two", "2\n2") == b"\xef\xbb\xbfone\r\n2\r\n2\r\nthree"
    assert edited(data, "two\n", "") == b"\xef\xbb\xbfone\r\nthree"


def test_each_line_of_a_mixed_file_keeps_its_end() -> None:
    data = b"a\r\nb\nc\r\nd\ne\n"
    assert edited(data, "b\nc", "x\ny") == b"a\r\nx\ny\r\nd\ne\n"
    assert edited(b"a\r\nb\r\nc\n", "b", "x\ny") == b"a\r\nx\r\ny\r\nc\n"


def test_bytes_that_are_no_text_survive() -> None:
    assert edited(b"caf\xe9\nx\n", "x", "y") == b"caf\xe9\ny\n"


def test_lone_carriage_returns_are_text() -> None:
    assert edited(b"a\rb\n", "b", "c") == b"a\rc\n"


@given(
    some.lists(some.sampled_from(["a", "bb", "", "\r"]), max_size=8),
    some.lists(some.sampled_from(["\n", "\r\n"]), min_size=8, max_size=8),
    some.data(),
)
def test_only_the_edit_changes(lines: list[str], ends: list[str], data: some.DataObject) -> None:
    raw = "".join(line + end for line, end in zip(lines, ends, strict=False))
    document = Document(raw.encode())
    assert document.apply([]) == raw.encode()
    start = data.draw(some.integers(0, len(document.text)))
    end = data.draw(some.integers(start, len(document.text)))
    result = Document(document.apply([Edit(start, end, "Z")])).text
    assert result == document.text[:start] + "Z" + document.text[end:]


@given(
    some.text("ab\n", max_size=12),
    some.lists(some.sampled_from(["x", "y"]), max_size=3),
    some.data(),
)
def test_whole_lines_are_replaced_as_a_list_would(
    text: str, new: list[str], data: some.DataObject
) -> None:
    target = TextLines(text)
    first = data.draw(some.integers(0, len(target.lines)))
    last = data.draw(some.integers(first, len(target.lines)))
    edit = target.replace_lines(first, last, new)
    result = TextLines(text[: edit.start] + edit.new + text[edit.end :])
    expected = [*target.lines[:first], *new, *target.lines[last:]]
    # An unended last line that is blank cannot be told from an ended line before it.
    assert result.lines == expected or (not target.ended and expected[-1:] == [""])
    if expected and expected[-1]:
        assert result.ended == target.ended or not target.text

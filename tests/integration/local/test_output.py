"""What is kept of long output."""

from hermes.terminal import HeadAndTail, OutputLimits, cut_line, plain_text


def kept(data: bytes, limits: OutputLimits, piece: int = 7) -> tuple[str, bool]:
    window = HeadAndTail(limits)
    for start in range(0, len(data), piece):
        window.add(data[start : start + piece])
    return window.text()


def test_short_output_is_kept_whole() -> None:
    assert kept(b"one\ntwo\n", OutputLimits()) == ("one\ntwo\n", False)


def test_the_beginning_and_the_longer_end_are_kept() -> None:
    text, cut = kept(b"a" * 400 + b"x" * 9_000 + b"b" * 600, OutputLimits(max_bytes=1_000))
    assert cut
    assert text == "a" * 400 + "\n[… 9000 bytes left out …]\n" + "b" * 600


def test_a_character_is_never_cut_in_two() -> None:
    text, _ = kept("é".encode() * 5_000, OutputLimits(max_bytes=1_001))
    assert set(text) == set("é\n[… 8999 bytes left out …]")


def test_too_many_lines_lose_their_middle() -> None:
    data = "".join(f"{n}\n" for n in range(100)).encode()
    text, cut = kept(data, OutputLimits(max_lines=10))
    assert cut
    assert text == "0\n1\n2\n3\n[… 90 lines left out …]\n94\n95\n96\n97\n98\n99\n"


def test_memory_stays_bounded() -> None:
    window = HeadAndTail(OutputLimits(max_bytes=1_000))
    for _ in range(1_000):
        window.add(b"x" * 10_000)
    assert len(window._head) + len(window._tail) < 100_000


def test_a_long_line_is_cut_and_marked() -> None:
    assert cut_line("abcdef", 3) == "abc [… line cut]"
    assert cut_line("abc", 3) == "abc"


def test_since_skips_dropped_bytes() -> None:
    window = HeadAndTail(OutputLimits(max_bytes=10))
    window.add(b"abcd")
    assert window.since(0) == (b"abcd", 0)
    assert window.since(2) == (b"cd", 0)
    window.add(b"efgh")
    assert (window.total, window.since(4)) == (8, (b"efgh", 0))
    window.add(b"0123456789")
    assert window.total == 18
    assert window.since(15) == (b"789", 0)
    assert window.since(4) == ("\n[… 8 bytes left out …]\n456789".encode(), 8)
    assert window.since(6)[1] == 6
    assert window.since(18) == (b"", 0)


def test_lines_keep_their_numbers_over_a_gap() -> None:
    window = HeadAndTail(OutputLimits(max_bytes=1_000))
    for number in range(1, 1_001):
        window.add(b"line %d\n" % number)
    numbered = window.numbered_lines()
    assert numbered[0] == (1, "line 1")
    assert numbered[-1] == (1_000, "line 1000")
    whole = [text for number, text in numbered if text == f"line {number}"]
    assert len(whole) >= len(numbered) - 2  # one at each side of the gap may be cut
    assert HeadAndTail(OutputLimits()).numbered_lines() == []


def test_colours_and_progress_bars_are_taken_out() -> None:
    assert plain_text("\x1b[1;31mred\x1b[0m\r\n") == "red"
    assert plain_text("10%\r50%\r100%\ndone\n") == "100%\ndone"
    assert plain_text("\x1b]0;title\x07text\x00\x08") == "text"
    assert plain_text("\x1b(B\x1b[mtext\x1b7") == "text"
    assert plain_text("a\tb\n") == "a\tb"
    assert plain_text("broken \x1b]0;title\nnext line") == "broken \nnext line"


def test_one_very_long_line_is_read_once() -> None:
    # Takes minutes when every position is looked at from every other one.
    assert len(plain_text("x" * 1_000_000)) == 1_000_000
    assert plain_text("\x1b]x" * 100_000) == ""

"""What is kept of long output."""

from hermes.terminal.output import HeadAndTail, OutputLimits, cut_line


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

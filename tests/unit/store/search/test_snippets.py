import sys

import pytest

from hermes.store.query_language import parse_query
from hermes.store.search import LENGTH, fold, snippet

PLAIN = "lorem ipsum dolor sit amet " * 100


def show(content: str, query: str) -> str:
    return snippet(content, parse_query(query))


@pytest.mark.parametrize(
    ("content", "query", "shown"),
    [
        ("the needle is here", "needle", "the >>>needle<<< is here"),
        ("The NEEDLE", "needle", "The >>>NEEDLE<<<"),
        ("needles", "needle", "needles"),
        ("needles", "needle*", ">>>needles<<<"),
        ("a b c a", "a OR c", ">>>a<<< b >>>c<<< >>>a<<<"),
        ("a b c", "a NOT b", ">>>a<<< b c"),
        ("use Chat-Send now", "chat-send", "use >>>Chat-Send<<< now"),
        ("use chat, send now", '"chat send"', "use >>>chat, send<<< now"),
        ("use chat_send now", "chat-send", "use >>>chat_send<<< now"),
        ("disk error codes", '"disk err"*', ">>>disk error<<< codes"),
        ("chat then send", '"chat send"', "chat then send"),
        ("das Café", "cafe", "das >>>Café<<<"),
        ("das Cafe\u0301 da", "café", "das >>>Café<<< da"),
        ("the cafe", "CAFÉ", "the >>>cafe<<<"),
        ("İstanbul yes", "yes", "İstanbul >>>yes<<<"),
        ("ΟΔΟΣ ok", "οδοσ", ">>>ΟΔΟΣ<<< ok"),
        ("Тест слова", "слова", "Тест >>>слова<<<"),
        ("मुझे हिन्दी आती", "हिन्दी", "मुझे >>>हिन्द<<<ी आती"),
        ("party🎉time", "time", "party🎉>>>time<<<"),
        ("我们讨论了部署的问题", "部署", "我们讨论了>>>部署<<<的问题"),
        ("我们讨论了部署的问题", "部署 我", ">>>我<<<们讨论了>>>部署<<<的问题"),
        ("去日本語学校", "日本 OR 日本語", "去>>>日本語<<<学校"),
        ("我用Python写", "python", "我用>>>Python<<<写"),
        ("我用Python写 Pythonic", "pyth*", "我用>>>Pyth<<<on写 >>>Pythonic<<<"),
        ("我用Go写 go", "go", "我用Go写 >>>go<<<"),
        ("서버를 다시", "서버", ">>>서버<<<를 다시"),
        ("คืนนี้", "นี้", "คืน>>>นี้<<<"),
        ("one\n\n  two\tthree", "two", "one >>>two<<< three"),
        ("disk\nerror", '"disk error"', ">>>disk error<<<"),
        ("", "needle", ""),
        ("no match at all", "needle", "no match at all"),
        ("a.b (c) [d] \\ $", "b c d", "a.>>>b<<< (>>>c<<<) [>>>d<<<] \\ $"),
    ],
)
def test_matches_are_marked(content, query, shown):
    assert show(content, query) == shown


def test_a_long_text_is_cut_between_words_around_the_match():
    shown = show(PLAIN + "the needle " + PLAIN, "needle")
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert ">>>needle<<<" in shown
    assert 200 <= len(shown) <= LENGTH + len("…>>><<<…")
    assert set(shown.strip("…").replace(">>>needle<<<", "the").split()) <= {*PLAIN.split(), "the"}


def test_nothing_is_marked_as_cut_at_the_ends_of_the_text():
    assert show("needle " + PLAIN, "needle").startswith(">>>needle<<< lorem")
    assert show(PLAIN + "needle", "needle").endswith("amet >>>needle<<<")
    assert show(PLAIN, "needle").startswith("lorem ipsum")
    assert show(PLAIN, "needle").endswith("…")


def test_the_place_with_the_most_terms_is_shown():
    text = f"red {PLAIN} blue {PLAIN} the red and the blue {PLAIN} red"
    assert ">>>red<<< and the >>>blue<<<" in show(text, "red blue")


def test_a_match_longer_than_the_snippet_is_cut():
    words = " ".join(f"w{number}" for number in range(200))
    shown = show(f"{PLAIN}{words} {PLAIN}", f'"{words}"')
    assert shown.startswith("…>>>w0 w1")
    assert shown.endswith("<<<…")
    assert len(shown) <= LENGTH + len("…>>><<<…")


@pytest.mark.parametrize("filler", ["lorem ipsum ", "señor água ", "漢字仮名 ", "ab"])
@pytest.mark.parametrize("where", [0, 65_000, 65_536, 65_700, 131_072, 400_000])
def test_a_match_is_found_anywhere_in_a_huge_text(filler, where):
    text = (filler * (1 + where // len(filler)))[:where]
    shown = show(f"{text} needle {filler * 1000}", "needle")
    assert ">>>needle<<<" in shown
    assert shown.count("needle") == 1


def test_a_word_is_not_mistaken_at_the_edge_of_a_slice():
    for shift in range(-8, 9):
        text = "x" * (65_536 - 240 + shift) + "needle " + "hay " * 40_000
        assert ">>>" not in show(text, "needle")
        text = "x " * ((65_536 + 240) // 2) + "y" * (10 + shift) + " needles " + "hay " * 40_000
        assert ">>>" not in show(text, "needle")


def test_folding_keeps_every_character_in_its_place():
    longer = [
        code
        for code in range(sys.maxunicode + 1)
        if not 0xD800 <= code < 0xE000 and len(fold(chr(code))) != 1
    ]
    assert longer == []

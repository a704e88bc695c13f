"""The query language of search, and scripts written without spaces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.store.search import (
    MAX_TERMS,
    RANGES,
    Group,
    Query,
    Term,
    is_unspaced,
    parse_query,
)


def shown(query: Query) -> str:
    """The query in a form that is easy to compare: `a & b & !c | d`."""
    return " | ".join(map(shown_group, query.any_of))


def shown_group(group: Group) -> str:
    return " & ".join(
        [*map(shown_term, group.all_of), *(f"!{shown_term(t)}" for t in group.none_of)]
    )


def shown_term(term: Term) -> str:
    return "+".join(term.words) + ("*" if term.prefix else "")


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("disk", "disk"),
        ("disk error", "disk & error"),
        ("disk AND error", "disk & error"),
        ("disk and error", "disk & and & error"),
        ('"disk error"', "disk+error"),
        ('"disk error"*', "disk+error*"),
        ("disk OR error", "disk | error"),
        ("disk NOT error", "disk & !error"),
        ("disk AND NOT error", "disk & !error"),
        ("a NOT b c", "a & c & !b"),
        ("a b OR c NOT d", "a & b | c & !d"),
        ("a OR b AND c", "a | b & c"),
        ('NOT "disk error" full', "full & !disk+error"),
        ("deploy*", "deploy*"),
        ("chat-send", "chat+send"),
        ("my_app.config.ts", "my+app+config+ts"),
        ("my_app.conf*", "my+app+conf*"),
        ("don't", "don+t"),
        ("src/hermes/main.py:12", "src+hermes+main+py+12"),
        ("naïve café", "naïve & café"),
        ("cafe\u0301", "café"),
        ("“disk error”", "disk+error"),
        ("数据库 迁移", "数据库 & 迁移"),
        ("数据库\u3000迁移", "数据库 & 迁移"),
        ("Ünïcode-Wörter", "Ünïcode+Wörter"),
    ],
)
def test_query_is_parsed(text, meaning):
    assert shown(parse_query(text)) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ('disk"', "disk"),
        ('"disk error', "disk & error"),
        ('"disk error" "full', "disk+error & full"),
        ('a "" b', "a & b"),
        ("disk AND", "disk"),
        ("OR disk", "disk"),
        ("disk OR", "disk"),
        ("disk NOT", "disk"),
        ("AND OR NOT", ""),
        ("a OR OR b", "a | b"),
        ("a NOT OR b", "a | b"),
        ("a NOT NOT b", "a & !b"),
        ("NOT AND b", "b"),
        ("NOT disk", "disk"),
        ("NOT a NOT b", "a & b"),
        ("a OR NOT b", "a | b"),
        ("a NOT !!! b", "a & b"),
        ('a NOT "" b', "a & b"),
        ("(a OR b)", "a | b"),
        ("(NOT a) b", "b & !a"),
        ('"AND"', "AND"),
        ("NOT*", "NOT*"),
        ("+disk -error ^first {x}", "disk & error & first & x"),
        ("*disk", "disk"),
        ("di*sk", "di+sk"),
        ("disk*)", "disk*"),
        ("disk)*", "disk"),
        ("content:disk", "content+disk"),
        ("🎉 party", "party"),
        ("a\x00b\ud800c", "abc"),
        ("", ""),
        ("   ", ""),
        ('"', ""),
        ("🎉", ""),
        ("_", ""),
        ("*** --- ((", ""),
    ],
)
def test_meaningless_operators_are_dropped(text, meaning):
    assert shown(parse_query(text)) == meaning


def test_a_term_keeps_the_text_as_written():
    (group,) = parse_query('(chat-send) "disk  error"* 你好，世界！ ที่').any_of
    assert [term.text for term in group.all_of] == ["chat-send", "disk  error", "你好，世界", "ที่"]


def test_terms_of_scripts_without_spaces_are_known():
    (group,) = parse_query("disk 数据 Python写 서버 ไทย café Москва עברית").any_of
    unspaced = [term.text for term in group.all_of if term.is_unspaced]
    assert unspaced == ["数据", "Python写", "서버", "ไทย"]


def test_a_huge_query_is_cut():
    assert shown(parse_query("a " * 100_000)).count("a") == MAX_TERMS
    assert len(parse_query("a OR " * 100_000).any_of) == MAX_TERMS
    assert len(parse_query("x" * 1_000_000).any_of[0].all_of[0].text) <= 2000


@given(st.text())
def test_any_text_is_a_query_of_words(text):
    for group in parse_query(text).any_of:
        assert group.all_of
        for term in (*group.all_of, *group.none_of):
            assert term.words
            assert '"' not in term.text
            assert all(word and not set(word) & set(" \"'*()^:+-_\x00") for word in term.words)


@pytest.mark.parametrize(
    "text",
    [
        "漢",
        "ひ",
        "カ",
        "ｶ",
        "ㄅ",
        "한",
        "ᄒ",
        "ㅎ",
        "ไทย",
        "ລາວ",
        "ខ្មែរ",
        "မြန်မာ",
        "བོད",
        "𠮷",
        "豈",
        "ok 漢",
    ],
)
def test_scripts_written_without_spaces(text):
    assert is_unspaced(text)


@pytest.mark.parametrize(
    "text",
    ["", "word", "Ünï", "слово", "λέξη", "שלום", "سلام", "हिन्दी", "ქართული", "“—” → ✅ 🎉 ✔️"],
)
def test_scripts_written_with_spaces_and_signs(text):
    assert not is_unspaced(text)


def test_ranges_ascend_and_do_not_overlap():
    bounds = [bound for first, last, _ in RANGES for bound in (first, last)]
    assert bounds == sorted(set(bounds))

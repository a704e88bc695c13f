"""The query language of search, and scripts written without spaces."""

from hypothesis import given
from hypothesis import strategies as st

from hermes.store.search import MAX_TERMS, RANGES, Group, Query, Term, is_unspaced, parse_query
from tests.unit.store.library import CORPUS


def shown(query: Query) -> str:
    """The query in a form that is easy to compare: `a & b & !c | d`."""
    return " | ".join(map(shown_group, query.any_of))


def shown_group(group: Group) -> str:
    return " & ".join(
        [*map(shown_term, group.all_of), *(f"!{shown_term(t)}" for t in group.none_of)]
    )


def shown_term(term: Term) -> str:
    return "+".join(term.words) + ("*" if term.prefix else "")


def test_queries_are_parsed():
    """Also those with operators that have no operand, and signs that are not part of a word."""
    meanings = {**CORPUS["meaning"], **CORPUS["meaning_without_signs"], "a\x00b\ud800c": "abc"}
    assert {text: shown(parse_query(text)) for text in meanings} == meanings


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


def test_scripts_written_without_spaces():
    for text in "漢 ひ カ ｶ ㄅ 한 ᄒ ㅎ ไทย ລາວ ខ្មែរ မြန်မာ བོད 𠮷 豈 ok漢".split():  # noqa: SIM905
        assert is_unspaced(text), text
    for text in ("", "word Ünï слово λέξη", "שלום سلام हिन्दी ქართული", "“—” → ✅ 🎉 ✔️"):
        assert not is_unspaced(text), text


def test_ranges_ascend_and_do_not_overlap():
    bounds = [bound for first, last, _ in RANGES for bound in (first, last)]
    assert bounds == sorted(set(bounds))

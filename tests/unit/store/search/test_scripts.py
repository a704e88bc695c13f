import pytest

from hermes.store.query_language import RANGES, is_unspaced


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

"""What counts as a reference in a text, and what does not."""

import pytest

from hermes.app.references.reference import address, references, spellings, with_lines


def found(text: str) -> list[tuple[str, str]]:
    return [(each.kind, each.value) for each in references(text)]


def test_every_kind_is_found_in_the_order_of_the_text() -> None:
    text = "see @file:a.py:1-3 @folder:src @diff and @staged, @git:3 @url:https://x.example/y @b.md"
    assert found(text) == [
        ("file", "a.py:1-3"),
        ("folder", "src"),
        ("diff", ""),
        ("staged", ""),
        ("git", "3"),
        ("url", "https://x.example/y"),
        ("bare", "b.md"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "mail me at kim@example.com",
        "git@host:repo.git",
        "a \\@file:x is not meant",
        "`@file:x` is how it is written",
        "``a ` @file:x``",
        "```python\n@property\ndef x(self): ...\n```\n",
        "~~~\n@file:x\n~~~",
        "```\n@file:x never closed",
        "@",
        "https://example.com/@file:x",
    ],
)
def test_addresses_and_code_are_left_alone(text: str) -> None:
    assert found(text) == []


def test_text_goes_on_behind_code() -> None:
    assert found("`code` @file:a\n```\n@file:b\n```\n@file:c `") == [("file", "a"), ("file", "c")]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('@file:"my notes.txt"', "my notes.txt"),
        ("@file:'my notes.txt':3-4 please", "my notes.txt:3-4"),
        ("@file:my\\ notes.txt", "my notes.txt"),
        ('@FILE:"a b"', "a b"),
        ("(@file:a.py)", "a.py)"),
        ("看@file:a.py，好", "a.py，好"),
    ],
)
def test_paths_with_blanks_and_in_sentences(text: str, value: str) -> None:
    assert found(text) == [("file", value)]


def test_a_file_called_like_a_word_is_no_word() -> None:
    assert found("@diff-notes.txt @staged/x @diff.py") == [
        ("bare", "diff-notes.txt"),
        ("bare", "staged/x"),
        ("bare", "diff.py"),
    ]
    assert found("what is in @diff?") == [("diff", "")]


def test_the_same_reference_twice_is_one() -> None:
    assert len(references("@file:a and @file:a")) == 1


@pytest.mark.parametrize("text", ["(@a.py).", "@a.py，然后"])
def test_marks_behind_a_path_may_belong_to_the_sentence(text: str) -> None:
    (only,) = references(text)
    assert "a.py" in spellings(only)


def test_lines_are_told_from_the_path() -> None:
    path, lines = with_lines("src/a:b.py:10-20")
    assert (path, lines and (lines.first, lines.last)) == ("src/a:b.py", (10, 20))
    assert with_lines("src/a.py") == ("src/a.py", None)


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("https://x.example/a_(b).", "https://x.example/a_(b)"),
        ("https://x.example/a),", "https://x.example/a"),
        ("https://x.example/?q=1!", "https://x.example/?q=1"),
    ],
)
def test_a_url_ends_before_the_marks_of_the_sentence(written: str, url: str) -> None:
    assert address(written) == url


def test_a_long_paste_is_looked_through_at_once() -> None:
    """Each of these once took more than linear time."""
    for piece in ("@" + "!" * 50_000, "`" * 50_000, "@a " * 20_000, "`a @x` " * 20_000):
        references(piece)
        for each in references(piece)[:5]:
            spellings(each)

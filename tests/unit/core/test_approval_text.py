"""The text of approval requests."""

import string

from hypothesis import given
from hypothesis import strategies as st

from hermes.core.approval_text import ApprovalText, fenced, hook_request, render_approval
from hermes.core.events import ApprovalAsked


def rendered(subject: str, **options) -> ApprovalText:
    asked = ApprovalAsked("c1", "terminal", subject, "deletes", effect="execute", folder="/work")
    return render_approval(asked, **options)


def test_request_names_tool_effect_subject_reason_folder_and_person() -> None:
    text = rendered("rm -r a\nls", asked_by="local:bob")
    assert text.lines == (
        "terminal wants to run this:",
        "│ rm -r a",
        "│ ls",
        "deletes",
        "in the folder /work",
        "asked by local:bob",
    )


def test_characters_that_cannot_be_seen_are_escaped() -> None:
    text = rendered("a\x1b[2K\rb\u202e\u200b\u3164\t\xa0c")
    assert text.subject == (r"│ a\x1b[2K\rb\u202e\u200b\u3164\t\xa0c",)
    asked = ApprovalAsked("c1", "t\x1b", "x", "why\nnot\u202e", folder="/a\nb")
    assert render_approval(asked).lines == (
        r"t\x1b wants to do this:", "│ x", r"why\nnot\u202e", r"in the folder /a\nb",
    )  # fmt: skip


def test_long_lines_are_broken_and_marked() -> None:
    text = rendered(string.ascii_letters, columns=30)
    assert text.subject == (f"│ {string.ascii_letters[:28]}", f"↪ {string.ascii_letters[28:]}")
    assert rendered("日" * 20, columns=32).subject == ("│ " + "日" * 15, "↪ " + "日" * 5)


def test_runs_are_counted() -> None:
    assert rendered(f"echo {'a' * 1470}; rm").subject == ('│ echo [… 1,470 × "a" …]; rm',)
    assert rendered("ls" + "\n" * 9 + "rm").subject == ("│ ls", "│ [… 8 blank lines …]", "│ rm")


@given(st.text(string.ascii_letters + " \n\x1b日", max_size=3_000), st.integers(3, 40))
def test_cut_keeps_both_ends_within_the_rows(subject: str, rows: int) -> None:
    text = rendered(subject, columns=40, rows=rows)
    assert len(text.subject) <= rows
    assert 0 <= text.hidden <= len(subject)
    whole = rendered(subject, columns=40, rows=10_000).subject
    assert (text.subject[0], text.subject[-1]) == (whole[0], whole[-1])
    assert bool(text.hidden) == any("not shown" in row for row in text.subject)


def test_huge_subject_is_read_at_both_ends() -> None:
    words = " ".join(map(str, range(200_000)))
    text = rendered(words, rows=5)
    assert text.subject[0].startswith("│ 0 1 2") and text.subject[-1].endswith("199999")
    shown = sum(len(row) - 2 for row in text.subject if row[0] in "│↪")
    assert abs(shown + text.hidden - len(words)) <= len(text.subject)  # spaces at the ends of rows


def test_fence_is_longer_than_any_inside() -> None:
    assert fenced(("a", "```", "`````b")) == "``````\na\n```\n`````b\n``````"
    assert fenced(("a",)) == "```\na\n```"


def test_hook_is_shown_like_a_call() -> None:
    assert render_approval(hook_request("on_start", "rm x")).lines == (
        "A hook of your settings wants to run this:", "│ rm x", "at on_start",
    )  # fmt: skip

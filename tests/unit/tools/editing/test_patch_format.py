"""Patches as models write them."""

import pytest

from hermes.core.errors import ToolArgumentsInvalid
from hermes.tools.editing.patch_format import Hunk, PatchSection, parse_patch
from tests.cases import cases

CASES = cases(__file__)


def envelope(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def test_all_kinds_of_sections():
    patch = envelope(
        "*** Add File: new.py", "+import os", "+", "+x = 1",
        "*** Delete File: old.py",
        "*** Update File: a/b.py", "*** Move to: a/c.py",
        "@@ class A:", "@@ def f(self):", " one", "-two", "+2", "", " three",
        "@@", "-last", "+LAST", "*** End of File",
    )  # fmt: skip
    assert parse_patch(patch) == [
        PatchSection("add", "new.py", content="import os\n\nx = 1\n"),
        PatchSection("delete", "old.py"),
        PatchSection(
            "update",
            "a/b.py",
            (
                Hunk(
                    ["one", "two", "", "three"],
                    ["one", "2", "", "three"],
                    headers=("class A:", "def f(self):"),
                ),
                Hunk(["last"], ["LAST"], at_end=True),
            ),
            move_to="a/c.py",
        ),
    ]


def test_text_around_the_patch_is_ignored():
    patch = "Here:\n```\n" + envelope("*** Update File: a", "-x", "+y", "") + "\n```\n"
    assert parse_patch(patch) == [PatchSection("update", "a", (Hunk(["x"], ["y"]),))]


def test_unified_diff():
    assert parse_patch(CASES["unified"]) == [
        PatchSection(
            "update",
            "src/a.py",
            (
                Hunk(["one", "two", "three"], ["one", "2", "three"], line=3),
                Hunk([], ["more"], line=21),
            ),
        ),
        PatchSection("add", "new.txt", content="hello\nworld"),
        PatchSection("delete", "gone.txt"),
        PatchSection("update", "was.txt", move_to="is.txt"),
    ]


def test_removed_line_of_dashes_is_not_a_header():
    diff = "--- a.sql\n+++ a.sql\n@@ -1,2 +1,2 @@\n--- old comment\n+++ new comment\n x\n"
    assert parse_patch(diff) == [
        PatchSection(
            "update", "a.sql", (Hunk(["-- old comment", "x"], ["++ new comment", "x"], line=1),)
        )
    ]


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        ("", "not a patch"),
        ("hello", "not a patch"),
        (envelope(), "changes nothing"),
        ("*** Begin Patch\n*** Update File: a\n-x\n+y", "cut off"),
        (envelope("*** Update File: a", "x"), "neither space"),
        (envelope("*** Update File: a"), "has no hunk"),
        (envelope("*** Update File:", "-x"), "names no file"),
        (envelope("*** Add File: a", "x"), "must begin with"),
        (envelope("what"), "not a file header"),
        ("--- a\n+++ b\n@@ wrong @@\n-x\n", "not a hunk header"),
        ("--- a\n+++ a\n@@ -1 +1 @@\nx\n", "neither space"),
    ],
)
def test_invalid_patch_is_explained(patch, reason):
    with pytest.raises(ToolArgumentsInvalid, match=reason):
        parse_patch(patch)

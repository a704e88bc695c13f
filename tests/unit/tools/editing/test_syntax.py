"""Whether a file still parses."""

import warnings

import pytest

from hermes.tools.editing.document import new_syntax_problem

GOOD = {
    "a.py": b"x: int = 1\n",
    "b.py": b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
    "c.py": b"x = '\\d'\n",
    "a.json": b'{"a": [1, 2]}',
    "tsconfig.json": b'{\n  // why\n  "a": 1,\n}',
    "a.yaml": b"a: 1\n---\nb: !Ref x\n",
    "chart.yml": b"a: {{ .Values.x }}\n",
    "a.toml": b"[a]\nb = 1\n",
    "a.svg": b"<svg><g/></svg>",
    "a.sh": b'for x in a b; do echo "$x"; done\n',
    "run": b"#!/bin/bash\nif true; then :; fi\n",
    "note.txt": b"def f(:",
    "Makefile": b"a: b",
    "deep.json": b"[" * 100 + b"]" * 100,
}
BAD = {
    "a.py": (b"x = 1\ndef f(:\n", 2),
    "nul.py": (b"x = '\0'\n", 0),
    "a.json": (b'{\n"a": 1,\n}', 3),
    "latin.json": (b'"\xe9"', 0),
    "deep.json": (b"[" * 100_000, 0),
    "a.yaml": (b"a: 1\nb: [1\nc: 2\n", 3),
    "a.toml": (b"a = 1\nb = \n", 2),
    "a.xml": (b"<a>\n<b>\n</a>", 3),
    "a.sh": (b"echo\nif true; then echo\n", 2),
    "script": (b"#!/usr/bin/env python3\nx = (\n", 2),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_is_right_passes(name: str) -> None:
    assert new_syntax_problem(name, None, GOOD[name]) is None


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_told_with_its_line(name: str) -> None:
    data, line = BAD[name]
    problem = new_syntax_problem(name, None, data)
    assert problem is not None
    assert problem.text
    assert not line or problem.line == line


def test_only_what_the_edit_did_counts() -> None:
    assert new_syntax_problem("a.py", b"def f(:\n", b"x = 1\ndef f(:\n") is None
    assert new_syntax_problem("a.py", b"x = 1\n", b"def f(:\n") is not None
    assert new_syntax_problem("a.json", b"{", b'{"a" 1}') is not None, "another problem"


def test_a_huge_file_is_left_out_and_no_warning_escapes() -> None:
    assert new_syntax_problem("a.json", None, b"{" * 600_000) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert new_syntax_problem("a.py", None, b"x = '\\d'\n") is None
    deep = b"-" * 200_000 + b"1\n"
    assert new_syntax_problem("a.py", None, b"x = " + deep) is not None

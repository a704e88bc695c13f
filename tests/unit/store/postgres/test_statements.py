"""Statements with `?` marks, as psycopg wants them."""

import pytest

from hermes.store.postgres.connection import to_psycopg


@pytest.mark.parametrize(
    ("common", "psycopgs"),
    [
        ("SELECT 1", "SELECT 1"),
        ("a = ? AND b IN (?, ?)", "a = %s AND b IN (%s, %s)"),
        ("a LIKE '50%' AND b = ?", "a LIKE '50%%' AND b = %s"),
        ("a % 2 = ?", "a %% 2 = %s"),
        ("a = 'why?' AND b = ?", "a = 'why?' AND b = %s"),
        ("a = 'it''s? %' AND b = ?", "a = 'it''s? %%' AND b = %s"),
        ('"odd?name" = ?', '"odd?name" = %s'),
        ("SELECT ? -- really?\n, ?", "SELECT %s -- really?\n, %s"),
        ("SELECT /* ? \n ? */ ?", "SELECT /* ? \n ? */ %s"),
        ("SELECT '' || ?", "SELECT '' || %s"),
    ],
)
def test_marks_are_translated_except_where_they_are_text(common, psycopgs):
    assert to_psycopg(common) == psycopgs.encode()

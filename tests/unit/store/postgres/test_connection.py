"""Addresses and statements for PostgreSQL."""

import pytest

from hermes.core.errors import ConfigError
from hermes.store.postgres.backend import PostgresBackend
from hermes.store.postgres.connection import connection_parameters, display_address, to_psycopg


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("postgresql://ann:s3cret@db:5433/hermes", "postgresql://ann@db:5433/hermes"),
        ("postgres://db/hermes?password=s3cret&user=ann", "postgresql://ann@db/hermes"),
        ("postgresql:///hermes", "postgresql:///hermes"),
        ("postgresql://ann:s3cret@[::1]/h", "postgresql://ann@[::1]/h"),
        ("postgresql:///h?host=/run/pg&port=1", "postgresql://%2Frun%2Fpg:1/h"),
        ("postgresql://a:1,b:2/h", "postgresql://a,b/h"),
    ],
)
def test_the_address_is_shown_without_its_password(url, where):
    assert PostgresBackend(url).where == where


def test_parameters_of_the_url_override_the_defaults():
    given = connection_parameters("postgresql://h/d?connect_timeout=3&client_encoding=LATIN1")
    assert (given["connect_timeout"], given["application_name"]) == ("3", "hermes")
    assert given["client_encoding"] == "UTF8"


@pytest.mark.parametrize(
    "url",
    ["postgresql://u:s3cret@[::1/d", "postgresql://h/d?s3cret=1", "host=a s3cret", "x://s3cret"],
)
def test_a_broken_address_is_refused_without_showing_what_was_in_it(url):
    with pytest.raises(ConfigError, match="not a PostgreSQL address") as caught:
        PostgresBackend(url)
    assert "s3cret" not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"


def test_signs_in_a_name_stay_readable_by_postgresql():
    parameters = connection_parameters("postgresql://a%40b:x@h/my%20db")
    again = connection_parameters(display_address(parameters))
    assert (again["user"], again["dbname"]) == ("a@b", "my db")


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

"""The tree in the docstring is the tree of the classes."""

import inspect
import re

import pytest

from hermes.core import errors
from hermes.core.errors import ConfigError, HermesError, ProviderError, RateLimited

ENTRY = re.compile(r"^    ((?:│   |    |├── |└── )*)([A-Z]\w+)")


def drawn() -> dict[str, str]:
    """Child -> parent, as the docstring draws it."""
    found, path = {}, []
    for line in (errors.__doc__ or "").splitlines():
        match = ENTRY.match(line)
        if match:
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            found[match[2]] = path[depth - 1] if depth else "Exception"
    return found


def real() -> dict[str, str]:
    kinds = inspect.getmembers(errors, inspect.isclass)
    return {
        name: kind.__base__.__name__
        for name, kind in kinds
        if issubclass(kind, HermesError) and kind.__module__ == errors.__name__
    }


def test_the_docstring_draws_the_real_tree():
    assert drawn() == real()


@pytest.mark.parametrize("name", real())
def test_every_error_is_one_line_with_a_hint_and_an_exit_code(name):
    error = getattr(errors, name)("it failed", hint="try again")
    assert (str(error), error.hint) == ("it failed", "try again")
    assert 0 < error.exit_code < 256


def test_a_config_error_names_the_place():
    assert str(ConfigError("bad value", where="config.yaml:3:5")) == "config.yaml:3:5: bad value"


def test_a_provider_error_keeps_what_was_answered():
    error = ProviderError("no", provider="acme", status=418, body="teapot")
    assert (error.provider, error.status, error.body) == ("acme", 418, "teapot")


def test_a_rate_limit_without_a_time_says_none():
    assert RateLimited("slow down").retry_after is None

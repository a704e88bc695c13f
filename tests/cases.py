"""Tables of test cases that are data files next to their test module."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest


@cache
def cases(module: str) -> dict[str, Any]:
    """Return the tables of `test_x.json`, given the `__file__` of `test_x.py`."""
    return json.loads(Path(module).with_suffix(".json").read_text("utf-8"))


def table_test(test: Callable[..., Any]) -> Callable[..., Any]:
    """Parametrize a test with the `arguments` and `rows` that its module's table has for it."""
    table = cases(test.__code__.co_filename)[test.__name__]
    return pytest.mark.parametrize(", ".join(table["arguments"]), table["rows"])(test)

"""Tables of test cases and long texts that are data files next to their test module."""

import json
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest


@cache
def cases(module: str) -> dict[str, Any]:
    """Return the tables of `test_x.json` and the texts of `test_x.toml`, given the `__file__` of
    `test_x.py`. One of the two files may be missing."""
    tables, texts = Path(module).with_suffix(".json"), Path(module).with_suffix(".toml")
    found = json.loads(tables.read_text("utf-8")) if tables.exists() else {}
    if texts.exists() or not found:
        found |= tomllib.loads(texts.read_text("utf-8"))
    return found


def table_test(test: Callable[..., Any]) -> Callable[..., Any]:
    """Parametrize a test with the `arguments` and `rows` that its module's table has for it."""
    table = cases(test.__code__.co_filename)[test.__name__]
    return pytest.mark.parametrize(", ".join(table["arguments"]), table["rows"])(test)

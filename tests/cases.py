"""Tables of test cases that are data files next to their test module."""

import json
from pathlib import Path
from typing import Any


def cases(module: str) -> dict[str, Any]:
    """Return the tables of `test_x.json`, given the `__file__` of `test_x.py`."""
    return json.loads(Path(module).with_suffix(".json").read_text("utf-8"))

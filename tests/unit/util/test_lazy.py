"""Package surfaces that load their modules on first use."""

import re
from copy import copy
from importlib import import_module
from pathlib import Path

import pytest

import hermes
from hermes.util.lazy import late_pattern

ROOT = Path(hermes.__file__).parent
LAZY = sorted(
    ".".join(("hermes", *path.parent.relative_to(ROOT).parts))
    for path in ROOT.rglob("__init__.py")
    if "lazy_getattr(__name__)" in path.read_text(encoding="utf-8")
)


def test_every_declared_name_loads() -> None:
    assert "hermes.skills" in LAZY
    missing = [
        f"{package}.{name}"
        for package in LAZY
        for name in import_module(package).__all__
        if not hasattr(import_module(package), name)
    ]
    assert missing == []


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'hermes.skills' has no attribute 'Nothing'"):
        _ = import_module("hermes.skills").Nothing


def test_late_pattern_is_compiled_by_its_first_use() -> None:
    broken, words = late_pattern("("), late_pattern(r"(?P<word>[a-z])\w*", re.IGNORECASE)
    assert words.sub("-", "Ab cd.") == "- -." and words.groupindex == {"word": 1}
    assert words.pattern.startswith("(?P<word>") and words.flags & re.IGNORECASE
    assert copy(words).findall("a") == ["a"]
    with pytest.raises(re.error):
        broken.search("")

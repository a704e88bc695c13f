"""Every documented name is there, and takes the documented parameters."""

import inspect
import tomllib
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

from hermes.compat.names import NAMES

DOCUMENTED = tomllib.loads(Path(__file__).with_name("documented.toml").read_text("utf-8"))
SIGNATURES = DOCUMENTED["signatures"]


@pytest.mark.parametrize("path", SIGNATURES)
def test_documented_names_can_be_imported_and_called_as_documented(path: str) -> None:
    for name, parameters in SIGNATURES[path].items():
        exec(f"from {path} import {name.partition('.')[0]}", {})
        found = attrgetter(name)(import_module(path))
        if parameters == "-":
            continue
        is_method = "." in name and not name.startswith("registry.")
        signature = inspect.signature(found)
        signature.bind(*([None] if is_method else ()), **dict.fromkeys(parameters.split()))
        by_place = [
            each.name
            for each in signature.parameters.values()
            if each.kind is each.POSITIONAL_OR_KEYWORD and each.name in parameters.split()
        ]
        assert by_place == [each for each in parameters.split() if each in by_place], name


def test_table_has_exactly_the_documented_modules() -> None:
    assert sorted(NAMES) == sorted(SIGNATURES)


def test_each_name_of_the_table_leads_somewhere() -> None:
    for path, names in NAMES.items():
        module = import_module(path)
        for name in names:
            assert getattr(module, name) is not None, f"{path}.{name}"
        assert set(names) <= set(dir(module))
        assert sorted(module.__all__) == sorted(names)

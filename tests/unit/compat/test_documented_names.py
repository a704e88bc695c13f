"""Every documented name is there, and takes the documented parameters."""

import inspect
from importlib import import_module
from operator import attrgetter

import pytest

from hermes.compat.names import ABSENT as ABSENT_HERE
from hermes.compat.names import NAMES
from tests.unit.compat.documented import ABSENT, SIGNATURES

EVERY = [(path, name) for path, names in SIGNATURES.items() for name in names]


@pytest.mark.parametrize(("path", "name"), EVERY, ids=[f"{p}.{n}" for p, n in EVERY])
def test_a_documented_name_can_be_imported_and_called_as_documented(path: str, name: str) -> None:
    first = name.partition(".")[0]
    scope: dict[str, object] = {}
    exec(f"from {path} import {first}", scope)
    found = attrgetter(name)(import_module(path))
    parameters = SIGNATURES[path][name]
    if parameters is None:
        return
    is_method = "." in name and not name.startswith("registry.")
    signature = inspect.signature(found)
    signature.bind(*([None] if is_method else ()), **dict.fromkeys(parameters.split()))
    by_place = [
        each.name
        for each in signature.parameters.values()
        if each.kind is each.POSITIONAL_OR_KEYWORD and each.name in parameters.split()
    ]
    assert by_place == [each for each in parameters.split() if each in by_place]


@pytest.mark.parametrize("path", ABSENT)
def test_absent_module_names_the_missing_feature(path: str) -> None:
    with pytest.raises(ImportError, match=r"documented, but .* is not part of this") as caught:
        import_module(path)
    assert ABSENT[path] in str(caught.value)


def test_table_has_exactly_the_documented_modules() -> None:
    assert sorted(NAMES) == sorted(SIGNATURES)
    assert sorted(ABSENT_HERE) == sorted(ABSENT)


def test_each_name_of_the_table_leads_somewhere() -> None:
    for path, names in NAMES.items():
        module = import_module(path)
        for name in names:
            assert getattr(module, name) is not None, f"{path}.{name}"
        assert set(names) <= set(dir(module))
        assert sorted(module.__all__) == sorted(names)

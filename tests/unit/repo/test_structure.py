"""The structure gate finds planted violations and reminds of ceilings that can be lowered."""

from pathlib import Path
from typing import Any

import pytest

from scripts import structure

PROJECT: dict[str, Any] = {"project": {"dependencies": []}}
BUDGET = {"files": 50, "lines": 5000}


def check(
    folder: Path, files: dict[str, str], project: dict[str, Any] = PROJECT, **lists: Any
) -> tuple[list[str], list[str]]:
    """Failures and reminders for the files of a package."""
    root = folder / "hermes"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    source = structure.read_source(root)
    budgets = {module.package: BUDGET for module in source}
    return structure.check(source, {"packages": budgets, "ceilings": {}, **lists}, project)


LONG = "x = 1\n" * 60
CLEAN = {
    "core/values.py": '"""Values."""\n\n\nclass Value:\n    pass\n',
    "core/__init__.py": "from hermes.core.values import Value\n",
    "app/run.py": f"from hermes.core import Value\n{LONG}",
}


def test_clean_source_passes(tmp_path: Path) -> None:
    assert check(tmp_path, CLEAN) == ([], [])


PLANTED = {
    "small_modules_with_one_importer": {
        "app/tiny.py": "y = 1\n",
        "app/big.py": f"from hermes.app.tiny import y\n{LONG}",
    },
    "shared_class_names": {"app/value.py": "class Value:\n    pass\n"},
    "imports_by_string": {"app/late.py": 'm = import_module("hermes.core.values")\n'},
    "vague_class_names": {"app/desk.py": "class Desk:\n    pass\n"},
    "odd_words": {"app/words.py": '"""What nobody reads."""\n'},
}


@pytest.mark.parametrize("rule", PLANTED)
def test_planted_violation_is_found_unless_the_ceiling_allows_it(tmp_path, rule: str) -> None:
    failures, reminders = check(tmp_path, CLEAN | PLANTED[rule])
    assert failures[0] == f"{rule}: 1, the ceiling is 0"
    assert next(iter(PLANTED[rule])) in failures[1]
    assert (len(failures), reminders) == (2, [])
    assert check(tmp_path, CLEAN | PLANTED[rule], ceilings={rule: 1}) == ([], [])


def test_ceiling_that_can_be_lowered_is_a_reminder(tmp_path: Path) -> None:
    failures, reminders = check(tmp_path, CLEAN, ceilings={"odd_words": 3})
    assert failures == []
    assert reminders == ["odd_words: 0; lower the ceiling of 3 (--lower)"]


def test_lazy_packages_may_import_by_string(tmp_path: Path) -> None:
    lazy = {"app/__init__.py": 'm = import_module("hermes.core.values")\n'}
    assert check(tmp_path, CLEAN | lazy) == ([], [])


def test_texts_for_the_model_may_use_any_word(tmp_path: Path) -> None:
    files = CLEAN | PLANTED["odd_words"]
    exempt = {"hermes/app/words.py": "a prompt"}
    assert check(tmp_path, files, texts_for_the_model=exempt) == ([], [])
    gone = exempt | {"hermes/app/gone.py": "a prompt"}
    failures, _ = check(tmp_path, files, texts_for_the_model=gone)
    assert failures == ["texts_for_the_model: hermes/app/gone.py is gone"]


def test_dependency_that_is_not_imported_is_found(tmp_path: Path) -> None:
    files = CLEAN | {"app/use.py": "import yaml\nfrom ruamel.yaml import YAML\n" + LONG}
    files["app/late.py"] = 'm = import_module("psutil")\n' + LONG
    used = ["PyYAML>=6", "ruamel.yaml>=0.18", "psutil>=6"]
    wanted = {"project": {"dependencies": [*used, "tree-sitter>=0.23"]}}
    failures, _ = check(tmp_path, files, wanted)
    assert failures == [
        "unused_dependencies: 1, the ceiling is 0",
        "  tree-sitter>=0.23: no module of src imports tree_sitter",
    ]


BUDGETS = {
    "app: no budget in scripts/budgets.toml": {"app": None},
    "app: 61 lines, the budget is 60": {"app": {"files": 1, "lines": 60}},
    "core: 2 files, the budget is 1": {"core": {"files": 1, "lines": 99}},
    "old: has a budget but is gone": {"old": BUDGET},
}


@pytest.mark.parametrize("failure", BUDGETS)
def test_packages_keep_their_budgets(tmp_path: Path, failure: str) -> None:
    budgets = {"core": BUDGET, "app": BUDGET, **BUDGETS[failure]}
    packages = {name: budget for name, budget in budgets.items() if budget}
    assert check(tmp_path, CLEAN, packages=packages) == ([f"budget: {failure}"], [])


def test_numbers_are_lowered_and_never_raised(tmp_path: Path) -> None:
    check(tmp_path, CLEAN | PLANTED["odd_words"])
    text = (
        "[ceilings]\nodd_words = 9\nvague_class_names = 4\n\n[packages]\n"
        "app = { files = 9, lines = 50 }\ncore = { files = 9, lines = 900 }\n"
    )
    source = structure.read_source(tmp_path / "hermes")
    assert structure.lowered(text, source, PROJECT) == (
        "[ceilings]\nodd_words = 1\n\n[packages]\n"
        "app = { files = 3, lines = 50 }\ncore = { files = 3, lines = 7 }\n"
    )

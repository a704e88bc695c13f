"""The module `hermes_tools`: generated from the schemas of the tools that are there."""

import ast
from pathlib import Path

import pytest

from hermes.core.model import ToolSpec
from hermes.tools import code
from hermes.tools.builtin.execute_code import callable_specs, stub_source

PATCH = ToolSpec(
    "patch",
    'Change a file. It\'s "quoted"\nand long.',
    {
        "type": "object",
        "properties": {
            "mode": {"type": "string", "default": "replace"},
            "path": {"type": "string"},
            "count": {"type": ["integer", "null"]},
            "class": {"type": "string"},
            "all": {"type": "boolean", "default": False},
        },
        "required": ["path"],
    },
)


def test_functions_have_the_real_names_defaults_and_texts():
    tree = ast.parse(stub_source("_call = dict", [PATCH]))
    function = tree.body[-1]
    assert isinstance(function, ast.FunctionDef)
    assert ast.get_docstring(function, clean=False) == PATCH.description
    assert ast.unparse(function).splitlines()[0] == (
        "def patch(path: str, count: object=None, all: bool=False, mode: str='replace') -> dict:"
    )


def test_only_some_tools_can_be_called_and_only_as_a_script_can():
    parameters = {"properties": {"command": {"type": "string"}, "background": {"type": "boolean"}}}
    specs = [
        ToolSpec("terminal", "", parameters),
        ToolSpec("delegate_task", "", {}),
        ToolSpec("web_search", "", {}),
    ]
    found = callable_specs(specs)
    assert [spec.name for spec in found] == ["web_search", "terminal"]
    assert list(found[1].parameters["properties"]) == ["command"]


@pytest.mark.parametrize("name", ["runner", "boot", "client", "hook"])
def test_remote_sources_are_valid_python_3_8(name):
    folder = Path(next(iter(code.__path__)))
    tree = ast.parse((folder / f"{name}.py").read_text(), feature_version=(3, 8))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [module for module in imported if module and module.startswith("hermes")]

"""The module `hermes_tools` of a script: a function for each tool it may call."""

import keyword
from collections.abc import Iterable
from typing import Any

import msgspec

from hermes.core.model import ToolSpec

CALLABLE = (
    "web_search", "web_extract", "read_file", "write_file", "search_files", "patch", "terminal",
)  # fmt: skip
"""The tools a script may call, where the session has them."""
CHANGING = frozenset({"write_file", "patch", "terminal"})
"""Those that run one at a time, also when threads of the script call them at once."""
LEFT_OUT = {
    "terminal": frozenset({"background", "notify_on_complete", "watch_patterns", "pty"}),
}
"""Parameters that make no sense in a script: its commands run in the foreground."""
KINDS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}


def callable_specs(specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Those of the tools that a script may call, as it may call them."""
    known = {spec.name: spec for spec in specs}
    return tuple(_without(known[name]) for name in CALLABLE if name in known)


def stub_source(client: str, specs: Iterable[ToolSpec]) -> str:
    """The source of `hermes_tools`: what talks with us, then the functions."""
    return "\n\n".join([client.rstrip(), *map(_function, specs)]) + "\n"


def _without(spec: ToolSpec) -> ToolSpec:
    left_out = LEFT_OUT.get(spec.name)
    if left_out is None:
        return spec
    properties = spec.parameters.get("properties", {})
    kept = {name: schema for name, schema in properties.items() if name not in left_out}
    return msgspec.structs.replace(spec, parameters={**spec.parameters, "properties": kept})


def _function(spec: ToolSpec) -> str:
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    names = [name for name in properties if name.isidentifier() and not keyword.iskeyword(name)]
    required = [name for name in names if name in spec.parameters.get("required", ())]
    optional = [name for name in names if name not in required]
    signature = [
        *(f"{name}: {_kind(properties[name])}" for name in required),
        *(
            f"{name}: {_kind(properties[name])} = {properties[name].get('default')!r}"
            for name in optional
        ),
    ]
    passed = "".join(f", {name}={name}" for name in names)
    return (
        f"def {spec.name}({', '.join(signature)}) -> str:\n"
        f"    {spec.description!r}\n"
        f"    return _call({spec.name!r}{passed})"
    )


def _kind(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    return KINDS.get(kind, "object") if isinstance(kind, str) else "object"

"""Writes docs/reference/python.md from the table of documented names. `--check` only compares."""

import inspect
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from generated_page import write_or_check

from hermes.compat.names import ABSENT, NAMES

HEAD = """\
# Python names

Written by `make docs` from `hermes.compat.names`; edit that instead.

Plugins, memory providers, context engines and scripts import these. They keep their names whatever
happens to the modules behind them; inside this repository nobody uses them.

They work in every plugin, and in scripts started with `hermes run SCRIPT`. In a Python of your own
where Hermes is installed, switch them on first:

```python
import hermes.compat

hermes.compat.install()

from tools.approval import detect_dangerous_command
from toolsets import resolve_toolset

assert resolve_toolset("terminal") == ["terminal", "process"]
assert detect_dangerous_command("ls") == (False, None, None)
```

A module of yours, or of an installed package, that has one of these names comes first: a `cli.py`
beside a script is what `import cli` finds there, and a package `tools` with an `__init__.py` keeps
`tools.registry` out. Nothing is imported before a name is used. Most functions are synchronous:
call them from a thread when you are in async code; what runs in the loop of the gateway (adapters,
the runner, the router) is async. Outside a chat no person can be asked: calls that need approval
are refused unless the settings allow it ([approvals](../guide/approvals.md)).

[examples/](../../examples/README.md) has a plugin of each kind, a wrapper around the chat, and
scripts.
"""

LATER = """\
## Not there yet

Importing one of these says so: `ModuleNotFoundError: batch_runner is documented, but …`.

| module | names | waits for |
|---|---|---|"""


def reference() -> str:
    """Return the whole page."""
    lines = [HEAD, "## What there is", "", "| module | names | from |", "|---|---|---|"]
    for path, names in NAMES.items():
        lines += rows(path, names)
    lines += ["", LATER]
    for path, absent in ABSENT.items():
        listed = ", ".join(f"`{name}`" for name in absent.names)
        lines.append(f"| `{path}` | {listed} | {absent.feature} |")
    return "\n".join(lines) + "\n"


def rows(path: str, names: Mapping[str, str]) -> Iterator[str]:
    """Yield a row for each of our modules behind it."""
    by_place: dict[str, list[str]] = {}
    for name, place in names.items():
        module, _, attribute = place.partition(":")
        by_place.setdefault(module, []).append(
            shown(name, getattr(import_module(module), attribute))
        )
    for module, held in by_place.items():
        yield f"| `{path}` | {', '.join(held)} | `{module}` |"


def shown(name: str, thing: Any) -> str:
    """Return a function with its parameters."""
    if not inspect.isfunction(thing):
        return f"`{name}`"
    parameters = inspect.signature(thing).parameters.values()
    optional = [
        each.name if each.default is each.empty else f"{each.name}=…" for each in parameters
    ]
    marked = [
        f"**{each.name}" if each.kind is each.VAR_KEYWORD else text
        for each, text in zip(parameters, optional, strict=True)
    ]
    word = "async " if inspect.iscoroutinefunction(thing) else ""
    return f"`{word}{name}({', '.join(marked)})`"


if __name__ == "__main__":
    sys.exit(write_or_check("python.md", reference))

"""Writes docs/reference/python.md from the table of documented names. `--check` only compares."""

import inspect
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from generated_page import write_or_check

from hermes.compat.names import NAMES

HEAD = """\
# Python names

Written by `make docs` from `hermes.compat.names`; edit that instead.

Plugins, memory providers, context engines and scripts import these names. They stay the same when
the modules behind them change. The code of Hermes itself does not use them.

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

Your own modules and those of installed packages take precedence: `import cli` finds a `cli.py` in
the folder of the script, and a package `tools` with an `__init__.py` hides `tools.registry`. A
module is imported when one of its names is used. Most functions are synchronous: in async code,
call them from a thread. The parts that run in the event loop of the gateway (adapters, the runner,
the router) are async. Outside a chat no person can be asked, so calls that need approval are
refused unless the settings allow them ([approvals](../guide/approvals.md)).

Tools called as functions, `handle_function_call` and `registry.dispatch` return JSON text; the
functions of `hermes_tools` in a script of `execute_code` return the same as a dict:

| tool | keys |
|---|---|
| `terminal` | `output`, `exit_code`, `error`; `session_id` of a background process |
| `read_file` | `content`, `total_lines`, `file_size`, `truncated` |
| `search_files` | `matches` (`path`, `line`, `content`), `files`, `total_count`; `counts` |
| `write_file` | `success`, `path`, `bytes_written`, `syntax_error` |
| `patch` | `success`, `diff`, `files_modified`, `files_created`, `files_deleted` |
| others | what the tool returns if that is JSON, else `result` |

A failed call has `error`; in `hermes_tools` it raises `ToolError` instead.

[examples/](../../examples/README.md) has a plugin of each kind, a wrapper around the chat, and
scripts.
"""


def reference() -> str:
    """Return the whole page."""
    lines = [HEAD, "## Available names", "", "| module | names | from |", "|---|---|---|"]
    for path, names in NAMES.items():
        lines += rows(path, names)
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

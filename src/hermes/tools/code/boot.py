"""Starts the process of a script: installs the hook, then runs the script as `__main__`."""

# pathlib costs milliseconds at each start.
# ruff: noqa: PTH100, PTH109, PTH118, PTH120, PTH123

from __future__ import annotations

import json
import os
import sys
import types
from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(FOLDER, "script.py")


def read(name: str) -> str:
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def load(name: str) -> dict[str, Any]:
    """Run one of our files in a namespace that `sys.modules` does not reach."""
    path = os.path.join(FOLDER, name)
    names: dict[str, Any] = {"__name__": name, "__file__": path}
    exec(compile(read(name), path, "exec"), names)
    return names


def prepare() -> None:
    sys.dont_write_bytecode = True  # importing would write outside the workspace
    install, exchange = load("hook.py")["install"], load("client.py")["_exchange"]
    # From here on, modules of the project may shadow those of the standard library.
    sys.argv[:] = [SCRIPT]
    sys.path[:] = [os.getcwd(), *(path for path in sys.path if path != FOLDER), FOLDER]
    install(exchange, json.loads(read("settings.json")))


def run() -> int:
    """Run the script and return its exit code. Nothing in this frame leads to the hook."""
    main = types.ModuleType("__main__")
    main.__file__ = SCRIPT
    sys.modules["__main__"] = main
    code = None
    try:
        code = compile(read("script.py"), SCRIPT, "exec", dont_inherit=True)
        exec(code, main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - shown as Python itself would, without us
        frames = error.__traceback__.tb_next if code and error.__traceback__ else None
        sys.excepthook(type(error), error.with_traceback(frames), frames)
        return 1
    return 0


if __name__ == "__main__":
    prepare()
    sys.exit(run())

"""How a script gets to where the shell is, and which Python runs it there."""

import json
import secrets
import shlex
from collections.abc import Sequence
from importlib import resources
from typing import Any, Literal

import msgspec

from hermes.core.model import ToolSpec
from hermes.security.paths import Guard
from hermes.tools.code.effects import protected_places
from hermes.tools.code.stub import stub_source

Mode = Literal["project", "strict"]

STDOUT_LIMIT = 50_000
STDERR_LIMIT = 10_000
"""Bytes of each that are kept."""
TOO_OLD = 97
"""What the Python over there ends with when it cannot run our part."""
NOT_FOUND = 127

PROJECT_PYTHONS = (
    '${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin/python"}',
    ".venv/bin/python",
    "venv/bin/python",
)
PLAIN_PYTHONS = ("python3", "python")

# The source comes over standard input, so that it meets no limit on a command line. `-I` keeps the
# files of the project from standing in for modules of the standard library.
START = """\
for python in {pythons}; do
  command -v "$python" >/dev/null 2>&1 || continue
  "$python" -I -u -c {boot}
  code=$?
  [ "$code" -eq {too_old} ] || exit "$code"
done
exit {not_found}"""
BOOT = """\
import sys
if sys.version_info < (3, 8):
    sys.exit({too_old})
import json, os
setup = json.loads(sys.stdin.buffer.readline() or sys.exit(1))
names = {{"__name__": "runner"}}
exec(compile(setup["runner"], "runner.py", "exec"), names)
names["main"](setup, dict(os.environ))"""


class Launch(msgspec.Struct, frozen=True):
    """All that is needed to run one script."""

    command: str
    """For the shell."""
    setup: bytes
    """The first line it reads."""
    mark: bytes
    """What its messages begin with."""


def launch(
    code: str, specs: Sequence[ToolSpec], guard: Guard, mode: Mode, python: str, let: Sequence[str]
) -> Launch:
    """`let` are the variables given although their names look secret."""
    mark = f"\x1e{secrets.token_hex(8)} "
    client = _source("client.py")
    setup: dict[str, Any] = {
        "runner": _source("runner.py"),
        "mark": mark,
        "strict": mode == "strict",
        "passthrough": list(let),
        "limits": {"stdout": STDOUT_LIMIT, "stderr": STDERR_LIMIT},
        "roots": [str(root) for root in guard.workspace],
        "protected": protected_places(guard),
        "files": {
            "boot.py": _source("boot.py"),
            "client.py": client,
            "hook.py": _source("hook.py"),
            "hermes_tools.py": stub_source(client, specs),
            "script.py": code,
        },
    }
    return Launch(_command(mode, python), json.dumps(setup).encode() + b"\n", mark.encode())


def _command(mode: Mode, python: str) -> str:
    pythons = [*(PROJECT_PYTHONS if mode == "project" else ()), *PLAIN_PYTHONS]
    if python:
        pythons.append(shlex.quote(python))
    boot = shlex.quote(BOOT.format(too_old=TOO_OLD))
    return START.format(pythons=" ".join(pythons), boot=boot, too_old=TOO_OLD, not_found=NOT_FOUND)


def _source(name: str) -> str:
    return resources.files("hermes.tools.code.remote").joinpath(name).read_text("utf-8")

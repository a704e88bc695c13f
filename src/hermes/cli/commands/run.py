"""`hermes run`: run a script that uses the documented Python names."""

import importlib.util
import runpy
import sys
import traceback
from argparse import REMAINDER, ArgumentParser, Namespace
from pathlib import Path
from types import TracebackType

from hermes import compat
from hermes.cli.context import Cli, Command, arg
from hermes.core.errors import HermesError, UsageError

OWN_FILES = frozenset({__file__, runpy.__file__, "<frozen runpy>"})
"""Files that are removed from the traceback of a script."""

SHARED = "hermes.compat.runtime"
"""Loaded by scripts that use tools or models without a conversation."""


def run(args: Namespace, cli: Cli) -> int:
    compat.install()
    try:
        if args.module is not None:
            _run_module(args.module)
        else:
            _run_script(args.script, args.arguments)
    except (BrokenPipeError, KeyboardInterrupt, SystemExit):
        raise
    except HermesError as error:
        return _report_error(error, cli)
    except Exception as error:  # noqa: BLE001 - the user's code: shown as Python shows it
        cli.stdout.flush()
        trace = _script_traceback(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    finally:
        if used := sys.modules.get(SHARED):
            used.close_all()
    return 0


def _run_script(script: str | None, arguments: list[str]) -> None:
    if not script:
        raise UsageError("no script was named", hint="hermes run SCRIPT; see hermes run --help")
    path = Path(script).absolute()
    if not path.exists():
        raise UsageError(f"there is no file {script}", hint="name a Python file")
    if not path.is_file() and not (path / "__main__.py").is_file():
        raise UsageError(
            f"{script} is not a Python file", hint="a folder needs a __main__.py to be run"
        )
    sys.argv[:] = [script, *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    runpy.run_path(str(path), run_name="__main__")


def _run_module(words: list[str]) -> None:
    if not words:
        raise UsageError("-m needs the name of a module", hint="hermes run -m package.module")
    name, *arguments = words
    sys.argv[:] = [name, *arguments]
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if not error.name or not name.startswith(f"{error.name}."):
            raise
        spec = None
    if spec is None:
        hint = "it is looked for in this folder, then where installed"
        raise UsageError(f"there is no module {name}", hint=hint)
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _report_error(error: HermesError, cli: Cli) -> int:
    """Print an error with its hint and the line of the script instead of a traceback."""
    cli.stdout.flush()
    lines = [f"hermes: {error}", *([f"  {error.hint}"] if error.hint else [])]
    frames = traceback.extract_tb(_script_traceback(error.__traceback__))
    if frames:
        lines.append(f"  ({frames[0].filename}, line {frames[0].lineno})")
    cli.stderr.write("\n".join(lines) + "\n")
    return error.exit_code


def _script_traceback(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of the traceback that starts in the user's code."""
    while trace is not None and trace.tb_frame.f_code.co_filename in OWN_FILES:
        trace = trace.tb_next
    return trace


def _set_usage(parser: ArgumentParser) -> None:
    parser.usage = "hermes run [-h] SCRIPT [ARGUMENT …] | -m MODULE [ARGUMENT …]"


COMMAND = Command(
    "run",
    run,
    "",
    arg("-m", dest="module", nargs=REMAINDER, metavar="MODULE", help="run a module instead"),
    arg("script", nargs="?", metavar="SCRIPT", help="a Python file"),
    arg("arguments", nargs=REMAINDER, metavar="ARGUMENT", help="what the script is given"),
    setup=_set_usage,
)

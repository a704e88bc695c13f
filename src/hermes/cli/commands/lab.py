"""`hermes lab serve`: the scripted model server, started by hand."""

import json
import signal
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import msgspec
import yaml

from hermes.cli.context import Cli, Command, arg, flag
from hermes.core.errors import UsageError
from hermes.core.testing import Fault, ModelServer, RecordedRequest, Step, echo, steps_from_data
from hermes.util.yaml_loader import load_yaml

COMMAND = Command("lab")


def fault_list() -> str:
    """A line for each fault: how a script names it and what it does."""
    kinds = [(kind.__struct_config__.tag, kind.__doc__) for kind in get_args(Fault)]
    return "\n".join(f"  {tag:<12} {text.splitlines()[0]}" for tag, text in kinds)


@COMMAND.action(
    "serve",
    "run a scripted model server on this machine",
    arg("--port", type=int, default=0, help="port to listen on (default: a free one)"),
    arg("--script", type=Path, metavar="FILE", help="JSON or YAML list of steps, used in order"),
    flag("--echo", help="repeat the user's message after the script (default without one)"),
    epilog=f"faults (fields as in hermes.core.testing):\n{fault_list()}",
)
def _serve(args: Namespace, cli: Cli) -> None:
    steps = read_script(args.script) if args.script else []
    answer = scripted_answers(steps, then_echo=args.echo or args.script is None)
    with _defer_ctrl_c():
        _until_ctrl_c(args, cli, answer)


def _until_ctrl_c(args: Namespace, cli: Cli, answer: Any) -> None:
    try:
        server = ModelServer(answer, port=args.port, log=cli.say).start()
    except (OSError, OverflowError) as error:
        hint = "choose another --port, or leave it out for a free one"
        raise UsageError(f"cannot listen on port {args.port}: {error}", hint=hint) from None
    try:
        base = f"{server.url}/v1"
        # One write: a program that reads the first line may call before a second line is written.
        how = f"hermes chat --provider custom --base-url {base} --model lab-model"
        cli.say(f"model server at {base}; Ctrl-C ends it\ntry it: {how}")
        signal.sigwait({signal.SIGINT})
        cli.say(str(server.session_report()))
    finally:
        server.close()


@contextmanager
def _defer_ctrl_c() -> Iterator[None]:
    """Block SIGINT for `sigwait`: a handler that runs just before the wait would not end it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def scripted_answers(steps: list[Step], *, then_echo: bool) -> Any:
    """Return the steps as a list, or as a function that echoes requests after the last step."""
    if not then_echo:
        return steps
    left = iter(steps)

    def answer(request: RecordedRequest) -> Step:
        return next(left, None) or echo(request)

    return answer


def read_script(path: Path) -> list[Step]:
    """Read the steps of a script file. Raises `UsageError` with the place of an error."""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else load_yaml(text)
        return steps_from_data(data)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}:{error.colno}: {error.msg}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise UsageError(f"{path}{place}: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        raise UsageError(f"{path}: character {error.position + 1}: {error.reason}") from None
    except msgspec.ValidationError as error:
        hint = "`hermes lab serve --help` shows a script"
        raise UsageError(f"{path}: {error}", hint=hint) from None

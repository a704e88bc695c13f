"""`hermes setup terminal`: where commands run."""

import argparse
import shutil
from importlib.util import find_spec

import msgspec

from hermes.cli.commands.setup.asking import Choice, Question, ask_all, put
from hermes.cli.commands.setup.asking import ask as ask_one
from hermes.cli.context import Cli
from hermes.config.environment import search_path
from hermes.util.extras import install_hint


class Backend(msgspec.Struct, frozen=True):
    name: str
    meaning: str
    programs: tuple[str, ...] = ()
    """One of them must be there."""
    package: str = ""
    """A Python package that must be there; the extra has the same name."""
    questions: tuple[Question, ...] = ()


BACKENDS = (
    Backend("local", "on this machine, as you"),
    Backend("sandbox", "on this machine, shut in: bubblewrap", ("bwrap",)),
    Backend(
        "docker",
        "in a container: Docker or Podman",
        ("docker", "podman"),
        questions=(Question("terminal.docker_image", "image"),),
    ),
    Backend(
        "ssh",
        "on another machine",
        ("ssh",),
        questions=(
            Question("terminal.ssh_host", "its name or address"),
            Question("terminal.ssh_user", "user there"),
            Question("terminal.ssh_port", "port"),
            Question("terminal.ssh_key", "file with the private key"),
        ),
    ),
    Backend(
        "singularity",
        "in a container: Apptainer",
        ("apptainer", "singularity"),
        questions=(Question("terminal.singularity_image", "image"),),
    ),
    Backend("modal", "in the cloud of Modal", package="modal"),
    Backend("daytona", "in the cloud of Daytona", package="daytona"),
)
COMMON = (Question("terminal.timeout", "longest run of a command, in seconds"),)


def ask(cli: Cli) -> None:
    offers = tuple(Choice(one.name, f"{one.meaning}{_lack(one)}") for one in BACKENDS)
    chosen = ask_one(Question("terminal.backend", "where", offers), cli)
    ask_all(_further(chosen), cli)
    ask_all(COMMON, cli)


def apply(args: argparse.Namespace, cli: Cli) -> bool:
    if not args.terminal_backend:
        return False
    put(cli, "terminal.backend", args.terminal_backend)
    cli.say(f"commands run in: {args.terminal_backend}")
    for backend in BACKENDS:
        if backend.name == args.terminal_backend and (lack := _lack(backend)):
            cli.note(f"note:{lack}")
    return True


def _further(name: str) -> tuple[Question, ...]:
    return next((one.questions for one in BACKENDS if one.name == name), ())


def _lack(backend: Backend) -> str:
    """What is missing for it on this machine, or nothing."""
    path = search_path()
    if backend.programs and not any(shutil.which(one, path=path) for one in backend.programs):
        return f" (needs {' or '.join(backend.programs)}, not found here)"
    if backend.package and find_spec(backend.package) is None:
        return f" (needs: {install_hint(backend.package)})"
    return ""

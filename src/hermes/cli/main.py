"""The `hermes` command: find the subcommand, run it, turn an error into a line and an exit code."""

import argparse
import sys
from importlib import import_module
from typing import NamedTuple, NoReturn

from hermes import __version__
from hermes.cli import registry
from hermes.core.errors import HermesError, Interrupted, UsageError

OK, BUG = 0, 70
PIPE_CLOSED = 141

SWITCHES = (
    "-w", "--worktree", "--yolo", "--pass-session-id", "--ignore-user-config", "--ignore-rules",
    "--accept-hooks", "--tui", "--plain",
)  # fmt: skip
"""Options of the chat that may stand before its name."""

USAGE = """\
usage: hermes [-p PROFILE] [COMMAND] [OPTIONS]

A personal AI agent. Without a command it starts a chat.

options:
  -p, --profile NAME    use this profile's home
  -V, --version         show the version
  -h, --help            show this help; `hermes COMMAND --help` shows a command's

commands:
{commands}

examples:
  hermes chat -q "how many Python files are in this folder?"
  hermes --continue
  hermes config explain model.provider
"""


class Invocation(NamedTuple):
    """The command line, taken apart."""

    command: registry.Command | None
    """None when only help or the version was asked for."""
    arguments: list[str]
    profile: str | None
    wants: str = ""
    """`help` or `version` when that was asked of `hermes` itself."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are errors like any other."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"`{self.prog} --help` shows what it takes")


def run() -> NoReturn:
    """Entry point of the installed script."""
    sys.exit(main(sys.argv[1:]))


def main(argv: list[str]) -> int:
    try:
        return _dispatch(argv)
    except HermesError as error:
        return _complain(error)
    except KeyboardInterrupt:
        _leave_in_peace()
        return _complain(Interrupted())
    except BrokenPipeError:
        # Whoever read our output went away (`hermes … | head`). Say nothing more, also at exit.
        sys.stdout = sys.stderr = None
        return PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - the last boundary: a bug shows no traceback
        where = import_module("hermes.app.log_files").record(error)
        problem = f"internal error: {type(error).__name__}: {error}"
        _complain(HermesError(problem, hint=f"this is a bug; the details are in {where}"))
        return BUG


def _dispatch(argv: list[str]) -> int:
    invocation = parse(argv)
    if invocation.wants == "version":
        sys.stdout.write(f"hermes {__version__}\n")
        return OK
    if invocation.command is None:
        width = max(len(command.name) for command in registry.COMMANDS)
        lines = [f"  {name:<{width}}  {summary}" for name, summary in registry.COMMANDS]
        sys.stdout.write(USAGE.format(commands="\n".join(lines)))
        sys.stdout.write(import_module("hermes.cli.also").also(invocation.profile))
        return OK
    module = _module(invocation)
    parser = Parser(
        prog=f"hermes {invocation.command.name}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(parser)
    args = parser.parse_args(invocation.arguments)
    cli = import_module("hermes.cli.context").Cli.open(invocation.profile)
    return module.run(args, cli)


def _module(invocation: Invocation) -> registry.CommandModule:
    command = invocation.command or registry.Command("", "")
    if command in registry.COMMANDS:
        return command.load()
    brought: registry.CommandModule | None = import_module("hermes.cli.brought").find(
        command.name, invocation.profile
    )
    if brought is None:
        raise UsageError(f"there is no command {command.name!r}", hint=_suggestion(command.name))
    return brought


def parse(argv: list[str]) -> Invocation:
    """Options of `hermes` itself, then a command; anything else belongs to the default command."""
    rest, profile = list(argv), None
    chat: list[str] = []
    while rest:
        word = rest[0]
        if word in ("-V", "--version"):
            return Invocation(None, [], profile, "version")
        if word in ("-h", "--help"):
            return Invocation(None, [], profile, "help")
        if word in ("-p", "--profile"):
            if len(rest) < 2:
                raise UsageError(f"{word} needs the name of a profile", hint="hermes profile list")
            profile, rest = rest[1], rest[2:]
        elif word.startswith("--profile="):
            profile, rest = word.partition("=")[2], rest[1:]
        elif size := _of_chat(rest):
            chat, rest = chat + rest[:size], rest[size:]
        else:
            break
    default = registry.find(registry.DEFAULT)
    if not rest or rest[0].startswith("-"):
        return Invocation(default, chat + rest, profile)
    command = registry.find(rest[0]) or registry.Command(rest[0], "brought by an extension")
    if chat and command != default:
        raise UsageError(f"{chat[0]} is an option of `hermes chat`, not of {command.name}")
    return Invocation(command, chat + rest[1:], profile)


def _of_chat(rest: list[str]) -> int:
    """How many words an option of the chat takes that stands before a command; 0 for none."""
    word, following = rest[0], rest[1:2]
    if word in SWITCHES:
        return 1
    if word in ("-r", "--resume"):
        return 2
    if word in ("-c", "--continue"):
        named = following and not following[0].startswith("-") and not registry.find(following[0])
        return 2 if named else 1
    return 0


def _suggestion(word: str) -> str:
    names = [command.name for command in registry.COMMANDS]
    close = import_module("difflib").get_close_matches(word, names, n=1)
    if close:
        return f"did you mean `hermes {close[0]}`? `hermes --help` lists the commands"
    return '`hermes --help` lists the commands; to ask something: hermes chat -q "…"'


def _leave_in_peace() -> None:
    """One Ctrl-C more, as `timeout` sends beside the terminal, shows no traceback."""
    signals = import_module("signal")
    signals.signal(signals.SIGINT, signals.SIG_IGN)


def _complain(error: HermesError) -> int:
    sys.stderr.write(f"hermes: {error}\n")
    if error.hint:
        sys.stderr.write(f"  {error.hint}\n")
    return error.exit_code

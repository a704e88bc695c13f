"""`hermes completion`: scripts that let a shell complete what you type.

The script is written in bash, from the parsers of all commands. zsh runs it by `bashcompinit`, fish
by `bash`.
"""

import argparse
import shlex
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

from hermes.cli.commands.setup import NAMES as SETUP_SECTIONS
from hermes.cli.context import Cli, Command, arg
from hermes.cli.main import COMMANDS, DEFAULT
from hermes.config.schema import leaf_keys
from hermes.providers import ENDPOINTS
from hermes.util.extras import extras

ROOT = "hermes"
MARK = "# {shell} completion of hermes, written by `hermes completion {shell}`\n"
SCRIPT = Path(__file__).parents[1] / "completion.bash"
PRINT_OFFERS = """
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_hermes
printf '%s\\n' "${COMPREPLY[@]}"
"""
COMPLETE = "\ncomplete -F _hermes hermes\n"
FISH = """
function __hermes_complete
    bash -c "$__hermes_script" bash (commandline -opc) (commandline -ct)
end
complete -c hermes -f -a '(__hermes_complete)'
"""


def run(args: Namespace, cli: Cli) -> None:
    lines = (
        f"        {shlex.quote(key)}) offers={shlex.quote(text)} ;;" for key, text in entries()
    )
    script = SCRIPT.read_text("utf-8").partition("\n")[2].replace("ENTRIES", "\n".join(lines))
    mark = MARK.replace("{shell}", args.shell)
    if args.shell == "fish":
        escaped = (script + PRINT_OFFERS).replace("\\", "\\\\").replace("'", "\\'")
        cli.stdout.write(f"{mark}set -g __hermes_script '{escaped}'\n{FISH}")
    elif args.shell == "zsh":
        load = "autoload -U +X bashcompinit && bashcompinit\n"
        cli.stdout.write(f"#compdef hermes\n{mark}{load}{script}{COMPLETE}")
    else:
        cli.stdout.write(f"{mark}{script}{COMPLETE}")


def entries() -> Iterator[tuple[str, str]]:
    """Yield what to offer, by key. Imports every command.

    The key of the actions of a command is its path, such as `hermes sessions`; of its options, the
    path and `-`; of the values of an option, the path and the option; of arguments, the path and
    their number, or `*`. A path with `/` at the end says that the command exists.
    """
    own = ["-p", "--profile", "-V", "--version", "-h", "--help"]
    for command in COMMANDS:
        parser = command.parser()
        yield from _entries(parser, parser.prog)
        if command.name == DEFAULT:
            # The options of the default command may follow `hermes` itself.
            for key, text in _entries(parser, ROOT):
                if key == f"{ROOT} -":
                    yield key, " ".join(dict.fromkeys([*own, *text.split()]))
                elif key.startswith(f"{ROOT} -"):
                    yield key, text
    for option in own[:2]:
        yield f"{ROOT} {option}", "@profiles"
    names = " ".join(command.name for command in COMMANDS)
    yield ROOT, f"{names} help"
    yield f"{ROOT} help", f"{names} --all"
    yield f"{ROOT} help/", ""


def _entries(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, str]]:
    # argparse has no public list of what was added to a parser.
    known = [one for one in parser._actions if one.help != argparse.SUPPRESS]  # noqa: SLF001
    options = [one for one in known if one.option_strings]
    children = [one for one in known if isinstance(one, argparse._SubParsersAction)]  # noqa: SLF001
    arguments = [one for one in known if not one.option_strings and one not in children]
    yield f"{path}/", ""
    yield f"{path} -", " ".join(name for one in options for name in one.option_strings)
    for one in options:
        for name in one.option_strings if one.nargs != 0 else ():
            yield f"{path} {name}", _values(one, path)
    for number, one in enumerate(arguments):
        is_last = number == len(arguments) - 1
        repeats = is_last and one.nargs in ("*", "+", argparse.REMAINDER)
        yield f"{path} {'*' if repeats else number}", _values(one, path)
    for group in children:
        yield path, " ".join(group.choices)
        for name, child in group.choices.items():
            yield from _entries(child, f"{path} {name}")


OFFERS = {
    **dict.fromkeys(("resume", "session", "session_id"), "@sessions"),
    **dict.fromkeys(("DIR", "FOLDER", "folder"), "@folders"),
    **dict.fromkeys(("FILE", "OUT", "PATH", "SCRIPT", "SOURCE", "ZIP"), "@files"),
    "PROFILE": "@profiles",
}
"""What to offer for an argument, by its name or the name of its value."""


def _values(action: argparse.Action, path: str) -> str:
    """Return the words to offer as the value of an argument, or `@files` and the like."""
    if not action.option_strings and path == f"{ROOT} profile create":
        return ""  # a new name
    words: Iterable[object] = action.choices or ()
    if action.dest == "section" and path == f"{ROOT} setup":
        words = (*SETUP_SECTIONS, *extras())
    elif action.metavar == "PROVIDER" or action.dest == "provider":
        words = [endpoint.id for endpoint in ENDPOINTS]
    elif action.dest == "key" and path.startswith(f"{ROOT} config "):
        words = [key for key in leaf_keys() if "<" not in key]
    files = "@files" if action.type is Path else ""
    offer = OFFERS.get(action.dest) or OFFERS.get(str(action.metavar), files)
    return " ".join(map(str, words)) or offer


COMMAND = Command(
    "completion",
    run,
    "",
    arg("shell", choices=("bash", "zsh", "fish"), help="whose language to write"),
)

"""`hermes completion`: scripts that let a shell complete what you type.

The script is written in bash, from the parsers of all commands. zsh runs it by `bashcompinit`, fish
by `bash`.
"""

import argparse
import shlex
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

from hermes.cli.commands.setup import NAMES as SETUP_SECTIONS
from hermes.cli.context import Cli, Command, arg
from hermes.cli.main import COMMANDS, DEFAULT
from hermes.config.schema import leaf_keys
from hermes.providers import ENDPOINTS
from hermes.util.extras import EXTRAS

ROOT = "hermes"
MARK = "# {shell} completion of hermes, written by `hermes completion {shell}`\n"
SCRIPT = r"""
_hermes_lookup() {
    case $1 in
ENTRIES
        *) return 1 ;;
    esac
}

_hermes() {
    local IFS=$' \t\n' command=hermes option= profile= offers= rest= prefix= at=1 count=0
    local word root each
    local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    while [ "$at" -lt "$COMP_CWORD" ]; do
        word=${COMP_WORDS[at]}
        at=$((at + 1))
        if [ "$word" = = ]; then
            continue
        elif [ -n "$option" ]; then
            case $option in *' -p' | *' --profile') profile=$word ;; esac
            option=
        elif [ -z "$rest" ] && [ "$word" = -- ]; then
            rest=1
        elif [ -z "$rest" ] && [ "${word#-}" != "$word" ]; then
            _hermes_lookup "$command $word" && option="$command $word"
        elif [ -z "$rest" ] && _hermes_lookup "$command $word/"; then
            command="$command $word" count=0
        else
            count=$((count + 1))
        fi
    done
    [ "$current" = = ] && current=
    case $current in --*=*)
        prefix=${current%%=*}= current=${current#*=}
        option="$command ${prefix%=}" ;;
    esac
    offers=
    if [ -n "$option" ]; then
        _hermes_lookup "$option"
    elif [ -z "$rest" ] && [ "${current#-}" != "$current" ]; then
        _hermes_lookup "$command -"
    elif [ "$count" -gt 0 ] || ! _hermes_lookup "$command"; then
        _hermes_lookup "$command $count" || _hermes_lookup "$command *"
    fi
    case $offers in
        @files | @folders)
            compopt -o filenames 2>/dev/null
            [ "$offers" = @files ] && each=-f || each=-d
            IFS=$'\n' COMPREPLY=($(compgen "$each" -- "$current"))
            return ;;
        @profiles)
            root=${HERMES_HOME:-$HOME/.hermes} offers=default
            for each in "${root%/profiles/*}"/profiles/*/; do
                [ -d "$each" ] && each=${each%/} && offers="$offers ${each##*/}"
            done ;;
        @sessions)
            offers=$("$program" ${profile:+-p "$profile"} sessions list --json 2>/dev/null |
                sed -n 's/^ *"id": "\([^"]*\)".*/\1/p') ;;
    esac
    COMPREPLY=($(compgen -P "$prefix" -W "$offers" -- "$current"))
}
"""
BASH = MARK + "{script}\ncomplete -F _hermes hermes\n"
ZSH = "#compdef hermes\n" + MARK + "autoload -U +X bashcompinit && bashcompinit\n{script}"
ZSH += "\ncomplete -F _hermes hermes\n"
FISH = MARK + "set -g __hermes_script {script}\n"
FISH += """
function __hermes_complete
    bash -c "$__hermes_script" bash (commandline -opc) (commandline -ct)
end
complete -c hermes -f -a '(__hermes_complete)'
"""
PRINT_OFFERS = """
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_hermes
printf '%s\\n' "${COMPREPLY[@]}"
"""


def run(args: Namespace, cli: Cli) -> None:
    lines = (
        f"        {shlex.quote(key)}) offers={shlex.quote(text)} ;;" for key, text in entries()
    )
    script = SCRIPT.replace("ENTRIES", "\n".join(lines))
    template = {"bash": BASH, "zsh": ZSH, "fish": FISH}[args.shell]
    if args.shell == "fish":
        escaped = (script + PRINT_OFFERS).replace("\\", "\\\\").replace("'", "\\'")
        script = f"'{escaped}'"
    cli.stdout.write(template.replace("{shell}", args.shell).replace("{script}", script))


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
    yield ROOT, " ".join(command.name for command in COMMANDS)


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


def _values(action: argparse.Action, path: str) -> str:
    """Return the words to offer as the value of an argument, or `@files` and the like."""
    if action.choices:
        return " ".join(str(choice) for choice in action.choices)
    if not action.option_strings and path == f"{ROOT} profile create":
        return ""  # a new name
    return next((words() for fits, words in VALUES if fits(action, path)), "")


VALUES: tuple[tuple[Callable[[argparse.Action, str], bool], Callable[[], str]], ...] = (
    (
        lambda action, path: action.dest == "section" and path == f"{ROOT} setup",
        lambda: " ".join((*SETUP_SECTIONS, *EXTRAS)),
    ),
    (lambda action, _: action.metavar == "PROFILE", lambda: "@profiles"),
    (lambda action, _: action.dest in ("resume", "session", "session_id"), lambda: "@sessions"),
    (
        lambda action, _: action.metavar == "PROVIDER" or action.dest == "provider",
        lambda: " ".join(endpoint.id for endpoint in ENDPOINTS),
    ),
    (
        lambda action, path: action.dest == "key" and path.startswith(f"{ROOT} config "),
        lambda: " ".join(key for key in leaf_keys() if "<" not in key),
    ),
    (
        lambda action, _: action.metavar in ("DIR", "FOLDER") or action.dest == "folder",
        lambda: "@folders",
    ),
    (
        lambda action, _: (
            action.type is Path
            or action.metavar in ("FILE", "OUT", "PATH", "SCRIPT", "SOURCE", "ZIP")
        ),
        lambda: "@files",
    ),
)
"""What to offer by kind of argument; the first match counts."""


COMMAND = Command(
    "completion",
    run,
    """\
Print a script that lets your shell complete commands, options, choices, profiles, sessions and
files after Tab. Nothing is installed: you say where it goes.""",
    arg("shell", choices=("bash", "zsh", "fish"), help="whose language to write"),
    epilog="""\
to use it in every new shell, add this line:
  bash, in ~/.bashrc                     eval "$(hermes completion bash)"
  zsh, in ~/.zshrc, after compinit       eval "$(hermes completion zsh)"
  fish, in ~/.config/fish/config.fish    hermes completion fish | source

or write it to a file once, which starts faster (again after an update):
  hermes completion bash > ~/.local/share/bash-completion/completions/hermes
  hermes completion zsh > ~/.zfunc/_hermes       with fpath+=~/.zfunc before compinit
  hermes completion fish > ~/.config/fish/completions/hermes.fish

The one for fish runs bash. `hermes uninstall` removes these lines and files again.
""",
)

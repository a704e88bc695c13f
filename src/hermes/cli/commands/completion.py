"""`hermes completion`: scripts that let a shell complete what you type."""

import argparse

from hermes.cli.completion import bash, fish, zsh
from hermes.cli.completion.tree import build_tree
from hermes.cli.context import Cli, Command

SHELLS = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}
"""The function that writes the script of each shell."""
DESCRIPTION = """\
Print a script that lets your shell complete commands, options, choices, profiles, sessions and
files after Tab. Nothing is installed: you say where it goes."""
EPILOG = """\
to use it in every new shell, add this line:
  bash, in ~/.bashrc                     eval "$(hermes completion bash)"
  zsh, in ~/.zshrc, after compinit       eval "$(hermes completion zsh)"
  fish, in ~/.config/fish/config.fish    hermes completion fish | source

or write it to a file once, which starts faster (again after an update):
  hermes completion bash > ~/.local/share/bash-completion/completions/hermes
  hermes completion zsh > ~/.zfunc/_hermes       with fpath+=~/.zfunc before compinit
  hermes completion fish > ~/.config/fish/completions/hermes.fish

`hermes uninstall` removes these lines and files again.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument("shell", choices=tuple(SHELLS), help="whose language to write")


def run(args: argparse.Namespace, cli: Cli) -> int:
    cli.stdout.write(SHELLS[args.shell](build_tree()))
    return 0


COMMAND = Command(configure, run)

"""`hermes completion`: scripts that let a shell complete what you type."""

from argparse import Namespace

from hermes.cli.completion import bash, fish, zsh
from hermes.cli.completion.tree import build_tree
from hermes.cli.context import Cli, Command, arg

SHELLS = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}
"""The function that writes the script of each shell."""


def run(args: Namespace, cli: Cli) -> None:
    cli.stdout.write(SHELLS[args.shell](build_tree()))


COMMAND = Command(
    "completion",
    run,
    """\
Print a script that lets your shell complete commands, options, choices, profiles, sessions and
files after Tab. Nothing is installed: you say where it goes.""",
    arg("shell", choices=tuple(SHELLS), help="whose language to write"),
    epilog="""\
to use it in every new shell, add this line:
  bash, in ~/.bashrc                     eval "$(hermes completion bash)"
  zsh, in ~/.zshrc, after compinit       eval "$(hermes completion zsh)"
  fish, in ~/.config/fish/config.fish    hermes completion fish | source

or write it to a file once, which starts faster (again after an update):
  hermes completion bash > ~/.local/share/bash-completion/completions/hermes
  hermes completion zsh > ~/.zfunc/_hermes       with fpath+=~/.zfunc before compinit
  hermes completion fish > ~/.config/fish/completions/hermes.fish

`hermes uninstall` removes these lines and files again.
""",
)

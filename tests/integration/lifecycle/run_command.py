"""Runs one command of `hermes` by its module: NAME ARGUMENTS…"""

import sys

from hermes.cli import main as command_line
from hermes.cli import registry

if __name__ == "__main__":
    name, *words = sys.argv[1:]
    if registry.find(name.rstrip("_")) is None:
        registry.COMMANDS = (*registry.COMMANDS, registry.Command(name, ""))
    sys.exit(command_line.main([name, *words]))

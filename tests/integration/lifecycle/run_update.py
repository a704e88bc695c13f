"""Runs `hermes update` on another checkout than the one it comes from: ROOT ARGUMENTS…

KILL_AT=N kills it at the N-th change after it began to switch versions.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

from hermes.cli.commands import update
from hermes.cli.context import Cli, run_command
from hermes.cli.main import Parser
from hermes.config.installation import Checkout
from hermes.core.errors import HermesError

CHANGES = ("os.rename", "os.remove", "subprocess.Popen")


def killed_at(step: int) -> None:
    seen = [0]

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event not in CHANGES:
            return
        began = event == "os.rename" and str(args[1]).endswith("undo.sh")
        seen[0] += began or seen[0] > 0
        if seen[0] == step + 1:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main(root: Path, *words: str) -> int:
    parser = Parser(prog="hermes update", formatter_class=argparse.RawDescriptionHelpFormatter)
    update.UPDATE.configure(parser)
    cli = Cli.open(None)
    try:
        update.installation = lambda: Checkout(root)
        return run_command(parser.parse_args(words), cli)
    except HermesError as error:
        cli.note(f"hermes: {error}\n  {error.hint}")
        return error.exit_code


if __name__ == "__main__":
    if "KILL_AT" in os.environ:
        killed_at(int(os.environ["KILL_AT"]))
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))

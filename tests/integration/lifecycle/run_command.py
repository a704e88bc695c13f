"""Runs one command of `hermes`: NAME ARGUMENTS…"""

import sys

from hermes.cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

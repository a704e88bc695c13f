"""The program that starts itself."""

import subprocess
import sys


def test_the_running_program_starts_by_the_words_it_names() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("hermes ")


CODE = """
import subprocess
from hermes.config.installation import start_command
subprocess.run([*start_command(), "--version"], check=True)
"""

"""Whether a program of this machine works."""

import os
import shutil
import subprocess
from collections.abc import Sequence

from hermes.config.environment import child_environment, search_path

SECONDS = 5.0
"""The longest a program may take to say how it is."""
SANDBOX = ("bwrap", "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "true")
"""The smallest that bubblewrap can make."""


def is_installed(program: str) -> bool:
    return shutil.which(program, path=search_path()) is not None


def fault(command: Sequence[str]) -> str:
    """Why a program does not work; empty when it does."""
    program = shutil.which(command[0], path=search_path()) or command[0]
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            env=child_environment(saved={}),
            cwd=os.sep,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {SECONDS:g} s"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (said[-1] if said else f"exit code {done.returncode}") if done.returncode else ""

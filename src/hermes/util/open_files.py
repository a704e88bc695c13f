"""How many files and connections the process may have open."""

import sys
from importlib import import_module

ENOUGH = 65536


def allow_many_open_files() -> None:
    """Raise our own limit as far as the system lets us: often it is 1024, and each conversation
    takes a connection to its client and one to its model."""
    if sys.platform == "win32":
        return
    resource = import_module("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))

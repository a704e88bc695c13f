"""The kind of machine this is, where that changes how to work on it."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec

PROC_VERSION = "/proc/version"
CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")
TERMUX_MARK = "/data/data/com.termux/files/usr"

WSL_ENVIRONMENT_HINT = """\
This is Linux inside Windows (WSL). Windows drives are under /mnt: C:\\Users\\x is /mnt/c/Users/x. \
Translate Windows paths before using them; /mnt/c/Users shows the name of the user there."""
CONTAINER_HINT = """\
You run inside a container: what is not in a mounted folder is lost with it, and the host's files \
and services are out of reach."""
TERMUX_HINT = """\
This is Termux on Android: packages come with pkg, there is no root, /usr is $PREFIX, and shared \
storage is under ~/storage once termux-setup-storage was run."""


class Environment(msgspec.Struct, frozen=True):
    wsl: bool = False
    container: bool = False
    termux: bool = False


def detect(proc_version: str, exists: Callable[[str], bool]) -> Environment:
    """`proc_version` is the text of /proc/version ("" when there is none)."""
    return Environment(
        wsl="microsoft" in proc_version.lower(),
        container=any(map(exists, CONTAINER_MARKS)),
        termux=exists(TERMUX_MARK),
    )


@cache
def this_machine() -> Environment:
    try:
        version = Path(PROC_VERSION).read_text(encoding="utf-8", errors="replace")
    except OSError:  # not a Linux, or one that hides it
        version = ""
    # Answers False where `Path.exists` raises, as below a folder of somebody else.
    return detect(version, os.path.exists)


def environment_hints(environment: Environment) -> str:
    hints = (
        (environment.wsl, WSL_ENVIRONMENT_HINT),
        (environment.container, CONTAINER_HINT),
        (environment.termux, TERMUX_HINT),
    )
    return "\n".join(text for here, text in hints if here)

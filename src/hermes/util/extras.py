"""The extras: optional packages that `hermes setup NAME` installs from our own lock files.

Each one is an extra of the same name in pyproject.toml. Texts never suggest
to install `hermes` or an extra of it by name from a package index: another project has that name.
"""

import sys
from importlib.util import find_spec
from typing import NamedTuple

BASE = "base"


class Extra(NamedTuple):
    summary: str  #: What it is for.
    next_step: str  #: What to run once it is installed.


EXTRAS = {
    BASE: Extra("what Hermes always needs; repairs a damaged environment", "hermes doctor"),
    "daytona": Extra("commands in the cloud of Daytona", "hermes setup terminal"),
    "discord": Extra("the platform Discord", "hermes gateway setup discord"),
    "email": Extra("the platform email", "hermes gateway setup email"),
    "embeddings": Extra("memory that is searched by meaning", "hermes memory setup holographic"),
    "local": Extra("the runtime of the embedded model", "hermes setup --provider local"),
    "matrix": Extra("the platform Matrix", "hermes gateway setup matrix"),
    "metrics": Extra("numbers for Prometheus", "hermes gateway start"),
    "modal": Extra("commands in the cloud of Modal", "hermes setup terminal"),
    "otel": Extra("traces for OpenTelemetry", "hermes config set telemetry.enabled true"),
    "postgres": Extra(
        "sessions in a PostgreSQL database", "hermes config set store.url postgresql://…"
    ),
    "server": Extra("webhooks and the API server", "hermes gateway setup"),
    "slack": Extra("the platform Slack", "hermes gateway setup slack"),
    "telegram": Extra("the platform Telegram", "hermes gateway setup telegram"),
    "web": Extra("web search without a key, readable pages, PDFs", "hermes tools"),
}


def install_hint(name: str) -> str:
    """Return the command that installs an extra. Raises `KeyError` for an unknown one."""
    if name not in EXTRAS:
        raise KeyError(name)
    return f"hermes setup {name}"


_FOUND: set[str] = set()  #: Searching `sys.path` is slow, and an installed package stays installed.


def is_installed(name: str) -> bool:
    """Return whether a package is installed, without importing it."""
    if sys.modules.get(name, name) is None:  # Python's own way of forbidding an import
        return False
    if name not in _FOUND and find_spec(name) is not None:
        _FOUND.add(name)
    return name in _FOUND

"""The extras: optional packages that `hermes setup NAME` installs from our own lock files.

Each one is an extra of the same name in pyproject.toml. Texts never suggest to install `hermes` or
an extra of it by name from a package index: another project has that name.
"""

import sys
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

from hermes.util.lazy import bundled_manifest, bundled_names

BASE = "base"


class Extra(NamedTuple):
    summary: str  #: What it is for.
    next_step: str  #: What to run once it is installed.


_EXTRAS = {
    BASE: Extra("what Hermes always needs; repairs a damaged environment", "hermes doctor"),
    "embeddings": Extra("memory that is searched by meaning", "hermes memory setup holographic"),
    "local": Extra("the runtime of the embedded model", "hermes setup --provider local"),
    "mcp-server": Extra("conversations for MCP clients", "hermes mcp serve"),
    "metrics": Extra("numbers for Prometheus", "hermes gateway start"),
    "otel": Extra("traces for OpenTelemetry", "hermes config set telemetry.enabled true"),
    "postgres": Extra(
        "sessions in a PostgreSQL database", "hermes config set store.url postgresql://…"
    ),
    "ray": Extra("batch runs on several machines", "hermes batch run PROMPTS.jsonl --ray"),
    "server": Extra("webhooks and the API server", "hermes gateway setup"),
    "web": Extra("web search without a key, readable pages, PDFs", "hermes tools"),
}


@cache
def extras() -> dict[str, Extra]:
    """Return all extras by name: those of Hermes, and those that bundled plugins declare."""
    manifests = [
        bundled_manifest(kind, name)
        for kind in ("platforms", "terminals")
        for name in bundled_names(kind)
    ]
    declared = {each.name: each.extra for each in manifests if each.extra}
    return dict(sorted((_EXTRAS | declared).items()))


def install_hint(name: str) -> str:
    """Return the command that installs an extra. Raises `KeyError` for an unknown one."""
    if name not in _EXTRAS and name not in extras():
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

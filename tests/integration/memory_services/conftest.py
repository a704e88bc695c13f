"""One suite for all services: each with its fake, a home, and the manager in front of it."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.config.home import Home
from hermes.memory import find_provider
from hermes.sdk.testing.memory import MemorySessions
from tests.integration.memory_services import fakes
from tests.integration.memory_services.fakes import KEY, Fake
from tests.integration.memory_services.site import Fault, Site

SERVICES: tuple[type[Fake], ...] = (
    fakes.Honcho,
    fakes.Mem0Platform,
    fakes.Mem0Server,
    fakes.Supermemory,
    fakes.Hindsight,
    fakes.RetainDb,
    fakes.OpenViking,
)
FAULTS = {"dead": Fault(500, b"{}"), "garbage": Fault(200, b"<html>")}


class Stage(MemorySessions):
    """A service, and sessions with it."""

    def __init__(self, name: str, home: Path) -> None:
        super().__init__(lambda: find_provider(name, Home(home)), home)
        self.name = name

    def fail(self, kind: str) -> None:
        raise NotImplementedError

    def sent(self) -> list[str]:
        """All that reached the service, as text."""
        raise NotImplementedError


class HttpStage(Stage):
    def __init__(self, fake: Fake, home: Path) -> None:
        super().__init__(fake.name, home)
        self.fake = fake
        self.site = Site(fake)
        self.options: dict[str, Any] = {}

    def prepare(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        (home / ".env").write_text(f"{self.name.upper()}_API_KEY={KEY}\n")
        options = {"base_url": self.site.url, **self.fake.settings, **self.options}
        (home / f"{self.name}.json").write_text(json.dumps(options))

    def fail(self, kind: str) -> None:
        self.site.misbehave(FAULTS[kind])

    def sent(self) -> list[str]:
        return [json.dumps(request.body) for request in self.site.requests]

    def close(self) -> None:
        self.site.recover()
        super().close()
        self.site.close()


class ProgramStage(Stage):
    def __init__(self, folder: Path, home: Path) -> None:
        super().__init__("byterover", home)
        self.folder = folder

    def fail(self, kind: str) -> None:
        (self.folder / "fault").write_text({"dead": "refuses"}.get(kind, kind))

    def sent(self) -> list[str]:
        calls = self.folder / "calls"
        return calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture
def brv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the front of PATH with the fake program in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    source = Path(__file__).with_name("brv.py").read_text("utf-8")
    program = folder / "brv"
    program.write_text(f"#!{sys.executable} -I\n{source}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    assert shutil.which("brv") == str(program)
    return folder


Open = Callable[[type[Fake]], HttpStage]


@pytest.fixture
def serve(hermes_home: Path) -> Iterator[Open]:
    """Starts a fake service; at the end it must not have been asked anything unknown."""
    stages: list[HttpStage] = []

    def start(kind: type[Fake]) -> HttpStage:
        stages.append(HttpStage(kind(), hermes_home))
        return stages[-1]

    yield start
    for stage in stages:
        stage.close()
        assert stage.site.surprises == []


@pytest.fixture(params=SERVICES, ids=lambda kind: kind.__name__)
def web(request: pytest.FixtureRequest, serve: Open) -> HttpStage:
    """Each service that is reached over HTTP."""
    return serve(request.param)


@pytest.fixture(params=[*SERVICES, None], ids=lambda kind: kind.__name__ if kind else "ByteRover")
def stage(request: pytest.FixtureRequest, serve: Open, hermes_home: Path) -> Iterator[Stage]:
    """Each service."""
    if request.param is not None:
        yield serve(request.param)
        return
    program = ProgramStage(request.getfixturevalue("brv"), hermes_home)
    yield program
    program.close()

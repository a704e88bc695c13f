"""A hub that asks servers on this machine."""

import argparse
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes.cli.commands import skills_hub as command
from hermes.cli.context import Cli, run_command
from hermes.config.home import Home
from hermes.skills.hub.hub import Hub, HubOptions
from hermes.skills.hub.sources import HubAddresses
from tests.integration.skills_hub.wire import GitHub, SkillsSh, Static


@pytest.fixture
def github() -> Iterator[GitHub]:
    server = GitHub()
    yield server
    server.close()


@pytest.fixture
def skills_sh() -> Iterator[SkillsSh]:
    server = SkillsSh()
    yield server
    server.close()


@pytest.fixture
def site() -> Iterator[Static]:
    server = Static()
    yield server
    server.close()


@pytest.fixture
def options(hermes_home: Path, github: GitHub, skills_sh: SkillsSh) -> HubOptions:
    return HubOptions(
        root=hermes_home / "skills" / ".hub",
        git="/usr/bin/git",
        addresses=HubAddresses(
            github_api=github.url,
            skills_sh=skills_sh.url,
            repositories=("known/skills",),
            marketplaces=("known/market",),
        ),
    )


@pytest.fixture
async def hub(options: HubOptions):
    async with Hub(options) as opened:
        yield opened


Hermes = Callable[..., tuple[int, str, str]]


class Terminal(io.StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def hermes(
    hermes_home: Path, github: GitHub, skills_sh: SkillsSh, monkeypatch: pytest.MonkeyPatch
) -> Hermes:
    """Exit code, stdout and stderr of `hermes skills ARGUMENTS`; `typed` makes it a terminal."""
    monkeypatch.setenv("GITHUB_API_URL", github.url)
    monkeypatch.setenv("SKILLS_API_URL", skills_sh.url)
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: str, typed: str | None = None) -> tuple[int, str, str]:
        parser = argparse.ArgumentParser()
        command.COMMAND.configure(parser)
        out = io.StringIO() if typed is None else Terminal()
        stdin = io.StringIO() if typed is None else Terminal(typed)
        cli = Cli(Home(hermes_home), stdin, out, io.StringIO())
        code = run_command(parser.parse_args(arguments), cli)
        return code, cli.stdout.getvalue(), cli.stderr.getvalue()

    return run

"""`hermes setup NAME` for optional packages; the installer itself is tested in
tests/integration/launcher and tests/integration/extras."""

import pytest

from hermes.cli.commands import setup
from hermes.util.extras import EXTRAS
from tests.unit.cli.lifecycle.conftest import Run


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the installer says it installed."""
    packages: list[str] = []

    async def install(name: str) -> list[str]:
        return packages

    monkeypatch.setattr(setup, "install_extra", install)
    return packages


def test_it_says_what_was_installed_and_what_to_do_next(hermes: Run, installed: list[str]) -> None:
    installed += ["psycopg 3.3", "psycopg-binary 3.3"]
    outcome = hermes("setup", "postgres")
    assert (outcome.code, outcome.out.splitlines()) == (
        0,
        [
            "installed 2 packages for postgres: psycopg 3.3, psycopg-binary 3.3",
            f"next: {EXTRAS['postgres'].next_step}",
        ],
    )


def test_what_is_installed_already_is_said(hermes: Run, installed: list[str]) -> None:
    outcome = hermes("setup", "otel")
    assert outcome.code == 0
    assert outcome.out.startswith("otel is already installed\n")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("otl", "did you mean otel?"), ("modle", "model"), ("qqq", "hermes setup --help")],
)
def test_an_unknown_name_is_refused_with_near_ones(hermes: Run, name: str, hint: str) -> None:
    outcome = hermes("setup", name)
    assert (outcome.code, outcome.out) == (2, "")
    assert hint in outcome.err

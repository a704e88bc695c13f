"""One command as a user runs it, in a home of the test's own."""

import io
from collections.abc import Callable

import pytest

from hermes.cli.commands import update
from hermes.cli.context import Cli
from hermes.config.home import Home
from tests.unit.cli.terminal import Outcome, Terminal, run

Run = Callable[..., Outcome]


@pytest.fixture
def hermes(monkeypatch: pytest.MonkeyPatch) -> Run:
    """`hermes("backup", "-q")`. With `typed` it is run at a terminal, where that is answered;
    with `found` (`update` and `uninstall`) as if the program had been installed so."""

    def call(
        name: str, *words: str, typed: str | None = None, piped: str = "", profile=None, found=None
    ) -> Outcome:
        if found is not None:
            monkeypatch.setattr(update, "installation", lambda: found)
        stream = io.StringIO if typed is None else Terminal
        given = stream(typed if typed is not None else piped)
        return run(name, words, Cli(Home.resolve(profile), given, stream(), stream()))

    return call

"""What the agent's events look like on a terminal."""

from io import StringIO

import pytest

from hermes.cli.terminal import TerminalRenderer
from hermes.core.events import (
    ApprovalAsked,
    Event,
    Notice,
    QuestionAsked,
    ToolFinished,
    TurnFinished,
)
from hermes.core.model import Retrying, Usage
from hermes.tui.text import Paint

EVIL = "\x1b]0;owned\x07\x1b[2Jallow? yes"


@pytest.mark.parametrize(
    "event",
    [
        Notice(EVIL),
        QuestionAsked("c1", EVIL, (EVIL,)),
        ApprovalAsked("c1", "terminal", EVIL, EVIL),
        ToolFinished("c1", "terminal", EVIL, False, 0.1),
        ToolFinished("c1", "terminal", f'{{"error": "{EVIL}"}}', True, 0.1),
    ],
)
def test_no_text_of_others_steers_the_terminal(event: Event) -> None:
    out = StringIO()
    TerminalRenderer(out, Paint()).show(event)
    assert "allow? yes" in out.getvalue()
    assert "\x1b" not in out.getvalue()
    assert "\x07" not in out.getvalue()


def test_an_error_is_shown_once_for_all_attempts() -> None:
    out, error = StringIO(), "cannot reach custom: connection refused"
    renderer = TerminalRenderer(out, Paint())
    for attempt in (1, 2):
        renderer.show(Retrying(error, attempt, float(attempt)))
    renderer.show(TurnFinished("s", "failed", "", Usage(), 3, error=error, hint="start the server"))
    assert out.getvalue().splitlines() == [
        f"{error}; trying again in 1 s",
        "trying again in 2 s",
        "hermes: no more attempts",
        "  start the server",
    ]

"""The terminal application: start-up, error handler and recap."""

import subprocess
import sys
from types import SimpleNamespace

from hermes.tui.terminal_ui import TerminalUI


def test_prompt_is_shown_before_the_agent_is_imported() -> None:
    program = (
        "import sys, hermes.compat.cli, hermes.tui.terminal_ui; "
        "print(sorted({'hermes.agent', 'hermes.app.app', 'httpx'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_note_before_the_conversation_is_wrapped_between_words() -> None:
    printed: list[str] = []
    loop = SimpleNamespace(call_soon_threadsafe=lambda work, text: work(text))
    area = SimpleNamespace(loop=loop, is_running=True, print_above=printed.append)
    ui = SimpleNamespace(
        area=area,
        conversation=None,
        display=SimpleNamespace(paint=lambda _role, text: text),
        columns=lambda: 20,
    )
    assert TerminalUI.note(ui, "the plugin weather could not be loaded: no file plugin.py")
    assert printed == ["the plugin weather\ncould not be loaded:\nno file plugin.py\n"]

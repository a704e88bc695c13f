"""The terminal application: start-up, error handler and recap."""

import subprocess
import sys


def test_prompt_is_shown_before_the_agent_is_imported() -> None:
    program = (
        "import sys, hermes.compat.cli, hermes.tui.terminal_ui; "
        "print(sorted({'hermes.agent', 'hermes.app.app', 'httpx'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"

"""Which program is started."""

import pytest

from hermes.providers.acp.process import agent_command

OURS = ("--acp", "--stdio", "--available-tools=none")


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({}, ("copilot", *OURS)),
        ({"COPILOT_CLI_PATH": "/opt/copilot"}, ("/opt/copilot", *OURS)),
        ({"HERMES_COPILOT_ACP_COMMAND": "a", "COPILOT_CLI_PATH": "b"}, ("a", "--acp", "--stdio")),
        ({"HERMES_COPILOT_ACP_ARGS": "--acp --x 'a b'"}, ("copilot", "--acp", "--x", "a b")),
    ],
)
def test_the_variables_decide(variables, command):
    assert agent_command(variables.get)[: len(command)] == command


def test_another_program_gets_no_options_of_copilot():
    command = agent_command({"HERMES_COPILOT_ACP_COMMAND": "gemini"}.get)
    assert command == ("gemini", "--acp", "--stdio")

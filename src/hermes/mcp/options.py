"""What the client needs to know beside the settings of the servers."""

from pathlib import Path

import msgspec

from hermes.mcp.transport import Limits


class McpOptions(msgspec.Struct, frozen=True):
    cache: Path | None = None
    """Where lists of tools are kept: `<home>/cache/mcp`. None keeps none."""
    start_seconds: float = 5.0
    """How long a new session waits for servers whose tools are not known yet."""
    folder: str = ""
    """The folder servers are told the work is about; empty tells them none."""
    question_seconds: float = 120.0
    """How long a person may think about a question of a server (`clarify.timeout`)."""
    limits: Limits = Limits()

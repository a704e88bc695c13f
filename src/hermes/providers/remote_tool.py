"""What an agent that answers for a model does meanwhile."""

from hermes.core.messages import ToolCall
from hermes.core.model import TextDelta


class RemoteTool(TextDelta, frozen=True, tag="remote_tool"):
    """It began to use a tool of its own. A delta without text: who does not know it shows nothing,
    and takes it for the sign of life it is."""

    text: str = ""
    call: ToolCall = ToolCall("", "", "{}")

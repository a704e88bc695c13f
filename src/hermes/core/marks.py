"""How texts begin that one part of the agent writes into a conversation and another has to know
again, after a restart too."""

COMPACTED = "[CONTEXT COMPACTION]"
"""Notes that stand in the place of older messages."""
TODO_LIST = "Todo list: "
"""The list of the tool `todo`."""
STEERED = "[While you were working, the user said:]"
"""The line before what the user said into a running turn."""
PROCESS_NEWS = "[background process "
"""News of a process that goes on beside the conversation."""
REMEDY = "[Your reply "
"""What is said to a model whose reply could not be the end of a turn."""

NOT_THE_USER = (PROCESS_NEWS, REMEDY)
"""Messages in the user's place with which nobody asked for anything."""
